"""Embeddings of images by a frozen encoder, in a Parquet file."""

from pfedfair.data.embed.encoders import POOLINGS
from pfedfair.data.embed.pictures import BadImage, open_image
from pfedfair.data.embed.read import read_embeddings
from pfedfair.data.embed.work import Report, embed

__all__ = ["POOLINGS", "BadImage", "Report", "embed", "open_image", "read_embeddings"]
