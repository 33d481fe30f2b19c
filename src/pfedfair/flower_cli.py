"""The commands of ``pfedfair flower``: the same methods across machines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pfedfair import options, show, terminal
from pfedfair.algorithms import ALGORITHMS, Transport
from pfedfair.engines.flower import require
from pfedfair.errors import InputError
from pfedfair.experiment import load_source
from pfedfair.options import (
    Blind,
    Categorical,
    Client,
    Clients,
    Confidence,
    Criterion,
    Data,
    Drop,
    Label,
    MergeGroups,
    Partition,
    Penalty,
    Quiet,
    Rows,
    Sensitive,
    TargetDDP,
)
from pfedfair.run import choose_network

if TYPE_CHECKING:
    from pfedfair.engines.flower.trial import Outcome

app = typer.Typer(no_args_is_help=True, help="The same methods across machines, on Flower.")
Method = Annotated[str, typer.Option(help=f"One of {', '.join(ALGORITHMS)}.")]
Eta = Annotated[float, typer.Option(help="Weight of the fairness penalty, in [0, 1).")]
FewRounds = Annotated[
    int | None,
    typer.Option(help="Rounds of communication; 3 if left out, and transport's own at its end."),
]
Seed = Annotated[int, typer.Option(help="Root of all random numbers.")]
LocalRounds = Annotated[int, typer.Option(help="Rounds at a site for each message.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder for all files.")],
    sites: Annotated[int, typer.Option(help="How many sites.")],
    host: Annotated[str, typer.Option(help="The server's name or address, for its sites.")] = (
        "localhost"
    ),
    port: Annotated[int, typer.Option(help="The port that sites come to.")] = 8443,
    days: Annotated[int, typer.Option(help="How long the certificates are valid.")] = 365,
    quiet: Quiet = False,
) -> None:
    """Make certificates, keys, start scripts and the proxy's configuration of a deployment.

    Example: pfedfair flower init consortium --sites 3 --host fl.example.org
    """
    require()
    from pfedfair.engines.flower import provision

    provision.create(folder, sites, host, port, days=days)
    if not quiet:
        terminal.say((folder / "README.txt").read_text())
        terminal.say(f"Written to {folder}. Private keys can be read by their owner only.")


@app.command()
def simulate(
    data: Data,
    method: Method = "pfedfair",
    eta: Eta = 0.9,
    penalty: Penalty = "kde",
    criterion: Criterion = "dp",
    lam: Annotated[float | None, typer.Option(help="pFedFair's lambda.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Strength of the Moreau tie.")] = None,
    target_ddp: TargetDDP = None,
    confidence: Confidence = None,
    clients: Clients = None,
    rows: Rows = None,
    partition: Partition = "fixed",
    label: Label = None,
    sensitive: Sensitive = None,
    client: Client = None,
    drop: Drop = None,
    categorical: Categorical = None,
    merge_groups: MergeGroups = False,
    blind: Blind = False,
    seed: Seed = 0,
    rounds: FewRounds = None,
    local_rounds: LocalRounds = 1,
    out: Annotated[Path | None, typer.Option(help="A new folder to keep everything in.")] = None,
    quiet: Quiet = False,
) -> None:
    """Run a method on Flower's simulation runtime, and compare it with `pfedfair train`.

    Example: pfedfair flower simulate compas --method pfedfair --rounds 3
    """
    require("flwr", "ray")
    from pfedfair.engines.flower import trial

    source = options.make_source(data, label, sensitive, drop, categorical, merge_groups)
    plan = options.make_plan(partition, clients, rows, client, source=source)
    algorithm = options.make_algorithm(
        source, plan, method, _few(method, rounds), eta=eta, penalty=penalty, criterion=criterion,
        lam=lam, gamma=gamma, target_ddp=target_ddp, confidence=confidence,
    )  # fmt: skip
    if local_rounds < 1:
        raise InputError(f"--local-rounds must be at least 1, got {local_rounds}.")
    seed = options.checked_seed(seed)
    federation = load_source(source).federate(plan, seed, not blind)
    choose_network(federation, algorithm)
    path = data if source.label is None else str(Path(data).absolute())
    where = {
        "data": path, "label": label or "", "sensitive": sensitive or "", "client": client or "",
        "drop": drop or "", "categorical": categorical or "", "partition": partition,
        "rows": rows or 0, "merge-groups": merge_groups,
    }  # fmt: skip
    with _folder(out) as place:
        found = trial.simulate(
            federation, where, method, algorithm, seed, place, local_rounds, _teller(quiet)
        )
    if not quiet:
        show.sites(found.table, federation.data, algorithm,
                   f"{method} on {data}, Flower's simulation")  # fmt: skip
        _times(found, local_rounds, out)


@app.command()
def demo(
    data: Annotated[str, typer.Argument(help="adult or compas.")] = "compas",
    method: Method = "pfedfair",
    eta: Eta = 0.9,
    sites: Annotated[int, typer.Option(help="How many sites.")] = 3,
    rounds: FewRounds = None,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="A new folder to keep everything in.")] = None,
    quiet: Quiet = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, with TLS and keys; train; stop them all.

    Example: pfedfair flower demo
    """
    require()
    from pfedfair.engines.flower import trial

    source = options.make_source(data, None, None, None, None)
    plan = options.make_plan("fixed", sites, None, None)
    algorithm = options.make_algorithm(source, plan, method, _few(method, rounds), eta=eta)
    seed = options.checked_seed(seed)
    table = load_source(source)
    with _folder(out) as place:
        found = trial.demo(
            table, method, algorithm, sites, seed, place / "deployment",
            _teller(quiet),
        )  # fmt: skip
    if not quiet:
        show.sites(found.table, table, algorithm, f"{method} on {data}, {sites} sites on Flower")
        _times(found, 1, out)
        terminal.say("Everything that was started is stopped again.")


def _few(method: str, rounds: int | None) -> int:
    """Few rounds, for trying out; transport needs some to agree."""
    return 3 + (method == "transport") * Transport.agree if rounds is None else rounds


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """The folder that was asked for, or one that is gone afterwards."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="pfedfair-") as place:
            yield Path(place)
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not empty: choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    yield out


def _teller(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else (lambda text: terminal.say(f"  {text}"))


def _times(found: Outcome, local_rounds: int, out: Path | None) -> None:
    each = ", ".join(f"{seconds:.1f}" for seconds in found.seconds)
    terminal.say(f"Seconds per message round on Flower: {each}.")
    rounds = max(len(found.seconds), 1)
    terminal.say(
        f"The stacked engine did all of it in {found.stacked_seconds:.2f} s, "
        f"{found.stacked_seconds / rounds:.2f} s for each of these."
    )
    if local_rounds == 1:
        terminal.say(
            f"The two decide differently on {100 * found.others:.2f} % of the held-out rows; the "
            f"largest\ndifference of a weight is {found.difference:.1e} (rounding, which many "
            "steps may make visible)."
        )
    kept = "The models were deleted again: --out FOLDER keeps everything."
    terminal.say(kept if out is None else f"Everything is in {out}.")
