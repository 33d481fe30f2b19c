"""The commands of ``pfedfair flower``: the same methods across machines."""

from __future__ import annotations

import sys
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
    from pfedfair.engines.flower.consortium import Consortium
    from pfedfair.engines.flower.trial import Outcome

app = typer.Typer(no_args_is_help=True, add_completion=False, help=OF_FLOWER)
Keep = Annotated[Path | None, "A new folder to keep everything in."]
Sites = Annotated[int, "How many sites."]
Days = Annotated[int, "How long the server's certificate is valid; the authority's is ten times."]
Server = Annotated[Path, typer.Argument(help="The folder 'server' that init made.")]
SiteFolder = Annotated[Path, typer.Argument(help="The folder that join made.")]
Yes = Annotated[bool, "Do not ask: the fingerprints were compared."]
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
    host: Annotated[str, "The server's name or address, for its sites."] = "localhost",
    port: Annotated[int, "The port that sites come to."] = 8443,
    days: Days = 365,
    secure_sum: SecureSum = False,
    quiet: Quiet = False,
) -> None:
    """Set up a server: certificates, the signed app, start scripts, the proxy's configuration.

    Example: pfedfair flower init consortium --host fl.example.org
    """
    require()
    from pfedfair.engines.flower import provision

    provision.init(folder, host, port, days=days, secure_sum=secure_sum)
    if not quiet:
        terminal.say((folder / "README.txt").read_text(encoding="utf-8"))
        terminal.say(f"Written to {folder}. Private keys can be read by their owner only.")


@app.command()
@unfold
def join(
    folder: Annotated[Path, typer.Argument(help="A new folder for the site's files.")],
    invitation: Annotated[Path, typer.Argument(help="The server's consortium.json.")],
    site: Annotated[str, "The site's name."],
    port: Annotated[int, "The SuperNode's own port, on this machine's loopback."] = 9094,
    quiet: Quiet = False,
) -> None:
    """Set up a site: its private key, settings, policy, and a request to send to the server.

    Example: pfedfair flower join st-mary consortium.json --site st-mary
    """
    require()
    from pfedfair.engines.flower import provision

    _requested(provision.join(folder, invitation, site, port), quiet)


