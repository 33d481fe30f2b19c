"""Runs on embeddings and pixels: which network, how inputs are kept, models that are read again."""

import numpy as np
import pandas as pd
import pytest
import torch

import made_faces
import pfedfair as pff
from pfedfair.data import wide
from pfedfair.runs import load_model
from pfedfair.runs.run import named_network

TABLE, ARRAY = made_faces.people()
METHODS = {
    "fedavg": pff.FedAvg(rounds=4, alpha=0.02, ridge=0.01),
    "pfedfair": pff.PFedFair(eta=0.5, rounds=3, alpha=0.02, ridge=0.01, prox_epochs=3),
    "transport": pff.Transport(rounds=6, agree=1, alpha=0.02),
}


@pytest.fixture
def data(tmp_path):
    path = made_faces.write(tmp_path / "e.parquet", TABLE, ARRAY)
    return pff.load(path, "smiling", "male")


@pytest.fixture
def sites(data):
    return data.federate(pff.partition.by_column("site"))


@pytest.mark.filterwarnings("ignore::pfedfair.runs.CollapseWarning")
@pytest.mark.parametrize("scaling", wide.SCALINGS)
@pytest.mark.parametrize("name", METHODS)
def test_a_saved_model_decides_alike_for_an_array_and_for_a_table(name, scaling, tmp_path):
    path = made_faces.write(tmp_path / "e.parquet", TABLE, ARRAY)
    data = pff.load(path, "smiling", "male", scaling)
    run = pff.train(data.federate(pff.partition.by_column("site")), METHODS[name])
    run.save(tmp_path / "run")
    told = {"sensitive_features": np.where(data.s, "1", "0")}
    frame = pd.DataFrame({"embedding": list(ARRAY), "file": TABLE["file"]})
    for client in range(3):
        before, after = run.personal_model(client), load_model(tmp_path / "run", client)
        chances = before.predict_proba(ARRAY, **told)
        for people in (ARRAY, frame, ARRAY.astype(np.float32)):
            np.testing.assert_array_equal(after.predict_proba(people, **told), chances)
            np.testing.assert_array_equal(
                after.predict(people, **told, random_state=0),
                before.predict(ARRAY, **told, random_state=0),
            )
    with pytest.raises(pff.InputError, match="embeddings of 8 numbers, these have 7"):
        after.predict(ARRAY[:, :7], **told)


def test_half_precision_trains_nearly_to_the_same_model(data, monkeypatch):
    plan, algorithm = pff.partition.by_column("site"), METHODS["fedavg"]
    full = pff.train(data.federate(plan), algorithm)
    monkeypatch.setattr(wide, "LARGE", 0)
    half = pff.train(data.federate(plan), algorithm)
    assert half.federation.table.x.dtype == torch.float16
    assert half.fitted.theta.dtype == torch.float32
    torch.testing.assert_close(half.fitted.theta, full.fitted.theta, atol=2e-3, rtol=0)
    np.testing.assert_allclose(half.table()["accuracy"], full.table()["accuracy"], atol=0.02)


def test_a_network_by_its_name(sites, federation):
    assert named_network(sites, None).parameters == 8 + 1
    assert named_network(sites, "linear").parameters == 8 + 1
    assert named_network(sites, "mlp").parameters == 8 * 64 + 64 + 64 * 64 + 64 + 64 + 1
    width = federation.encoder.width
    assert named_network(federation, "linear").parameters == width + 1 + 1  # it is told S
    usual = named_network(federation, None).parameters
    assert named_network(federation, "mlp").parameters == usual > 4000
    for where in (sites, federation):
        with pytest.raises(pff.InputError, match="Unknown model 'cnn': choose one of linear, mlp"):
            named_network(where, "cnn")


def test_a_network_on_pixels_by_its_name(tmp_path):
    data = pff.load("celeba", folder=made_faces.celeba(tmp_path), pixels=16)
    images = data.federate(pff.partition.together())
    assert images.table.x.dtype == torch.uint8
    assert "cnn" in named_network(images, None).words.lower()
    inputs = 16 * 16 * 3
    assert named_network(images, "mlp").parameters > 500 * inputs
    with pytest.raises(pff.InputError, match="linear"):
        named_network(images, "linear")


def test_a_model_on_pixels_is_read_again(tmp_path):
    data = pff.load("celeba", folder=made_faces.celeba(tmp_path), pixels=16)
    federation = data.federate(pff.partition.together())
    algorithm = pff.make("erm-local", {"rounds": 4, "batch": 20, "alpha": 0.003})
    run = pff.train(federation, algorithm, network="cnn")
    run.save(tmp_path / "run")
    before, after = run.personal_model(0), load_model(tmp_path / "run", 0)
    np.testing.assert_array_equal(after.predict_proba(data.array), before.predict_proba(data.array))
