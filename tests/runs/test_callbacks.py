import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair.runs.callbacks import Callback, MLflow


class Notes(Callback):
    def __init__(self):
        self.calls = []

    def on_train_begin(self, training):
        self.calls.append(("begin", training.round, training.rounds))

    def on_round_end(self, training, metrics):
        self.calls.append((training.round, dict(metrics)))
        training.w.zero_()  # a copy

    def on_train_end(self, run):
        self.calls.append(("end", run))

    def on_train_fail(self, error):
        self.calls.append(("fail", error))


def test_what_is_called_when(federation):
    notes = Notes()
    run = pff.train(federation, "fedavg", rounds=4, callbacks=[notes], measure_every=2)
    unobserved = pff.train(federation, "fedavg", rounds=4, measure_every=0)
    assert torch.equal(run.fitted.theta, unobserved.fitted.theta)
    assert notes.calls[0] == ("begin", 0, 4)
    assert notes.calls[-1] == ("end", run)
    rows = run.history.set_index("round")
    for t, metrics in notes.calls[1:-1]:
        assert bool(metrics) == (t in (1, 2, 4))
        if metrics:
            curve = rows.loc[t] if t < 4 else rows.loc[t].iloc[0]
            assert metrics == {"round": t, **curve.drop("model").to_dict()}
    assert [t for t, _ in notes.calls[1:-1]] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_a_training_that_fails(federation):
    notes = Notes()
    with pytest.raises(pff.InputError, match="diverged"):
        pff.train(
            federation, "fedavg", rounds=2, alpha=1e38, optimiser="sgd", callbacks=[notes],
        )  # fmt: skip
    assert [call[0] for call in notes.calls] == ["begin", 1, 2, "fail"]


class Recorder:
    """In the place of the module mlflow, which is large: its functions, with their signatures."""

    def __init__(self, active=None):
        self.active, self.calls = active, []

    def active_run(self):
        return self.active

    def start_run(self, run_id=None, experiment_id=None, run_name=None, nested=False):
        assert self.active is None
        self.active = run_name
        self.calls.append(("start", run_name))

    def end_run(self, status="FINISHED"):
        self.active = None
        self.calls.append(("end", status))

    def log_params(self, params, synchronous=None, run_id=None):
        assert all(isinstance(name, str) for name in params)
        self.calls.append(("params", params))

    def log_metrics(self, metrics, step=None, synchronous=None, run_id=None, timestamp=None):
        assert all(isinstance(v, float) and np.isfinite(v) for v in metrics.values() if v != step)
        self.calls.append((step, metrics))


def test_mlflow_gets_settings_curve_and_outcome(federation):
    mlflow = Recorder()
    run = pff.train(
        federation, "transport", rounds=2, callbacks=[MLflow("first", mlflow)], measure_every=1
    )
    calls = [call[0] for call in mlflow.calls]
    assert calls == ["start", "params", 1, 2, 8, "end"]  # six rounds train nothing
    params = mlflow.calls[1][1]
    assert params["kind"] == "Transport"
    assert params["dataset"] == "table"
    assert params["rounds"] == 2
    first = mlflow.calls[2][1]
    assert first["train_loss"] == run.history["loss"].iloc[1]
    last = mlflow.calls[-2][1]
    assert last["test_accuracy"] == pytest.approx(run.table()["accuracy"].mean())
    assert mlflow.calls[-1] == ("end", "FINISHED")


def test_a_run_of_mlflow_that_is_open_stays_open(federation):
    mlflow = Recorder(active="mine")
    pff.train(federation, "fedavg", rounds=1, callbacks=[MLflow(mlflow=mlflow)])
    assert mlflow.active == "mine"
    failing = Recorder()
    with pytest.raises(pff.InputError):
        pff.train(
            federation, "fedavg", rounds=2, alpha=1e38, optimiser="sgd",
            callbacks=[MLflow(mlflow=failing)],
        )  # fmt: skip
    assert failing.calls[-1] == ("end", "FAILED")


def test_mlflow_is_asked_for_when_it_is_needed(federation, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(pff.InputError, match="needs the package mlflow: pip install mlflow"):
        pff.train(federation, "fedavg", rounds=1, callbacks=[MLflow()])
