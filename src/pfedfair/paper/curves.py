"""Figures 3, 4, 5 and 7 on the tabular data: methods over eta, and pFedFair over lambda."""

from __future__ import annotations

from pfedfair.experiment import FRONTIER, Spec
from pfedfair.paper import specify, tuned
from pfedfair.paper.levels import levels
from pfedfair.partition import fixed_shares

ETAS = (0.0, 0.3, 0.6, 0.9)
LAMBDAS = (0.0, 0.2, 0.4, 0.8)
ETA = 0.9
CURVES = (
    "constant", "kde-local", "fedavg-kde", "pfedme-kde", "pfedfair", "pfedfair-target", "transport",
    FRONTIER,
)  # fmt: skip
METHODS = {
    "figure3": ("constant", "fedavg-kde", "pfedfair"),
    "figure4": CURVES,
    "figure5": (
        "constant", "fedavg-kde", "pfedme-kde", "fa", "mmpf", "fcfl", "pfedfair",
        "pfedfair-target", "transport",
    ),
    "figure7": CURVES,
}  # fmt: skip
CLAIMS = {
    "figure3": (),
    "figure4": (
        ("pfedfair", "kde-local", "worst_accuracy"),
        ("pfedfair", "fedavg-kde", "worst_accuracy"),
        ("pfedfair", "pfedme-kde", "worst_accuracy"),
        ("pfedfair", "kde-local", "worst_ddp"),
    ),
    "figure5": tuple(
        ("pfedfair", rival, measure)
        for rival in ("fedavg-kde", "pfedme-kde", "fa", "mmpf", "fcfl")
        for measure in ("mean_accuracy", "mean_ddp")
    ),
    "figure7": (
        ("pfedfair", "kde-local", "mean_accuracy"),
        ("pfedfair", "fedavg-kde", "mean_accuracy"),
        ("pfedfair", "pfedme-kde", "mean_accuracy"),
    ),
}


def specs(what: str, datasets: tuple[str, ...], seeds: int, protocol: str | None) -> list[Spec]:
    """All runs of a figure: its methods over eta; for Figure 4 also pFedFair over lambda."""
    runs = [
        (name, method, tuned(name, method, **level))
        for name in datasets
        for method in METHODS[what]
        for level in (({},) if what == "figure5" else levels(method, ETAS))
    ]
    if what == "figure4":
        others = [lam for lam in LAMBDAS if lam != tuned("adult", "pfedfair").lam]  # type: ignore[attr-defined]
        runs += [
            (name, "pfedfair", tuned(name, "pfedfair", ETA, lam=lam))
            for name in datasets
            for lam in others
        ]
    return [
        specify(name, fixed_shares(), method, algorithm, seed, protocol)
        for name, method, algorithm in runs
        for seed in range(seeds)
    ]
