"""Pool rare values: no training row of a site is the only one with its value.

If one row at a site had a category, its weights would move for this row only, and reveal the
label to anyone who sees the update; so would those of a number, as the server chooses how numbers
are encoded. So among a site's training rows each value of a column is that of `least` rows or more,
and no encoder can tell them apart:

- a category, or the missing value, of fewer rows counts as "other"; if these are still fewer in
  total, they count as the most frequent category;
- a number of fewer rows is replaced by one that it shares with its neighbours, see `neighbours`;
  fewer missing values by the median; fewer numbers by missing values;
- rows of a label or a group that is rarer are left out.

A site describes what is left, and trains on it. Held-out rows are unchanged.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import require_column
from pfedfair.engines.site.neighbours import pool_neighbours

OTHER = "(few)"  # no value of a table; described as "other", never by this name


def training_rows(data: Dataset, rows: np.ndarray, least: int) -> np.ndarray:
    """Return the rows whose label and group at least `least` of them have."""
    while True:
        frequent = rows
        for codes in (data.y, data.s):
            counts = np.bincount(codes[frequent].astype(np.int64), minlength=1)
            frequent = frequent[counts[codes[frequent].astype(np.int64)] >= least]
        if len(frequent) == len(rows):
            return frequent
        rows = frequent


def pool_rare_values(
    data: Dataset, clients: Sequence[np.ndarray], least: int, names: Sequence[Sequence[str]]
) -> Dataset:
    """Return a table in which each client's rare values are pooled, see above.

    `names` are the columns of numbers and of categories; they may be parts of dates.
    """
    if least <= 1:
        return data
    new, (numeric, categorical) = {}, names
    for name in numeric:
        values = floats(require_column(data.frame, name)).copy()
        for rows in clients:
            values[rows] = pool_numbers(values[rows], least)
        new[name] = values
    for name in categorical:
        codes, words = factor(require_column(data.frame, name))
        other, codes = len(words), codes.copy()
        for rows in clients:
            codes[rows] = pool_codes(codes[rows], other, least)
        new[name] = np.array([*words, OTHER, None], dtype=object)[codes]
    return replace(data, frame=data.frame.assign(**new))


def pool_numbers(values: np.ndarray, least: int) -> np.ndarray:
    """Pool the rare values of a column of numbers, with NaN for missing values.

    >>> pool_numbers(np.array([900.0, 0, 0, 0, 0]), 2).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    >>> pool_numbers(np.array([3.0, 90, 1, np.nan, 98]), 2).tolist()
    [2.0, 94.0, 2.0, 94.0, 94.0]
    """
    empty = np.isnan(values)
    each, counts = np.unique(values[~empty], return_counts=True)
    if counts.sum() < least:
        return np.full_like(values, np.nan)
    pooled = pool_neighbours(each, counts, least)
    last = np.append(np.flatnonzero(pooled[1:] != pooled[:-1]), len(each) - 1)  # of equal ones
    found = pooled[last][np.searchsorted(each[last[:-1]], values)]
    if empty.sum() < least:
        found[empty] = np.sort(found[~empty])[counts.sum() // 2]
    else:
        found[empty] = np.nan
    return np.asarray(found)


def pool_codes(codes: np.ndarray, other: int, least: int) -> np.ndarray:
    """Pool the rare values of a column of codes, with -1 for missing values.

    >>> pool_codes(np.array([0, 0, 0, 1, 2, -1]), 3, 2).tolist()
    [0, 0, 0, 3, 3, 3]
    >>> pool_codes(np.array([0, 0, 1]), 3, 2).tolist()
    [0, 0, 0]
    """
    counts = np.bincount(codes + 1, minlength=other + 2)
    rare = (counts[codes + 1] < least) | (codes == other)
    if not rare.any():
        return codes
    return np.where(rare, other if rare.sum() >= least else counts.argmax() - 1, codes)
