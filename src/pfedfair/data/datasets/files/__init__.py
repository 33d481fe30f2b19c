"""The bundled tables; README.md in this folder says where each comes from."""

import io
from importlib.resources import files

import pandas as pd


def read_bundled(name: str) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO((files(__package__) / name).read_bytes()))
