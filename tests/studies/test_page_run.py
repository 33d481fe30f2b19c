"""The document of a run, number by number against its files, with code of its own."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from made_people import people
from pfedfair import cli
from pfedfair._util.errors import InputError
from pfedfair._util.text import escape_markdown
from pfedfair.experiments import read_results
from pfedfair.methods import from_dict
from pfedfair.methods.phases import total_rounds
from pfedfair.report.document import report_of
from pfedfair.studies import judgement, one_run, page
from pfedfair.studies.page import shapes, site, slider

NAMES = ['<script>alert("x")</script>', 'O\'Neil & "Co" \\', "🏥 Süd", "مستشفى", "x" * 200]
DIGITS = 1e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of train on clients with odd names."""
    place = tmp_path_factory.mktemp("page")
    frame = people((220, 120, 160, 180, 90), seed=1)
    frame["site"] = np.array(NAMES, dtype=object)[frame["site"].str[5:].astype(int)]
    frame.assign(note="same").to_csv(place / "people.csv", index=False)
    words = ["train", place / "people.csv", "--label", "hired", "--sensitive", "sex", "--client"]
    words += ["site", "--method", "transport", "--target-ddp", "0.1", "--out", place / "run", "-q"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pfedfair", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
    assert stop.value.code == 0
    return place / "run"


@pytest.fixture(scope="module")
def document(folder):
    run, results = pff.load_run(folder), read_results(folder)
    rules = pd.read_parquet(folder / "rules.parquet")
    judged = judgement.of_run(run, results, rules)
    found = page.of_run(run, judged, one_run.of_run(run, judged), folder).to_json()
    return json.loads(json.dumps(found, allow_nan=False))  # no NaN, and data only


def close(ours, theirs):
    assert ours == pytest.approx(theirs, abs=DIGITS)


def test_names_pass_through_unchanged(document):
    assert sorted(document["parts"][0]["sites"]["name"]) == sorted(NAMES)


def test_numbers_are_those_of_the_results(folder, document):
    results, rules = (pd.read_parquet(folder / f"{name}.parquet") for name in ("results", "rules"))
    (arm,) = document["parts"][0]["arms"]
    for name in ("", "_low", "_high"):
        close(arm[f"gap{name}"], results[f"ddp{name}"].to_list())
        close(arm[f"accuracy{name}"], results[f"accuracy{name}"].to_list())
    close(arm["constant"], rules["constant"].to_list())
    assert arm["rows"] == results["ddp_people"].to_list()
    assert document["parts"][0]["sites"]["n_test"] == results["n_test"].to_list()
    assert document["target"] == 0.1 == results["target_ddp"].iloc[0]


def test_numbers_are_those_of_the_card(folder, document):
    card = json.loads((folder / "run.json").read_text())
    (arm,) = document["parts"][0]["arms"]
    close(arm["accuracy"], [row["accuracy"] for row in card["metrics"]])
    assert document["groups"] == card["group_names"]
    data = dict(document["about"][0]["rows"])
    assert data["SHA-256 of the rows"] == card["data"]["sha256"]
    rows = document["sent"]["rows"]
    assert [row["bytes"] for row in rows] == [one["bytes"] for one in card["sent"]]
    assert sum(row["messages"] for row in rows) == total_rounds(from_dict(card["algorithm"]).phases)


def test_details_are_those_of_the_predictions(folder, document):
    shown = pd.read_parquet(folder / "predictions.parquet")
    rules = pd.read_parquet(folder / "rules.parquet").set_index("client")
    held, train = shown[shown["split"] == "test"], shown[shown["split"] == "train"]
    for name, details in zip(document["parts"][0]["sites"]["name"], document["details"],
                             strict=True):  # fmt: skip
        own = held[held["client"].astype(str) == name]
        for rate in details["rates"]:
            mine = own[own["group"].astype(str) == rate["group"]]
            close(rate["rate"], (mine["decision"].astype(str) == "1").mean())
            close(rate["before"], (mine["score"] > 0.5).mean())
            assert rate["rows"] == len(mine)
            there = (train["client"].astype(str) == name) & (train["group"] == rate["group"])
            assert rate["train"] == there.sum()
        for moved in details["changed"]:
            mine = own[own["group"].astype(str) == moved["group"]]
            before, after = mine["score"] > 0.5, mine["decision"].astype(str) == "1"
            assert moved["to_positive"] == (~before & after).sum()
            assert moved["to_negative"] == (before & ~after).sum()
        z = document["groups"].index("m")
        mine = own.loc[own["group"] == "m", "score"]
        close(details["scores"]["shares"][z][3], ((mine >= 0.15) & (mine < 0.2)).mean())
        close(details["cost"], rules.loc[name, "cost"])
        close(details["thresholds"][z]["low"], rules.loc[name, f"low_s{z}"])
        assert details["local"] is None


def test_the_slider_is_in_a_file_and_agrees_with_another_target(folder, document):
    kept = pd.read_parquet(folder / "targets.parquet")
    shown = document["slider"]
    assert shown["targets"] == sorted(kept["target_ddp"].unique())
    assert shown["targets"][shown["start"]] == 0.1
    assert 20 <= len(shown["targets"]) <= 25
    close(shown["gap"][shown["start"]], document["parts"][0]["arms"][0]["gap"])
    close(shown["accuracy"][shown["start"]], document["parts"][0]["arms"][0]["accuracy"])
    run = pff.load_run(folder)
    for k in (0, 7):
        other = run.retarget(target_ddp=shown["targets"][k])
        close(shown["gap"][k], other.table()["ddp"].to_list())
        each = other.rules()["low_s1"].to_list()
        close([one[1]["low"] for one in shown["thresholds"][k]], each)
        assert shown["within"][k] == shown["verdict"][k].count("within")
        close(shown["worst_accuracy"][k], other.table()["accuracy"].min())


def test_one_sentence_for_all_renderers(folder, document):
    from pfedfair.report import markdown

    rules = pd.read_parquet(folder / "rules.parquet")
    run = pff.load_run(folder)
    view = one_run.of_run(run, judgement.of_run(run, read_results(folder), rules))
    assert document["sentence"] == view.sentence
    text = markdown.text(view)
    assert f"**{view.sentence}**" in text
    for warning in document["warnings"]:
        assert escape_markdown(warning["text"]) in text
    assert {"left out"} <= {warning["kind"] for warning in document["warnings"]}
    assert any("note" in warning["text"] for warning in document["warnings"])


def test_rows_of_a_live_run_and_of_its_folder_are_the_same(federation):
    run = pff.train(federation, "transport", target_ddp=0.1, base="fedavg", rounds=3,
                    confidence=0.0)  # fmt: skip
    found = report_of(run).document
    (arm,) = found["parts"][0]["arms"]
    close(arm["gap"], run.table()["ddp"].to_list())
    assert found["slider"] is not None
    assert found["sent"]["rows"][0]["what"] == "the model after its steps"
    assert found["sent"]["rows"][0]["bytes"] == 3 * 4 * run.network.size


def test_a_method_without_a_target_has_no_slider(federation):
    found = report_of(pff.train(federation, "kde-local", eta=0.5, rounds=1)).document
    assert found["slider"] is None
    assert found["target"] is None
    assert found["sentence"].startswith("The largest gap of 3 sites is")
    assert found["parts"][0]["arms"][0]["verdict"] is None
    assert found["sent"]["rows"] == []
    assert "Nothing would leave" in found["sent"]["words"][0]
    assert found["details"][0]["changed"] is None
    assert found["details"][0]["rates"][0]["before"] is None


def test_a_run_that_nobody_can_measure_is_refused(table):
    run = pff.train(table.federate(pff.partition.together(test=0.0)), "fedavg", rounds=2)
    with pytest.raises(InputError, match="nothing to report"):
        report_of(run)


def test_details_of_the_worst_sites_only():
    frame = pd.DataFrame({"ddp_low": [0.1, np.nan, 0.3, 0.2]})
    assert site.worst(frame, "ddp", most=2) == [2, 3]
    assert site.worst(frame, "ddp", most=4) == [0, 1, 2, 3]


def test_fewer_targets_for_more_sites(folder):
    run = pff.load_run(folder)
    assert 0.1 in slider.targets_of(run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slider, "PER_CLIENT", 0.1)
        few = slider.targets_of(run)
        assert len(few) == slider.LEAST
        assert 0.1 in few
        patch.setattr(slider, "PER_CLIENT", 100.0)
        assert slider.targets_of(run) == []


def test_curves_keep_the_points_that_they_need():
    x = np.linspace(0, 1, 101)
    frame = pd.DataFrame({
        "column": "age", "kind": "number", "value": x, "level": "", "label": "1",
        "contribution": np.where(x < 0.5, x, 1 - x), "people": 1,
    })  # fmt: skip
    (shape,) = shapes.shapes(frame)
    assert shape["values"] == [0.0, 0.5, 1.0]
    assert sum(shape["rows"]) == 101
    close(np.interp(x, shape["values"], shape["added"]).tolist(), frame["contribution"].to_list())
