import numpy as np
import pytest
from dealt import assert_disjoint

import pfedfair as pff
from pfedfair.partition import by_column, fixed_shares


def test_by_column_makes_one_client_per_value(table):
    part = by_column("site", test=0.25, validation=0.2).split(table, seed=0)
    assert part.names == ("site 0", "site 1", "site 2")
    for i, rows in enumerate(zip(part.train, part.validation, part.test, strict=True)):
        assert set(table.frame["site"].iloc[np.concatenate(rows)]) == {f"site {i}"}
    assert_disjoint(part)
    assert not part.shared_conditional
    with pytest.raises(pff.InputError, match="name the column"):
        fixed_shares().split(table, seed=0)


def test_by_column_refuses_rows_without_a_client(table):
    frame = table.frame.assign(site=[None, *table.frame["site"][1:]])
    data = pff.from_frame(frame, "hired", "sex")
    with pytest.raises(pff.InputError, match="has empty cells"):
        by_column("site").split(data, seed=0)
