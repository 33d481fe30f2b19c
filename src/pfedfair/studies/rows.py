"""The rows of tables, and the runs behind them.

A row is a method by its name, or one of two that are not in `ALGORITHMS`: a method with a target in
the place of eta, and the frontier, the best thresholds on FedAvg's scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from pfedfair.algorithms import ALGORITHMS
from pfedfair.defaults import as_many_steps, make
from pfedfair.experiment import FRONTIER, Source, Spec
from pfedfair.partition import Plan
from pfedfair.studies.view import View

CONSTANT = "constant"
WITH_TARGET = {"pfedfair-target": "pfedfair", "fedavg-target": "fedavg-kde"}
METHOD = {FRONTIER: "fedavg", **WITH_TARGET}  # of rows whose label is not the method's name
TARGETS = (0.1, 0.05, 0.02)
TARGET = 0.05  # where a table has one level of each row
ROWS = 12_000  # of all clients together, where Adult has 20 or 50 of them

Level = dict[str, Any]


class Cell(NamedTuple):
    """A row of a table at one level, on one data set; a run for each seed.

    With many `clients`, each makes as many steps as in tuning. With `validated`, runs are measured
    on validation rows too.
    """

    plan: Plan
    row: str
    level: Level
    clients: int | None = None
    validated: bool = False

    def specs(
        self, dataset: str, seeds: int, protocol: str | None, rounds: int | None
    ) -> list[Spec]:
        method = METHOD.get(self.row, self.row)
        rows = ROWS // self.clients if self.clients else None
        small = as_many_steps(dataset, method, rows) if rows else {}
        short = {} if rounds is None else {"rounds": rounds + ALGORITHMS[method].closing}
        algorithm = make(method, small | self.level | short, dataset)
        name = method if self.row == FRONTIER else self.row
        more = {"validated": self.validated, "frontier": self.row == FRONTIER}
        return [
            Spec(Source(dataset), self.plan, name, algorithm, seed, protocol, **more)
            for seed in range(seeds)
        ]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table or a figure: the cells of a data set, and what is to be shown of their results."""

    title: str
    cells: Callable[[str], Iterable[Cell]]
    view: Callable[[pd.DataFrame], View]
    datasets: tuple[str, ...] = ("adult", "compas")
    in_paper: bool = True

    def specs(
        self,
        datasets: Sequence[str],
        seeds: int,
        protocol: str | None = None,
        rounds: int | None = None,
    ) -> list[Spec]:
        """All runs; `rounds`, if given, are the rounds of training of each."""
        return [
            spec
            for name in datasets
            for cell in self.cells(name)
            for spec in cell.specs(name, seeds, protocol, rounds)
        ]


def levels(row: str, etas: Sequence[float]) -> tuple[Level, ...]:
    """The settings of a row at each point of its trade-off curve, from accurate to fair."""
    if row in WITH_TARGET:
        return tuple({"target_ddp": target} for target in TARGETS)
    return ({},) if row == FRONTIER else ALGORITHMS[row].levels(etas)


def one_level(row: str, eta: float) -> Level:
    """The settings of a row where it has one level only: this eta, or its own default limit."""
    if row in WITH_TARGET:
        return {"target_ddp": TARGET}
    found = levels(row, (eta,))[0]
    return found if "eta" in found else {}
