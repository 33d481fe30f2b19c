"""The server: conduct a run, and save its results in the folder ``out``."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pfedfair._util.errors import InputError
from pfedfair._util.files import sweep, write_json
from pfedfair.engines.flower import internals, log, page
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.site.checkpoint import Checkpoint
from pfedfair.engines.site.rounds import make_network
from pfedfair.engines.site.settings import Settings
from pfedfair.runs.model import write_model

app = ServerApp()
PATIENCE = 30.0  # seconds


@app.main()
def main(grid: Grid, context: Context) -> None:
    out = Path(str(context.run_config["out"]))
    out.mkdir(parents=True, exist_ok=True)
    with exclusive(out), logged_in(out / "server.log"):
        conduct(grid, context, out)


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Lock a folder; wait for another process for at most `PATIENCE` seconds."""
    path = out / "lock"
    try:
        held = FileLock(path).acquire(timeout=PATIENCE)
    except Timeout:
        other = f"Another run is at work in {out}, process {path.read_text()}"
        raise InputError(f"{other}: wait for its end, or stop it.") from None
    with held:
        path.write_text(str(os.getpid()))
        sweep(out)
        yield


@contextmanager
def logged_in(path: Path) -> Iterator[None]:
    """Write the server's log to a file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def conduct(grid: Grid, context: Context, out: Path) -> None:
    """Conduct a run; write to its folder how it ended."""
    status = out / "status.json"
    status.unlink(missing_ok=True)
    try:
        internals.check()
        settings = Settings.read(context.run_config)
        conductor = Conductor(grid, settings)
        with page.shown(conductor):
            state = conductor.run()
        save(settings, state)
    except Exception as error:
        text = str(error) if isinstance(error, InputError) else repr(error)
        log.error("pfedfair: %s", text)
        write_json(status, {"done": False, "error": text})
        raise
    missing = conductor.without_model
    report: dict[str, Any] = {"done": not missing, "sites": [site.name for site in state.sites]}
    report |= {"seconds": state.seconds, "lacking": missing, "left_out": conductor.left_out}
    report["privacy"] = settings.spent(len(state.seconds))
    if missing:
        reasons = " ".join(f"Site '{name}' has no model: {why}" for name, why in missing.items())
        report["error"] = f"{reasons} The same command asks again."
    write_json(status, report)
    what = "all rounds are done, but not every site has its model" if missing else "the run is done"
    log.info("pfedfair: %s; the global model is in %s", what, settings.out)


def save(settings: Settings, state: Checkpoint) -> None:
    """Save the global model and the rest of the server's state, as `Run.save` does."""
    algorithm, schema = settings.algorithm, state.schema
    about: dict[str, Any] = {"dataset": "sites", "algorithm": algorithm.to_dict(), "clients": []}
    about |= {"group_names": schema.groups, "label_names": schema.labels}
    about |= {"sensitive_column": schema.columns[1], "seed": settings.seed}
    server = {f"server.{name}": t for name, t in state.server.items() if name != "w"}
    tensors = {"w": state.server["w"], **server}
    network = make_network(schema, algorithm)
    write_model(settings.out, network, schema.encoder, schema.task, [], tensors, about)
