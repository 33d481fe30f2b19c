"""Encode columns as the inputs of a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from torch import Tensor

from pfedfair._util.errors import known
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.arrays import EmbeddingScaler, Pixels
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import require_column
from pfedfair.data.tables.ordinals import OrderedColumns
from pfedfair.data.tables.piecewise import Piecewise, Unseen

MISSING = "?"
FARTHEST = 1e30  # from the mean, in standard deviations: single precision has no larger numbers


@dataclass(frozen=True)
class Encoder:
    """Numbers standardised, categories one-hot.

    Means and scales come from training rows only; so do a column's categories, unless the data set
    declares them. Any other category encodes as zeros. A missing number encodes as the mean;
    columns in `gaps`, which had missing values in training, have a missing indicator, too.
    """

    mean: dict[str, float]
    scale: dict[str, float]
    categories: dict[str, tuple[str, ...]]
    gaps: tuple[str, ...] = ()

    @classmethod
    def fit(cls, data: Dataset, rows: np.ndarray, exclude: str | None = None) -> Encoder:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        numeric = [c for c in data.numeric if c != exclude]
        train = {c: pd.Series(floats(require_column(data.frame, c).iloc[rows])) for c in numeric}
        mean, scale = {}, {}
        for c, v in train.items():
            mean[c], scale[c] = mean_and_scale(v)
        gaps = tuple(c for c, v in train.items() if v.isna().any())
        seen = {
            c: v or tuple(sorted(set(text(require_column(data.frame, c).iloc[rows]))))
            for c, v in data.categorical.items()
            if c != exclude
        }
        return cls(mean, scale, seen, gaps)

    encoding: ClassVar[str] = "standard"

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The columns of numbers, and those of categories."""
        return [*self.mean], [*self.categories]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    @property
    def width(self) -> int:
        one_hot = sum(len(values) for values in self.categories.values())
        return len(self.mean) + len(self.gaps) + one_hot

    def transform(self, frame: Any) -> np.ndarray:
        """Return the inputs of the network, float32 of shape ``(len(frame), width)``."""
        cells = {c: floats(require_column(frame, c)) for c in self.mean}
        with np.errstate(over="ignore"):  # new rows may be far off; they are clipped
            parts = [(cells[c] - self.mean[c])[:, None] / self.scale[c] for c in self.mean]
        parts = [np.where(np.isnan(p), 0.0, np.clip(p, -FARTHEST, FARTHEST)) for p in parts]
        parts += [np.isnan(cells[c])[:, None] for c in self.gaps]
        for column, categories in self.categories.items():
            values = text(require_column(frame, column))
            parts.append(values[:, None] == np.asarray(categories, dtype=object)[None, :])
        none = np.zeros((len(frame), 0), dtype=np.float32)
        return np.concatenate([none, *(p.astype(np.float32) for p in parts)], axis=1)

    pack = transform

    def unseen(self, frame: Any, packed: np.ndarray) -> Unseen:
        """Count cells of a category, or missing values, that training rows did not have."""
        empty = {c: int(np.isnan(floats(require_column(frame, c))).sum())
                 for c in self.mean if c not in self.gaps}  # fmt: skip
        unknown = {c: int((~np.isin(text(require_column(frame, c)), names)).sum())
                   for c, names in self.categories.items()}  # fmt: skip
        return {c: n for c, n in unknown.items() if n}, {c: n for c, n in empty.items() if n}

    def unknown(self, frame: Any, packed: np.ndarray) -> Iterator[tuple[str, np.ndarray, set[str]]]:
        """Yield columns with unknown categories, their unknown cells, and the categories."""
        for name, categories in self.categories.items():
            rows = ~np.isin(text(require_column(frame, name)), [*categories, MISSING])
            if rows.any():
                yield name, rows, {*categories}

    def unpack(self, packed: Tensor) -> Tensor:
        return packed

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "columns", **asdict(self)}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}


Inputs = Encoder | Piecewise | OrderedColumns | EmbeddingScaler | Pixels


ENCODINGS: dict[str, type[Encoder] | type[Piecewise]] = {
    "standard": Encoder,
    "piecewise": Piecewise,
}


def fit(data: Dataset, clients: Sequence[np.ndarray], exclude: str | None = None) -> Inputs:
    """Fit an encoder of the rows of `data` on the training rows of all clients."""
    if data.array is None:
        kind = ENCODINGS[known("encoding", data.encoding, ENCODINGS)]
        return kind.fit(data, np.concatenate(clients), exclude)
    if data.array.ndim > 2:
        return Pixels(data.array.shape[1:])
    return EmbeddingScaler.fit(data.array, clients, data.scaling)


def from_dict(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Inputs:
    """Create an encoder from its `to_dict` and `tensors`."""
    kind = about.get("kind", "columns")
    if kind == "piecewise":
        return Piecewise.from_dict(about)
    if kind == "ordered":
        return OrderedColumns.from_dict(about)
    if kind == "wide":
        return EmbeddingScaler(tensors["mean"], tensors["turn"])
    if kind == "pixels":
        return Pixels(tuple(about["shape"]))
    categories = {c: tuple(values) for c, values in about["categories"].items()}
    return Encoder(about["mean"], about["scale"], categories, tuple(about.get("gaps", ())))


def mean_and_scale(values: pd.Series[Any]) -> tuple[float, float]:
    """Return the mean and standard deviation, without overflow or underflow."""
    if not values.notna().any():
        return 0.0, 1.0
    _, exponent = np.frexp(values.abs().max())
    power = 2.0 ** max(int(exponent) - 1, -1000)  # nothing is rounded by it
    scaled = values / power
    # A constant's standard deviation is a rounding error, not a scale.
    scale = float(scaled.std(ddof=0)) * power if values.nunique() > 1 else 1.0
    return float(scaled.mean()) * power, scale or 1.0


def text(column: pd.Series[Any]) -> np.ndarray:
    codes, words = factor(column)
    return np.asarray(np.array([*words, MISSING], dtype=object)[codes])
