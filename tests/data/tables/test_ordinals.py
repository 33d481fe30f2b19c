"""One input for each column: categories by the rate of the label."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import encoder as encoders
from pfedfair.data.tables.ordinals import USUAL, OrderedColumns
from pfedfair.data.tables.piecewise import Piecewise

PLACES = [*"abcde", None]


def made(colours, ages, y):
    frame = pd.DataFrame({"colour": pd.Series(colours, dtype=object), "age": ages})
    half = np.arange(len(frame)) % 2
    data = pff.from_frame(frame.assign(y=half, s=half), "y", "s", keep=["colour", "age"])
    encoder = Piecewise.fit(data, np.arange(len(frame)))
    return OrderedColumns.by_label(encoder, encoder.pack(data.frame), y), data.frame


@given(st.data())
def test_a_cell_is_its_categorys_rate_or_its_number(draw):
    n = draw.draw(st.integers(2, 200))
    colours = draw.draw(st.lists(st.sampled_from(PLACES), min_size=n, max_size=n))
    ages = np.array(
        draw.draw(st.lists(st.sampled_from([1.0, 2, 5, np.nan]), min_size=n, max_size=n))
    )
    y = np.array(draw.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)), dtype=float)
    encoder, frame = made(colours, ages, y)
    assert encoder.width == len(encoder.columns)
    x = encoder.transform(frame)
    for k, name in enumerate(encoder.columns):
        if name in encoder.numbers:
            known = encoder.numbers[name].knots
            expected = [-1 if np.isnan(age) else known.index(age) for age in frame[name]]
        else:
            names = encoder.categories[name].names
            kind = ["" if pd.isna(c) else c if c in names else "other" for c in frame[name]]
            groups = {c: [y[i] for i in range(n) if kind[i] == c] for c in kind}
            rate = {c: (sum(of) + USUAL * y.mean()) / (len(of) + USUAL) for c, of in groups.items()}
            expected = [rate[c] for c in kind]
        np.testing.assert_allclose(x[:, k], expected, rtol=1e-6)


def test_a_level_that_nobody_had_is_as_everybody():
    y = np.array([1.0, 0, 0, 1] * 10)
    encoder, frame = made(["a", "b"] * 20, [1.0, 2] * 20, y)
    new = encoder.transform(frame.iloc[:2].assign(colour=["z", None]))
    np.testing.assert_allclose(new[:, encoder.columns.index("colour")], y.mean())
    unknown, _ = encoder.unseen(new := frame.assign(colour="z"), encoder.pack(new))
    assert unknown == {"colour": 40}


def test_it_is_told_and_made_again():
    encoder, frame = made(["a", "b"] * 20, [1.0, 2] * 20, np.array([1.0, 0] * 20))
    again = encoders.from_dict(json.loads(json.dumps(encoder.to_dict())), {})
    assert again == encoder
    assert torch.equal(again.unpack(torch.from_numpy(again.pack(frame))),
                       torch.from_numpy(encoder.transform(frame)))  # fmt: skip
    about = encoder.to_dict()
    about["rates"] = {"colour": (0.5,)}
    with pytest.raises(pff.InputError, match="damaged"):
        encoders.from_dict(about, {})
