"""Audits against fairlearn and scikit-learn; and every odd table says what is odd."""

import fairlearn.metrics as fairlearn_metrics
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

import pfedfair as pff
from pfedfair.auditing import rows
from pfedfair.studies import words

ROLES = {"label": "hired", "prediction": "model", "sensitive": "sex"}


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "race": rng.choice(["a", "b", "c"], n),
        "site": rng.choice(["east", "west"], n), "hired": rng.integers(2, size=n),
    })  # fmt: skip
    frame["score"] = (rng.random(n) + frame["hired"] + 0.3 * (frame["sex"] == "m")) / 2.3
    return frame.assign(
        model=(frame["score"] > 0.5).astype(int), fair=(frame["score"] > 0.45).astype(int)
    )


@pytest.fixture(scope="module")
def frame():
    return table()


def values(audit, client="", group="", prediction="model"):
    found = audit.frame
    same = (found["client"] == client) & (found["group"] == group)
    same &= found["prediction"] == prediction
    assert not found[same]["measure"].duplicated().any()
    return found[same].set_index("measure")


def check(found, frame, groups):
    """All groups together, against fairlearn and scikit-learn."""
    y, decided, s = frame["hired"], frame["model"], {"sensitive_features": groups}
    value = found["value"]
    assert value["accuracy"] == pytest.approx(sk.accuracy_score(y, decided))
    assert value["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(y, decided))
    assert value["selection_rate"] == pytest.approx(decided.mean())
    assert value["ddp"] == pytest.approx(
        fairlearn_metrics.demographic_parity_difference(y, decided, **s)
    )
    assert value["ratio"] == pytest.approx(
        fairlearn_metrics.demographic_parity_ratio(y, decided, **s)
    )
    assert value["eo"] == pytest.approx(
        fairlearn_metrics.equalized_odds_difference(y, decided, **s)
    )
    assert value["eopp"] == pytest.approx(
        fairlearn_metrics.equal_opportunity_difference(y, decided, **s)
    )


def test_numbers_are_fairlearns_and_scikit_learns(frame):
    audit = pff.audit(frame, **ROLES, client="site", score="score")
    check(values(audit), frame, frame["sex"])
    for site, part in frame.groupby("site"):
        check(values(audit, site), part, part["sex"])
        auc = values(audit, site, prediction="score")["value"]["auc"]
        assert auc == pytest.approx(sk.roc_auc_score(part["hired"], part["score"]))
    for sex, part in frame.groupby("sex"):
        value = values(audit, group=sex)["value"]
        assert value["label_rate"] == pytest.approx(part["hired"].mean())
        assert value["selection_rate"] == pytest.approx(part["model"].mean())
        assert value["accuracy"] == pytest.approx(sk.accuracy_score(part["hired"], part["model"]))
        rate = fairlearn_metrics.true_positive_rate(part["hired"], part["model"])
        assert value["true_positive_rate"] == pytest.approx(rate)
        rate = fairlearn_metrics.false_positive_rate(part["hired"], part["model"])
        assert value["false_positive_rate"] == pytest.approx(rate)
        scored = values(audit, group=sex, prediction="score")["value"]
        assert scored["auc"] == pytest.approx(sk.roc_auc_score(part["hired"], part["score"]))
        gap = part["score"].mean() - part["hired"].mean()
        assert scored["calibration"] == pytest.approx(gap)
    assert "Audit of 400 rows, 2 groups, 2 clients: accuracy" in repr(audit)


def test_every_number_is_within_its_interval(frame):
    audit = pff.audit(frame, **ROLES, client="site", score="score", against="fair")
    found = audit.frame.dropna(subset="value")
    assert (found["low"] <= found["value"] + 1e-9).all()
    assert (found["value"] <= found["high"] + 1e-9).all()
    assert found["enough"].all()
    assert len(found) == len(audit.frame)


def test_groups_of_two_columns(frame):
    audit = pff.audit(frame, label="hired", prediction="model", sensitive=["sex", "race"])
    check(values(audit), frame, frame[["sex", "race"]])
    assert audit.rows.groups == ("f x a", "f x b", "f x c", "m x a", "m x b", "m x c")
    same = pff.audit(frame, label="hired", prediction="model", sensitive="sex,race")
    pd.testing.assert_frame_equal(audit.frame, same.frame)


def test_the_largest_of_many_gaps_stands_next_to_what_chance_makes(frame):
    rng = np.random.default_rng(0)
    ten = frame.assign(group=rng.integers(0, 10, len(frame)), model=rng.random(len(frame)) < 0.3)
    audit = pff.audit(ten, **(ROLES | {"sensitive": "group"}))
    found = values(audit)
    rates = [rng.binomial(40, 0.3, (4000, 10)) / 40]  # about 40 rows in each group
    assert found["value"]["ddp_floor"] == pytest.approx(np.ptp(rates, axis=-1).mean(), rel=0.1)
    assert found["value"]["ddp"] < 1.8 * found["value"]["ddp_floor"]
    shown = audit.view()
    heads = [column.heading for column in shown.tables[1].columns]
    assert heads.index("DDP\nby chance") == heads.index("DDP ↓") + 1
    floor = f"{found['value']['ddp_floor']:.3f}".removeprefix("0")
    assert f"without any, {floor} is expected by chance." in shown.tables[1].lines[0]
    two = pff.audit(frame, **ROLES)
    assert "ddp_floor" not in set(two.frame["measure"])
    assert "by chance" not in str(two.view())


def test_it_hands_a_metric_frame_over(frame):
    audit = pff.audit(frame, **(ROLES | {"sensitive": "sex,race"}), client="site")
    found = audit.metric_frame()
    assert isinstance(found, fairlearn_metrics.MetricFrame)
    assert found.by_group.index.names == ["site", "sex", "race"]
    part = frame.query("site == 'east' and sex == 'f' and race == 'b'")
    row = found.by_group.loc["east", "f", "b"]
    assert row["count"] == len(part)
    own = values(audit, "east", "f x b")["value"]
    for name in ("accuracy", "selection_rate", "true_positive_rate", "false_positive_rate"):
        assert row[name] == pytest.approx(own[name])
    usual = pff.audit(frame, **ROLES)
    gap = usual.metric_frame().difference()["selection_rate"]
    assert usual.table().loc["", "ddp"] == pytest.approx(gap)


def test_two_columns_of_decisions_in_pairs(frame):
    audit = pff.audit(frame, **ROLES, against="fair", client="site")
    one, other = values(audit), values(audit, prediction="fair")
    apart = values(audit, prediction="fair - model")
    for name in ("accuracy", "selection_rate", "ddp", "eo", "eopp"):
        difference = other["value"][name] - one["value"][name]
        assert apart["value"][name] == pytest.approx(difference)
    # Pairs have narrower intervals than two separate ones: few decisions differ.
    separate = one["high"]["selection_rate"] - one["low"]["selection_rate"]
    assert apart["high"]["selection_rate"] - apart["low"]["selection_rate"] < 0.8 * separate
    assert apart["low"]["selection_rate"] > 0
    same = pff.audit(frame.assign(fair=frame["model"]), **ROLES, against="fair")
    assert "both columns of decisions are the same." in same.notes
    apart = values(same, prediction="fair - model")
    assert (apart["value"] == 0).all()
    assert ((apart["low"] <= 0) & (apart["high"] >= 0)).all()


def test_another_label_is_positive(frame):
    usual, turned = pff.audit(frame, **ROLES), pff.audit(frame, **ROLES, positive=0)
    assert turned.rows.labels == ("1", "0")
    before, after = values(usual)["value"], values(turned)["value"]
    assert after["selection_rate"] == pytest.approx(1 - before["selection_rate"])
    assert after["ddp"] == pytest.approx(before["ddp"])
    frame = frame.assign(hired=frame["hired"].map({0: "no", 1: "yes"}))
    with pytest.raises(pff.InputError, match=r"no value in common: 'model' has [01], [01]"):
        pff.audit(frame, **ROLES)
    frame = frame.assign(model=frame["model"].map({0: "no", 1: "yes"}))
    with pytest.raises(pff.InputError, match="Unknown label 'yess': did you mean 'yes'"):
        pff.audit(frame, **ROLES, positive="yess")


def test_true_and_false_are_one_and_zero(frame):
    usual = pff.audit(frame, **ROLES).frame
    for changed in (frame.astype({"model": bool}), frame.astype({"hired": bool})):
        pd.testing.assert_frame_equal(pff.audit(changed, **ROLES).frame, usual)


def test_more_than_two_labels():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.choice(["low", "mid", "top"], (300, 2)), columns=["y", "p"])
    frame["s"] = rng.choice(["a", "b"], 300)
    audit = pff.audit(frame, label="y", prediction="p", sensitive="s", positive="mid")
    value = values(audit, prediction="p")["value"]
    assert value["balanced_accuracy"] == pytest.approx(
        sk.balanced_accuracy_score(frame["y"], frame["p"])
    )
    chosen = frame["p"] == "mid"
    rates = chosen.groupby(frame["s"]).mean()
    assert value["selection_rate"] == pytest.approx(chosen.mean())
    assert value["ratio"] == pytest.approx(rates.min() / rates.max())
    assert list(audit.metric_frame().by_group["selection_rate"]) == pytest.approx(list(rates))


