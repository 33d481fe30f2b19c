"""The commands of ``pfedfair flower``: the same methods across machines."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pfedfair import report
from pfedfair._util import terminal
from pfedfair._util.errors import InputError, known
from pfedfair.cli import OF_FLOWER, options
from pfedfair.cli.options import DataOptions, OneMethod, Quiet, Seed, Settings, unfold
from pfedfair.data import FACES, NATURAL
from pfedfair.engines.flower import require
from pfedfair.engines.site.settings import check_secure
from pfedfair.methods import METHODS
from pfedfair.runs import choose_network
from pfedfair.studies import View, one_run

if TYPE_CHECKING:
    from pfedfair.engines.flower.trial import Outcome

app = typer.Typer(no_args_is_help=True, add_completion=False, help=OF_FLOWER)
Keep = Annotated[Path | None, "A new folder to keep everything in."]
Sites = Annotated[int, "How many sites."]
SecureSum = Annotated[bool, "Add up behind masks: the server sees sums, and nobody's own numbers."]
UNUSED = {
    "scaling": "Sites on Flower scale each number of an embedding by itself",
    "pixels": "Sites on Flower train on tables and embeddings, not on pixels",
    "model": "Sites on Flower agree on the network that the data set has by default",
    "weight": "Sites on Flower count every row alike",
    "missing_sensitive": "Sites on Flower treat a missing S in one way",
    "unknown": "Sites on Flower have no words of their own for a missing S",
}


@app.command()
@unfold
def init(
    folder: Annotated[Path, typer.Argument(help="A new folder for all files.")],
    sites: Sites,
    host: Annotated[str, "The server's name or address, for its sites."] = "localhost",
    port: Annotated[int, "The port that sites come to."] = 8443,
    days: Annotated[int, "How long the certificates are valid."] = 365,
    secure_sum: SecureSum = False,
    quiet: Quiet = False,
) -> None:
    """Make certificates, keys, start scripts and the proxy's configuration of a deployment.

    Example: pfedfair flower init consortium --sites 3 --host fl.example.org
    """
    require()
    from pfedfair.engines.flower import provision

    provision.create(folder, sites, host, port, days=days, secure_sum=secure_sum)
    if not quiet:
        terminal.say((folder / "README.txt").read_text(encoding="utf-8"))
        terminal.say(f"Written to {folder}. Private keys can be read by their owner only.")


@app.command("start-run")
@unfold
def start_run(
    folder: Annotated[Path, typer.Argument(help="The folder 'server' that init made.")],
    stream: Annotated[bool, "Show what the server says until the run has ended."] = False,
    quiet: Quiet = False,
) -> None:
    """Start a run of the signed app with the settings in run.toml; run.sh does it, too.

    Example: pfedfair flower start-run consortium/server --stream
    """
    require()
    from pfedfair.engines.flower import signing

    number = signing.start_run(folder, stream)
    if not quiet:
        terminal.say(f"Run {number} is started.")


@app.command()
@unfold
def simulate(
    data_options: DataOptions,
    method: OneMethod,
    settings: Settings,
    seed: Seed = 0,
    local_rounds: Annotated[int, "Rounds at a site for each message."] = 1,
    secure_sum: SecureSum = False,
    out: Keep = None,
    quiet: Quiet = False,
) -> None:
    """Run a method on Flower's simulation runtime, and compare it with `pfedfair train`.

    A few rounds of training, if --rounds is left out.

    Example: pfedfair flower simulate compas --method pfedfair --rounds 3
    """
    require("flwr", "ray")
    from pfedfair.engines.flower import trial

    for name in UNUSED:
        if getattr(data_options, name) is not None:
            raise InputError(
                f"{UNUSED[name]}: leave out --{name.replace('_', '-')}, or use pfedfair train."
            )
    plan = data_options.plan()
    algorithm = method.make(data_options, plan, settings, rounds=_few(method.method))
    options.at_least("--local-rounds", local_rounds)
    seed = options.at_least("--seed", seed, 0)
    data = data_options.dataset.unfold()
    federation = data.federate(plan, seed, data_options.aware(settings.blind))
    choose_network(federation, algorithm, "linear" if algorithm.supports.linear_only else None)
    if secure_sum:
        check_secure(algorithm, len(federation), len(federation))
    where = _where(data_options)
    with _folder(out) as place:
        found = trial.simulate(
            federation, where, method.method, algorithm, seed, place, local_rounds, _teller(quiet),
            secure_sum,
        )  # fmt: skip
    if not quiet:
        title = f"{method.method} on {data_options.data}, Flower's simulation"
        view = one_run.sites(found.table, federation.data, algorithm, title)
        _show(view, found, local_rounds, out)


def _where(data_options: DataOptions) -> dict[str, Any]:
    """The settings that say to simulated sites what a command says of its rows."""
    source = data_options.source
    named = source.label is None or source.name in (*FACES, *NATURAL)
    files = {"name": None if named else source.name, "test": source.test, "folder": source.folder}
    found: dict[str, Any] = {k: str(Path(v).absolute()) for k, v in files.items() if v}
    source = replace(source, **found)
    where: dict[str, Any] = source.to_config()
    where |= {"encoding": source.encoding or "", "encoder": source.encoder or ""}
    where |= {"folder": source.folder or "", "skip-missing": source.skip_missing}
    where |= {"client": data_options.client or "", "partition": data_options.partition}
    return where | {"rows": data_options.rows or 0}


@app.command()
@unfold
def demo(
    data: Annotated[str, typer.Argument(help="adult or compas.")] = "compas",
    method: Annotated[str, f"One of {', '.join(METHODS)}."] = "pfedfair",
    sites: Sites = 3,
    rounds: Annotated[int | None, "Rounds of communication; a few if left out."] = None,
    secure_sum: SecureSum = False,
    seed: Seed = 0,
    out: Keep = None,
    quiet: Quiet = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, with TLS and keys; train; stop them all.

    Example: pfedfair flower demo
    """
    require()
    from pfedfair.engines.flower import trial

    data_options = DataOptions(data, clients=sites)
    few = _few(method) if rounds is None else rounds
    algorithm = data_options.make(data_options.plan(), method, {"rounds": few})
    table, seed = data_options.dataset, options.at_least("--seed", seed, 0)
    if secure_sum:
        check_secure(algorithm, sites, sites)
    with _folder(out) as place:
        folder = place / "deployment"
        found = trial.demo(
            table, method, algorithm, sites, seed, folder, _teller(quiet), secure_sum
        )
    if not quiet:
        title = f"{method} on {data}, {sites} sites on Flower"
        _show(one_run.sites(found.table, table, algorithm, title), found, 1, out)
        terminal.say("Everything that was started is stopped again.")


