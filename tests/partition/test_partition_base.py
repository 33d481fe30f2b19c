import numpy as np
import pandas as pd

import pfedfair as pff
from pfedfair.partition import by_column


def test_describe_prints_the_shares(table):
    text = by_column("site").split(table, seed=0).describe()
    assert "share f" in text
    assert "site 2" in text
    assert "held-out pool: " in text
    assert isinstance(by_column("site").split(table, seed=0).table(), pd.DataFrame)


def test_no_client_is_underrepresented_in_a_balanced_federation():
    frame = pd.DataFrame({"s": [0, 1] * 60, "y": [0, 1, 1, 0] * 30, "x": 1.0, "c": ["a"] * 120})
    frame["c"] = np.where(frame.index < 60, "a", "b")
    data = pff.from_frame(frame, "y", "s")
    part = by_column("c").split(data, seed=0)
    assert part.roles == ("overrepresented", "overrepresented")
