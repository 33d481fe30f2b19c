"""Income of working adults, American Community Survey (ACSIncome of Ding et al., NeurIPS 2021).

The clients are states. The rows are census data that are not bundled: `folder` has them as the
files of the Census Bureau (``psam_p01.csv``, ..., as folktables stores them, at any depth),
or as one Parquet or CSV file with the same columns.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line, only_file
from pfedfair._util.limits import regular
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.reading import read_typed
from pfedfair.data.tables.table import from_frame

NUMBERS = ("AGEP", "SCHL", "WKHP")  # age, schooling (ordered), hours a week
CODES = ("COW", "MAR", "OCCP", "POBP", "RELP", "RAC1P")
STATE, LABEL, SEX = "STATE", "INCOME_ABOVE_50K", "SEX"
COLUMNS = (*NUMBERS, *CODES, SEX)
RAW = ("PINCP", "PWGTP", "ST")  # further columns of the Census Bureau's files
RENAMED = {"RELSHIPP": "RELP"}  # since 2019
ADULT, EARNS, HIGH = 16, 100, 50_000  # minimum age and income in ACSIncome, and a high income
WORDS = {1: "male", 2: "female"}
STATES = (  # by number; unused numbers are empty
    ", AL, AK, , AZ, AR, CA, , CO, CT, DE, DC, FL, GA, , HI, ID, IL, IN, IA, KS, KY, LA, ME, MD, "
    "MA, MI, MN, MS, MO, MT, NE, NV, NH, NJ, NM, NY, NC, ND, OH, OK, OR, PA, , RI, SC, SD, TN, TX, "
    "UT, VT, VA, , WA, WV, WI, WY"
)


def acs(folder: Path, sensitive: str | None = None) -> Dataset:
    """Return the rows of all available states: Y = income above 50,000 dollars, S = sex."""
    raw = sorted(folder.rglob("psam_p*.csv")) if folder.is_dir() else []
    frame = pd.concat(map(_of_census, raw), ignore_index=True) if raw else _of_table(folder)
    frame = frame.assign(**{SEX: frame[SEX].map(lambda code: WORDS.get(code, code))})
    data = from_frame(frame, LABEL, sensitive or SEX, "acs", drop=(STATE,), categorical=CODES)
    return replace(data, client=STATE, settings="acs", notes=(*data.notes, *_odd_codes(frame)))


def _odd_codes(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return notes on states with far fewer codes of a column: their meaning may differ."""
    notes = []
    for column in CODES:
        codes = frame.groupby(STATE)[column].nunique()
        small = codes[codes < codes.median() / 2]
        if len(small):
            many = f"{column} has {int(small.max())} codes or fewer in {', '.join(small.index)}"
            notes.append(f"{many} and {int(codes.median())} elsewhere: they may mean other things.")
    return tuple(notes)


def _of_census(path: Path) -> pd.DataFrame:
    """Return the rows of one file of the Census Bureau that are in ACSIncome."""
    wanted = {*COLUMNS, *RENAMED, *RAW}
    try:
        table = pd.read_csv(regular(path), usecols=lambda name: name in wanted)
    except Exception as error:
        raise InputError(f"{path} is not a readable table ({first_line(error)}).") from error
    rows = _columns(table.rename(columns=RENAMED), path, RAW)
    rows = rows[
        (rows["AGEP"] > ADULT) & (rows["PINCP"] > EARNS)
        & (rows["WKHP"] > 0) & (rows["PWGTP"] >= 1)
    ]  # fmt: skip
    names = dict(enumerate(STATES.split(", ")))
    state = rows["ST"].map(lambda number: names.get(int(number)) or f"state {int(number)}")
    return rows[[*COLUMNS]].assign(**{STATE: state, LABEL: rows["PINCP"] > HIGH})


def _of_table(folder: Path) -> pd.DataFrame:
    """Return the rows of one table: a file, or the only one of its kind in a folder."""
    path = only_file(folder, ("acs*.parquet", "acs*.csv"), "the Census Bureau's psam_pNN.csv")
    return _columns(read_typed(path), path, (STATE, LABEL))[[*COLUMNS, STATE, LABEL]]


def _columns(frame: pd.DataFrame, path: Path, extra: tuple[str, ...]) -> pd.DataFrame:
    absent = [column for column in (*COLUMNS, *extra) if column not in frame]
    if absent:
        raise InputError(f"{path} lacks the column {absent[0]}: it is no table of ACSIncome.")
    return frame
