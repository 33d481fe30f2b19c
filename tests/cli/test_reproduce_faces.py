"""Tables and figures of faces from a small folder: they appear, and what is missing is said."""

import json

import pandas as pd
import pytest

import made_faces
from pfedfair.experiments import read_results
from pfedfair.studies import central, curves, figure3, figure4, table5

QUICK = ("--seeds", 1, "--rounds", 1, "--jobs", 1)


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    """One small network on pixels, two values of eta, some of the methods."""
    monkeypatch.setattr(central, "RECIPES", {"fair cnn": {"rounds": 1, "alpha": 0.001}})
    monkeypatch.setattr(central, "SIZE", 16)
    monkeypatch.setattr(central, "ETAS", (0.0, 0.9))
    for study in (curves, figure3, table5):
        monkeypatch.setattr(study, "ETAS", (0.0, 0.9))
    monkeypatch.setattr(curves, "METHODS", ("constant", "kde-local", "fedavg-kde", "pfedfair"))
    monkeypatch.setattr(figure4, "LAMBDAS", (0.0, 0.4))
    monkeypatch.setattr(table5, "METHODS", ("constant", "erm", "irm", "dro-chi2", "fair linear"))


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    return made_faces.celeba(tmp_path_factory.mktemp("faces"))


def flat(text):
    return " ".join(text.split())


def reproduce(pfedfair, what, faces, *more):
    code, out, err = pfedfair("reproduce", what, "--data", faces, *QUICK, "--out", "out", *more)
    assert code == 0, err
    return flat(out)


def test_table4(pfedfair, faces, tmp_path):
    out = reproduce(pfedfair, "table4", faces, "--datasets", "celeba")
    assert "celeba (tiny and pixels 16x16), all in one place, 1 seed: fair training, eta 0.9" in out
    assert "celeba: the encoder is tiny, none of the paper's." in out
    found = read_results(tmp_path / "out").set_index("method")
    assert set(found.index) == {"constant", "fair linear", "fair cnn"}
    assert found.loc["fair linear", "parameters"] == 9
    assert set(found["n_train"]) == {40}  # those with images that are not held
    assert f"{found.loc['fair cnn', 'parameters']:,}" in out
    assert "3,220,000" in out  # the paper's


def test_table5_and_its_report(pfedfair, faces):
    out = reproduce(pfedfair, "table5", faces, "--datasets", "celeba")
    assert "celeba (tiny), all in one place, 1 seed: 128 rows to train, 80 to test" in out
    for row in ("erm", "irm", "dro-chi2", "fair linear", "90.2", ".192"):  # and the paper's
        assert row in out
    assert "fair linear has lower mean DDP than irm" in out
    code, again, err = pfedfair("report", "out")
    assert code == 0, err
    for text in ("celeba (tiny)", "none of the paper's"):
        assert text in flat(again)


def test_figure4_has_its_three_pictures(pfedfair, faces, tmp_path):
    out = reproduce(pfedfair, "figure4", faces, "--datasets", "celeba")
    assert "celeba (tiny), 10 clients, fixed shares, 1 seed" in out
    assert "celeba (tiny and pixels 16x16), all in one place, 1 seed: 40 rows to train" in out
    assert "fair linear has higher mean accuracy than fair cnn" in out
    assert "pfedfair has higher worst accuracy than fedavg-kde" in out
    for name in ("figure4a", "figure4b", "figure4c"):
        assert (tmp_path / "out" / f"{name}.png").stat().st_size > 5000
    found = read_results(tmp_path / "out")
    clients = found[found["partition"].map(lambda plan: json.loads(plan)["kind"] == "FixedShares")]
    assert clients.groupby(["method", "config"])["client"].nunique().eq(10).all()
    assert set(clients["inputs"]) == {"tiny"}


@pytest.mark.parametrize("name", ["figure3", "figure7"])
def test_other_figures(pfedfair, faces, tmp_path, name):
    out = reproduce(pfedfair, name, faces, "--datasets", "celeba")
    assert "celeba (tiny), 10 clients, fixed shares, 1 seed" in out
    assert (tmp_path / "out" / f"{name}.png").stat().st_size > 5000
    assert {"summary.csv", "clients.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_what_is_missing_is_said_and_the_rest_is_done(pfedfair, faces, tmp_path):
    out = reproduce(pfedfair, "table5", faces)  # it has no utkface and no fairface
    for name in ("utkface", "fairface"):
        assert f"table5 leaves out {name}. There are no images and no embeddings of {name}" in out
    assert set(read_results(tmp_path / "out")["dataset"]) == {"celeba"}
    said = json.loads((tmp_path / "out" / "experiment.json").read_text())["notes"]
    assert sum("leaves out" in note for note in said) == 2


def test_without_images_figure4_does_what_embeddings_allow(pfedfair, tmp_path):
    folder = made_faces.celeba(tmp_path / "faces", images=0)
    out = reproduce(pfedfair, "figure4", folder, "--datasets", "celeba")
    assert "figure4 leaves out celeba" in out
    assert "There are no images of celeba" in out
    assert (tmp_path / "out" / "figure4b.png").exists()
    assert not (tmp_path / "out" / "figure4a.png").exists()


def test_the_encoder_that_is_asked_for(pfedfair, faces, tmp_path):
    folder = made_faces.celeba(tmp_path / "faces")
    table, array = made_faces.people(width=5, seed=1)
    made_faces.write(folder / "celeba" / "embeddings-wee.parquet", table, array)
    out = reproduce(pfedfair, "figure7", folder, "--datasets", "celeba", "--encoder", "wee")
    assert "celeba (wee), 10 clients" in out
    assert "the encoder is wee" in out


def test_faces_and_tables_together(pfedfair, faces, tmp_path):
    out = reproduce(pfedfair, "figure3", faces, "--datasets", "compas,celeba")
    assert "compas, 5 clients, fixed shares" in out
    assert "celeba (tiny), 10 clients" in out
    pictures = pd.read_csv(tmp_path / "out" / "summary.csv")
    assert set(pictures["dataset"]) == {"compas", "celeba"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table5"], "Say where celeba is: --data FOLDER"),
        (["table4", "--datasets", "celeba"], "Say where celeba is: --data FOLDER"),
        (["table5", "--datasets", "adult"], "Unknown data set 'adult'"),
        (["table1", "--datasets", "celeba"], "Unknown data set 'celeba'"),
        (["figure7", "--datasets", "utkface", "--data", "."], "no images and no embeddings of utk"),
    ],
)
def test_nothing_to_do_is_an_error(pfedfair, arguments, message, tmp_path):
    code, _, err = pfedfair("reproduce", *arguments, *QUICK, "--out", "out")
    assert code == 2
    assert message in flat(err)
    assert not (tmp_path / "out").exists()
