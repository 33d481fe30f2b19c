"""A run that is read from its folder says and does what the trained one does."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from pandas.testing import assert_frame_equal
from safetensors.torch import load_file, save_file

import pfedfair as pff
from pfedfair import metrics
from pfedfair.runs import model, predictions

pytestmark = pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
TRANSPORT = {"rounds": 8, "target_ddp": 0.05, "confidence": 0.99, "max_randomised": 1.0}


@pytest.fixture(scope="module")
def compas_run():
    data = pff.load("compas", model="additive")
    federation = data.federate(pff.partition.fixed_shares(validation=0.1))
    return pff.train(federation, pff.make("transport", TRANSPORT, data), seed=1)


@pytest.fixture(scope="module")
def folder(compas_run, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run"
    compas_run.save(out, "pfedfair train compas")
    return out


@pytest.fixture(scope="module")
def again(folder):
    return pff.load_run(folder)


@pytest.mark.parametrize("protocol", [None, "pool", "own", "validation"])
def test_the_same_table_and_rules(compas_run, again, protocol):
    assert_frame_equal(again.table(protocol), compas_run.table(protocol))
    assert_frame_equal(again.rules(protocol), compas_run.rules(protocol))


@pytest.mark.parametrize("changes", [{"target_ddp": 0.01}, {"target_ddp": 0.1, "confidence": 0.9}])
def test_another_target_without_rows(compas_run, again, changes):
    one, other = compas_run.retarget(**changes), again.retarget(**changes)
    assert_frame_equal(other.rules(), one.rules())
    assert_frame_equal(other.table("own"), one.table("own"))
    X = compas_run.federation.data.frame.head(200)
    for client in ("1", 3):
        np.testing.assert_array_equal(other.personal_model(client).predict_proba(X),
                                      one.personal_model(client).predict_proba(X))  # fmt: skip
    assert other.algorithm == one.algorithm


def test_shapes_models_and_what_it_is(compas_run, again):
    assert_frame_equal(again.shapes(), compas_run.shapes(), check_exact=True)
    X = compas_run.federation.data.frame.head(300)
    for mine, read in (
        (compas_run.global_model(), again.global_model()),
        (compas_run.personal_model("2"), again.personal_model("2")),
    ):
        np.testing.assert_array_equal(read.decision_function(X), mine.decision_function(X))
        ids = range(len(X))
        np.testing.assert_array_equal(read.predict(X, ids=ids), mine.predict(X, ids=ids))
        assert (read.name, read.predictor.key, read.words()) == (
            mine.name,
            mine.predictor.key,
            mine.words(),
        )
    assert again.seed == 1
    assert again.algorithm == compas_run.algorithm
    assert list(again.collapsed) == list(compas_run.collapsed)
    assert isinstance(again, pff.Run)
    for protocol in ("pool", "own"):
        limits = [0.02, 0.1]
        assert_frame_equal(again.frontier(limits, protocol), compas_run.frontier(limits, protocol))
    theirs = again.fitted._replace(theta=again.fitted.theta + 1)
    with pytest.raises(pff.InputError, match="keeps those of each client's own model"):
        replace(again, fitted=theirs).frontier([0.1])
    with pytest.raises(pff.InputError, match="can be saved where it was trained"):
        again.save("elsewhere")


def test_predictions_are_the_measured_ones(compas_run, folder):
    """By hand, from the file only: every client's accuracy and gap on the weighted pool."""
    frame = pd.read_parquet(folder / "predictions.parquet")
    table = compas_run.table().set_index("client")
    part, data = compas_run.federation.partition, compas_run.federation.data
    labels = np.array(data.label_names)
    assert (frame["label"].to_numpy(object) == labels[data.y[frame["row"]]]).all()
    groups = np.array(data.group_names)[data.s[frame["row"]]]
    assert (frame["group"].to_numpy(object) == groups).all()
    for i, name in enumerate(part.names):
        mine = frame[frame["client"] == name]
        held = mine[mine["split"].isin(["test", "pool"])]
        np.testing.assert_array_equal(held["row"], part.pool)
        counts = metrics.counts_of(
            held["label"].cat.codes.to_numpy(), held["decision"].cat.codes.to_numpy(),
            sensitive_features=held["group"].cat.codes.to_numpy(),
        )  # fmt: skip
        found = metrics.measure(counts, part.shares[i : i + 1])
        for measure in ("accuracy", "ddp"):
            assert np.squeeze(found[measure]) == pytest.approx(table.loc[name, measure])
        for split, rows in (("train", part.train[i]), ("validation", part.validation[i]),
                            ("test", part.test[i])):  # fmt: skip
            np.testing.assert_array_equal(mine.loc[mine["split"] == split, "row"], rows)
        score = compas_run.personal_model(name).score_samples(data.frame.iloc[held["row"][:50]])
        np.testing.assert_allclose(held["score"][:50], score, atol=1e-6)
    assert frame["chance"].between(0, 1).all()
    certain = frame.loc[frame["chance"] == 1]
    assert 0.5 < len(certain) / len(frame) < 1


