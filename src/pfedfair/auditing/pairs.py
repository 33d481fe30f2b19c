"""Two columns of decisions on the same people: what is different, and whether that is chance."""

import numpy as np
import pandas as pd

from pfedfair import metrics
from pfedfair._util import seeds
from pfedfair.auditing import ends
from pfedfair.auditing.measures import COLUMNS, Found, Z, clients_of, names_of
from pfedfair.auditing.rows import Rows
from pfedfair.metrics.criteria import MEASURES


def compare(rows: Rows, first: str, second: str) -> pd.DataFrame:
    """Every measure of the second column less that of the first, with paired intervals."""
    assert rows.second is not None
    prediction = f"{second} - {first}"
    last, parts = len(rows.labels) - 1, clients_of(rows)
    right = rows.decided == rows.y, rows.second == rows.y
    chosen = rows.decided == last, rows.second == last
    found = [
        ("", "accuracy", _apart(*right, parts)),
        ("", "selection_rate", _apart(*chosen, parts)),
    ]
    for z, group in enumerate(rows.groups):
        own = [part[rows.s[part] == z] for part in parts]
        found.append((group, "accuracy", _apart(*right, own)))
        found.append((group, "selection_rate", _apart(*chosen, own)))
    found += [("", name, gap) for name, gap in gaps(rows, parts).items()]
    about = {"client": names_of(rows), "prediction": prediction}
    frames = [
        pd.DataFrame({**about, "group": group, "measure": measure, **each._asdict()})
        for group, measure, each in found
    ]
    return pd.concat(frames, ignore_index=True)[COLUMNS]


def _apart(one: np.ndarray, other: np.ndarray, parts: list[np.ndarray]) -> Found:
    """How much more often the second happens, of people in each part."""
    gained = np.array([(other[part] & ~one[part]).sum() for part in parts])
    lost = np.array([(one[part] & ~other[part]).sum() for part in parts])
    people = np.array([len(part) for part in parts])
    with np.errstate(invalid="ignore"):
        value = (gained - lost) / people
    return Found(value, *ends.paired(gained, lost, people, Z), people)


def gaps(rows: Rows, parts: list[np.ndarray]) -> dict[str, Found]:
    """How much larger the second column's gaps are."""
    assert rows.second is not None
    groups, classes = max(2, len(rows.groups)), len(rows.labels)
    shape = (groups, classes, classes, classes)
    cell = np.ravel_multi_index((rows.s, rows.y, rows.decided, rows.second), shape)
    size = int(np.prod(shape))
    counts = np.stack([np.bincount(cell[part], minlength=size) for part in parts])
    counts = counts.reshape(-1, *shape)
    one, other = counts.sum(-1), counts.sum(-2)
    before, after = metrics.measure(one), metrics.measure(other)
    behind = [metrics.certainty(each) for each in (one, other)]
    apart = ends.gaps_apart(counts, seeds.generator(0, seeds.POSTERIOR))
    found = {}
    for name in MEASURES:
        people = np.minimum(*(each[f"{name}_people"] for each in behind))
        low, high = apart[name]
        found[name] = Found(after[name] - before[name], low, high, people)
    return found
