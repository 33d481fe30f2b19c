"""From columns to the inputs of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from torch import Tensor

from pfedfair._util.errors import known
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.arrays import Pixels, Wide
from pfedfair.data.tables.cells import factor, floats
from pfedfair.data.tables.dates import needed
from pfedfair.data.tables.ordinals import Ordered
from pfedfair.data.tables.piecewise import Piecewise, Unseen

MISSING = "?"
FARTHEST = 1e30  # from the mean, in standard deviations: single precision has no larger numbers


@dataclass(frozen=True)
class Encoder:
    """Numbers standardised, categories one-hot.

    Means and scales come from training rows only; so do a column's categories, unless the data set
    declares them. A category that is not among them encodes as zeros. A missing value of a
    column of numbers is as the mean; columns in `gaps`, which had such in training, flag them too.
    """

    mean: dict[str, float]
    scale: dict[str, float]
    categories: dict[str, tuple[str, ...]]
    gaps: tuple[str, ...] = ()

    @classmethod
    def fit(cls, data: Dataset, rows: np.ndarray, exclude: str | None = None) -> Encoder:
        """Fit on the given rows of `data`; the column `exclude` is not an input."""
        numeric = [c for c in data.numeric if c != exclude]
        train = {c: pd.Series(floats(needed(data.frame, c).iloc[rows])) for c in numeric}
        mean, scale = {}, {}
        for c, v in train.items():
            mean[c], scale[c] = mean_and_scale(v)
        gaps = tuple(c for c, v in train.items() if v.isna().any())
        seen = {
            c: v or tuple(sorted(set(text(needed(data.frame, c).iloc[rows]))))
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
        levels = sum(len(levels) for levels in self.categories.values())
        return len(self.mean) + len(self.gaps) + levels

    def transform(self, frame: Any) -> np.ndarray:
        """Return the inputs of the network, float32 of shape ``(len(frame), width)``."""
        cells = {c: floats(needed(frame, c)) for c in self.mean}
        with np.errstate(over="ignore"):  # new rows may be far off; they are clipped
            parts = [(cells[c] - self.mean[c])[:, None] / self.scale[c] for c in self.mean]
        parts = [np.where(np.isnan(p), 0.0, np.clip(p, -FARTHEST, FARTHEST)) for p in parts]
        parts += [np.isnan(cells[c])[:, None] for c in self.gaps]
        for column, levels in self.categories.items():
            values = text(needed(frame, column))
            parts.append(values[:, None] == np.asarray(levels, dtype=object)[None, :])
        none = np.zeros((len(frame), 0), dtype=np.float32)
        return np.concatenate([none, *(p.astype(np.float32) for p in parts)], axis=1)

    pack = transform

    def unseen(self, frame: Any, packed: np.ndarray) -> Unseen:
        """Count cells of a category, or missing values, that training rows did not have."""
        empty = {c: int(np.isnan(floats(needed(frame, c))).sum())
                 for c in self.mean if c not in self.gaps}  # fmt: skip
        levels = {c: int((~np.isin(text(needed(frame, c)), names)).sum())
                  for c, names in self.categories.items()}  # fmt: skip
        return {c: n for c, n in levels.items() if n}, {c: n for c, n in empty.items() if n}

    def unpack(self, packed: Tensor) -> Tensor:
        return packed

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "columns", **asdict(self)}

    def tensors(self) -> dict[str, np.ndarray]:
        return {}


Inputs = Encoder | Piecewise | Ordered | Wide | Pixels


ENCODINGS: dict[str, type[Encoder] | type[Piecewise]] = {
    "standard": Encoder,
    "piecewise": Piecewise,
}


def fit(data: Dataset, clients: Sequence[np.ndarray], exclude: str | None = None) -> Inputs:
    """Fit what turns the rows of `data` into inputs, on the training rows of all clients."""
    if data.array is None:
        kind = ENCODINGS[known("encoding", data.encoding, ENCODINGS)]
        return kind.fit(data, np.concatenate(clients), exclude)
    if data.array.ndim > 2:
        return Pixels(data.array.shape[1:])
    return Wide.fit(data.array, clients, data.scaling)


def from_dict(about: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Inputs:
    """Make it again from what its `to_dict` and `tensors` returned."""
    kind = about.get("kind", "columns")
    if kind == "piecewise":
        return Piecewise.from_dict(about)
    if kind == "ordered":
        return Ordered.from_dict(about)
    if kind == "wide":
        return Wide(tensors["mean"], tensors["turn"])
    if kind == "pixels":
        return Pixels(tuple(about["shape"]))
    categories = {c: tuple(levels) for c, levels in about["categories"].items()}
    return Encoder(about["mean"], about["scale"], categories, tuple(about.get("gaps", ())))


def mean_and_scale(values: pd.Series[Any]) -> tuple[float, float]:
    """Mean and standard deviation, however large or small the numbers are."""
    if not values.notna().any():
        return 0.0, 1.0
    _, exponent = np.frexp(values.abs().max())
    power = 2.0 ** max(int(exponent) - 1, -1000)  # nothing is rounded by it
    near = values / power
    # A constant's standard deviation is a rounding error, not a scale.
    scale = float(near.std(ddof=0)) * power if values.nunique() > 1 else 1.0
    return float(near.mean()) * power, scale or 1.0


def text(column: pd.Series[Any]) -> np.ndarray:
    codes, words = factor(column)
    return np.asarray(np.array([*words, MISSING], dtype=object)[codes])