def test_the_card(compas_run, folder):
    card = json.loads((folder / "run.json").read_text())
    assert card["positive"] == "charged again"
    assert card["columns"]["label"] == "two_year_recid"
    assert card["columns"]["sensitive"] == ["race"]
    assert "priors_count" in card["columns"]["numbers"]
    assert card["columns"]["left_out"] == {"sex": "is not an input"}
    assert card["values"]["Asian"] == 0
    assert card["data"]["sha256"] == compas_run.federation.data.digest
    assert card["versions"]["torch"] == torch.__version__
    assert card["command"] == "pfedfair train compas"
    assert card["algorithm"] == json.loads(json.dumps(compas_run.algorithm.to_dict()))
    saved = {row["client"]: row["accuracy"] for row in card["metrics"]}
    assert saved == compas_run.table().set_index("client")["accuracy"].to_dict()


def test_columns_that_are_no_inputs_and_the_clients_column(table):
    frame = table.frame.assign(nr=[f"p{i}" for i in range(len(table.frame))], copy=table.s)
    data = pff.from_frame(frame, "hired", "sex", drop=["colour"])
    run = pff.train(data.federate(pff.partition.by_column("site")), pff.methods.FedAvg(rounds=1))
    columns = pff.runs.card.columns_of(run.federation)
    assert columns["client"] == "site"
    assert columns["left_out"] == {
        "colour": "is dropped",
        "nr": "has another value in nearly every row, like a name",
        "copy": "is a copy of 'sex'",
    }
    assert sorted([*columns["numbers"], *columns["categories"]]) == ["a", "b", "c"]


def test_the_same_bytes_twice(compas_run, folder, tmp_path):
    compas_run.save(tmp_path, "pfedfair train compas")
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name
        assert path.stat().st_mode == (folder / "run.json").stat().st_mode


METHODS = {
    "pfedfair": {"eta": 0.5, "rounds": 2, "prox_epochs": 2},
    "kde-local": {"eta": 0.5, "rounds": 2},
    "threshold-local": {"rounds": 2},
    "logofair": {"rounds": 6},
    "pooled": {"trees": 5},
    "constant": {},
}


@pytest.mark.parametrize("method", METHODS)
def test_clients_of_a_column_and_other_methods(federation, method, tmp_path):
    run = pff.train(federation, pff.make(method, METHODS[method]), seed=2)
    run.save(tmp_path)
    again = pff.load_run(tmp_path)
    assert_frame_equal(again.table(), run.table())
    assert_frame_equal(again.rules(), run.rules())
    with pytest.raises(pff.InputError, match=r"train again|needs the training rows"):
        again.retarget(target_ddp=0.01)
    with pytest.raises(pff.InputError, match="use protocol 'own'"):
        again.table("pool")


@pytest.mark.parametrize(("groups", "classes", "aware"), [(3, 3, True), (2, 2, False)])
def test_more_groups_more_labels_and_a_guess_of_s(groups, classes, aware, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(360, 2)), columns=["a", "b"])
    frame["s"] = [f"g{z}" for z in rng.integers(groups, size=360)]
    frame["y"] = [f"y{c}" for c in rng.integers(classes, size=360)]
    frame["site"] = rng.integers(2, size=360)
    data = pff.from_frame(frame, "y", "s", encoding="standard")
    federation = data.federate(pff.partition.by_column("site"), 0, aware)
    base = pff.methods.FedAvg(alpha=0.02)
    options = {"rounds": 4, "agree": 1, "bins": 60, "batch": 60, "base": base}
    run = pff.train(federation, pff.methods.Transport(**options))
    run.save(tmp_path)
    again = pff.load_run(tmp_path)
    assert_frame_equal(again.table(), run.table())
    one, other = (r.retarget(target_ddp=0.3) for r in (run, again))
    assert_frame_equal(other.rules(), one.rules())


