"""The plan that a few words ask for: on the command line, and in a site's settings."""

from __future__ import annotations

from pfedfair.data.dataset import Dataset
from pfedfair.errors import InputError, known
from pfedfair.partition.base import Plan
from pfedfair.partition.by_column import ByColumn
from pfedfair.partition.dirichlet_mixture import DirichletMixture
from pfedfair.partition.dirichlet_shares import DirichletShares
from pfedfair.partition.fixed_shares import FixedShares
from pfedfair.partition.together import Together

WAYS = ("fixed", "dirichlet", "column", "together")


def choose(
    way: str,
    data: Dataset,
    clients: int | None = None,
    rows: int | None = None,
    column: str | None = None,
    validation: float = 0.0,
) -> Plan:
    """Return the plan for one of `WAYS`; a `column` of clients is a way by itself."""
    known("partition", way, WAYS)
    if column is not None:
        if clients is not None or rows is not None or way in ("dirichlet", "together"):
            raise InputError(
                "--client makes one client of every value of that column, with all its rows: leave "
                f"out --clients, --rows and --partition {way}."
            )
        return ByColumn(column, validation=validation)
    if way == "column":
        raise InputError("--partition column needs --client COLUMN.")
    if way == "together":
        if clients is not None or rows is not None:
            raise InputError("--partition together has one client: leave out --clients and --rows.")
        return Together(validation=validation)
    if way == "fixed":
        return FixedShares(clients, rows=rows, validation=validation)
    if data.paper_plan is not None:
        return DirichletMixture(20 if clients is None else clients, rows=rows,
                                validation=validation)  # fmt: skip
    if rows is not None:
        raise InputError("--rows is for the paper's data sets: leave it out.")
    return DirichletShares(5 if clients is None else clients, validation=validation)