# --- odd tables --------------------------------------------------------------------------------


def test_missing_values_are_counted(frame):
    frame = frame.astype(object)
    frame.loc[:3, "model"] = None
    frame.loc[3:5, "sex"] = "?"
    frame.loc[10, "score"] = "high"
    audit = pff.audit(frame, **ROLES, score="score")
    assert "6 of 400 rows are left out, as a value is missing (model 4, sex 3)." in audit.notes
    assert any(note.startswith("1 rows have no number as their score") for note in audit.notes)
    assert len(audit.rows.y) == 394
    check(values(audit), frame.loc[6:].astype({"hired": int, "model": int}), frame.loc[6:, "sex"])


def test_a_decision_that_no_label_has_is_wrong_and_noted(frame):
    frame = frame.astype({"model": object})
    frame.loc[:6, "model"] = "maybe"
    audit = pff.audit(frame, **ROLES, positive=1)
    assert "7 predictions in 'model' are maybe, which no label is: they count as wrong." in (
        audit.notes
    )
    right = (frame["model"] == frame["hired"]).mean()
    assert values(audit)["value"]["accuracy"] == pytest.approx(right)


def test_one_group_has_no_gap(frame):
    audit = pff.audit(frame.assign(sex="f"), **ROLES)
    assert "all rows are of one group, f: there is no gap to measure." in audit.notes
    assert values(audit)["value"][["ddp", "ratio", "eo", "eopp"]].isna().all()
    assert "DDP cannot be measured" in audit.view().tables[1].lines[0]