@app.command()
@unfold
def admit(
    server: Server,
    requests: Annotated[list[Path], typer.Argument(help="The sites' requests, NAME.csr.")],
    replace: Annotated[bool, "Sites may have new keys; the old ones are revoked."] = False,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Admit sites by their requests, whether the SuperLink runs or not.

    Example: pfedfair flower admit consortium/server st-mary.csr
    """
    require()
    from pfedfair.engines.flower import membership
    from pfedfair.engines.flower.consortium import key_fingerprint, read_request

    changed = membership.with_requests(server, requests, replace)
    found = [read_request(path) for path in requests]
    lines = [f"{key_fingerprint(key)}  {name}" for name, key in found]
    _compare(lines, "Does each site read out the same by telephone?", yes, quiet)
    membership.register(server, changed)
    _changed(changed, server, quiet)


@app.command()
@unfold
def revoke(
    server: Server,
    site: Annotated[str, typer.Argument(help="The site's name.")],
    quiet: Quiet = False,
) -> None:
    """Revoke a site's key for good: the SuperLink refuses it from now on, whether it runs or not.

    Example: pfedfair flower revoke consortium/server st-mary
    """
    require()
    from pfedfair.engines.flower import membership

    changed = membership.without(server, site)
    membership.register(server, changed)
    _changed(changed, server, quiet)


@app.command()
@unfold
def update(
    folder: SiteFolder,
    consortium: Annotated[Path, typer.Argument(help="The consortium.json from the server.")],
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Take in the server's consortium.json at a site: the other sites' keys, the certificate.

    Example: pfedfair flower update st-mary consortium.json
    """
    require()
    from pfedfair.engines.flower import membership

    changed, lines = membership.with_update(folder, consortium)
    if lines:
        lines.append(f"All keys together: {changed.fingerprint()}")
        question = "Do you know every site, and do the others read out the same line by telephone?"
        _compare(lines, question, yes, quiet)
    rotated = membership.update(folder, changed)
    if not quiet:
        terminal.say("Taken in.")
        if rotated:
            terminal.say("The site has its new key; start-supernode.sh takes it within a minute.")


@app.command()
@unfold
def rotate(folder: SiteFolder, quiet: Quiet = False) -> None:
    """Make a new key at a site, and a request for it; the old one stays in use until the update.

    Example: pfedfair flower rotate st-mary
    """
    require()
    from pfedfair.engines.flower import membership

    _requested(membership.rotate(folder), quiet)


@app.command()
@unfold
def renew(
    server: Server,
    ca_key: Annotated[Path, "The authority's private key, offline/ca.key of init."],
    days: Days = 365,
    quiet: Quiet = False,
) -> None:
    """Renew the certificates of a server and of its authority; keys stay as they are.

    Example: pfedfair flower renew consortium/server --ca-key offline/ca.key
    """
    require()
    from pfedfair.engines.flower import membership

    membership.renew(server, ca_key, days)
    if not quiet:
        for line in membership.status(server):
            terminal.say(line)
        terminal.say(
            f"Start the SuperLink and the proxy again, and send {server / 'consortium.json'} to "
            "the sites: theirs is valid ten times as long."
        )


@app.command()
@unfold
def status(
    folder: Annotated[Path, typer.Argument(help="The folder of a server or of a site.")],
) -> None:
    """Show the sites and their keys' fingerprints, and for how long certificates are valid.

    Example: pfedfair flower status consortium/server
    """
    require()
    from pfedfair.engines.flower import membership

    for line in membership.status(folder):
        terminal.say(line)


def _requested(request: Path, quiet: bool) -> None:
    """Say where a request is, and what to do with it."""
    from pfedfair.engines.flower.consortium import key_fingerprint, read_request

    if not quiet:
        fingerprint = key_fingerprint(read_request(request)[1])
        terminal.say(f"Send {request} to the server's operator, and read out by telephone:")
        terminal.say(f"  {fingerprint}")
        terminal.say("Then take in the consortium.json that comes back: pfedfair flower update.")


def _compare(lines: list[str], question: str, yes: bool, quiet: bool) -> None:
    """Show fingerprints and ask whether they are right, unless `yes`: the user compared them."""
    if not (yes and quiet):
        for line in lines:
            terminal.say(f"  {line}")
    if yes:
        return
    if not sys.stdin.isatty():
        raise InputError("Compare these fingerprints by telephone, then say --yes.")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise InputError("Nothing was changed.")


def _changed(changed: Consortium, server: Path, quiet: bool) -> None:
    """Say who is in a consortium now, and who has to know."""
    if not quiet:
        terminal.say(f"Sites: {', '.join(sorted(changed.sites)) or 'none'}.")
        terminal.say(f"All keys together: {changed.fingerprint()}")
        terminal.say(f"Send {server / 'consortium.json'} to all sites: pfedfair flower update.")


@app.command("start-run")
@unfold
def start_run(
    server: Server,
    stream: Annotated[bool, "Show what the server says until the run has ended."] = False,
    quiet: Quiet = False,
) -> None:
    """Start a run of the signed app with the settings in run.toml; run.sh does it, too.

    Example: pfedfair flower start-run consortium/server --stream
    """
    require()
    from pfedfair.engines.flower import membership, signing

    lines = membership.status(server)
    if not quiet:
        for line in lines:
            terminal.say(line)
    membership.register(server)
    number = signing.start_run(server, stream)
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
    name = method.name(data_options)
    algorithm = method.make(data_options, plan, settings, rounds=_few(name))
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
            federation, where, name, algorithm, seed, place, local_rounds, _teller(quiet),
            secure_sum,
        )  # fmt: skip
    if not quiet:
        title = f"{name} on {data_options.data}, Flower's simulation"
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
