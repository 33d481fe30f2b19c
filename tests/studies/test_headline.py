"""The answer of a run, of every fate that a run can have."""

import json

import numpy as np
import pandas as pd
import pytest

from pfedfair._util.errors import in_a_command
from pfedfair.studies import headline, judgement
from pfedfair.studies.decisions import Changes

GOOD, BAD, WIDE = (0.02, 0.01, 0.03), (0.09, 0.07, 0.11), (0.04, 0.0, 0.09)
NAN = float("nan")


def results(*gaps, config=None, **columns):
    """A row for each client, called a, b, c, of a run with the target 0.05."""
    frame = pd.DataFrame(gaps, columns=["ddp", "ddp_low", "ddp_high"])
    frame = frame.assign(
        client=[chr(ord("a") + i) for i in range(len(frame))], target_ddp=0.05, protocol="own",
        config=json.dumps({"confidence": 0.95} if config is None else config), n_test=480,
        ddp_people=210, one_decision=False, accuracy=0.8,
    )  # fmt: skip
    return frame.assign(**columns)


def answer(frame, **rules):
    table = pd.DataFrame({"constant": 0.7, **rules}, index=frame.index)
    return judgement.of_frames(frame, table).sentence


def test_every_site_is_within():
    assert answer(results(*[GOOD] * 5)) == (
        "All 5 sites have a rule made to keep the gap (DDP) at most 0.05 with 95 % confidence "
        "(model-based, each site separately). Measured on each site's own 480 held-out rows: all "
        "clearly within 0.05."
    )
    assert answer(results(GOOD)) == (
        "The only site has a rule made to keep the gap (DDP) at most 0.05 with 95 % confidence "
        "(model-based). Measured on its own 480 held-out rows: clearly within 0.05."
    )


@pytest.mark.parametrize("config", [{}, {"confidence": None}, {"confidence": 0}])
def test_an_estimate_has_no_confidence_level(config):
    text = answer(results(GOOD, BAD, config=config))
    assert "at most 0.05 on average (an estimate). Measured" in text
    assert text.endswith(
        "1 of 2 sites clearly within 0.05, 1 exceeds it (site b: .090 [.070, .110])."
    )


def test_a_method_with_a_target_around_another_has_its_own_level():
    config = {"method": {"kind": "PFedFair", "criterion": "eo"}, "confidence": 0.9}
    frame = results(GOOD, GOOD, config=config)
    gaps = {f"eo{end}": frame[f"ddp{end}"] for end in ("", "_low", "_high", "_people")}
    assert "the gap (EO) at most 0.05 with 90 % confidence" in answer(frame.assign(**gaps))


def test_chance_alone_is_named_where_the_claim_is_about_each_site():
    each = answer(results(*[GOOD] * 49, BAD))
    assert "each site separately: of 50, 2 or 3 may exceed it by chance)" in each
    assert "49 of 50 sites clearly within 0.05, 1 exceeds it" in each
    joint = answer(results(*[GOOD] * 50, config={"confidence": 0.95, "jointly": True}))
    assert "at all of them jointly with 95 % confidence (model-based)." in joint
    assert "chance" not in joint


def test_the_rows_of_the_measurement_are_named():
    assert "each site's own 20 to 60 held-out rows" in answer(results(WIDE, WIDE, n_test=[20, 60]))
    assert ("on the pool of 36,842 held-out rows of all sites: all") in answer(
        results(GOOD, GOOD, protocol="pool", n_test=36_842)
    )
    assert "own 480 validation rows" in answer(results(GOOD, GOOD, protocol="validation"))


def test_random_draws_are_in_the_answer():
    text = answer(results(GOOD, GOOD, n_test=[300, 100], randomised=[0.01, 0.41]))
    assert text.endswith("11 % of the decisions are random draws, 41 % at site b.")
    assert "less than 0.1 % of the" in answer(results(GOOD, GOOD, randomised=[0.0, 1e-4])).lower()
    assert "random" not in answer(results(GOOD, GOOD, randomised=0.0))
    assert "random" not in answer(results(GOOD, GOOD))


def test_too_small_sites_and_what_would_do():
    facts = {
        "too_small": [False, True, True], "enough_rows": [NAN, 412.0, 1873.0],
        "enough_target": [NAN, 0.08, 0.11], "enough_confidence": [NAN, 0.8, 0.6],
    }  # fmt: skip
    text = answer(results(GOOD, WIDE, WIDE), **facts)
    assert text.startswith(
        "1 of 3 sites has a rule made to keep the gap (DDP) at most 0.05 with 95 % confidence "
        "(model-based, each site separately). Sites b and c are too small for that: about 410 to "
        "1,900 more rows each, a target of 0.11 or a confidence level of 60 % would do. "
        "Measured on"
    )
    text = answer(results(WIDE, WIDE), too_small=True)
    assert text.startswith(
        "All 2 sites are too small for a rule that keeps the gap (DDP) at most 0.05 with 95 % "
        "confidence (model-based, each site separately). Measured on"
    )


