"""What the server does: conduct a run, and keep what comes of it in the folder ``out``."""

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
from pfedfair._util.files import write_json
from pfedfair.engines.flower import log, page
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.site.checkpoint import Checkpoint
from pfedfair.engines.site.settings import Settings
from pfedfair.engines.site.work import make_network
from pfedfair.runs.model import write_model

app = ServerApp()
PATIENCE = 30.0  # seconds


@app.main()
def main(grid: Grid, context: Context) -> None:
    out = Path(str(context.run_config["out"]))
    out.mkdir(parents=True, exist_ok=True)
    with alone(out), told_in(out / "server.log"):
        conduct(grid, context, out)


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Work in a folder if nobody else does, or stops within a while."""
    path = out / "lock"
    try:
        held = FileLock(path).acquire(timeout=PATIENCE)
    except Timeout:
        who = f"Another run is at work in {out}, process {path.read_text()}"
        raise InputError(f"{who}: wait for its end, or stop it.") from None
    with held:
        path.write_text(str(os.getpid()))
        yield


@contextmanager
def told_in(path: Path) -> Iterator[None]:
    """Keep in a file what the server says."""
    handler = logging.FileHandler(path, encoding="utf-8")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def conduct(grid: Grid, context: Context, out: Path) -> None:
    """Conduct the only run in a folder; say there how it ended."""
    status = out / "status.json"
    status.unlink(missing_ok=True)
    try:
        settings = Settings.read(context.run_config)
        conductor = Conductor(grid, settings)
        with page.shown(conductor):
            state = conductor.run()
        keep(settings, state)
    except Exception as error:
        text = str(error) if isinstance(error, InputError) else repr(error)
        log.error("pfedfair: %s", text)
        write_json(status, {"done": False, "error": text})
        raise
    lacking = conductor.lacking
    said: dict[str, Any] = {"done": not lacking, "sites": [place.name for place in state.places]}
    said |= {"seconds": state.seconds, "lacking": lacking}
    said["privacy"] = settings.spent(len(state.seconds))
    if lacking:
        whom = " ".join(f"Site '{name}' has no model: {why}" for name, why in lacking.items())
        said["error"] = f"{whom} The same command asks again."
    write_json(status, said)
    what = "all rounds are done, but not every site has its model" if lacking else "the run is done"
    log.info("pfedfair: %s; the global model is in %s", what, settings.out)


def keep(settings: Settings, state: Checkpoint) -> None:
    """Write the global model and what else the server knows, as `Run.save` does."""
    algorithm, schema = settings.algorithm, state.schema
    about: dict[str, Any] = {"dataset": "sites", "algorithm": algorithm.to_dict(), "clients": []}
    about |= {"group_names": schema.groups, "label_names": schema.labels}
    about |= {"sensitive_column": schema.columns[1], "seed": settings.seed}
    server = {f"server.{name}": t for name, t in state.server.items() if name != "w"}
    tensors = {"w": state.server["w"], **server}
    network = make_network(schema, algorithm)
    write_model(settings.out, network, schema.encoder, schema.task, [], tensors, about)
