"""Who is within a target by the interval, why not, and how many rows would make it clear."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedfair import metrics
from pfedfair.studies import verdicts
from pfedfair.studies.verdicts import EXCEEDS, FEW, KINDS, NONE, SAME, UNCLEAR, WITHIN

NAN = float("nan")


def clients(*rows):
    """Rows of gap, low, high, people, one decision."""
    columns = ["ddp", "ddp_low", "ddp_high", "ddp_people", "one_decision"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(client=[chr(ord("a") + i) for i in range(len(frame))])


def judge(frame, target=0.05, known_to=None, differs=None):
    found = [*verdicts.verdicts(frame, target, "ddp")]
    why = verdicts.reasons(frame, found, target, "ddp", known_to, differs)
    return verdicts.sentence(list(frame["client"]), found, target, frame, "ddp"), found, why


GOOD = (0.02, 0.01, 0.03, 500, False)
BAD = (0.09, 0.07, 0.11, 500, False)
WIDE = (0.04, 0.0, 0.09, 80, False)


def test_all_are_within():
    assert judge(clients(GOOD, GOOD)) == ("all clearly within 0.05", [WITHIN, WITHIN], [None, None])
    assert judge(clients(GOOD))[0] == "clearly within 0.05"


def test_one_exceeds_with_its_interval_and_the_reason():
    frame = clients(GOOD, GOOD, BAD, GOOD, GOOD)
    text, found, why = judge(frame, known_to=[0.01, 0.01, 0.061, 0.01, 0.01])
    assert text == "4 of 5 sites clearly within 0.05, 1 exceeds it (site c: .090 [.070, .110])"
    assert found[2] == EXCEEDS
    assert why[2] == "its training rows determine its gap to ±0.061 only"
    assert judge(frame, known_to=[0.01] * 5)[2][2] is None
    assert judge(frame, differs={2: "its rows differ"})[2][2] == "its rows differ"
    assert judge(clients(BAD))[0] == "exceeds it (.090 [.070, .110])"


def test_what_is_not_clear_is_not_counted_as_within():
    frame = clients(
        GOOD, WIDE, (0.0, 0.0, 0.6, 3, False), (0.0, 0.0, 0.04, 90, True), (NAN, NAN, NAN, 0, False)
    )
    text, found, why = judge(frame)
    assert found == [WITHIN, UNCLEAR, FEW, SAME, NONE]
    assert text == (
        "1 of 5 sites clearly within 0.05, none exceeds it, 1 not clear (site b: 80 rows of the "
        "smaller group, about 2,000 would make it clear), 1 with too few rows (site c), 1 with the "
        "same decision for all rows (site d), 1 with rows of one group only (site e)"
    )
    assert why[1] == (
        "its interval [.000, .090] reaches across 0.05: it has 80 rows of the smaller group, about "
        "2,000 would make it clear"
    )


def test_many_are_counted_not_named():
    text, *_ = judge(clients(*[GOOD] * 6, *[BAD] * 5, *[WIDE] * 4))
    assert text == (
        "6 of 15 sites clearly within 0.05, 5 exceed it, 4 not clear (about 2,000 rows of the "
        "smaller group would make it clear)"
    )


def test_over_seeds_no_number_of_rows_is_named():
    frame = clients(GOOD, WIDE)
    found = [*verdicts.verdicts(frame, 0.05, "ddp")]
    text = verdicts.sentence(["a", "b"], found, 0.05, frame, "ddp", seeds=3)
    assert text == "1 of 2 sites clearly within 0.05, none exceeds it, 1 not clear (site b)"


@pytest.mark.parametrize(("rates", "target"), [((0.3, 0.26), 0.1), ((0.4, 0.2), 0.12)])
def test_with_so_many_rows_the_interval_ends_at_the_target(rates, target):
    """By the interval of so many rows, computed anew."""

    def frame(n):
        hits = np.array([[round(n * rate) for rate in rates]])
        counts = np.zeros((1, 2, 2, 2))
        counts[:, :, 0, 1], counts[:, :, 0, 0] = hits, n - hits
        found = metrics.measure(counts) | metrics.confidence_intervals(counts)
        return pd.DataFrame({name: found[name] for name in found if name.startswith("ddp")})

    few = frame(100)
    assert verdicts.verdicts(few, target, "ddp") == [UNCLEAR]
    (needed,) = verdicts.enough(few, target, "ddp")
    assert needed > 100
    assert verdicts.verdicts(frame(round(0.8 * needed)), target, "ddp") == [UNCLEAR]
    more = verdicts.verdicts(frame(round(1.2 * needed)), target, "ddp")
    assert more == [WITHIN if rates[0] - rates[1] < target else EXCEEDS]


def test_no_number_of_rows_makes_a_gap_at_the_target_clear():
    text, *_ = judge(clients((0.05, 0.02, 0.08, 200, False)))
    assert "more than a million would make it clear" in text


numbers = st.floats(0, 1) | st.just(NAN)


@given(st.lists(st.tuples(numbers, numbers, numbers, st.integers(0, 9), st.booleans()), min_size=1),
       st.floats(0, 1))  # fmt: skip
def test_every_client_has_one_verdict(rows, target):
    frame = clients(*rows)
    text, found, why = judge(frame, target)
    assert len(found) == len(why) == len(rows)
    assert set(found) <= set(KINDS)
    for verdict, reason, (gap, low, high, number, same) in zip(found, why, rows, strict=True):
        if np.isnan(gap):
            expected = NONE
        elif 0 < number < 5:
            expected = FEW
        elif same:
            expected = SAME
        elif high <= target:
            expected = WITHIN
        else:
            expected = EXCEEDS if low > target else UNCLEAR
        assert verdict == expected
        assert reason is None or verdict != WITHIN
    if len(rows) > 1:
        assert text.startswith(
            ("all clearly within", f"{found.count(WITHIN)} of {len(rows)} sites clearly within")
        )


def test_without_a_target_the_largest_gap_is_reported():
    frame = clients(GOOD, BAD, (0.9, 0.0, 1.0, 2, False)).assign(accuracy=0.8)
    assert verdicts.largest(frame, "ddp") == (
        "The largest gap of 3 sites is .090 [.070, .110] (DDP), at site b"
    )
    assert verdicts.largest(frame.iloc[:1], "ddp") == "The largest gap is .020 [.010, .030] (DDP)"
    assert "is unknown" in verdicts.largest(frame.iloc[2:], "ddp")


@pytest.mark.parametrize("column", ["ddp_people", "one_decision", "ddp_low"])
def test_results_of_an_earlier_version_have_verdicts(column):
    frame = clients(GOOD, BAD, WIDE).drop(columns=column)
    assert len(judge(frame)[1]) == 3
