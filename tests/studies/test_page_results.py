"""The document of a comparison and of a study, against pandas; and of a server."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from made_up import two_methods
from pfedfair.studies import comparison, page
from pfedfair.studies.arms import arms
from pfedfair.studies.page.document import jsonable


@pytest.fixture(scope="module")
def results():
    """Local training, a method with a target, and the constant classifier; three seeds."""
    rng = np.random.default_rng(0)
    local = {"kind": "Local", "eta": 0.9}
    rows = []
    for method, level, target, config in (
        ("constant", "0", np.nan, {"kind": "Constant"}), ("kde-local", "0.9", np.nan, local),
        ("transport", "≤ 0.05", 0.05, {"kind": "Transport", "target_ddp": 0.05}),
    ):  # fmt: skip
        for seed in range(3):
            for client in ("<b>a</b>", "b"):
                row = two_methods(seeds=1).iloc[0].to_dict()
                row |= {"method": method, "level": level, "target_ddp": target, "client": client}
                row |= {"config": json.dumps(config, sort_keys=True), "seed": seed}
                row |= {"eta": 0.9 if method == "kde-local" else 0.0, "n_train": 90, "n_test": 30}
                gap = 0.0 if method == "constant" else rng.uniform(0, 0.04)
                right = 0.55 if method == "constant" else rng.uniform(0.6, 0.8)
                rows.append(row | {"accuracy": right, "ddp": gap})
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def document(results):
    found = page.of_results(results, comparison(results), "comparison", command="pfedfair compare")
    return json.loads(json.dumps(found.to_json(), allow_nan=False))


def test_arms_are_means_over_seeds_with_students_interval(results, document):
    part = document["parts"][0]
    arm = next(arm for arm in part["arms"] if arm["method"] == "transport")
    assert arm["words"] == "transport, gap ≤ 0.05"
    assert arm["target"] == 0.05
    values = results[(results["method"] == "transport") & (results["client"] == "b")]["accuracy"]
    k = part["sites"]["name"].index("b")
    assert arm["accuracy"][k] == pytest.approx(values.mean(), abs=1e-6)
    low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
    assert arm["accuracy_low"][k] == pytest.approx(low, abs=1e-6)
    assert arm["accuracy_high"][k] == pytest.approx(min(high, 1), abs=1e-6)
    constant = results[(results["method"] == "constant") & (results["client"] == "b")]["accuracy"]
    assert arm["constant"][k] == pytest.approx(constant.mean(), abs=1e-6)


def test_the_one_with_a_target_is_shown_first_and_the_sentence_is_on_all(document):
    part = document["parts"][0]
    assert part["arms"][part["chosen"]]["method"] == "transport"
    assert document["sentence"].startswith("No clear winner among ")
    assert "transport" in document["sentence"]
    assert document["target"] == 0.05
    for verdict, why in zip(*(part["arms"][part["chosen"]][k] for k in ("verdict", "why")),
                            strict=True):  # fmt: skip
        assert (verdict == "within") == (why is None)
        if verdict == "not clear":
            assert why.startswith("its interval over 3 seeds [")


def test_the_trade_off_has_every_method_and_its_arm(results, document):
    part = document["parts"][0]
    curves = {curve["method"]: curve for curve in part["tradeoff"]["curves"]}
    assert curves["constant"]["kind"] == "constant"
    assert [point["apart"] for point in curves["constant"]["points"]] == [True]
    (point,) = curves["transport"]["points"]
    assert point["apart"] is False
    assert part["arms"][point["arm"]]["method"] == "transport"
    runs = results[results["method"] == "transport"].groupby("seed")
    assert point["gap"] == pytest.approx(runs["ddp"].max().mean(), abs=1e-6)
    assert point["error"] == pytest.approx(1 - runs["accuracy"].min().mean(), abs=1e-6)


def test_training_alone_is_what_the_method_declares(results, document):
    values = [one["local"] for one in document["details"]]
    means = results[results["method"] == "kde-local"].groupby("client", sort=False)["accuracy"]
    assert [one["accuracy"] for one in values] == pytest.approx(list(means.mean()), abs=1e-6)
    assert "every client trains locally" in values[0]["words"]
    without = results[results["method"] != "kde-local"]
    found = page.of_results(without, comparison(without), "comparison").to_json()
    assert found["details"] is None
    assert "trains locally" in found["hints"]["local"]


def test_tables_are_cells_of_text(document):
    ranks, levels = document["parts"][0]["tables"]
    assert [len(ranks["cells"]), len(levels["cells"])] == [2, 3]  # the constant is not ranked
    for table in (ranks, levels):
        assert {len(row) for row in table["cells"]} == {len(table["heads"])}
    assert [row for one in document["about"] for row in one["rows"] if row[0] == "command"] == [
        ["command", "pfedfair compare"]
    ]


def test_one_seed_has_the_intervals_of_the_run(results):
    one = results[results["seed"] == 0].assign(ddp_low=0.01, ddp_high=0.02)
    arm = next(arm for arm in arms(one) if arm.method == "transport")
    assert list(arm.frame["ddp_low"]) == [0.01, 0.01]
    assert arm.verdicts("ddp") == ["within", "within"]


def test_thousands_of_sites_are_columns():
    n = 2410
    one = two_methods(seeds=1).iloc[[0] * n].assign(
        client=[f"site {i}" for i in range(n)], target_ddp=0.1, ddp=np.linspace(0, 0.3, n),
        ddp_low=np.linspace(0, 0.2, n), ddp_high=np.linspace(0.05, 0.4, n), ddp_people=50,
        n_train=20, n_test=9,
    )  # fmt: skip
    found = page.of_results(one, comparison(one), "comparison").to_json()
    (arm,) = found["parts"][0]["arms"]
    assert len(arm["gap"]) == len(arm["verdict"]) == len(arm["why"]) == n
    kept = int((one["ddp_high"] <= 0.1).sum())
    assert f"{kept} of 2,410 sites" in found["sentence"]


def test_nothing_but_plain_data():
    values = {"a": np.float64("nan"), "b": (np.int64(3), np.bool_(True)), "c": 0.12345678}
    assert jsonable(values) == {"a": None, "b": [3, True], "c": 0.123457}
    with pytest.raises(TypeError):
        jsonable(object())


def test_the_server_page_has_names_and_states_and_no_numbers_of_sites():
    sites = [("a", "present", ""), ("b", "missing", "it has gone"), ("c", "refused", "no label")]
    found = page.of_server("FedAvg on Flower", 2, 5, sites, ["round 2 of 5"]).to_json()
    assert found["sentence"] == (
        "2 of 5 rounds are done; 1 of 3 sites are present; missing: b; refused: c."
    )
    assert found["live"]["finished"] is False
    assert found["parts"] == []
    assert found["server"]["sites"][2] == {"name": "c", "state": "refused", "words": "no label"}
    ended = page.of_server("x", 2, 5, sites, [], error="Too few sites.").to_json()
    assert ended["live"]["finished"]
    assert ended["sentence"].startswith("The run stopped: Too few")