def test_small_clients_are_told(frame):
    frame = frame.assign(site=["one"] * 3 + ["two"] * 8 + ["rest"] * 389)
    frame.loc[:2, "sex"] = "f"
    frame.loc[3:10, "sex"] = ["f"] * 3 + ["m"] * 5
    frame.loc[:10, "model"] = 1
    audit = pff.audit(frame, **ROLES, client="site")
    notes = " ".join(audit.notes)
    assert "1 of 3 clients have rows of one group only, so no gap: client one." in notes
    assert "2 of 3 clients have fewer than 5 rows of a group: client one, two." in notes
    assert "the same decision at 2 of 3 clients: client one, two." in notes
    found = audit.frame.query("client == 'two' and measure == 'ddp'").iloc[0]
    assert not found["enough"]
    assert (found["value"], found["low"], found["people"]) == (0, 0, 3)
    assert found["high"] > 0.5
    cells = {row[0]: row for row in audit.view().tables[2].cells()}
    assert words.TOO_FEW in cells["two"]
    assert "n/a" in cells["one"]
    assert "clearly" not in str(cells)


def test_one_decision_for_all_rows(frame):
    audit = pff.audit(frame.assign(model=0), **ROLES)
    assert "all rows get the same decision in 'model': a gap of 0 is no merit." in audit.notes
    assert np.isnan(values(audit)["value"]["ratio"])  # no row is selected
    assert values(audit)["value"]["ddp"] == 0


def test_one_label_only(frame):
    same = frame.assign(hired=1, model=1)
    value = values(pff.audit(same, **ROLES))["value"]
    assert (value["accuracy"], value["selection_rate"], value["ratio"]) == (1, 1, 1)
    value = values(pff.audit(frame.assign(hired=0, model=0), **ROLES))["value"]
    assert value["selection_rate"] == 0
    audit = pff.audit(frame.assign(hired=1), **ROLES, score="score")
    assert "all rows have the label 1." in audit.notes
    assert np.isnan(values(audit, prediction="score")["value"]["auc"])


def test_scores_that_are_no_probabilities_have_an_auc(frame):
    odds = frame.assign(score=np.log(frame["score"] / (1.1 - frame["score"])))
    audit = pff.audit(odds, **ROLES, score="score")
    auc = values(audit, prediction="score")["value"]["auc"]
    assert auc == pytest.approx(sk.roc_auc_score(frame["hired"], frame["score"]))
    assert any("they are no probabilities" in note for note in audit.notes)
    assert audit.calibration.empty


