"""The score of a trade-off curve, chosen on validation rows and measured on held-out rows.

A method's curve is the worst client's error against the worst client's DDP at its levels, from
accurate to fair, and ends in the constant classifier, which is always available. Between two
neighbours decisions may be randomised: one model with probability 1 - a, the other with a. The
worst client's error and DDP are then at most the interpolated ones, so interpolated points can be
reached.

For a limit on DDP the validation rows choose the point of the curve with the least error; its error
and DDP are measured on the held-out rows. The *area* is the mean of that error over the limits from
0 to `WIDTH`. It has no penalty for a limit that is exceeded on the held-out rows; *hindsight*, the
same with points chosen on the held-out rows, exceeds none.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair.studies.rows import CONSTANT
from pfedfair.studies.summary import gap_of, over_clients

LIMITS = (0.02, 0.05, 0.1)
WIDTH = 0.2
AREA = np.linspace(0, WIDTH, 41)
CURVE = ["dataset", "partition", "method", "seed"]


class Choice(NamedTuple):
    """A point of a curve: the share `a` of the way from point `j` to the next."""

    j: int
    a: float

    def at(self, values: np.ndarray) -> float:
        """Interpolate."""
        if self.a == 0:
            return float(values[self.j])
        follow = values[min(self.j + 1, len(values) - 1)]
        return float((1 - self.a) * values[self.j] + self.a * follow)


def choose(error: np.ndarray, ddp: np.ndarray, limit: float) -> Choice | None:
    """Return the point of the curve with the least error whose DDP is within the limit.

    On a segment both are linear, so it is a vertex, or where a segment crosses the limit.

    >>> choose(np.array([0.1, 0.2, 0.5]), np.array([0.5, 0.25, 0.0]), 0.375)
    Choice(j=0, a=0.5)
    """
    candidates = [Choice(j, 0.0) for j in range(len(ddp)) if ddp[j] <= limit + 1e-12]
    for j in range(len(ddp) - 1):
        low, high = sorted(ddp[j : j + 2])
        if low < limit < high:
            candidates.append(Choice(j, float((ddp[j] - limit) / (ddp[j] - ddp[j + 1]))))
    return min(candidates, key=lambda choice: choice.at(error), default=None)


def scores(results: pd.DataFrame) -> pd.DataFrame:
    """Return area, and accuracy and gap at each limit, per data set, partition, method and seed.

    Parameters
    ----------
    results
        Runs measured twice, one of the protocols being "validation", with the constant classifier
        among them.
    """
    runs = over_clients(results)
    runs = runs.sort_values("eta", kind="stable")  # levels of other kinds stay in their order
    split = ["dataset", "partition", "seed"]
    gap = gap_of(results)
    ends = runs[runs["method"] == CONSTANT].set_index(split)
    if not len(ends):
        raise InputError("Trade-off scores need the constant classifier among the methods.")
    rows = []
    for key, curve in runs.groupby(CURVE, sort=False):
        about = dict(zip(CURVE, key, strict=True))
        if about["method"] != CONSTANT:
            end = ends.loc[[tuple(about[k] for k in split)]]
            curve = pd.concat([curve, end.reset_index()])
        rows.append(about | _score(curve, gap))
    return pd.DataFrame(rows)


def _score(curve: pd.DataFrame, gap: str) -> dict[str, float]:
    tried = curve[curve["protocol"] == "validation"]
    held = curve[curve["protocol"] != "validation"]
    # Where no client has both groups there is no gap.
    error, tried_gaps = 1 - tried["worst_accuracy"].to_numpy(), tried[f"worst_{gap}"].fillna(0)
    accuracies, gaps = (held[m].fillna(0).to_numpy() for m in ("worst_accuracy", f"worst_{gap}"))
    if len(error) != len(accuracies) or not (tried_gaps == 0).any():
        raise ValueError("a curve needs both protocols and the constant classifier at its end")

    def at(limit: float) -> tuple[float, float]:
        choice = choose(error, tried_gaps.to_numpy(), limit)
        assert choice is not None  # the constant classifier is within any limit
        return choice.at(accuracies), choice.at(gaps)

    found = {"area": float(np.mean([1 - at(limit)[0] for limit in AREA]))}
    seen = [choose(1 - accuracies, gaps, limit) for limit in AREA]  # with hindsight
    found["hindsight"] = float(np.mean([1 - c.at(accuracies) for c in seen if c is not None]))
    for limit in LIMITS:
        accuracy, reached = at(limit)
        found |= {f"accuracy_{limit:g}": accuracy, f"{gap}_{limit:g}": reached}
    return found
