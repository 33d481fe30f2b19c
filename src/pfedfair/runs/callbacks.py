"""Callbacks of training: at its beginning, after every round, at its end.

``pff.train(federation, "pfedfair", callbacks=[...])`` takes any number of them. Callbacks observe:
they change no model and no random number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pfedfair._util.errors import InputError
from pfedfair.methods.phases import total_rounds

if TYPE_CHECKING:
    from torch import Tensor

    from pfedfair.federation import Federation
    from pfedfair.methods import Method
    from pfedfair.models import Network
    from pfedfair.runs import Run


@dataclass(frozen=True, eq=False)
class Training:
    """State of a training: rounds are counted from 1, and 0 is before the first."""

    federation: Federation
    algorithm: Method
    network: Network
    seed: int
    rounds: int
    certify: bool = False
    round: int = 0
    w: Tensor | None = None  # the global model after this round, a copy


class Callback:
    """Base class of callbacks: override the methods that you need; the others do nothing."""

    def on_train_begin(self, training: Training) -> None:
        """Called before the first round."""

    def on_round_end(self, training: Training, metrics: Mapping[str, float]) -> None:
        """Called after a round; `metrics` is a row of `Run.history`, empty if none was measured."""

    def on_train_end(self, run: Run) -> None:
        """Called after the last round with the finished run."""

    def on_train_fail(self, error: BaseException) -> None:
        """Called when training stops before its end."""


class MLflow(Callback):
    """Log a run to MLflow: its settings, its learning curve, and its metrics at the end.

    Logs to MLflow's active run; if there is none, starts a new run and ends it.

    Parameters
    ----------
    run_name
        The name of a new run.
    mlflow
        The module, or an object with its functions; imported if it is not given. pfedfair does not
        install it.
    """

    def __init__(self, run_name: str | None = None, mlflow: Any = None) -> None:
        self.run_name, self.mlflow, self.starts_run = run_name, mlflow, False

    def on_train_begin(self, training: Training) -> None:
        if self.mlflow is None:
            try:
                import mlflow
            except ImportError as error:
                raise InputError(
                    "callbacks.MLflow needs the package mlflow: pip install mlflow."
                ) from error
            self.mlflow = mlflow
        if self.mlflow.active_run() is None:
            self.starts_run = True
            self.mlflow.start_run(run_name=self.run_name)
        params = {
            "dataset": training.federation.data.name,
            "clients": len(training.federation),
            "seed": training.seed,
            "network": training.network.words,
        }
        self.mlflow.log_params(params | flat(training.algorithm.to_dict()))

    def on_round_end(self, training: Training, metrics: Mapping[str, float]) -> None:
        numbers = {f"train_{name}": v for name, v in metrics.items() if _is_finite(v)}
        if numbers:
            self.mlflow.log_metrics(numbers, step=training.round)

    def on_train_end(self, run: Run) -> None:
        numbers = {"seconds": run.seconds}
        if run.measurable:
            means = run.table()[["accuracy", "ddp", "eo", "eopp"]].mean()
            numbers |= {f"test_{name}": float(v) for name, v in means.items() if _is_finite(v)}
        self.mlflow.log_metrics(numbers, step=total_rounds(run.algorithm.phases))
        self._end("FINISHED")

    def on_train_fail(self, error: BaseException) -> None:
        if self.mlflow is not None:
            self._end("FAILED")

    def _end(self, status: str) -> None:
        if self.starts_run:
            self.mlflow.end_run(status=status)
        self.starts_run = False


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings under dotted names, without the format.

    >>> flat({"kind": "Transport", "base": {"kind": "Newton"}})
    {'kind': 'Transport', 'base.kind': 'Newton'}
    """
    flattened: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "format":
            continue
        nested = isinstance(value, Mapping)
        flattened |= flat(value, f"{prefix}{name}.") if nested else {f"{prefix}{name}": value}
    return flattened


def _is_finite(number: float) -> bool:
    return float("-inf") < number < float("inf")
