"""What a run's held-out rows show: accuracy, gaps, other measures and intervals of every client."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from pfedfair import metrics
from pfedfair.federation import Federation
from pfedfair.metrics import performance
from pfedfair.metrics.noise_floor import noise_floors
from pfedfair.runs.predictor import Predictor, of_decisions, randomised, tallies


def measure(
    federation: Federation,
    predictors: Sequence[Predictor],
    rows: Sequence[np.ndarray],
    weighted: bool,
    draw_of: Callable[[int, np.ndarray], np.ndarray],
    level: float = 0.95,
) -> pd.DataFrame:
    """Return a row for each client, measured on its `rows`.

    Parameters
    ----------
    weighted
        Whether the groups are weighted to the client's shares; see `measured_rows`.
    draw_of
        The random draws of a client's rows.
    level
        Of the intervals.
    """
    part, table, weight = federation.partition, federation.table, federation.data.weight
    tallied, groups = tallies(table, weight), part.shares.shape[1]
    s, positive = table.s.numpy(), table.y.numpy() == 1

    def compute(own: np.ndarray, decided: np.ndarray, z: Tensor) -> tuple[np.ndarray, np.ndarray]:
        moments = tallied(own, decided, z)
        if table.task.classes > 2:
            return moments, np.zeros((groups, groups))
        row_weight = None if weight is None else weight[own]
        score = z[:, 0].numpy()
        return moments, performance.ordered(score, positive[own], s[own], groups, row_weight)

    each = of_decisions(predictors, table, rows, compute, draw_of)
    moments, pairs = np.stack([one for one, _ in each], 1), np.stack([pair for _, pair in each])
    n_test = np.array([np.bincount(part.data.s[own], minlength=groups) for own in rows])
    shares = part.shares if weighted else None
    if weighted:  # there is no gap to a group of which a client has no rows
        moments = np.where(part.shares[..., None, None] > 0, moments, 0)
        n_test = np.where(part.shares > 0, n_test, 0)
    counts, apart = moments[1], metrics.set_apart(moments[0])
    labels = [_most_frequent(federation, own) for own in part.train]
    columns = {
        "client": part.names,
        "role": part.roles,
        "n_train": federation.sizes,
        "n_test": [len(own) for own in rows],
        **{f"share_s{z}": part.shares[:, z] for z in range(1, groups)},
        **{f"n_test_s{z}": n_test[:, z] for z in range(groups)},
    }
    if groups > 2:
        columns |= {f"{gap}_apart": _apart(few, n_test, part.data.group_names)
                    for gap, few in apart.items()}  # fmt: skip
        columns |= noise_floors(moments, apart)
    columns |= metrics.measure(counts, shares, apart)
    columns |= performance.performance(counts, shares, pairs)
    columns |= performance.gain(moments, np.array(labels), shares)
    columns |= metrics.confidence_intervals(counts, shares, level, apart, moments)
    of_group = counts.sum((-1, -2))
    parts = of_group / of_group.sum(-1, keepdims=True) if shares is None else shares
    columns["randomised"] = (parts * randomised(predictors, table, rows, weight)).sum(-1)
    return pd.DataFrame(columns).assign(one_decision=metrics.one_decision(counts))


def _most_frequent(federation: Federation, rows: np.ndarray) -> int:
    """Return the most frequent label of rows, by weight."""
    weight = federation.data.weight
    return int(
        np.bincount(federation.data.y[rows], None if weight is None else weight[rows], 2).argmax()
    )


def _apart(few: np.ndarray, rows: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return each client's groups that are set apart, with their number of rows."""
    return [
        ", ".join(f"'{names[z]}' ({own[z]})" for z in np.flatnonzero(which).tolist())
        for which, own in zip(few, rows, strict=True)
    ]
