r"""The best fair decisions as a linear program: any number of groups and classes, S known or not.

Rows are counted in cells; all rows of a cell have the same scores. Let h(c | cell) be the chance of
decision c there (one for each group where S is known). Accuracy is linear in h, and so is every
rate that fairness compares between groups (`pfedfair.metrics.criteria`).

Each rate of each group lies in a window of width epsilon, wherever that window is. With two groups,
two classes, "dp" and S known this is Proposition 2, whose solution `pfedfair.theory.rule` has in
closed form.
"""

from collections.abc import Iterator

import numpy as np

from pfedfair.metrics.criteria import CRITERIA

SCALE = 1e4  # so that cells with one row in a hundred million matter to the solver


def fair_program(
    mass: np.ndarray,
    criterion: str,
    epsilon: float,
    aware: bool = True,
    least: np.ndarray | None = None,
) -> np.ndarray:
    """Return the most accurate chances of decisions, ``(groups or 1, cells, classes)``.

    Parameters
    ----------
    mass
        P(group, label, cell), ``(groups, classes, cells)``; adds up to 1.
    criterion
        "dp", "eo" or "eopp".
    epsilon
        The largest difference between two groups' rates.
    aware
        Whether decisions may differ by group.
    least
        The least rate of the last decision in each group, ``(groups,)``; none by default.
    """
    from scipy import sparse
    from scipy.optimize import linprog  # takes long to load

    _, classes, cells = mass.shape
    gain = mass.transpose(0, 2, 1) if aware else mass.sum(0).T[None]  # (tables, cells, classes)
    limits = list(rates(mass, criterion))
    size = gain.size
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    bounds: list[float] = []
    for k, (weight, decision) in enumerate(limits):  # window k begins at variable size + k
        for z in np.flatnonzero(weight.sum(1) > 0):
            where = np.flatnonzero(weight[z])
            at = ((z if aware else 0) * cells + where) * classes + decision
            for sign, bound in ((1.0, epsilon), (-1.0, 0.0)):
                rows += [len(bounds)] * (len(where) + 1)
                columns += [*at, size + k]
                values += [*(sign * weight[z, where]), -sign]
                bounds.append(bound)
    for group, rate in enumerate([] if least is None else least):
        shape = mass[group].sum(0) / max(mass[group].sum(), 1e-300)
        at = ((group if aware else 0) * cells + np.arange(cells)) * classes + classes - 1
        rows += [len(bounds)] * cells
        columns += [*at]
        values += [*-shape]
        bounds.append(-float(rate))
    problem = {
        "c": np.concatenate([-SCALE * gain.ravel(), np.zeros(len(limits))]),
        "A_ub": sparse.csr_matrix((values, (rows, columns)), (len(bounds), size + len(limits))),
        "A_eq": sparse.hstack([
            sparse.kron(sparse.eye(size // classes), np.ones((1, classes))),
            sparse.csr_matrix((size // classes, len(limits))),
        ]).tocsr(),
        "b_eq": np.ones(size // classes),
        "bounds": [(0, 1)] * size + [(-1, 1)] * len(limits),
    }  # fmt: skip
    for slack in (0.0, 5e-7, 5e-6):  # the solver's rounding may leave nothing between equal bounds
        found = linprog(**problem, b_ub=np.array(bounds) + slack, method="highs")
        if found.status == 0:
            break
    else:  # one decision for all rows is always feasible
        raise ArithmeticError(f"the linear program was not solved: {found.message}")
    chances = np.clip(found.x[:size], 0, 1).reshape(gain.shape)
    return np.asarray(chances / chances.sum(-1, keepdims=True))


def rates(mass: np.ndarray, criterion: str) -> Iterator[tuple[np.ndarray, int]]:
    """Yield each rate that is compared: P(cell | group, label) ``(groups, cells)``, and a decision.

    The rate of a group is the sum of the first times the chances of the second. A group without
    rows (of that label) has zeros.
    """
    for label, decision in CRITERIA[criterion].comparisons(mass.shape[1]):
        part = mass.sum(1) if label is None else mass[:, label]
        total = part.sum(1, keepdims=True)
        share = np.divide(part, total, out=np.zeros_like(part), where=total > 0)
        yield share, decision


def positive_rates(mass: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Return each group's rate of the last decision, ``(groups,)``."""
    rows = mass.sum(1)
    share = rows / np.maximum(rows.sum(1, keepdims=True), 1e-300)
    return np.asarray((share * chances[..., -1]).sum(1))


def largest_gap(mass: np.ndarray, criterion: str, chances: np.ndarray) -> float:
    """Return the largest difference between two groups' rates by chances of decisions."""
    worst = 0.0
    for weight, decision in rates(mass, criterion):
        rate = (weight * chances[:, :, decision]).sum(1)[weight.sum(1) > 0]
        if len(rate):
            worst = max(worst, float(rate.max() - rate.min()))
    return worst
