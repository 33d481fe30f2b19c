"""The trade-off of every method in one table: Adult with 5, 20 and 50 clients, COMPAS with 5.

Not in the paper, which calls its method's trade-off the best by the look of the curves.
"""

from __future__ import annotations

from pfedfair.algorithms import ALGORITHMS
from pfedfair.experiment import FRONTIER, Spec
from pfedfair.paper import WITH_TARGET, as_many_steps, specify, tuned
from pfedfair.paper.levels import levels
from pfedfair.paper.many_clients import ROWS
from pfedfair.partition import fixed_shares

MANY = (0.0, 0.6, 0.9, 0.97)
FEW = (0.0, 0.9, 0.97)
# Numbers of clients (None: the paper's five) and the etas to try there.
SETTINGS: dict[str, dict[int | None, tuple[float, ...]]] = {
    "adult": {None: MANY, 20: FEW, 50: FEW},
    "compas": {None: MANY},
}
VALIDATION = 0.2


def specs(datasets: tuple[str, ...], seeds: int, protocol: str | None) -> list[Spec]:
    """All runs, each measured on validation rows and on held-out rows."""
    runs = []
    for name in datasets:
        for clients, etas in SETTINGS[name].items():
            plan = fixed_shares(clients, validation=VALIDATION)
            for method in [*ALGORITHMS, *WITH_TARGET, FRONTIER]:
                small = as_many_steps(name, method, ROWS // clients) if clients else {}
                runs += [
                    (name, plan, method, tuned(name, method, **small | level))
                    for level in levels(method, etas)
                ]
    return [
        specify(name, plan, method, algorithm, seed, protocol, validated=True)
        for name, plan, method, algorithm in runs
        for seed in range(seeds)
    ]
