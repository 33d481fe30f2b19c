"""From columns to the inputs of a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.dataset import Dataset
from pfedfair.errors import InputError

MISSING = "?"


@dataclass(frozen=True)
class Encoder:
    """Numbers standardised, categories one-hot.

    Means and scales come from training rows only; so do a column's categories, unless the data set
    declares them. A category that is not among them encodes as zeros.
    """

    mean: dict[str, float]
    scale: dict[str, float]
    categories: dict[str, tuple[str, ...]]

    @classmethod
    def fit(cls, data: Dataset, rows: np.ndarray, exclude: str | None = None) -> Encoder:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        train = data.frame.iloc[rows]
        numeric = [c for c in data.numeric if c != exclude]
        mean = {c: float(train[c].mean()) for c in numeric}
        # A constant's standard deviation is a rounding error, not a scale.
        varies = {c: train[c].nunique() > 1 for c in numeric}
        scale = {c: float(train[c].std(ddof=0)) if varies[c] else 1.0 for c in numeric}
        categorical = {c: levels for c, levels in data.categorical.items() if c != exclude}
        seen = {
            c: levels or tuple(sorted(set(text(train[c])))) for c, levels in categorical.items()
        }
        return cls(mean, scale, seen)

    @property
    def width(self) -> int:
        return len(self.mean) + sum(len(levels) for levels in self.categories.values())

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the inputs of the network, float32 of shape ``(len(frame), width)``."""
        absent = [c for c in (*self.mean, *self.categories) if c not in frame]
        if absent:
            raise InputError(f"The rows lack the column '{absent[0]}', an input of the model.")
        parts = [(numbers(frame[c], c) - self.mean[c])[:, None] / self.scale[c] for c in self.mean]
        for column, levels in self.categories.items():
            values = text(frame[column])
            parts.append(values[:, None] == np.asarray(levels, dtype=object)[None, :])
        none = np.zeros((len(frame), 0), dtype=np.float32)
        return np.concatenate([none, *(p.astype(np.float32) for p in parts)], axis=1)


def numbers(column: pd.Series[Any], name: str) -> np.ndarray:
    values = column.to_numpy(np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InputError(
            f"Column '{name}' has {len(bad)} empty or infinite numbers, the first in row "
            f"{bad[0]}: fill or drop them."
        )
    return values


def text(column: pd.Series[Any]) -> np.ndarray:
    return column.astype(object).where(column.notna(), MISSING).astype(str).to_numpy(object)
