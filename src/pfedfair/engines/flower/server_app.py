"""What the server does: conduct a run, and keep what comes of it in the folder ``out``."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from pfedfair.engines.flower.checkpoint import Checkpoint
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.flower.task import Settings, make_network
from pfedfair.errors import InputError
from pfedfair.files import write_json
from pfedfair.model import write_model

log = logging.getLogger("flwr")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    out = Path(str(context.run_config["out"]))
    status = out / "status.json"
    status.unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    log.addHandler(logging.FileHandler(out / "server.log"))
    try:
        settings = Settings.read(context.run_config)
        state = Conductor(grid, settings).run()
        keep(settings, state)
    except Exception as error:
        text = str(error) if isinstance(error, InputError) else repr(error)
        log.error("pfedfair: %s", text)
        write_json(status, {"done": False, "error": text})
        raise
    write_json(status, {"done": True, "sites": [place.name for place in state.places],
                        "seconds": state.seconds})  # fmt: skip
    log.info("pfedfair: the run is done; the global model is in %s", settings.out)


def keep(settings: Settings, state: Checkpoint) -> None:
    """Write the global model and what else the server knows, as `Run.save` does."""
    algorithm, schema = settings.algorithm, state.schema
    about = {
        "dataset": "sites",
        "algorithm": {"name": type(algorithm).__name__, **asdict(algorithm)},
        "clients": [],
        "group_names": schema.groups,
        "label_names": schema.labels,
        "sensitive_column": schema.columns[1],
        "seed": settings.seed,
    }
    server = {f"server.{name}": t for name, t in state.server.items() if name != "w"}
    tensors = {"w": state.server["w"], **server}
    write_model(settings.out, make_network(schema, algorithm), schema.encoder, tensors, about)
