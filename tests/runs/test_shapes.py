"""Shapes against the coefficients that they are made of."""

import numpy as np
import pandas as pd
import pytest
import torch

import pfedfair as pff
from made_people import people
from pfedfair.runs.shapes import POINTS

PLAN = pff.partition.by_column("site")


@pytest.fixture(scope="module", params=["standard", "piecewise"])
def run(request):
    frame = people((400, 300)).assign(years=lambda f: f["a"].round())
    data = pff.from_frame(frame, "hired", "sex", encoding=request.param)
    return pff.train(data.federate(PLAN), pff.methods.Newton())


def train_rows(run):
    return np.concatenate(run.federation.partition.train)


def test_contributions_add_up_to_the_score(run):
    """A row's score is the mean score and what its values contribute."""
    shapes, table = run.shapes(), run.federation.table
    data, rows = run.federation.data, train_rows(run)
    assert set(shapes["column"]) == {"a", "b", "c", "years", "colour", "sex"}  # not the client
    score = run.predictors[0].logits(table.inputs(slice(None)), table.s)[rows, 0].double().numpy()
    total, given = np.zeros(len(rows)), np.ones(len(rows), dtype=bool)
    for column, here in shapes.groupby("column"):
        assert here["people"].sum() == len(rows)
        assert np.average(here["contribution"], weights=here["people"]) == pytest.approx(0)
        if column == "sex":
            cells = np.asarray(data.group_names, dtype=object)[data.s[rows]]
        else:
            cells = data.frame[column].to_numpy()[rows]
        if here["kind"].iloc[0] == "number":
            given &= np.isin(cells, here["value"])
            total += np.interp(cells, here["value"], here["contribution"])
        else:
            total += here.set_index("level")["contribution"][list(cells)].to_numpy()
    apart = score - total
    assert given.sum() >= 3
    assert np.ptp(apart[given]) < 1e-4
    assert np.ptp(apart) < 0.2  # between two values of the grid there may be a bend
    assert shapes["contribution"].abs().max() > 0.5


def test_grids_are_values_that_rows_have(run):
    shapes, frame = run.shapes(), run.federation.data.frame.iloc[train_rows(run)]
    a = shapes[shapes["column"] == "a"]
    assert len(a) == POINTS
    assert set(a["value"]) <= set(frame["a"])
    assert a["value"].iloc[[0, -1]].tolist() == [frame["a"].min(), frame["a"].max()]
    years = shapes[shapes["column"] == "years"].set_index("value")["people"]
    assert years.to_dict() == frame["years"].value_counts().to_dict()
    colours = shapes[shapes["column"] == "colour"].set_index("level")["people"]
    assert colours.to_dict() == frame["colour"].value_counts().to_dict()
    assert colours.is_monotonic_decreasing


def test_every_label_has_a_shape():
    frame = people((200, 200))
    frame["hired"] = np.digitize(frame["a"] + frame["b"], [-0.3, 1.2])
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    federation = data.federate(pff.partition.together(), sensitive_as_input=False)
    shapes = pff.train(federation, pff.methods.Newton()).shapes()
    assert "sex" not in set(shapes["column"])
    slopes = {
        label: np.polyfit(here["value"], here["contribution"], 1)[0]
        for label, here in shapes[shapes["column"] == "a"].groupby("label")
    }
    assert slopes["0"] < slopes["1"] < slopes["2"]


def test_where_s_is_guessed_the_head_has_no_part():
    data = pff.from_frame(people((300, 300)), "hired", "sex")
    federation = data.federate(PLAN, sensitive_as_input=False)
    run = pff.train(federation, pff.make("transport", {"base": "newton", "target_ddp": 0.3}))
    assert set(run.shapes()["label"]) == {"1"}
    assert isinstance(run.shapes(), pd.DataFrame)


def test_what_has_no_shapes_says_so(federation):
    network = pff.MLP(federation.encoder.width, (5,), groups=2)
    run = pff.train(
        federation, pff.methods.FedAvg(rounds=60, batch=30, alpha=0.01), network=network
    )
    with pytest.raises(pff.InputError, match="mlp 5 has no shapes: take model='linear'"):
        run.shapes()


def test_any_method_on_a_linear_network_has_them(federation):
    network = pff.linear(federation.encoder.width, groups=2)
    run = pff.train(federation, pff.methods.FedAvg(rounds=20, batch=30, eta=0.2), network=network)
    colours = run.shapes().query("column == 'colour'").set_index("level")["contribution"]
    at = [f"{c}" for c in run.federation.encoder.categories["colour"]]
    names = list(run.federation.encoder.mean)
    w = run.fitted.w[len(names) : len(names) + 3]
    torch.testing.assert_close(
        torch.tensor(colours[at].to_numpy()).diff(), w.double().diff(), atol=1e-5, rtol=0
    )


def test_dates_words_among_numbers_and_infinite_cells(tmp_path):
    rng = np.random.default_rng(0)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(900, size=200), "D")
    number = pd.Series(rng.integers(9, size=200).astype(str), dtype=object)
    number[:5] = ["none", "n/a", "x", "x", "x"]
    frame = pd.DataFrame({"since": day.astype(str), "n": number, "f": rng.normal(size=200)})
    frame.loc[0, "f"] = np.inf
    frame["s"], frame["y"] = rng.choice(["f", "m"], size=200), rng.integers(2, size=200)
    data = pff.from_frame(frame.assign(site="a"), "y", "s")
    run = pff.train(data.federate(pff.partition.by_column("site")), pff.methods.FedAvg(rounds=2))
    run.save(tmp_path)
    found = pff.load_run(tmp_path).shapes()
    assert {"since (year)", "since (month)", "n", "f"} <= set(found["column"])
    train = run.federation.sizes.sum()
    assert (found.groupby("column")["people"].sum() == train).all()
