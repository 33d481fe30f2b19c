"""Is a target kept, and at what price? Adult with 5, 20 and 50 clients, COMPAS with 5.

Not in the paper, which has a coefficient and no target.
"""

from __future__ import annotations

from pfedfair.experiment import Source, Spec
from pfedfair.paper import as_many_steps, tuned
from pfedfair.paper.levels import levels
from pfedfair.paper.many_clients import ROWS
from pfedfair.paper.scores import SETTINGS
from pfedfair.partition import fixed_shares

TARGETS = (0.02, 0.05, 0.1)
CONFIDENCE = 0.95
METHODS = ("transport", "pfedfair-target", "fedavg-target")


def specs(datasets: tuple[str, ...], seeds: int, protocol: str | None) -> list[Spec]:
    """Methods with targets, transport with confidence too, and pFedFair over eta to compare."""
    runs = []
    for name in datasets:
        for clients, etas in SETTINGS[name].items():
            each = [(method, {"target_ddp": t}) for method in METHODS for t in TARGETS]
            each += [("transport", {"target_ddp": t, "confidence": CONFIDENCE}) for t in TARGETS]
            each += [(method, level) for method in ("constant", "pfedfair")
                     for level in levels(method, etas)]  # fmt: skip
            for method, level in each:
                small = as_many_steps(name, method, ROWS // clients) if clients else {}
                runs.append((name, fixed_shares(clients), method, small | level))
    return [
        Spec(Source(name), plan, method, tuned(name, method, **level), seed, protocol)
        for name, plan, method, level in runs
        for seed in range(seeds)
    ]
