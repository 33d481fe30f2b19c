"""Whether a column is the label or S once more."""

import tracemalloc
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import duplicates


def plainly_same(cells, other):
    """Whether two columns are one, by pairs of cells; None is a missing value."""
    pairs = {*zip(cells, other, strict=True)}
    words, values = set(cells), set(other)
    if len(cells) < duplicates.COPY:
        return False
    if len(words) == len(values) == len(pairs) > 1:
        return True
    there = [(a, b) for a, b in zip(cells, other, strict=True) if a is not None]
    if len(there) < max(duplicates.COPY, len(cells) / 2):
        return False
    words, values = {a for a, _ in there}, {b for _, b in there}
    if len(values) < 2 or not len(values) <= len(words) <= duplicates.MOST_SLIPS + len(values):
        return False
    called = {}
    for value in values:
        each = Counter(a for a, b in there if b == value)
        word, right = next((a, each[a]) for a, _ in there if each[a] == max(each.values()))
        slips = max(sum(each.values()), sum(a == word for a, _ in there)) - right
        if right < duplicates.COPY and slips > 0:
            return False
        if slips > max(1, duplicates.SLIPS * right) * (right >= duplicates.COPY):
            return False
        called[value] = word
    return len({*called.values()}) == len(values)


@given(st.data())
def test_copies_are_found_by_counts_as_by_pairs(data):
    n = data.draw(st.integers(15, 120))
    other = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    names = data.draw(st.permutations(["a", "b", "c"]))
    cells = [names[value] for value in other]
    for _ in range(data.draw(st.integers(0, 3))):
        cells[data.draw(st.integers(0, n - 1))] = data.draw(st.sampled_from(["a", "d", "e", None]))
    codes, words = pd.factorize(pd.Series(cells, dtype=object))
    numbers, values = pd.factorize(other, sort=True)
    found = duplicates.same_words(codes, len(words), numbers, len(values))
    assert found == plainly_same(cells, other.tolist())


def test_copies_among_very_many_values_take_no_table_of_all_pairs():
    ages = np.repeat(np.arange(5000), 2)
    others = np.random.default_rng(0).permutation(5000)[ages], np.roll(ages, 1), ages // 2
    tracemalloc.start()
    found = [duplicates.same_words(one, int(one.max()) + 1, ages, 5000) for one in others]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [True, False, False]
    assert most < 20e6


# --- a number that differs in every row ---------------------------------------------------------

N = 400
RNG = np.random.default_rng(0)
INCOME = np.exp(RNG.normal(10, 0.5, N))
EDGES = {"income": [float(np.median(INCOME))]}


def inputs_beside_income(cells, **options):
    """Return the inputs of a column and a sensitive income, and why the column is left out."""
    frame = pd.DataFrame({"x": cells, "income": INCOME, "y": np.arange(N) % 2})
    frame["age"] = RNG.integers(20, 60, N)
    data = pff.from_frame(frame, "y", "income", bands=EDGES, **options)
    assert "age" in data.numeric
    return [*data.numeric, *data.categorical], data.excluded.get("x", "")


def slipped(cells, number):
    """The same numbers, but for so many rows that have another's."""
    some = RNG.choice(N, number, replace=False)
    found = cells.copy()
    found[some] = np.roll(cells[some], 1)
    return found


@pytest.mark.parametrize("of", [
    lambda x: x, lambda x: x / 1000, lambda x: -x, np.log, lambda x: 1 / x, lambda x: slipped(x, 4),
    lambda x: -slipped(x, 3), lambda x: np.where(np.arange(N) % 3, x, np.nan),
    lambda x: pd.Timestamp("2000-01-01") - pd.to_timedelta(np.round(x), unit="D"),
    lambda x: [f"{value:.6f}" for value in x],
])  # fmt: skip
def test_a_number_on_another_scale_or_reversed_is_a_copy(of):
    made, why = inputs_beside_income(of(INCOME))
    assert why == "is a copy of 'income'"
    assert made == ["age"]


@pytest.mark.parametrize("of", [
    lambda x: RNG.normal(size=N), RNG.permutation, lambda x: slipped(x, 40),
    lambda x: x + RNG.normal(0, 2000, N), lambda x: np.abs(x - np.median(x)),
    lambda x: pd.Timestamp("2000-01-01") + pd.to_timedelta(RNG.permutation(N) * 37, unit="h"),
])  # fmt: skip
def test_another_number_that_differs_in_every_row_is_an_input(of):
    made, why = inputs_beside_income(of(INCOME))
    assert why == ""
    assert any(name.startswith("x") for name in made)


def test_numbers_and_names_of_people_beside_an_income_are_that():
    like_a_name = "has another value in nearly every row, like a name"
    for cells in (np.arange(N) + 100, [f"person {i}" for i in range(N)]):
        assert inputs_beside_income(cells) == (["age"], like_a_name)


def test_people_with_several_rows_do_not_make_a_copy():
    """Each person's numbers are called by one another, and say nothing of each other."""
    who = np.repeat(np.arange(50), 8)
    frame = pd.DataFrame({"y": np.arange(len(who)) % 2, "income": INCOME[who]})
    frame["height"], frame["half"] = RNG.normal(170, 9, N)[who], frame["income"] / 2
    data = pff.from_frame(frame, "y", "income", bands=EDGES)
    assert data.numeric == ("height",)
    assert data.excluded == {"half": "is a copy of 'income'"}


def longest_rise(values):
    """How many numbers are left that never fall, by trying all pairs."""
    best = []
    for i, value in enumerate(values):
        best.append(1 + max((best[j] for j in range(i) if values[j] <= value), default=0))
    return max(best)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(1, 8))
def test_slips_in_an_order_are_counted_as_by_all_pairs(values, slips):
    found = duplicates._rises(np.array(values, dtype=float), slips)
    assert found == (len(values) - longest_rise(values) <= slips)


def test_an_order_of_a_million_rows_takes_no_table_of_pairs():
    x = RNG.normal(size=200_000)
    y = x**3
    y[:1000] = RNG.normal(size=1000)
    tracemalloc.start()
    found = [duplicates.same_order(one, x) for one in (y, -y, RNG.permutation(x))]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [True, True, False]
    assert most < 40e6
