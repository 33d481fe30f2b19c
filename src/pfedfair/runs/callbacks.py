"""What is called while a run trains: at its beginning, after every round, at its end.

``pff.train(federation, "pfedfair", callbacks=[...])`` takes any number of them. They look on: what
they do changes no model and no random number.
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
    """Where a training stands: rounds are counted from 1, and 0 is before the first."""

    federation: Federation
    algorithm: Method
    network: Network
    seed: int
    rounds: int
    round: int = 0
    w: Tensor | None = None  # the global model after this round, a copy


class Callback:
    """Override what you need; everything else does nothing."""

    def on_train_begin(self, training: Training) -> None:
        """Before the first round."""

    def on_round_end(self, training: Training, metrics: Mapping[str, float]) -> None:
        """After a round; `metrics` is a row of `Run.history`, or empty if it was not measured."""

    def on_train_end(self, run: Run) -> None:
        """After the last round, with all that came out."""

    def on_train_fail(self, error: BaseException) -> None:
        """When training stops before its end."""


class MLflow(Callback):
    """Log a run to MLflow: its settings, its learning curve, and what it measured at the end.

    It logs to the active run of MLflow; if there is none, to one of its own, which it ends.

    Parameters
    ----------
    run_name
        The name of a run of its own.
    mlflow
        The module, or an object with its functions; imported if it is not given. pfedfair does not
        install it.
    """

    def __init__(self, run_name: str | None = None, mlflow: Any = None) -> None:
        self.run_name, self.mlflow, self.own = run_name, mlflow, False

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
            self.own = True
            self.mlflow.start_run(run_name=self.run_name)
        about = {
            "dataset": training.federation.data.name,
            "clients": len(training.federation),
            "seed": training.seed,
            "network": training.network.words,
        }
        self.mlflow.log_params(about | flat(training.algorithm.to_dict()))

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
        if self.own:
            self.mlflow.end_run(status=status)
        self.own = False


def flat(settings: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Name the settings of a wrapped method by its place; the format is none.

    >>> flat({"kind": "Transport", "base": {"kind": "Newton"}})
    {'kind': 'Transport', 'base.kind': 'Newton'}
    """
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "format":
            continue
        inner = isinstance(value, Mapping)
        found |= flat(value, f"{before}{name}.") if inner else {f"{before}{name}": value}
    return found


def _is_finite(number: float) -> bool:
    return float("-inf") < number < float("inf")
