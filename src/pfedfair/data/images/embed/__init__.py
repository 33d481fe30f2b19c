"""Embeddings of images by a frozen encoder, in a Parquet file."""

from pfedfair.data.images.embed.encoders import POOLINGS
from pfedfair.data.images.embed.pictures import BadImage, open_image
from pfedfair.data.images.embed.read import read_embeddings
from pfedfair.data.images.embed.work import Report, embed

__all__ = ["POOLINGS", "BadImage", "Report", "embed", "open_image", "read_embeddings"]
