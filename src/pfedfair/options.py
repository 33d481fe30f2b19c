"""The options of the command line, and what is made of them."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import typer

from pfedfair.algorithms import ALGORITHMS, FAIR, Algorithm
from pfedfair.data import DATASETS
from pfedfair.defaults import as_many_steps, make
from pfedfair.errors import InputError, known
from pfedfair.experiment import Source, load_source
from pfedfair.partition import (
    DirichletMixture,
    FixedShares,
    Plan,
    by_column,
    dirichlet_mixture,
    dirichlet_shares,
    fixed_shares,
)
from pfedfair.penalties import PENALTIES

T = TypeVar("T")

Data = Annotated[
    str,
    typer.Argument(help=f"{', '.join(DATASETS)}, or the path of a .csv or .parquet file."),
]
Label = Annotated[str | None, typer.Option(help="Your file: the column with the label.")]
Sensitive = Annotated[
    str | None,
    typer.Option(help="The column with S; several with commas between make groups of them all."),
]
MergeGroups = Annotated[
    bool, typer.Option("--merge-groups", help="Make one group of those with too few rows.")
]
Criterion = Annotated[
    str,
    typer.Option(
        help="What fairness means: dp, equal rates of decisions; eo, equal rates among people of "
        "equal label (equalised odds); eopp, among those with the last label (equal opportunity)."
    ),
]
Client = Annotated[str | None, typer.Option(help="The column that says whose row it is.")]
Penalty = Annotated[
    str, typer.Option(help=f"Dependence measure of the fair methods: {', '.join(PENALTIES)}.")
]
Clients = Annotated[int | None, typer.Option(help="Number of clients (paper's plan if left out).")]
Rows = Annotated[int | None, typer.Option(help="Training rows of each client, with --clients.")]
Partition = Annotated[str, typer.Option(help="fixed, dirichlet or column.")]
Drop = Annotated[str | None, typer.Option(help="Your file: columns that are no inputs.")]
Categorical = Annotated[
    str | None, typer.Option(help="Your file: columns of numbers that are codes.")
]
Blind = Annotated[bool, typer.Option("--blind", help="S is not an input of the model.")]
Protocol = Annotated[
    str | None,
    typer.Option(
        help="pool: all held-out rows, weighted to each client's share of S; "
        "paper: each client's own test rows."
    ),
]
TargetDDP = Annotated[
    float | None, typer.Option(help="The largest DDP that a client may have, in the place of eta.")
]
Confidence = Annotated[
    float | None,
    typer.Option(help="Keep the target with this probability, e.g. 0.95, not just on average."),
]
Rounds = Annotated[int | None, typer.Option(help="Rounds of communication (tuned if left out).")]
Seeds = Annotated[int, typer.Option(help="How many seeds: 0, 1, ...")]
Jobs = Annotated[int | None, typer.Option(help="Processes; by default one per core.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def make_source(
    data: str,
    label: str | None,
    sensitive: str | None,
    drop: str | None,
    categorical: str | None,
    merge_groups: bool = False,
) -> Source:
    dropped, coded = (tuple(unique(t.split(","))) if t else () for t in (drop, categorical))
    source = Source(data, label, sensitive, dropped, coded, merge_groups)
    load_source(source)  # says what is wrong before anything is written
    return source


def make_plan(
    partition: str,
    clients: int | None,
    rows: int | None,
    client: str | None,
    validation: float = 0.0,
    source: Source | None = None,
) -> Plan:
    known("partition", partition, ["fixed", "dirichlet", "column"])
    if client is not None:
        if clients is not None or rows is not None or partition == "dirichlet":
            raise InputError(
                "--client makes one client of every value of that column, with all its rows: leave "
                "out --clients, --rows and --partition dirichlet."
            )
        return by_column(client, validation=validation)
    if partition == "column":
        raise InputError("--partition column needs --client COLUMN.")
    if partition == "dirichlet" and source and load_source(source).paper_plan is None:
        if rows is not None:
            raise InputError("--rows is for the paper's data sets: leave it out.")
        return dirichlet_shares(5 if clients is None else clients, validation=validation)
    if partition == "dirichlet":
        return dirichlet_mixture(
            20 if clients is None else clients, rows=rows, validation=validation
        )
    return fixed_shares(clients, rows=rows, validation=validation)


def make_algorithm(
    source: Source, plan: Plan, method: str, rounds: int | None, **more: Any
) -> Algorithm:
    """Return the method as tuned, with the options that were given."""
    known("method", method, list(ALGORITHMS))
    given = {k: v for k, v in {"rounds": rounds, **more}.items() if v is not None}
    target: dict[str, Any] = {}
    if method in FAIR:  # the target sets eta
        target = {k: given.pop(k) for k in ("target_ddp", "confidence") if k in given}
        if "confidence" in target and "target_ddp" not in target:
            raise InputError("--confidence needs --target-ddp.")
    unknown = [k for k in given if k not in ALGORITHMS[method].__dataclass_fields__]
    if unknown:
        name = unknown[0].replace("_", "-")
        raise InputError(f"--{name} means nothing to {method}: leave it out.")
    small: dict[str, Any] = {}
    paper_plan = load_source(source).paper_plan
    if isinstance(plan, FixedShares | DirichletMixture) and plan.clients and paper_plan:
        rows = plan.rows or paper_plan.rows // plan.clients
        small = as_many_steps(source.name, method, max(rows, 1))
    return make(method, small | given | target, source.name)


def numbers(text: str) -> list[float]:
    try:
        return unique([float(part) for part in text.split(",")])
    except ValueError:
        raise InputError(f"--etas must be numbers with commas between, got '{text}'.") from None


def unique(values: list[T]) -> list[T]:
    """Drop what came before."""
    return list(dict.fromkeys(values))


def at_least_one(seeds: int) -> int:
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}.")
    return seeds


def checked_seed(seed: int) -> int:
    if seed < 0:
        raise InputError(f"--seed must be 0 or more, got {seed}.")
    return seed


def checked_protocol(protocol: str | None) -> str | None:
    return None if protocol is None else known("protocol", protocol, ["pool", "paper"])
