"""All rows in one place: scikit-learn's trees, and thresholds that keep each client's target."""

import numpy as np
import pandas as pd
import pytest
import torch
from play import clients
from sklearn.ensemble import HistGradientBoostingClassifier

import pfedfair as pff
from made_people import people
from pfedfair._util import seeds
from pfedfair.engines.local import fit
from pfedfair.methods.clients import hold_out
from pfedfair.models import Trees
from pfedfair.runs.predictor import Predictor


@pytest.fixture(scope="module")
def many():
    return pff.load("compas").federate(pff.partition.fixed_shares(20), 0)


@pytest.fixture(scope="module")
def run(many):
    return pff.train(many, pff.methods.Pooled(trees=40, target_ddp=0.05), seed=3)


def parts(run):
    all_clients = clients(run.federation, run.network)
    return hold_out(pff.methods.Clients(**vars(all_clients) | {"seed": run.seed}), 0.2)


def test_the_trees_are_scikit_learns_on_all_clients_rows(run):
    table = run.federation.table
    rows = np.concatenate(parts(run)[0].rows)
    x = np.column_stack([table.inputs(slice(None)), table.s]).astype(np.float32)
    model = HistGradientBoostingClassifier(
        max_iter=40, early_stopping=True,
        random_state=int(seeds.generator(3, seeds.INIT).integers(2**31)),
    )  # fmt: skip
    model.fit(x[rows], table.y[rows])
    ours = run.predictors[7].logits(table.inputs(slice(None)), table.s)[:, 0]
    np.testing.assert_allclose(ours, model.decision_function(x), atol=2e-5)
    assert (run.fitted.theta == run.fitted.theta[0]).all()  # clients differ in thresholds only


def test_trees_look_at_columns_as_they_are_and_at_levels_by_their_labels():
    table = people((300, 200, 400), seed=5)
    table["town"] = np.random.default_rng(0).choice([*"abcdefgh"], len(table))
    table.loc[::9, "town"] = None
    data = pff.from_frame(table, "hired", "sex")
    federation = data.federate(pff.partition.by_column("site"), seed=3)
    run = pff.train(federation, pff.methods.Pooled(trees=30), seed=3)
    rows = np.concatenate(parts(run)[0].rows)
    numbers, levels = federation.encoder.names
    y, frame, cells = federation.table.y.numpy(), data.frame, {}
    for name in numbers:
        cells[name] = federation.encoder.numbers[name].positions(frame[name])
    for name in levels:
        column = frame[name].astype(object).where(frame[name].notna(), "")
        label = pd.Series(y[rows]).groupby(column.iloc[rows].to_numpy()).agg(["sum", "count"])
        rate = (label["sum"] + 10 * y[rows].mean()) / (label["count"] + 10)
        cells[name] = column.map(rate).to_numpy(dtype=np.float32)
    x = np.column_stack([*cells.values(), data.s]).astype(np.float32)
    model = HistGradientBoostingClassifier(
        max_iter=30, early_stopping=True,
        random_state=int(seeds.generator(3, seeds.INIT).integers(2**31)),
    )  # fmt: skip
    model.fit(x[rows], y[rows])
    ours = run.personal_model(0)
    z = ours.predictor.logits(
        torch.from_numpy(ours.encoder.pack(frame)), federation.table.s, ours.encoder
    )
    np.testing.assert_allclose(z[:, 0], model.decision_function(x), atol=2e-5)
    assert federation.encoder.width > len(cells)  # as other methods see them, still


def test_what_it_sees_can_be_trained_on_by_others():
    data = pff.from_frame(people((300, 200), seed=5), "hired", "sex")
    federation = data.federate(pff.partition.by_column("site"), seed=3)
    seen = pff.train(federation, pff.methods.Pooled(trees=5), seed=3).federation
    run = pff.train(seen, "newton", seed=3)  # one coefficient for each column, S and the constant
    assert run.network.size == len(seen.encoder.columns) + 2
    x = torch.cat([seen.table.inputs(slice(None)), seen.table.s[:, None]], 1)
    rows, w = np.concatenate(seen.partition.train), run.fitted.w
    chance = torch.sigmoid(x @ w[:-1] + w[-1])[rows]
    off = (chance - seen.table.y[rows]).mean()
    assert abs(float(off)) < 1e-3  # the constant is not shrunk


def test_every_client_keeps_its_target_on_its_held_rows(run):
    table = run.federation.table
    gaps = []
    for rows, predictor in zip(parts(run)[1].rows, run.predictors, strict=True):
        s = table.s[rows]
        chance = predictor.chances(table.inputs(rows), s)[:, 1]
        gaps.append(float(chance[s == 1].mean() - chance[s == 0].mean()))
    assert np.abs(gaps).max() <= 0.05 + 1e-6
    assert np.isclose(np.abs(gaps), 0.05, atol=1e-6).any()  # and no more is given up than needed


def test_another_target_needs_no_training(run):
    tight = run.retarget(target_ddp=0.0)
    again = pff.train(run.federation, pff.methods.Pooled(trees=40, target_ddp=0.0), seed=3)
    assert torch.equal(tight.fitted.theta, again.fitted.theta)
    for one, other in zip(tight.fitted.rules, again.fitted.rules, strict=True):
        assert torch.equal(one.numbers, other.numbers)
    with pytest.raises(pff.InputError, match="can change without training"):
        run.retarget(trees=3)


def test_chunks_do_not_matter_since_all_rows_are_in_one_place(many):
    algorithm = pff.methods.Pooled(trees=5)
    network = algorithm.network(pff.MLP(2), many.table.task)
    one, ten = (fit(many, algorithm, network, 0, at_once=k) for k in (1, 10))
    assert torch.equal(one.theta, ten.theta)


def test_it_is_saved_and_read_again(run, tmp_path):
    run.save(tmp_path)
    model = pff.load_model(tmp_path, client="4")
    assert isinstance(model.predictor.network, Trees)
    frame, s = run.federation.data.frame, run.federation.data.s
    expected = run.personal_model("4").predict_proba(frame, s)
    np.testing.assert_array_equal(model.predict_proba(frame, s), expected)
    assert Predictor.same(model.predictor, run.personal_model("4").predictor)


def test_one_label_everywhere_is_that_label(federation):
    table = federation.table
    algorithm = pff.methods.Pooled(trees=5)
    network = algorithm.network(pff.MLP(2), table.task)
    all_clients = clients(federation, network)
    for label in (0.0, 1.0):
        same = table._replace(y=torch.full_like(table.y, label))
        row = algorithm.grow(pff.methods.Clients(**vars(all_clients) | {"table": same}))
        z = network.logits(row[None], table.inputs(slice(None))[None], table.s[None])
        assert ((z > 0) == bool(label)).all()


def test_what_it_cannot_do_is_refused(federation, monkeypatch):
    blind = federation.data.federate(pff.partition.by_column("site"), 0, sensitive_as_input=False)
    with pytest.raises(pff.InputError, match="S must be an input"):
        pff.train(blind, pff.methods.Pooled())
    with pytest.raises(pff.InputError, match="cannot take in a client"):
        pff.methods.Pooled().newcomer({}, None, None, None, None)
    for bad in ({"trees": 0}, {"leaves": 1}, {"rate": 0}, {"held": 0.9}, {"target_ddp": 2}):
        with pytest.raises(pff.InputError, match=next(iter(bad))):
            pff.methods.Pooled(**bad)

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("pfedfair.methods.pooled.import_module", missing)
    with pytest.raises(pff.InputError, match="pooled needs the package scikit-learn"):
        pff.train(federation, pff.methods.Pooled())
