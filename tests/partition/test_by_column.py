import numpy as np
import pandas as pd
import pytest
from dealt import assert_disjoint
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.partition import by_column, fixed_shares, stratified
from pfedfair.partition.by_column import clients_of


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
    with pytest.raises(pff.InputError, match="has 1 missing values"):
        by_column("site").split(data, seed=0)


def made(sites, **columns):
    n = len(sites)
    frame = pd.DataFrame({"x": np.arange(n) % 7.0, "site": sites, **columns})
    return pff.from_frame(frame.assign(y=np.arange(n) % 2, s=np.arange(n) // 2 % 2), "y", "s")


def test_equal_names_are_one_client_and_keep_their_spelling():
    for cells, names in [
        ([1, "1", 1.0, "2"] * 20, ("1", "2")),
        ([1.0, 2.0] * 40, ("1", "2")),
        (["01", "02"] * 40, ("01", "02")),
        ([" a", "a ", "b"] * 40, ("a", "b")),
        ([True, False] * 40, ("False", "True")),
        (["10", "9", "x"] * 40, ("10", "9", "x")),
        (["?", "a"] * 40, ("?", "a")),
    ]:
        data = made(pd.Series(cells, dtype=object) if cells[0] != 1.0 else cells)
        assert by_column("site").split(data, 0).names == names


@given(st.lists(st.sampled_from("abcdef"), min_size=40, max_size=80))
@settings(max_examples=30)
def test_clients_have_the_rows_of_their_name(sites):
    found = clients_of(pd.Series(sites))
    assert list(found) == sorted(set(sites))
    for name, rows in found.items():
        assert rows.tolist() == [k for k, site in enumerate(sites) if site == name]


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_thousands_of_clients_by_a_text_column():
    n = 1200
    sites = np.repeat([f"branch {k:04d} of the bank" for k in range(n)], 24)
    data = made(sites)
    assert "site" in data.categorical  # not refused for its many levels; it is no input below
    federation = data.federate(by_column("site"))
    assert len(federation) == n
    assert "site" not in federation.encoder.columns
    assert federation.partition.names[-1] == "branch 1199 of the bank"
    run = pff.train(federation, pff.methods.FedAvg(rounds=1, alpha=0.1), network="linear")
    assert len(run.predictors) == n


def test_small_clients_are_refused_or_left_out_and_named(table):
    sites = np.repeat(["a", "b", "c", "d"], [60, 40, 7, 3])
    data = made(sites)
    with pytest.raises(
        pff.InputError, match=r"'c' .* has 7 training rows, at least 20 .* min_rows=20"
    ):
        by_column("site").split(data, 0)
    part = by_column("site", min_rows=20).split(data, 0)
    assert part.names == ("a", "b")
    used = np.concatenate([*part.train, *part.test])
    np.testing.assert_array_equal(np.sort(used), np.arange(100))
    np.testing.assert_array_equal(part.pool, np.sort(np.concatenate(part.test)))
    note = "2 clients are left out, with fewer than 20 rows (10 rows in all): c (7), d (3)."
    assert part.notes == (note,)
    assert part.describe().endswith(note)
    assert by_column("site", min_rows=5).split(data, 0).names == ("a", "b", "c")
    with pytest.raises(pff.InputError, match="No client of column 'site' has 99 rows"):
        by_column("site", min_rows=99).split(data, 0)
    with pytest.raises(pff.InputError, match="min_rows must be at least 1, got 0"):
        by_column("site", min_rows=0)
    with pytest.raises(pff.InputError, match="min_rows is for clients of a column"):
        pff.partition.choose("together", data, min_rows=5)


def plainly(rows, s, fraction, rng):
    """Rows in two parts, `fraction` of each group in the first, asking all of s for groups."""
    first, second = [], []
    for z in range(max(2, int(s.max()) + 1)):
        shuffled = rng.permutation(rows[s[rows] == z])
        cut = round(fraction * len(shuffled))
        first += shuffled[:cut].tolist()
        second += shuffled[cut:].tolist()
    return sorted(first), sorted(second)


@given(st.integers(1, 5), st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(0, 9))
def test_other_clients_groups_have_no_say_in_a_split(groups, own, seed):
    s = np.array([*own, *range(groups)]) % groups
    rows = np.random.default_rng(seed).permutation(len(own))
    found = stratified(rows, s, 0.3, np.random.default_rng(seed))
    expected = plainly(rows, s, 0.3, np.random.default_rng(seed))
    assert [part.tolist() for part in found] == [*expected]


def test_very_many_clients_are_listed_in_a_few_lines():
    n = 150
    frame = pd.DataFrame({"x": np.arange(40.0 * n), "s": np.arange(40 * n) % 2})
    frame = frame.assign(y=(frame["x"] // 7) % 2, site=np.arange(40 * n) % n)
    federation = pff.from_frame(frame, "y", "s").federate(by_column("site"))
    lines = federation.describe().splitlines()
    assert len(lines) == 23
    assert lines[21] == "and 130 more clients; of all 150 each has 30 to 30 rows to train on"
