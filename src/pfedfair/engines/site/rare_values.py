"""Nobody stands alone in what a site trains on: what few people have is put together first.

If one person at a site had a category, the weights of that category would move for her alone, and
tell her label to whoever sees the update. So of the rows that a site trains on:

- a category, or an empty cell, that fewer than the `least` number of people have counts as "other";
  if these are still too few together, they count as the commonest one;
- a column of numbers in which so few people have another number than its commonest one counts as
  the same for all; so few empty cells count as the median, so few numbers as empty;
- people of a label or a group that is so rare are not trained on.

Rows for the test stay as they are.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import needed

OTHER = "(few)"  # no word of a table: it is told as "other" and never by this name


def trained_on(data: Dataset, rows: np.ndarray, least: int) -> np.ndarray:
    """The rows whose label and group enough of them have."""
    while True:
        kept = rows
        for codes in (data.y, data.s):
            people = np.bincount(codes[kept].astype(np.int64), minlength=1)
            kept = kept[people[codes[kept].astype(np.int64)] >= least]
        if len(kept) == len(rows):
            return kept
        rows = kept


def blended(data: Dataset, clients: Sequence[np.ndarray], least: int, exclude: str = "") -> Dataset:
    """The same table, but what few of a client's rows have is put together, see above."""
    if least <= 1:
        return data
    new = {}
    for name in data.numeric:
        if name != exclude:
            values = floats(needed(data.frame, name)).copy()
            for rows in clients:
                values[rows] = numbers(values[rows], least)
            new[name] = values
    for name in data.categorical:
        if name != exclude:
            codes, words = factor(needed(data.frame, name))
            other, codes = len(words), codes.copy()
            for rows in clients:
                codes[rows] = levels(codes[rows], other, least)
            new[name] = np.array([*words, OTHER, None], dtype=object)[codes]
    return replace(data, frame=data.frame.assign(**new))


def numbers(values: np.ndarray, least: int) -> np.ndarray:
    """A column of numbers, NaN where a cell is empty.

    >>> numbers(np.array([0, 0, 0, 0, 900.0]), 2).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    empty = np.isnan(values)
    if (~empty).sum() < least:
        return np.full_like(values, np.nan)
    found = values.copy()
    each, people = np.unique(values[~empty], return_counts=True)
    if (~empty).sum() - people.max() < least:
        found[~empty] = each[people.argmax()]
    if empty.sum() < least:
        found[empty] = np.sort(found[~empty])[(~empty).sum() // 2]
    return found


def levels(codes: np.ndarray, other: int, least: int) -> np.ndarray:
    """A column of categories: their codes, -1 where a cell is empty, and the code of others.

    >>> levels(np.array([0, 0, 0, 1, 2, -1]), 3, 2).tolist(), levels(np.array([0, 0, 1]), 3, 2)
    ([0, 0, 0, 3, 3, 3], array([0, 0, 0]))
    """
    people = np.bincount(codes + 1, minlength=other + 2)
    rare = (people[codes + 1] < least) | (codes == other)
    if not rare.any():
        return codes
    return np.where(rare, other if rare.sum() >= least else people.argmax() - 1, codes)
