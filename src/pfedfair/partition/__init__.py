"""Partitions of the rows among clients.

A plan is a recipe; `plan.split(data, seed)` deals the rows. Training rows, validation rows and the
held-out pool never overlap. Plans are also known by lower-case names, as in
``partition.fixed_shares(20)``.
"""

from collections.abc import Mapping
from typing import Any

from pfedfair._util.errors import InputError, known, option
from pfedfair.data.dataset import Dataset
from pfedfair.partition.base import Partition, Plan, stratified
from pfedfair.partition.by_column import ByColumn
from pfedfair.partition.centralised import Together
from pfedfair.partition.dirichlet_mixture import DirichletMixture
from pfedfair.partition.dirichlet_shares import DirichletShares
from pfedfair.partition.fixed_shares import FixedShares

KINDS = (FixedShares, DirichletMixture, DirichletShares, ByColumn, Together)
PLANS: dict[str, type[Plan]] = {kind.__name__: kind for kind in KINDS}
WAYS = ("fixed", "dirichlet", "column", "together")  # to `choose` from
fixed_shares = FixedShares
dirichlet_mixture = DirichletMixture
dirichlet_shares = DirichletShares
by_column = ByColumn
together = Together

__all__ = [
    "PLANS", "WAYS", "ByColumn", "DirichletMixture", "DirichletShares", "FixedShares",
    "Partition", "Plan", "Together", "by_column", "choose", "dirichlet_mixture", "dirichlet_shares",
    "fixed_shares", "from_dict", "stratified", "together",
]  # fmt: skip


def from_dict(about: Mapping[str, Any]) -> Plan:
    """Make the plan that `Plan.to_dict` described, also with JSON's lists instead of tuples.

    >>> from_dict(fixed_shares(20).to_dict())
    FixedShares(clients=20, under_fraction=0.2, share=0.8, validation=0.0, rows=None)
    """
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in about.items() if k != "kind"}
    kind = known("plan", str(about.get("kind")), list(PLANS))
    try:
        return PLANS[kind](**fields)
    except TypeError:
        raise InputError(f"{', '.join(fields)} do not make a plan {kind}.") from None


def choose(
    way: str,
    data: Dataset,
    clients: int | None = None,
    rows: int | None = None,
    column: str | None = None,
    validation: float = 0.0,
    min_rows: int | None = None,
) -> Plan:
    """Return the plan for one of `WAYS`, as a command or a site's settings ask for it.

    With a `column` there is one client per value of it; a data set may have a default column.
    """
    known("partition", way, WAYS)
    if column is None and clients is None and way in ("fixed", "column"):
        column = data.client or None
    if column is not None:
        if clients is not None or way in ("dirichlet", "together"):
            raise InputError(
                f"{option('client', python='column')} makes one client of every value of that "
                f"column: leave out {option('clients')} and {option('partition', way)}."
            )
        return ByColumn(column, validation=validation, min_rows=min_rows, rows=rows)
    if min_rows is not None:
        raise InputError(
            f"{option('min_rows')} is for clients of a column: say {option('client')}, or leave it "
            "out."
        )
    if way == "column":
        needed = option("client", "COLUMN", python="column")
        raise InputError(f"{option('partition', 'column')} needs {needed}.")
    if way == "together":
        if clients is not None or rows is not None:
            raise InputError(
                f"{option('partition', way)} has one client: leave out {option('clients')} and "
                f"{option('rows')}."
            )
        return Together(validation=validation)
    if way == "fixed":
        return FixedShares(clients, rows=rows, validation=validation)
    if data.paper_plan is not None:
        return DirichletMixture(20 if clients is None else clients, rows=rows,
                                validation=validation)  # fmt: skip
    if rows is not None:
        raise InputError(f"{option('rows')} is for the paper's data sets: leave it out.")
    return DirichletShares(5 if clients is None else clients, validation=validation)
