"""Gender, race and age as columns, as UTKFace and FairFace have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.images.faces.labels import flags, texts

GENDER = {0: "female", 1: "male"}  # S = 1 for men
ALIASES = {"male": "gender", "sex": "gender", "ethnicity": "white"}
BANDS = ("0-2", "3-9", "10-19", "20-29", "30-39", "40-49", "50-59", "60-69", "more than 70")
WORDS = {"White": ("not white", "white"), "age": BANDS}
STARTS = (0, 3, 10, 20, 30, 40, 50, 60, 70)


def age_bands(years: pd.Series[Any]) -> pd.Series[Any]:
    """Return FairFace's bands of age.

    >>> age_bands(pd.Series([2, 35, 116])).tolist()
    ['0-2', '30-39', 'more than 70']
    """
    numbers = pd.to_numeric(years)
    at = np.searchsorted(STARTS, numbers.fillna(0), side="right") - 1
    return pd.Series(np.array(BANDS)[at], index=years.index, dtype=object).where(numbers.notna())


def read_columns(columns: pd.DataFrame) -> pd.DataFrame:
    """Read attributes from the columns of an embeddings file, named as in the data sets."""
    low = {str(c).lower(): columns[c] for c in columns}
    table = pd.DataFrame(index=columns.index)
    if "gender" in low:
        table["gender"] = texts(low["gender"], "male or female").str.lower()
    elif "male" in low:
        table["gender"] = flags(low["male"]).map(GENDER).astype(object)
    if "race" in low:
        table["race"] = low["race"]
    if "white" in low:
        table["White"] = flags(low["white"])
    elif "race" in low:
        race = texts(low["race"], "names such as White")
        table["White"] = race.str.lower().eq("white").astype(float).where(race.notna())
    if "age" in low:
        numbers = pd.api.types.is_numeric_dtype(low["age"])
        table["age"] = age_bands(low["age"]) if numbers else low["age"]
        if numbers:
            table["years"] = low["age"]
    return table
