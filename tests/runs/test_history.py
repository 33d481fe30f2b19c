"""The learning curve is what it says, on training rows, and changes nothing."""

import numpy as np
import pandas as pd
import pytest
import torch
from fairlearn.metrics import demographic_parity_difference
from sklearn.metrics import accuracy_score, log_loss

import pfedfair as pff
from pfedfair.runs.history import measured_rounds


def by_hand(federation, predict):
    """Loss, accuracy and DDP by scikit-learn and fairlearn, client by client."""
    table, found = federation.table, []
    for i, rows in enumerate(federation.partition.train):
        chance, decided = predict(i, torch.from_numpy(rows))
        y, s = table.y[rows].numpy(), table.s[rows].numpy()
        gap = demographic_parity_difference(y, decided, sensitive_features=s)
        found.append((log_loss(y, chance.astype(float)), accuracy_score(y, decided), gap))
    return np.mean(found, axis=0)


def test_weights_are_the_same_with_and_without_it(federation):
    for name in ("pfedfair", "transport", "fedavg-kde"):
        runs = [pff.train(federation, name, rounds=9, measure_every=k) for k in (0, 1)]
        assert torch.equal(runs[0].fitted.theta, runs[1].fitted.theta)
        for mine, other in zip(*(run.fitted.rules for run in runs), strict=True):
            assert torch.equal(mine.numbers, other.numbers)
        assert len(runs[0].history) == 1


def test_rounds_are_those_of_a_shorter_training(federation):
    """After round 4 the global model is what 4 rounds give: FedAvg's rounds do not look ahead."""
    run = pff.train(federation, "fedavg", rounds=6, measure_every=2)
    assert run.history["round"].tolist() == [0, 1, 2, 4, 6, 6]
    assert run.history["model"].tolist() == ["global"] * 5 + ["clients'"]
    short = pff.train(federation, "fedavg", rounds=4)
    table = federation.table

    def predict(i, rows):
        z = short.network.logits(
            short.fitted.w[None], table.inputs(rows)[None], table.s[rows][None]
        )
        chance = torch.sigmoid(z[0, :, 0].double()).numpy()
        return chance, chance > 0.5

    row = run.history.iloc[3]
    found = row[["loss", "accuracy", "ddp"]].to_numpy(float)
    np.testing.assert_allclose(found, by_hand(federation, predict), atol=1e-5)


def test_the_last_row_is_what_clients_have(federation):
    run = pff.train(federation, "pfedfair", rounds=5)
    table = federation.table

    def predict(i, rows):
        own = run.predictors[i]
        chances = own.chances(table.x[rows], table.s[rows], table.encoder)[:, 1].numpy()
        return chances, chances > 0.5

    found = run.history.iloc[-1][["accuracy", "ddp"]].to_numpy(float)
    np.testing.assert_allclose(found, by_hand(federation, predict)[1:], atol=1e-12)
    assert pd.isna(run.history["loss"].iloc[-1])


def test_test_rows_are_not_looked_at(table):
    """With other labels and inputs on test rows the curve is the same."""
    from dataclasses import replace

    federation = table.federate("site", seed=3)
    changed = federation.table.x.clone(), federation.table.y.clone()
    changed[0][federation.partition.pool] = 1e3
    changed[1][federation.partition.pool] = 0
    x, y = changed
    other = replace(federation, table=federation.table._replace(x=x, y=y))
    one, two = (pff.train(f, "fedavg", rounds=3).history for f in (federation, other))
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.parametrize(
    ("name", "settings", "every", "rounds"),
    [
        ("fedavg", {"rounds": 20}, None, {1, 8, 16, 20}),
        ("fedavg", {"rounds": 20, "epochs": 8}, None, set(range(1, 21))),
        ("fedavg", {"rounds": 400, "epochs": 8}, None, {1, *range(16, 401, 16)}),
        ("fedavg", {"rounds": 4}, 3, {1, 3, 4}),
        ("fedavg", {"rounds": 4}, 0, set()),
        ("transport", {"rounds": 3, "agree": 5}, 2, {1, 2, 3}),  # six rounds train nothing
        ("erm-local", {"rounds": 9}, None, set()),
    ],
)
def test_which_rounds_are_measured(name, settings, every, rounds):
    assert measured_rounds(pff.make(name, settings), every) == rounds


def test_more_classes_other_criteria_and_no_rounds(federation):
    run = pff.train(federation, "constant")
    assert run.history[["round", "model"]].to_numpy().tolist() == [[0, "clients'"]]
    run = pff.train(federation, "fedavg-kde", rounds=2, criterion="eo")
    assert list(run.history) == ["round", "model", "loss", "accuracy", "eo"]
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "s": rng.integers(0, 3, 300)})
    data = pff.from_frame(frame.assign(y=rng.integers(0, 3, 300)), "y", "s")
    run = pff.train(data.federate(pff.partition.together()), "fedavg", rounds=2)
    assert run.history["loss"].iloc[:-1].between(0.9, 1.3).all()
