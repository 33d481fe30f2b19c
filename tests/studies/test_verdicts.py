"""Who keeps a target, by intervals; why not; and the sentence on all of them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.studies import verdicts
from pfedfair.studies.verdicts import ABOVE, FEW, KINDS, NONE, SAME, UNCLEAR, WITHIN

NAN = float("nan")


def clients(*rows):
    """Rows of gap, low, high, people, one decision."""
    columns = ["ddp", "ddp_low", "ddp_high", "ddp_people", "one_decision"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.assign(client=[chr(ord("a") + i) for i in range(len(frame))])


def said(frame, target=0.05, known_to=None, differs=None):
    found = [*verdicts.verdicts(frame, target, "ddp")]
    why = verdicts.reasons(frame, found, target, "ddp", known_to, differs)
    return verdicts.sentence(list(frame["client"]), found, why, target, "ddp"), found, why


GOOD = (0.02, 0.01, 0.03, 500, False)
BAD = (0.09, 0.07, 0.11, 500, False)


def test_all_keep_it():
    text, found, why = said(clients(GOOD, GOOD))
    assert text == "All 2 sites keep a gap (DDP) of at most 0.05 with 95 % confidence."
    assert found == [WITHIN, WITHIN]
    assert why == [None, None]
    only, *_ = said(clients(GOOD))
    assert only == "The only site keeps a gap (DDP) of at most 0.05 with 95 % confidence."


def test_one_does_not_and_the_reason_is_said():
    frame = clients(GOOD, GOOD, BAD, GOOD, GOOD)
    text, found, why = said(frame, known_to=[0.01, 0.01, 0.061, 0.01, 0.01])
    assert found[2] == ABOVE
    assert why[2] == "its training rows determine its gap to ±0.061 only"
    assert text == (
        "4 of 5 sites keep a gap (DDP) of at most 0.05 with 95 % confidence; client c clearly does "
        "not, because its training rows determine its gap to ±0.061 only."
    )
    text, _, why = said(frame, known_to=[0.01] * 5)
    assert why[2] == verdicts.UNKNOWN
    assert text.endswith("client c clearly does not; the numbers do not say why.")
    text, _, why = said(frame, differs={2: "its people differ"})
    assert text.endswith("client c clearly does not, because its people differ.")


def test_what_cannot_be_told_is_not_counted_as_kept():
    frame = clients(
        GOOD, (0.04, 0.0, 0.09, 80, False), (0.0, 0.0, 0.6, 3, False), (0.0, 0.0, 0.04, 90, True),
        (NAN, NAN, NAN, 0, False),
    )  # fmt: skip
    text, found, why = said(frame)
    assert found == [WITHIN, UNCLEAR, FEW, SAME, NONE]
    assert text == (
        "1 of 5 sites keeps a gap (DDP) of at most 0.05 with 95 % confidence; at client b it is "
        "not clear; client c has too few rows; client d gives all rows the same "
        "decision, which is no merit; client e has rows of one group only."
    )
    assert why[1] == (
        "its interval [.000, .090] reaches above 0.05: it has 80 rows of the smaller group"
    )


def test_many_are_counted_not_named():
    text, *_ = said(clients(*[GOOD] * 6, *[BAD] * 5))
    assert text.startswith("6 of 11 sites keep")
    assert "; 5 sites clearly do not; the numbers do not say why." in text


def test_bad_luck_is_a_reason_where_it_can_be_one():
    """Of 40 clients one is found above by chance; far above is no luck, nor are many."""
    near = (0.07, 0.051, 0.089, 200, False)
    _, _, why = said(clients(*[GOOD] * 39, near))
    assert why[-1] is not None
    assert why[-1].startswith("maybe by chance")
    for rows in ([*[GOOD] * 39, (0.3, 0.25, 0.35, 200, False)], [*[GOOD] * 30, *[near] * 10]):
        _, _, why = said(clients(*rows))
        assert why[-1] == verdicts.UNKNOWN


numbers = st.floats(0, 1) | st.just(NAN)


@given(st.lists(st.tuples(numbers, numbers, numbers, st.integers(0, 9), st.booleans()), min_size=1),
       st.floats(0, 1))  # fmt: skip
def test_everybody_has_one_verdict(rows, target):
    frame = clients(*rows)
    text, found, why = said(frame, target)
    assert len(found) == len(why) == len(rows)
    assert set(found) <= set(KINDS)
    for verdict, reason, (gap, low, high, people, same) in zip(found, why, rows, strict=True):
        if np.isnan(gap):
            expected = NONE
        elif 0 < people < 5:
            expected = FEW
        elif same:
            expected = SAME
        elif high <= target:
            expected = WITHIN
        else:
            expected = ABOVE if low > target else UNCLEAR
        assert verdict == expected
        assert (reason is None) == (verdict == WITHIN)
    assert text.startswith(("All", "The only", f"{found.count(WITHIN)} of {len(rows)} site"))


def test_without_a_target_the_largest_gap_is_said():
    frame = clients(GOOD, BAD, (0.9, 0.0, 1.0, 2, False)).assign(accuracy=0.8)
    assert verdicts.largest(frame, "ddp") == (
        "The largest gap of 3 clients is .090 [.070, .110] (DDP), at client b; no target was set."
    )
    assert "is unknown" in verdicts.largest(frame.iloc[2:], "ddp")


@pytest.mark.parametrize("column", ["ddp_people", "one_decision", "ddp_low"])
def test_results_of_an_earlier_version_have_verdicts(column):
    assert len(verdicts.verdicts(clients(GOOD, BAD).drop(columns=column), 0.05, "ddp")) == 2
