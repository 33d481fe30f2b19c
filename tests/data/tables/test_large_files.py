"""Files that pandas reads in parts, where a column has numbers in one and words in another."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.data.tables.encoder import fit

FIRST, LAST = 140_000, 600  # more rows of numbers than pandas reads at once


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """S, label, client and a category are 0 and 1 at first; later there are words, too."""
    path = tmp_path_factory.mktemp("large") / "large.csv"
    numbers = ["0,0,0,0,0.5\n", "1,0,1,1,1.5\n", "0,1,0,2,2.5\n", "1,1,1,1,3.5\n"]
    words = ["0,0,0,0,0.1\n", "1,1,1,1,0.2\n", "x,maybe,west,red,0.3\n"]
    text = "sex,hired,site,kind,x\n"
    path.write_text(text + "".join(numbers) * (FIRST // 4) + "".join(words) * (LAST // 3))
    return path


def mixed(path):
    """As pandas reads it by itself: the same code is a number here and a word there."""
    with pytest.warns(pd.errors.DtypeWarning):
        frame = pd.read_csv(path)
    assert {type(cell) for cell in frame["sex"]} == {int, str}
    assert frame["sex"].nunique() == 5
    return frame


@pytest.mark.parametrize("how", ["file", "frame"])
def test_equal_names_are_one_group_label_client_and_level(path, how):
    if how == "file":
        data = pff.load(path, "hired", "sex", categorical=["kind"])
    else:
        data = pff.from_frame(mixed(path), "hired", "sex", categorical=["kind"])
    assert data.group_names == ("0", "1", "x")
    assert data.label_names == ("0", "1", "maybe")
    third = LAST // 3
    each = [FIRST // 2 + third, FIRST // 2 + third, third]
    assert np.bincount(data.s).tolist() == np.bincount(data.y).tolist() == each
    part = pff.partition.by_column("site").split(data, 0)
    assert part.names == ("0", "1", "west")
    assert [len(a) + len(b) for a, b in zip(part.train, part.test, strict=True)] == each
    encoder = fit(data, [np.arange(len(data))], "site")
    assert encoder.categories["kind"].names == ("0", "1", "2", "red")