def _few(method: str) -> int:
    """Few rounds, for trying out: two to train, or three where none is needed at the end."""
    phases = METHODS[known("method", method, METHODS)].kind().phases
    return 3 if all(phase.trains for phase in phases) else 2


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """The folder that was asked for, or one that is gone afterwards."""
    if out is None:
        with tempfile.TemporaryDirectory(prefix="pfedfair-") as place:
            yield Path(place)
        return
    options.new_folder(out).mkdir(parents=True, exist_ok=True)
    yield out


def _teller(quiet: bool) -> Callable[[str], None]:
    return (lambda text: None) if quiet else (lambda text: terminal.say(f"  {text}"))


def _show(view: View, found: Outcome, local_rounds: int, out: Path | None) -> None:
    report.terminal.show(view, terminal.console)
    each = ", ".join(f"{seconds:.1f}" for seconds in found.seconds)
    terminal.say(f"Seconds per message round on Flower: {each}.")
    if found.at_sites:
        work, start = found.at_sites
        rest = max(sum(found.seconds) / len(found.seconds) - work - start, 0.0)
        terminal.say(
            f"Of each, the slowest site needed {work:.1f} s for its work and {start:.1f} s to "
            "start its process\n"
            f"(PyTorch, pandas, Flower); Flower, to pass messages on, {rest:.1f} s."
        )
    rounds = max(len(found.seconds), 1)
    once = f"The stacked engine did all of it in {found.stacked_seconds:.2f} s"
    terminal.say(f"{once}, {found.stacked_seconds / rounds:.2f} s for each of these.")
    if local_rounds == 1:
        changed = f"{100 * found.changed_decisions:.2f} % of the held-out rows"
        alike = f"The two decide differently on {changed}"
        apart = f"difference of a weight is {found.difference:.1e}"
        why = "(rounding, which many steps may make visible)"
        terminal.say(f"{alike}; the largest\n{apart} {why}.")
    kept = "The models were deleted again: --out FOLDER keeps everything."
    terminal.say(kept if out is None else f"Everything is in {out}.")