def test_calibration_in_tenths(frame):
    audit = pff.audit(frame, **ROLES, score="score")
    found = audit.calibration
    assert found["people"].sum() == 400
    edges = np.quantile(frame["score"], np.linspace(0, 1, 11))
    place = np.clip(np.digitize(frame["score"], edges) - 1, 0, 9)
    part = frame[(place == 4) & (frame["sex"] == "m")]
    row = found.query("group == 'm' and bin == 4").iloc[0]
    assert row["people"] == len(part)
    assert row["label_rate"] == pytest.approx(part["hired"].mean())
    assert row["score"] == pytest.approx(part["score"].mean())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prediction": "modell"}, "no column 'modell' for the prediction: did you mean 'model'"),
        ({"sensitive": "sex,shoes"}, "no column 'shoes' for the group"),
        ({"sensitive": []}, "Name the columns with the groups"),
        ({"prediction": "hired"}, "Column 'hired' is named twice"),
        ({"sensitive": "sex,sex"}, "Column 'sex' is named twice"),
        ({"sensitive": "model,sex"}, "Column 'model' is named twice"),
        ({"prediction": "score"}, "'score' has 400 different values, at most 20"),
        ({"label": "score"}, "no value in common|different values"),
        ({"sensitive": "score"}, "makes 400 groups, and at most 100"),
        ({"score": "race"}, "'race' has no numbers"),
        ({"client": "town"}, "no column 'town' for the client"),
    ],
)
def test_wrong_input_is_refused(frame, changes, message):
    with pytest.raises(pff.InputError, match=message):
        pff.audit(frame, **(ROLES | changes))


def test_a_table_without_people(frame):
    with pytest.raises(pff.InputError, match="has no rows"):
        pff.audit(frame.head(0), **ROLES)
    with pytest.raises(pff.InputError, match="nothing to audit"):
        pff.audit(frame.assign(sex=None), **ROLES)


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 3), st.integers(0, 999))
@settings(max_examples=12)
def test_any_table_has_an_audit(n, groups, classes, seed):
    """Whoever is absent: the numbers of decisions are those of the functions of arrays."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "s": rng.integers(groups, size=n), "c": rng.integers(3, size=n),
        "y": rng.integers(classes, size=n), "x": rng.random(n).round(1),
    })  # fmt: skip
    frame["p"], frame["q"] = rng.permutation(frame["y"]), rng.permutation(frame["y"])
    roles = {"label": "y", "prediction": "p", "sensitive": "s", "client": "c"}
    audit = pff.audit(frame, **roles, score="x", against="q")
    found = values(audit, prediction="p")["value"]
    arrays = (frame["y"], frame["p"])
    gap = pff.metrics.demographic_parity_difference(*arrays, sensitive_features=frame["s"])
    assert found["ddp"] == pytest.approx(gap, nan_ok=True)
    each = audit.frame.query("measure == 'accuracy' and group == '' and prediction == 'p'")
    assert each["people"].iloc[1:].sum() == each["people"].iloc[0] == n
    view = audit.view()
    assert all(table.cells() for table in view.tables)
    measured = audit.frame[~audit.frame["measure"].str.endswith("_floor")]
    assert (measured["low"].isna() == measured["value"].isna()).all()


def test_many_clients_are_shown_by_their_gaps():
    frame = table(3000).assign(site=np.arange(3000) % 40)
    audit = pff.audit(frame, **ROLES, client="site")
    shown, every = audit.view().tables[2:4]
    assert (len(shown.frame), shown.detail) == (15, False)
    assert (len(every.frame), every.detail) == (40, True)
    assert list(every.frame["client"]) == [str(k) for k in range(40)]
    assert shown.frame["ddp_low"].min() >= every.frame["ddp_low"].median()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_words_among_codes_are_groups_labels_and_clients_in_files_too(tmp_path, ending):
    n = 300
    frame = pd.DataFrame({
        "s": ["X" if k % 30 == 0 else str(1 + k % 2) for k in range(n)],
        "site": ["HQ" if k % 40 == 0 else str(5 + k % 3) for k in range(n)],
        "y": ["none" if k % 50 == 0 else str(k % 2) for k in range(n)],
        "score": [str(k / 1000) if k else "n/k" for k in range(n)],
    })  # fmt: skip
    frame["p"] = frame["y"]
    path = tmp_path / f"decisions{ending}"
    if ending == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    columns = {"label": "y", "prediction": "p", "sensitive": ["s"], "client": "site"}
    _, found = rows.read(path, columns | {"score": "score", "against": None})
    assert found.groups == ("1", "2", "X")
    assert found.clients == ("5", "6", "7", "HQ")
    assert found.labels == ("0", "1", "none")
    assert len(found.y) == n
    assert np.isnan(found.score).sum() == 1
