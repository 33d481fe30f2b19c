"""Decisions on files: the model's, in the label's words, and no row is lost."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from made_people import people
from pfedfair.data.tables import reading
from pfedfair.runs import draws
from pfedfair.runs.decisions import decide_file, reader_of
from pfedfair.runs.model import read_model

pytestmark = [
    pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning"),
    pytest.mark.filterwarnings("ignore::pfedfair.UnseenWarning"),
]


@pytest.fixture(scope="module")
def run():
    """People of two groups and three sites; some decisions are randomised."""
    data = pff.from_frame(people(), "hired", "sex", drop=["site"])
    federation = data.federate(pff.partition.by_column("site"))
    settings = {
        "rounds": 8,
        "bins": 20,
        "target_ddp": 0.02,
        "confidence": 0.95,
        "max_randomised": 1.0,
    }
    return pff.train(federation, pff.make("transport", settings, data))


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("decided") / "run"
    run.save(out)
    return out


@pytest.fixture(scope="module")
def rows(run):
    frame = run.federation.data.frame.drop(columns="hired")
    return frame.assign(nr=np.arange(len(frame)) * 7)


def decide(folder, rows, tmp_path, kind="csv", client="site 1", **options):
    """Write rows, decide on them, and read what came out."""
    path, out = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    rows.to_csv(path, index=False) if kind == "csv" else rows.to_parquet(path)
    reader = reader_of(read_model(folder), client, **options)
    summary = decide_file(reader, reader.open(path), out)
    text = {"nr": str, "decision": str, "client": str}
    read = pd.read_csv(out, keep_default_na=False, dtype=text) if kind == "csv" else (
        pd.read_parquet(out))  # fmt: skip
    return read, summary


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_models_decisions_scores_and_rules(run, folder, rows, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(reading, "ROWS", 37)
    found, summary = decide(folder, rows, tmp_path, kind, id="nr")
    model = run.personal_model("site 1")
    assert list(found) == ["row", "nr", "decision", "score", "chance", "rule", "problem", "warning"]
    expected = model.predict(rows, ids=rows["nr"])
    assert (found["decision"] == expected.astype(str)).all()
    np.testing.assert_allclose(found["score"].astype(float), model.score_samples(rows), atol=1e-6)
    chance = model.predict_proba(rows)[np.arange(len(rows)), model.decide(rows, ids=rows["nr"])]
    np.testing.assert_allclose(found["chance"].astype(float), chance, atol=1e-6)
    assert (chance < 1).any()
    cells = [model.predictor.rule.cell(z) for z in (0, 1)]
    assert (found["rule"] == rows["sex"].map(dict(zip("fm", cells, strict=True)))).all()
    assert (found["problem"] == "").all()
    assert list(found["row"]) == list(range(len(rows)))
    assert summary.rows == len(rows)
    assert summary.drawn == (chance < 1).sum()
    rates = summary.table(model.group_names, model.label_names).set_index("group")
    for sex in "fm":
        own = expected[rows["sex"] == sex]
        assert rates.loc[sex, "1"] == pytest.approx(own.mean())


def test_the_same_id_gets_the_same_answer_whatever_the_order_and_the_other_rows(
    folder, rows, tmp_path
):
    one, _ = decide(folder, rows, tmp_path, id="nr")
    shuffled = rows.sample(frac=0.6, random_state=0)
    other, _ = decide(folder, shuffled, tmp_path, "parquet", id="nr")
    both = one.merge(other, on="nr", suffixes=("", "_again"))
    assert len(both) == len(shuffled)
    assert (both["decision"] == both["decision_again"]).all()


def test_without_ids_draws_follow_from_inputs_and_equal_rows_before(folder, rows, tmp_path):
    others = rows.sample(frac=1, random_state=1)
    twice = pd.concat([rows, others]).assign(nr=0)
    once, again = (decide(folder, of, tmp_path)[0]["decision"].to_numpy() for of in (rows, others))
    both = decide(folder, twice, tmp_path)[0]["decision"].to_numpy()
    np.testing.assert_array_equal(both[: len(rows)], once)
    np.testing.assert_array_equal(once[others.index.to_numpy()], again)
    assert (both[len(rows) :] != again).any()  # a second row with these inputs has its own draw


def test_draws_are_as_frequent_as_their_chance(folder, tmp_path, rows):
    """Many rows with one randomised score, each with an id."""
    model = read_model(folder).of_client("site 1")
    chance = model.predict_proba(rows)[:, 1]
    at = np.flatnonzero((chance > 0.05) & (chance < 0.95))[0]
    many = rows.iloc[[at] * 4000].assign(nr=[f"p{k}" for k in range(4000)])
    found, summary = decide(folder, many, tmp_path, id="nr")
    assert summary.drawn == 4000
    assert (found["decision"] == "1").mean() == pytest.approx(chance[at], abs=0.035)
    other, _ = decide(folder, many, tmp_path, id="nr", key=draws.key_from_text("another"))
    assert 0 < (found["decision"] != other["decision"]).mean() < 1


def test_rows_with_problems_are_reported_not_dropped(run, folder, rows, tmp_path):
    odd = rows.astype({"nr": object})
    odd.loc[0, "sex"], odd.loc[1, "sex"], odd.loc[2, "nr"], odd.loc[3, "a"] = None, "x", " ", None
    for kind in ("csv", "parquet"):
        given = odd.astype({"nr": str}).replace({"nr": {"None": ""}})
        found, summary = decide(folder, given, tmp_path, kind, id="nr")
        assert len(found) == len(rows)
        problems = ["sex is empty", "sex is 'x', not f or m", "nr is empty", ""]
        assert list(found["problem"][:4]) == problems
        assert list(found["decision"][:3]) == [""] * 3
        assert (found["decision"][3:] != "").all()
        assert summary.problems == dict.fromkeys(problems[:3], 1)
        assert "3 rows have no decision: sex is empty (1); sex is 'x'" in summary.notes()[-1]
        assert summary.notes()[0].startswith("1 cell with a missing value (a 1)")


def test_a_column_names_the_client_of_each_row(run, folder, rows, tmp_path):
    odd = rows.copy()
    odd.loc[5, "site"], odd.loc[6, "site"] = "site 9", None
    found, _ = decide(folder, odd, tmp_path, client=None, client_column="site", id="nr")
    assert found["problem"][5] == "the run has no client 'site 9'"
    assert found["problem"][6] == "site is empty"
    for name in run.federation.partition.names:
        mine = (odd["site"] == name).to_numpy()
        expected = run.personal_model(name).predict(odd[mine], ids=odd["nr"][mine])
        assert (found["decision"][mine] == expected.astype(str)).all()
        assert (found["client"][mine] == name).all()


CODES = st.sampled_from(["1", "2", "1.0", " 2", "02", "", "?", "3"])


@settings(max_examples=25)
@given(cells=st.lists(CODES, min_size=1, max_size=9), size=st.integers(1, 4))
def test_groups_that_are_codes_however_written(coded, cells, size, tmp_path_factory):
    """A loop over cells is the oracle."""
    folder, crowd = coded
    rows = crowd.iloc[: len(cells)].assign(s=cells)
    before, reading.ROWS = reading.ROWS, size
    try:
        found, _ = decide(folder, rows, tmp_path_factory.mktemp("codes"), client="north")
    finally:
        reading.ROWS = before
    for cell, problem in zip(cells, found["problem"], strict=True):
        known = cell.strip().lstrip("0") in ("1", "2", "1.0")
        empty = cell in ("", "?")
        expected = "" if known else "s is empty" if empty else f"s is '{cell}', not 1 or 2"
        assert problem == expected


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "s": rng.integers(1, 3, size=80)})
    frame = frame.assign(y=rng.integers(2, size=80), site="north")
    data = pff.from_frame(frame, "y", "s")
    run = pff.train(data.federate(pff.partition.by_column("site")), pff.methods.FedAvg(rounds=1))
    out = tmp_path_factory.mktemp("coded") / "run"
    run.save(out)
    return out, frame.drop(columns=["y", "site"])


def test_a_file_without_rows_has_a_header(folder, rows, tmp_path):
    for kind in ("csv", "parquet"):
        found, summary = decide(folder, rows.iloc[:0], tmp_path, kind, id="nr", keep=["a"])
        assert list(found)[:3] == ["row", "nr", "a"]
        assert len(found) == summary.rows == 0


def test_blind_models_need_no_group_and_labels_may_be_three(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=90), "s": rng.choice(["f", "m"], size=90)})
    frame = frame.assign(y=rng.choice(["low", "mid", "top"], size=90), site="n")
    data = pff.from_frame(frame, "y", "s")
    federation = data.federate(pff.partition.by_column("site"), 0, sensitive_as_input=False)
    run = pff.train(federation, pff.methods.FedAvg(rounds=3, alpha=0.1))
    run.save(tmp_path / "run")
    rows = frame[["a"]]
    found, _ = decide(tmp_path / "run", rows, tmp_path, client=None)
    model = run.personal_model(0)
    assert (found["decision"] == model.predict(rows)).all()
    columns = ["score low", "score mid", "score top"]
    np.testing.assert_allclose(found[columns], model.score_samples(rows), atol=1e-6)
    assert (found["rule"] == "the largest score").all()
    assert (found["chance"] == 1).all()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_and_columns_that_are_called_like_parts_of_them(tmp_path, kind):
    rng = np.random.default_rng(2)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=120), "D")
    frame = pd.DataFrame({"since": day.astype(str), "born (year)": rng.integers(1950, 2000, 120)})
    frame["s"], frame["y"] = rng.choice(["f", "m"], size=120), rng.choice(["no", "yes"], size=120)
    data = pff.from_frame(frame.assign(site="n"), "y", "s")
    assert {"since (year)", "born (year)"} <= set(data.numeric)
    run = pff.train(data.federate(pff.partition.by_column("site")), pff.methods.FedAvg(rounds=3))
    run.save(tmp_path / "run")
    found, _ = decide(tmp_path / "run", frame, tmp_path, kind, client="n")
    model = run.personal_model(0)
    assert (found["decision"] == model.predict(frame)).all()
    np.testing.assert_allclose(found["score"], model.score_samples(frame), atol=1e-6)


def test_what_cannot_be_is_one_sentence(folder, rows, tmp_path):
    def refused(message, given=rows, **options):
        with pytest.raises(pff.InputError, match=message):
            decide(folder, given, tmp_path, **options)
        assert not (tmp_path / "out.csv").exists()

    refused("no column 'a' in the rows, an input of the model", rows.drop(columns="a"))
    refused("no column 'sex' in the rows, the sensitive attribute", rows.drop(columns="sex"))
    refused("no column 'number' in the rows", id="number")
    refused("no column 'color' in the rows: did you mean 'colour'", keep=["color"])
    refused("There is no client '2': the names are site 0, site 1, site 2", client="2")
    refused("There is no client 'site 7': did you mean 'site", client="site 7")
    refused("Say which client.s model decides, by client, or client_column", client=None)
    refused("client or client_column, not both", client_column="site")
    refused("holds lists or the like", rows.assign(a="[1]").assign(a=[[1]] * len(rows)),
         kind="parquet")  # fmt: skip


def test_lists_where_numbers_should_be(folder, rows, tmp_path):
    with pytest.raises(pff.InputError, match="Column 'a' holds lists or the like"):
        decide(folder, rows.assign(a=[[1]] * len(rows)), tmp_path, "parquet")


def test_predict_in_python_gives_the_labels(run, rows):
    model = run.personal_model("site 0")
    assert model.classes_.tolist() == [0, 1]
    assert set(model.predict(rows)) <= {0, 1}
    np.testing.assert_array_equal(
        model.predict(rows, ids=rows["nr"]), model.predict(rows, rows["sex"], ids=rows["nr"])
    )
    np.testing.assert_array_equal(
        model.predict(rows, ids=rows["nr"].astype(float)), model.predict(rows, ids=rows["nr"])
    )
    with pytest.raises(pff.InputError, match="There are 2 ids for 260 rows"):
        model.predict(rows, ids=[1, 2])
    z = model.decision_function(rows)
    np.testing.assert_allclose(torch.sigmoid(torch.from_numpy(z)), model.score_samples(rows))


@pytest.mark.parametrize(
    ("names", "classes"),
    [(("no", "yes"), ["no", "yes"]), (("0", "1"), [0, 1]), (("False", "True"), [False, True]),
     (("0.5", "2"), [0.5, 2.0]), (("1", "2", "x"), ["1", "2", "x"])],
)  # fmt: skip
def test_classes_are_the_labels_as_a_table_has_them(run, names, classes):
    found = replace(run.personal_model(0), label_names=names).classes_
    assert found.tolist() == classes
    assert found.dtype == np.array(classes).dtype
