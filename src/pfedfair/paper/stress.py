"""Clients whose people differ: Adult by occupation and by education. Not in the paper.

There P(X | S) is another at every client, and so are the shares of S. The paper's partitions share
P(X | S); a method that leans on that must notice when it does not hold.
"""

from __future__ import annotations

from pfedfair.experiment import Source, Spec
from pfedfair.paper import tuned
from pfedfair.partition import by_column

COLUMNS = ("occupation", "education")
TARGET = 0.05
OWN, POOL = 0.0, 1e9  # kappa: a client's own people only, or the pooled ones
RUNS: tuple[tuple[str, dict[str, float]], ...] = (
    ("constant", {}),
    ("fedavg", {}),
    ("fedavg-kde", {}),
    ("logofair", {"delta_local": TARGET, "delta_global": 1.0}),
    ("transport", {"target_ddp": TARGET, "kappa": OWN}),
    ("transport", {"target_ddp": TARGET, "kappa": POOL}),
    ("transport", {"target_ddp": TARGET}),
    ("transport", {"target_ddp": TARGET, "confidence": 0.95}),
)


def specs(datasets: tuple[str, ...], seeds: int, protocol: str | None) -> list[Spec]:
    """All runs; every client is measured on its own test rows."""
    return [
        Spec(
            Source(name),
            by_column(column, min_rows=10),
            method,
            tuned(name, method, **more),
            seed,
            protocol,
        )
        for name in datasets
        for column in COLUMNS
        for method, more in RUNS
        for seed in range(seeds)
    ]
