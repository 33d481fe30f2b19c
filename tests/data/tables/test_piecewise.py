"""Ramps, categories and missing values."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import encoder as encoders
from pfedfair.data.tables.piecewise import (
    LEAST,
    SEGMENTS,
    USUAL,
    Piecewise,
    fit_categories,
    fit_knots,
)
from pfedfair.data.tables.summary import Counts, Values


def data(**columns):
    frame = pd.DataFrame(columns)
    half = np.arange(len(frame)) % 2
    return pff.from_frame(frame.assign(y=half, s=half[::-1]), "y", "s", keep=list(columns))


def fitted(**columns):
    found = data(**columns)
    return Piecewise.fit(found, np.arange(len(found))), found.frame


def by_hand(knots, means, cells):
    """Plain loops: one segment after the other."""
    scale = np.sqrt(USUAL / (len(knots) - 1))
    rows = []
    for cell in cells:
        row = []
        for low, high, mean in zip(knots[:-1], knots[1:], means, strict=True):
            rise = min(max((cell - low) / (high - low), 0), 1)
            row.append(0.0 if np.isnan(cell) else scale * (rise - mean))
        rows.append(row)
    return np.array(rows)


@given(
    st.lists(
        st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 7.0]), min_size=2, max_size=150
    ),
    st.lists(st.booleans(), min_size=1, max_size=9),
)
def test_ramps_are_what_a_loop_makes(values, blanks):
    cells = np.where(np.resize(blanks, len(values)), np.nan, values)
    encoder, frame = fitted(a=cells)
    column = encoder.numbers["a"]
    there = cells[~np.isnan(cells)]
    if len(np.unique(there)) > 1:
        means = [
            np.interp(there, [low, high], [0, 1]).mean()
            for low, high in zip(column.knots[:-1], column.knots[1:], strict=True)
        ]
        np.testing.assert_allclose(column.means, means, atol=1e-9)
        expected = by_hand(column.knots, column.means, cells)
    else:
        expected = np.zeros((len(cells), 0))
    if np.isnan(cells).any():
        expected = np.column_stack([expected, np.isnan(cells)])
    found = encoder.transform(frame)
    assert found.dtype == np.float32
    assert found.shape == (len(cells), encoder.width)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.integers(0, 9))
def test_unpacking_takes_any_shape(shape, seed):
    encoder, _ = fitted(
        a=np.arange(60.0) % 7, b=["u", "v", None] * 20, c=np.r_[np.nan, np.ones(59)]
    )
    rng = np.random.default_rng(seed)
    packed = torch.from_numpy(rng.integers(-1, 3, (*shape, 3)).astype(np.float32))
    found = encoder.unpack(packed)
    assert found.shape == (*shape, encoder.width)
    flat = encoder.unpack(packed.reshape(-1, 3))
    assert torch.equal(found.reshape(-1, encoder.width), flat)


def test_few_values_have_a_ramp_each():
    encoder, frame = fitted(a=[0.0, 1.0, 2.0, 10.0] * 5)
    assert encoder.numbers["a"].knots == (0.0, 1.0, 2.0, 10.0)
    assert encoder.width == 3
    x = np.unique(encoder.transform(frame), axis=0)
    assert np.linalg.matrix_rank(np.column_stack([x, np.ones(4)])) == 4  # any shape can be learnt


def test_a_spike_does_not_eat_the_ramps():
    rng = np.random.default_rng(0)
    gain = np.where(rng.random(20_000) < 0.92, 0.0, rng.lognormal(8, 1, 20_000).round())
    knots = np.array(fit_knots(Values.of(pd.Series(gain))).knots)
    assert knots[0] == 0
    assert len(knots) == SEGMENTS + 2
    off = np.sort(gain[gain > 0])
    share = np.searchsorted(off, knots[2:-1], side="right") / len(off)
    np.testing.assert_allclose(share, np.arange(1, SEGMENTS) / SEGMENTS, atol=2e-3)


def test_knots_are_nested_and_no_single_row_sets_their_ends():
    values = np.random.default_rng(1).normal(size=5000)
    column = Values.of(pd.Series(values))
    coarse, fine, all_of_them = (set(fit_knots(column, n).knots) for n in (8, 16, 32))
    assert coarse < fine < all_of_them
    ends = np.sort(values)[[9, -11]]
    np.testing.assert_allclose([min(all_of_them), max(all_of_them)], ends)


@pytest.mark.parametrize("segments", [8, 16, 32])
def test_a_ridge_does_not_depend_on_the_number_of_segments(segments):
    """A straight line in quantile space costs the same, whatever the segments."""
    values = np.random.default_rng(2).uniform(size=20_000)
    number = fit_knots(Values.of(pd.Series(values)), segments)
    scale = np.sqrt(USUAL / len(number.means))
    line = (
        np.full(len(number.means), 1 / len(number.means)) / scale
    )  # from 0 to 1 over all segments
    assert np.square(line).sum() == pytest.approx(1 / USUAL, rel=1e-6)


def test_rare_categories_share_one():
    words = ["a"] * 30 + ["b"] * LEAST + ["c"] * (LEAST - 1) + ["d"] + [None] * 4
    encoder, frame = fitted(c=words)
    assert encoder.categories["c"].names == ("a", "b")
    x = encoder.transform(frame)
    np.testing.assert_array_equal(x[:50].sum(1), 1)
    np.testing.assert_array_equal(x[:50].sum(0), [30, LEAST, LEAST, 0])  # a, b, other, missing
    for row in x[50:]:  # missing, and otherwise as the mean of the others
        np.testing.assert_allclose(row, [0.6, 0.2, 0.2, 1])


def test_hundreds_of_categories_are_fine_and_thousands_are_cut():
    encoder, frame = fitted(occupation=[f"job {i % 529}" for i in range(529 * LEAST)])
    assert encoder.width == 529
    assert encoder.pack(frame).shape == (5290, 1)
    many = Counts({f"w{i}": 10 + i for i in range(1500)}, 0, 0)
    names = fit_categories(many).names
    assert len(names) == 1000
    assert set(names) == {f"w{i}" for i in range(500, 1500)}


def test_one_blank_cell_among_codes_changes_nothing_for_the_others():
    codes = np.arange(200) % 5
    frame = pd.DataFrame({"zip": codes, "y": codes % 2, "s": (np.arange(200) // 5) % 2})
    made = pff.from_frame(frame, "y", "s", categorical=["zip"], keep=["zip"])
    encoder = Piecewise.fit(made, np.arange(200))
    assert encoder.categories["zip"].names == tuple("01234")
    before = encoder.transform(frame)
    blank = frame.assign(zip=frame["zip"].astype(float).where(frame.index > 0))
    for other in (blank, blank.astype({"zip": object}), frame.astype({"zip": str})):
        np.testing.assert_array_equal(encoder.transform(other)[1:], before[1:])
    np.testing.assert_allclose(
        encoder.transform(blank)[0], before.mean(0)
    )  # as the mean of the others
    new = frame.assign(zip=9)
    np.testing.assert_allclose(encoder.transform(new), np.tile(before.mean(0), (200, 1)))


def test_what_training_rows_had_none_of_is_counted_in_a_warning():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "c": rng.choice(["u", "v"], 300)})
    frame["y"], frame["s"] = np.arange(300) % 2, np.arange(300) // 2 % 2
    for encoding in ("piecewise", "standard"):
        made = pff.from_frame(frame, "y", "s", encoding=encoding)
        run = pff.train(made.federate(pff.partition.together()), pff.methods.Constant())
        model = run.personal_model(0)
        model.decide(frame, frame["s"])  # no warning
        strange = frame.assign(c=["w"] * 7 + ["u"] * 293)
        with pytest.warns(pff.UnseenWarning, match=r"7 cells with a new or rare value \(c 7\)"):
            model.decide(strange, frame["s"])
        with pytest.warns(pff.UnseenWarning, match=r"1 cell with a missing value \(a 1\)"):
            model.decide(frame.assign(a=frame["a"].where(frame.index > 0)), frame["s"])


def test_rows_like_the_training_rows_give_no_warning():
    words = ["a"] * 80 + ["rare 1", "rare 2"] * 5 + [None] * 10
    encoder, frame = fitted(c=words, b=np.where(np.arange(100) % 4, np.arange(100.0), np.nan))
    assert encoder.unseen(frame, encoder.pack(frame)) == ({}, {})
    other = frame.assign(c=None)
    assert encoder.unseen(other, encoder.pack(other)) == ({}, {"c": 100})


def test_it_is_kept_in_json():
    encoder, frame = fitted(a=[0.1, np.nan, 2.0] * 20, c=["u", "v", None] * 20)
    about = json.loads(json.dumps(encoder.to_dict()))
    again = encoders.from_dict(about, {})
    assert again == encoder
    np.testing.assert_array_equal(again.transform(frame), encoder.transform(frame))


def test_a_missing_column_is_named():
    encoder, frame = fitted(a=[0.1, 0.2, 2.0] * 20)
    with pytest.raises(pff.InputError, match="lack the column 'a', an input of the model"):
        encoder.pack(frame.drop(columns="a"))


def test_a_federation_keeps_packed_rows_and_trains_on_dense_ones():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "c": rng.choice(["u", "v", "w"], 400)})
    frame["y"] = (frame["a"] ** 2 + rng.normal(size=400) > 1).astype(int)
    frame["s"] = rng.integers(0, 2, 400)
    made = pff.from_frame(frame, "y", "s")
    assert made.encoding == "piecewise"
    federation = made.federate(pff.partition.together())
    assert federation.table.x.shape == (400, 2)
    assert (federation.table.width, federation.encoder.width) == (35, 35)
    x = federation.table.inputs(slice(5))
    np.testing.assert_array_equal(x, federation.encoder.transform(frame)[:5])
    run = pff.train(federation, pff.methods.FedAvg(rounds=30, alpha=0.02), network="linear")
    assert run.table()["accuracy"].item() > 0.65  # a line cannot: y depends on a squared


def test_adult_can_have_ramps_too():
    adult = pff.load("adult", encoding="piecewise")
    assert (adult.encoding, pff.load("adult").encoding) == ("piecewise", "standard")
    federation = adult.federate(pff.partition.fixed_shares())
    assert federation.table.x.shape[1] == len(adult.numeric) + len(adult.categorical)
    assert "capital_gain" in federation.encoder.numbers
    with pytest.raises(pff.InputError, match="Unknown encoding 'ramps'"):
        pff.load("adult", encoding="ramps")


@pytest.mark.parametrize("wrong", ["means", "shares"])
def test_an_encoder_whose_columns_and_inputs_do_not_match_is_refused(wrong):
    encoder, _ = fitted(a=[0.1, np.nan, 2.0] * 20, c=["u", "v", None] * 20)
    about = encoder.to_dict()
    column = about["numbers"]["a"] if wrong == "means" else about["categories"]["c"]
    column[wrong] = [0.5] * 40
    with pytest.raises(pff.InputError, match="encoder is damaged"):
        Piecewise.from_dict(about)
