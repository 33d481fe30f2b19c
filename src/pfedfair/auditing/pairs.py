"""Compare two columns of decisions on the same rows: differences with paired intervals."""

import numpy as np
import pandas as pd

from pfedfair import metrics
from pfedfair._util import seeds
from pfedfair.auditing import ends
from pfedfair.auditing.measures import Estimate, Z, clients_of, tidy
from pfedfair.auditing.rows import Rows
from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import paired


def compare(rows: Rows, first: str, second: str) -> pd.DataFrame:
    """Return every measure of the second column less that of the first, with paired intervals."""
    assert rows.second is not None
    positive, parts = len(rows.labels) - 1, clients_of(rows)
    hits = {
        "accuracy": (rows.decided == rows.y, rows.second == rows.y),
        "selection_rate": (rows.decided == positive, rows.second == positive),
    }
    of_groups = {"": parts}
    for z, group in enumerate(rows.groups):
        of_groups[group] = [part[rows.s[part] == z] for part in parts]
    by_group = [
        (group, {name: _difference(*pair, here) for name, pair in hits.items()})
        for group, here in of_groups.items()
    ]
    return tidy(rows, f"{second} - {first}", [*by_group, ("", gaps(rows, parts))])


def _difference(one: np.ndarray, other: np.ndarray, parts: list[np.ndarray]) -> Estimate:
    """Return the difference in frequency, second less first, over the rows of each part."""
    gained = np.array([(other[part] & ~one[part]).sum() for part in parts])
    lost = np.array([(one[part] & ~other[part]).sum() for part in parts])
    number = np.array([len(part) for part in parts])
    with np.errstate(invalid="ignore"):
        value = (gained - lost) / number
    return Estimate(value, *paired(gained, lost, number, Z), number)


def gaps(rows: Rows, parts: list[np.ndarray]) -> dict[str, Estimate]:
    """Return the second column's gaps less the first one's."""
    assert rows.second is not None
    groups, classes = max(2, len(rows.groups)), len(rows.labels)
    shape = (groups, classes, classes, classes)
    cell = np.ravel_multi_index((rows.s, rows.y, rows.decided, rows.second), shape)
    size = int(np.prod(shape))
    counts = np.stack([np.bincount(cell[part], minlength=size) for part in parts])
    counts = counts.reshape(-1, *shape)
    one, other = counts.sum(-1), counts.sum(-2)
    before, after = metrics.measure(one), metrics.measure(other)
    of_each = [metrics.confidence_intervals(column) for column in (one, other)]
    intervals = ends.gap_difference(counts, seeds.generator(0, seeds.POSTERIOR))
    estimates = {}
    for name in MEASURES:
        number = np.minimum(*(of_column[f"{name}_people"] for of_column in of_each))
        low, high = intervals[name]
        estimates[name] = Estimate(after[name] - before[name], low, high, number)
    return estimates