def test_too_large_a_pool_is_not_kept_and_that_is_said(compas_run, tmp_path, monkeypatch):
    monkeypatch.setattr(predictions, "LARGEST", 10)
    compas_run.save(tmp_path)
    again = pff.load_run(tmp_path)
    assert_frame_equal(again.table("own"), compas_run.table("own"))
    with pytest.raises(pff.InputError, match="no held-out rows"):
        again.table()


def test_what_is_missing_or_old_is_said(compas_run, folder, tmp_path):
    card = json.loads((folder / "run.json").read_text())
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "run.json").write_text(json.dumps(card | {"format": 2}))
    assert pff.load_model(tmp_path, "1").label_names[1] == "charged again"
    with pytest.raises(pff.InputError, match="an older version of pfedfair: its models can be"):
        pff.load_run(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(card))
    frame = pd.read_parquet(tmp_path / "predictions.parquet")
    frame.drop(columns="split").to_parquet(tmp_path / "predictions.parquet")
    with pytest.raises(pff.InputError, match="has no column 'split'"):
        pff.load_run(tmp_path)
    other = frame.assign(client=frame["client"].astype(str).replace("1", "north"))
    other.to_parquet(tmp_path / "predictions.parquet")
    with pytest.raises(pff.InputError, match="does not belong to the model of its folder"):
        pff.load_run(tmp_path)
    (tmp_path / "predictions.parquet").unlink()
    with pytest.raises(pff.InputError, match=r"has no predictions\.parquet"):
        pff.load_run(tmp_path)


def test_a_new_clients_folder_has_nothing_of_the_others(folder, tmp_path):
    rows = pff.load("compas").frame.head(300)
    model = pff.personalise(folder, rows, "harbour", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert not [name for name in tensors if name.startswith("own.")]
    card = json.loads((tmp_path / "run.json").read_text())
    assert card["clients"] == ["harbour"]
    assert not {"metrics", "command"} & set(card)
    first = json.loads((folder / "run.json").read_text())
    assert card["key"] != first["key"]
    again = pff.load_model(tmp_path, "harbour")
    ids = list(range(300))
    np.testing.assert_array_equal(again.predict(rows, ids=ids), model.predict(rows, ids=ids))


def as_of_old(folder):
    """Write a folder as format 3 had it: a model for each client, if they are all the same, too."""
    card, weights = folder / "run.json", folder / "model.safetensors"
    about, tensors = json.loads(card.read_text()), load_file(weights)
    theta = tensors["theta"].expand(len(about["clients"]), -1).contiguous()
    save_file(tensors | {"theta": theta}, weights)
    del about["one_model"]
    about |= {"format": 3, "sha256": hashlib.sha256(weights.read_bytes()).hexdigest()}
    card.write_text(json.dumps(about))


@pytest.mark.parametrize(
    "method", [pff.methods.FedAvg(rounds=2), pff.methods.PFedFair(rounds=1, prox_epochs=1)]
)
def test_one_model_is_written_once_and_older_folders_are_read(federation, tmp_path, method):
    run = pff.train(federation, method)
    run.save(tmp_path)
    rows = len(load_file(tmp_path / "model.safetensors")["theta"])
    assert rows == (len(federation) if method.tuning.personal else 1)
    for change in (lambda folder: None, as_of_old):
        change(tmp_path)
        again = pff.load_run(tmp_path)
        assert torch.equal(again.fitted.theta, run.fitted.theta)
        assert_frame_equal(again.table(), run.table())
        own = pff.load_model(tmp_path, 1).predictor.theta
        assert torch.equal(own, run.fitted.theta[1])


def test_large_files_are_mapped_and_as_well_looked_at(federation, tmp_path, monkeypatch):
    run = pff.train(federation, pff.methods.PFedFair(rounds=1, prox_epochs=1))
    run.save(tmp_path)
    monkeypatch.setattr(model, "MAPPED", 0)
    assert_frame_equal(pff.load_run(tmp_path).table(), run.table())
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    for changed, message in (
        (lambda: path.write_bytes(whole[:-8]), "is damaged, or no file of models"),
        (lambda: path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1])), "checksum"),
        (lambda: save_file(tensors | {"theta": tensors["theta"][:1].clone()}, path), "the shape"),
        (lambda: save_file(tensors | {"theta": tensors["theta"] / 0}, path), "no finite numbers"),
    ):
        path.unlink()
        changed()
        with pytest.raises(pff.InputError, match=message):
            pff.load_run(tmp_path)
