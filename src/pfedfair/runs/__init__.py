"""One run: its training, each client's model and rule, and clients that join later."""

from pfedfair.runs.loading import load_run
from pfedfair.runs.model import PersonalModel, UnseenWarning, load_model
from pfedfair.runs.newcomer import personalise
from pfedfair.runs.run import Run, measured_rows
from pfedfair.runs.training import (
    CollapseWarning,
    check_model,
    choose_network,
    prepare,
    run_training,
    train,
)

__all__ = [
    "CollapseWarning", "PersonalModel", "Run", "UnseenWarning", "check_model",
    "choose_network", "load_model", "load_run", "measured_rows", "personalise", "prepare",
    "run_training", "train",
]  # fmt: skip