def test_certificates_of_some_sites():
    text = answer(
        results(GOOD, GOOD, WIDE, WIDE), certified=[True, True, False, False],
        certificate_rows=[0, 0, 1400.0, 4300.0], too_small=[False, False, False, True],
        enough_rows=[0, 0, 0, 4300.0],
    )  # fmt: skip
    assert text.startswith(
        "2 of 4 sites (sites a and b) have a certificate: the gap (DDP) is at most 0.05 at all of "
        "them jointly with 95 % confidence (finite-sample, distribution-free); the others would "
        "need about 1,400 to 4,300 more rows each. The other site has a rule made to keep"
    )
    assert "Site d is too small for that: about 4,300 more rows would do" in text
    every = answer(results(GOOD, GOOD), certified=True)
    assert every.startswith("All 2 sites have a certificate: the gap (DDP) is at most 0.05 at all")
    assert "made to keep" not in every
    one = answer(results(GOOD, WIDE), certified=[True, False], certificate_rows=[0, 1400.0])
    assert one.startswith(
        "1 of 2 sites (site a) has a certificate: the gap (DDP) is at most 0.05 there"
    )
    assert "; the other would need about 1,400 more rows. The other site" in one
    assert "The only site has no certificate; it would need about 1,400 more rows." in answer(
        results(WIDE), certified=False, certificate_rows=1400.0
    )
    none = answer(results(WIDE, WIDE), certified=False)
    assert none.startswith(
        "No site has a certificate. All 2 sites have a rule made to keep the gap"
    )


def test_a_model_that_is_no_better_than_the_constant_is_the_headline():
    zero = (0.0, 0.0, 0.01)
    text = answer(results(zero, zero, one_decision=True))
    assert text == "At all 2 sites, all rows get the same decision: a gap of 0 is no merit."
    text = answer(results(GOOD, GOOD), constant=0.85)
    assert text.startswith(
        "At all 2 sites, the model is no more accurate than one decision for all rows. All 2 sites"
    )
    text = answer(results(GOOD, GOOD, GOOD), constant=[0.85, 0.7, 0.7])
    assert text.endswith(
        "clearly within 0.05. At site a, the model is no more accurate than one decision for all "
        "rows."
    )


def test_without_a_target():
    text = answer(results(GOOD, BAD, target_ddp=NAN, config={"eta": 0.9}))
    assert text == (
        "The largest gap of 2 sites is .090 [.070, .110] (DDP), at site b; no target was set. "
        "Measured on each site's own 480 held-out rows."
    )


def test_how_to_go_on():
    with in_a_command():
        claim = headline.claim_of(results(BAD, config={"confidence": 0}))
        (line,) = headline.hints(claim, ["exceeds"])
        assert "--confidence 0.95 keeps each site within it" in line
        claim = headline.claim_of(results(GOOD, config={"confidence": 0.95, "jointly": False}))
        assert "--jointly" in headline.hints(claim, ["within"] * 50)[0]
        assert headline.hints(claim, ["within"] * 5) == []
    claim = headline.claim_of(results(GOOD, config={}))
    assert headline.hints(claim, ["exceeds"]) == []


def moved(positive, gained, lost, rows):
    return Changes(*(np.array(part) for part in (positive, gained, lost, rows)))


def test_who_gains_and_who_loses():
    frame = results(GOOD, GOOD, config={"confidence": 0.95, "prefer": "any"})
    claim = headline.claim_of(frame)
    down = moved(
        [[100, 10], [60, 6]], [[0, 5], [0, 2]], [[40, 0], [20, 0]], [[300, 100], [200, 90]]
    )
    with in_a_command():
        text = headline.gains(down, claim, frame, ["men", "women"], "hired")
    assert text == (
        "At all sites together, 60 of 500 rows of men lose the decision hired, 7 of 190 rows of "
        "women gain it, compared with the likeliest label: mostly levelling down; --prefer up "
        "raises the worse-off group instead."
    )
    pool = headline.gains(down, claim, frame.assign(protocol="pool"), ["men", "women"], "hired")
    assert pool.startswith("At site a, 40 of 300 rows of men lose the decision hired, 5 of 100")
    nothing = moved([[1, 1]], [[0, 0]], [[0, 0]], [[5, 5]])
    text = headline.gains(nothing, claim, frame.iloc[:1], ["men", "women"], "hired")
    assert text == "No decision differs from the likeliest label."


@pytest.mark.parametrize(
    ("gained", "lost", "down"),
    [
        ([0, 30], [20, 0], False),  # gives more than it takes, by rates
        ([0, 4], [20, 0], True),
        ([0, 0], [1, 0], False),  # of 300 rows
        ([40, 0], [0, 0], False),  # the gap grows
        ([0, 0], [20, 15], False),  # both lose, the worse-off group more
    ],
)
def test_levelling_down_is_by_rates(gained, lost, down):
    found = moved([[150, 20], [0, 0]], [gained, [0, 0]], [lost, [0, 0]], [[300, 100], [0, 0]])
    assert found.levels_down.tolist() == [down, False]
