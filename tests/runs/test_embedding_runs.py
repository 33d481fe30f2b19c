"""Runs on embeddings and pixels: which network, how inputs are kept, models that are read again."""

import numpy as np
import pandas as pd
import pytest
import torch

import made_faces
import pfedfair as pff
from pfedfair.data.tables import arrays
from pfedfair.runs import choose_network, load_model

TABLE, ARRAY = made_faces.people()
METHODS = {
    "fedavg": pff.methods.FedAvg(rounds=4, alpha=0.02, ridge=0.01),
    "pfedfair": pff.methods.PFedFair(eta=0.5, rounds=3, alpha=0.02, ridge=0.01, prox_epochs=3),
    "transport": pff.methods.Transport(rounds=6, agree=1, alpha=0.02),
}


@pytest.fixture
def data(tmp_path):
    path = made_faces.write(tmp_path / "e.parquet", TABLE, ARRAY)
    return pff.load(path, "smiling", "male")


@pytest.fixture
def sites(data):
    return data.federate(pff.partition.by_column("site"))


@pytest.mark.filterwarnings("ignore::pfedfair.runs.CollapseWarning")
@pytest.mark.parametrize("scaling", arrays.SCALINGS)
@pytest.mark.parametrize("name", METHODS)
def test_a_saved_model_decides_alike_for_an_array_and_for_a_table(name, scaling, tmp_path):
    path = made_faces.write(tmp_path / "e.parquet", TABLE, ARRAY)
    data = pff.load(path, "smiling", "male", scaling)
    run = pff.train(data.federate(pff.partition.by_column("site")), METHODS[name])
    run.save(tmp_path / "run")
    options = {"sensitive_features": np.where(data.s, "1", "0")}
    frame = pd.DataFrame({"embedding": list(ARRAY), "file": TABLE["file"]})
    for client in range(3):
        before, after = run.personal_model(client), load_model(tmp_path / "run", client)
        chances = before.predict_proba(ARRAY, **options)
        for rows in (ARRAY, frame, ARRAY.astype(np.float32)):
            np.testing.assert_array_equal(after.predict_proba(rows, **options), chances)
            np.testing.assert_array_equal(
                after.decide(rows, **options, random_state=0),
                before.decide(ARRAY, **options, random_state=0),
            )
    with pytest.raises(pff.InputError, match="embeddings of 8 numbers, these have 7"):
        after.decide(ARRAY[:, :7], **options)


def test_half_precision_trains_nearly_to_the_same_model(data, monkeypatch):
    plan, algorithm = pff.partition.by_column("site"), METHODS["fedavg"]
    full = pff.train(data.federate(plan), algorithm)
    monkeypatch.setattr(arrays, "LARGE", 0)
    half = pff.train(data.federate(plan), algorithm)
    assert half.federation.table.x.dtype == torch.float16
    assert half.fitted.theta.dtype == torch.float32
    torch.testing.assert_close(half.fitted.theta, full.fitted.theta, atol=2e-3, rtol=0)
    np.testing.assert_allclose(half.table()["accuracy"], full.table()["accuracy"], atol=0.02)


def parameters(federation, model):
    """How many numbers the network of a model has."""
    return choose_network(federation, pff.methods.FedAvg(), model).parameters


def test_a_network_by_its_name(sites, federation):
    assert parameters(sites, None) == parameters(sites, "linear") == 8 + 1
    assert parameters(sites, "mlp") == 8 * 64 + 64 + 64 * 64 + 64 + 64 + 1
    width = federation.encoder.width
    assert parameters(federation, "linear") == width + 1 + 1  # S is an input
    assert parameters(federation, "mlp") > 4000
    with pytest.raises(pff.InputError, match="load them with model='additive'"):
        parameters(pff.load("compas").federate(pff.partition.fixed_shares()), "additive")
    for where, able in ((sites, "linear, mlp"), (federation, "additive, linear, mlp")):
        with pytest.raises(pff.InputError, match=f"Unknown model 'cnn': choose one of {able}"):
            parameters(where, "cnn")


def test_a_network_on_pixels_by_its_name(tmp_path):
    data = pff.load("celeba", folder=made_faces.celeba(tmp_path), pixels=16)
    images = data.federate(pff.partition.together())
    assert images.table.x.dtype == torch.uint8
    assert "cnn" in choose_network(images, pff.methods.FedAvg()).words.lower()
    inputs = 16 * 16 * 3
    assert parameters(images, "mlp") > 500 * inputs
    with pytest.raises(pff.InputError, match="linear"):
        parameters(images, "linear")


def test_a_model_on_pixels_is_read_again(tmp_path):
    data = pff.load("celeba", folder=made_faces.celeba(tmp_path), pixels=16, model="cnn")
    federation = data.federate(pff.partition.together())
    algorithm = pff.make("erm-local", {"rounds": 4, "batch": 20, "alpha": 0.003})
    run = pff.train(federation, algorithm)
    run.save(tmp_path / "run")
    before, after = run.personal_model(0), load_model(tmp_path / "run", 0)
    np.testing.assert_array_equal(after.predict_proba(data.array), before.predict_proba(data.array))


@pytest.mark.filterwarnings("ignore::pfedfair.runs.CollapseWarning")
def test_predict_decides_on_a_file_of_embeddings(data, sites, tmp_path, pfedfair):
    run = pff.train(sites, METHODS["transport"])
    run.save("run")
    code, _, err = pfedfair(
        "predict", "run", "--input", "e.parquet", "--output", "out.parquet", "--id", "file",
        "--client-column", "site",
    )  # fmt: skip
    assert code == 0, err
    found = pd.read_parquet("out.parquet")
    for name in ("a", "b", "c"):
        mine = (TABLE["site"] == name).to_numpy()
        ids = TABLE["file"][mine]
        expected = run.personal_model(name).predict(ARRAY[mine], data.s[mine], ids=ids)
        assert (found["decision"][mine] == expected.astype(str)).all()
