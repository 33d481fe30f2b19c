"""The noise floor of the largest of many gaps: what it is on average where no gap is real.

With many groups, some rates differ by chance. A largest gap near its floor shows nothing.
"""

from collections.abc import Mapping

import numpy as np

from pfedfair._util import seeds
from pfedfair.metrics import rows_with
from pfedfair.metrics.criteria import CRITERIA, Criterion
from pfedfair.metrics.weights import kish

DRAWS = 300


def noise_floors(
    moments: np.ndarray, apart: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Return the expected largest gap if all groups had the same rates, ``{gap}_floor``.

    Each group's rows are drawn with the rates of all groups together (a parametric simulation with
    a fixed seed); weighted rows count with Kish's number. NaN for fewer than three groups.

    Parameters
    ----------
    moments
        ``(3, clients, S, Y, Yhat)``, see `pfedfair.metrics.weights`.
    apart
        For each gap the groups that it does not cover, see `metrics.set_apart`.
    """
    found = {}
    for criterion in CRITERIA.values():
        some = moments
        if apart is not None:
            some = np.where(apart[criterion.measure][..., None, None], 0, moments)
        each = [_floor(some[:, i], criterion) for i in range(moments.shape[1])]
        found[f"{criterion.measure}_floor"] = np.array(each)
    return found


def _floor(moments: np.ndarray, criterion: Criterion) -> float:
    """Return one client's floor."""
    rng = seeds.generator(0, seeds.NOISE_FLOOR)
    classes, compared = moments.shape[-1], 0
    largest = np.zeros(DRAWS)
    for label in criterion.among(classes):
        decided = rows_with(moments, label)
        number = np.rint(kish(decided.sum(-1))).astype(np.int64)
        number = number[number > 0]
        compared = max(compared, len(number))
        if len(number) < 2:
            continue
        chances = decided[1].sum(0)
        drawn = rng.multinomial(number, chances / chances.sum(), (DRAWS, len(number)))
        rates = drawn[..., criterion.decisions(classes)] / number[:, None]
        largest = np.maximum(largest, np.ptp(rates, axis=1).max(-1))
    return float(largest.mean()) if compared > 2 else float("nan")
