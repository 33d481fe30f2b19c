"""Heart disease at four hospitals (Janosi et al., UCI 1988), from Cleveland to Budapest.

The clients are hospitals. Many values are missing, and one hospital has ten women. The rows are not
bundled: `folder` has the four files of UCI (``processed.cleveland.data``, ...), or one CSV file
with a column ``hospital``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import only_file
from pfedfair._util.limits import regular
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.reading import read_typed
from pfedfair.data.tables.table import from_frame

FILES = {"cleveland": "Cleveland", "hungarian": "Budapest", "switzerland": "Switzerland",
         "va": "Long Beach"}  # fmt: skip
NUMBERS = ("age", "trestbps", "chol", "thalach", "oldpeak", "ca")
CODES = ("cp", "fbs", "restecg", "exang", "slope", "thal")
COLUMNS = (
    "age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach", "exang", "oldpeak",
    "slope", "ca", "thal", "num",
)  # fmt: skip
HOSPITAL, LABEL, SEX = "hospital", "disease", "sex"
WORDS = {1: "male", 0: "female"}


def heart(folder: Path, sensitive: str | None = None) -> Dataset:
    """Return the patients of all available hospitals: Y = heart disease, S = sex."""
    raw = {name: folder / f"processed.{name}.data" for name in FILES}
    tables = [_of_uci(path, FILES[name]) for name, path in raw.items() if path.is_file()]
    frame = pd.concat(tables, ignore_index=True) if tables else _of_table(folder)
    frame[SEX] = frame[SEX].map(lambda code: WORDS.get(code, code))
    used = {*NUMBERS, *CODES, LABEL, *(sensitive or SEX).split(",")}
    drop = [column for column in map(str, frame) if column not in used]
    data = from_frame(frame, LABEL, sensitive or SEX, "heart", drop=drop, categorical=CODES)
    return replace(data, client=HOSPITAL)


def _of_uci(path: Path, hospital: str) -> pd.DataFrame:
    frame = pd.read_csv(regular(path), header=None, names=list(COLUMNS), na_values="?")
    frame[LABEL] = (frame.pop("num") > 0).astype(int)
    frame[HOSPITAL] = hospital
    return frame


def _of_table(folder: Path) -> pd.DataFrame:
    """Return the patients of one table: a file, or the only one of its kind in a folder."""
    path = only_file(folder, ("heart*.csv",), "UCI's processed.cleveland.data, ...")
    frame = read_typed(path)
    absent = [c for c in (*NUMBERS, *CODES, SEX, LABEL, HOSPITAL) if c not in frame]
    if absent:
        raise InputError(f"{path} lacks the column {absent[0]}: it is not the heart table.")
    return frame
