"""From columns to the inputs of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from pfedfair.data.dataset import Dataset
from pfedfair.data.wide import Pixels, Wide
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
        categorical = {c: v for c, v in data.categorical.items() if c != exclude}
        seen = {c: v or tuple(sorted(set(text(train[c])))) for c, v in categorical.items()}
        return cls(mean, scale, seen)

    @property
    def width(self) -> int:
        return len(self.mean) + sum(len(levels) for levels in self.categories.values())

    def transform(self, frame: Any) -> np.ndarray:
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

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "columns", **asdict(self)}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}


Inputs = Encoder | Wide | Pixels


def fit(data: Dataset, clients: Sequence[np.ndarray], exclude: str | None = None) -> Inputs:
    """Fit what turns the people of `data` into inputs, on the training rows of all clients."""
    if data.array is None:
        return Encoder.fit(data, np.concatenate(clients), exclude)
    if data.array.ndim > 2:
        return Pixels(data.array.shape[1:])
    return Wide.fit(data.array, clients, data.scaling)


def from_dict(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Inputs:
    """Make it again from what its `to_dict` and `tensors` said."""
    kind = about.get("kind", "columns")
    if kind == "wide":
        return Wide(tensors["mean"], tensors["turn"])
    if kind == "pixels":
        return Pixels(tuple(about["shape"]))
    categories = {c: tuple(levels) for c, levels in about["categories"].items()}
    return Encoder(about["mean"], about["scale"], categories)


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
