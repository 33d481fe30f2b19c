"""What a person wants to know first, before and after training."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.dummy import DummyClassifier

import pfedfair as pff
from made_people import people
from pfedfair.studies import one_run

COLUMNS = ("--label", "hired", "--sensitive", "sex", "--client", "site")


def test_inputs_label_and_s_come_first(pfedfair, csv):
    _, out, _ = pfedfair("train", csv, *COLUMNS, "--method", "fedavg", "--rounds", 3)
    first = out.splitlines()[:3]
    assert first == [
        "Inputs: 4 columns (a, b, c, colour).",
        "Label hired: 1 counts as positive.",
        "S sex (f, m) is an input, too.",
    ]
    asked = ("--method", "fedavg", "--rounds", 3, "--blind", "--drop", "b,c")
    _, out, _ = pfedfair("train", csv, *COLUMNS, *asked)
    assert out.splitlines()[0] == "Inputs: 2 columns (a, colour)."
    assert out.splitlines()[2] == "S sex (f, m) is not an input."


def test_a_long_list_is_cut(pfedfair, tmp_path):
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(260, 20)))
    frame = pd.concat([people(), wide.add_prefix("v")], axis=1)
    frame.to_csv(tmp_path / "wide.csv", index=False)
    _, out, _ = pfedfair("train", "wide.csv", *COLUMNS, "--method", "constant")
    assert out.startswith("Inputs: 24 columns (a, b, c, v0, v1, v2, v3, v4 and 16 more).")


def test_the_constant_beside_the_accuracy(pfedfair, csv):
    """By scikit-learn's DummyClassifier at every client, on its own held-out rows."""
    asked = ("--method", "kde-local", "--eta", 0.99, "--rounds", 2, "--out", "run")
    code, out, err = pfedfair("train", csv, *COLUMNS, *asked)
    assert code == 0, err
    federation = pff.load(csv, "hired", "sex").federate("site")
    part, y = federation.partition, federation.data.y
    rules = pd.read_parquet("run/rules.parquet")
    for name, fit, held in zip(part.names, part.train, part.test, strict=True):
        dummy = DummyClassifier(strategy="most_frequent").fit(np.zeros((len(fit), 1)), y[fit])
        right = dummy.score(np.zeros((len(held), 1)), y[held])
        assert rules.set_index("client").loc[name, "constant"] == pytest.approx(right)
        assert re.search(rf"{name} .*{100 * right:.1f} ", out)
    results = pff.read_results("run").set_index("client")["accuracy"]
    low = [c for c in part.names if results[c] <= rules.set_index("client").loc[c, "constant"]]
    assert low  # two rounds of fairness alone
    text = " ".join(out.split())
    assert f"no more accurate than one decision for all rows: client {', '.join(low)}." in text
    assert "To see what fairness costs, also train without it: compare --etas 0,0.9." in text
    _, again, _ = pfedfair("report", "run")
    assert "constant" in again


def test_weighted_to_a_clients_share(compas):
    """On everybody's rows: the rates of the label in each group, by the client's shares."""
    run = pff.train(compas, "fedavg", rounds=1)
    data, part = compas.data, compas.partition
    pool = part.pool
    for i, row in run.rules().iterrows():
        label = np.bincount(data.y[part.train[i]]).argmax()
        rates = [(data.y[pool][data.s[pool] == z] == label).mean() for z in (0, 1)]
        assert row["constant"] == pytest.approx(part.shares[i] @ rates)


def test_what_fairness_cost_by_a_rule(pfedfair, csv):
    asked = ("--method", "transport", "--target-ddp", 0.05, "--out", "run")
    _, out, _ = pfedfair("train", csv, *COLUMNS, *asked)
    cost = 100 * pd.read_parquet("run/rules.parquet")["cost"]
    assert cost.mean() > 0.05
    said = f"cost {cost.mean():.1f} points of accuracy on average, {cost.max():.1f} points at the"
    assert said in " ".join(out.split())
    plain = pfedfair("train", csv, *COLUMNS, "--method", "fedavg", "--rounds", 2)[1]
    assert "Fairness cost" not in plain
    assert "what fairness costs" not in plain


def test_the_learning_curve_is_in_the_folder(pfedfair, csv):
    asked = ("--method", "pfedfair", "--rounds", 4, "--out", "run")
    code, out, _ = pfedfair("train", csv, *COLUMNS, *asked)
    assert code == 0
    assert "history.csv" in out
    run = pff.train(pff.load(csv, "hired", "sex").federate("site"), "pfedfair", rounds=4)
    pd.testing.assert_frame_equal(pd.read_csv("run/history.csv"), run.history)
    before = Path("run/history.png").read_bytes()
    assert before.startswith(b"\x89PNG")
    pfedfair("train", csv, *COLUMNS, *asked)
    assert Path("run/history.png").read_bytes() == before


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ([0.01, 0.03], "2.0 points of accuracy on average, 3.0 points at the worst client."),
        ([-0.03, 0.01], "no accuracy on average, 1.0 points at the worst client."),
        ([-0.01], "no accuracy on average."),
    ],
)
def test_costs_in_words(cost, said):
    rule = pff.Thresholds(torch.zeros(2, 4))
    assert one_run.cost_words(pd.DataFrame({"cost": cost}), 0.0, rule) == [f"Fairness cost {said}"]


def test_a_tiny_group_at_a_site_does_not_hide_the_others(pfedfair, tmp_path):
    """Its three held-out rows are set apart, and named; the verdict is about the others."""
    frame = people(sizes=(200, 200, 260))
    frame["race"] = np.resize(["a", "b"], len(frame))
    frame.loc[frame.index[frame["site"] == "site 2"][:60], "race"] = "unknown"
    frame.loc[frame.index[frame["site"] == "site 0"][:12], "race"] = "unknown"
    frame.to_csv(tmp_path / "p.csv", index=False)
    own = ("--label", "hired", "--sensitive", "race", "--client", "site", "--target-ddp", 0.5)
    asked = ("train", "p.csv", *own, "--method", "transport", "--rounds", 3)
    code, out, err = pfedfair(*asked, "--out", "run")
    assert code == 0, err
    text = " ".join(out.split())
    apart = "does not cover groups with fewer than 5 held-out rows: 'unknown' (3) at site 0."
    assert f"The gap {apart}" in text
    assert "has too few rows" not in text
    assert "--unknown says that a value is a missing S, --merge-groups makes one group" in text
    results = pd.read_parquet(tmp_path / "run" / "results.parquet")
    assert results["ddp_apart"].tolist() == ["'unknown' (3)", "", ""]
    assert (results["ddp_people"] >= 5).all()
    card = json.loads((tmp_path / "run" / "run.json").read_text())
    assert card["metrics"][0]["ddp_apart"] == "'unknown' (3)"
    assert "with fewer than 5 held-out rows: " in (tmp_path / "run" / "report.html").read_text()
    code, out, err = pfedfair("report", "run")
    assert code == 0, err
    assert apart in " ".join(out.split())
    code, out, err = pfedfair(*asked, "--unknown", "unknown", "-q", "--out", "other")
    assert "ddp_apart" not in pd.read_parquet(tmp_path / "other" / "results.parquet")
