"""What a site has answered, on its disk."""

import json
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

import pfedfair as pff
from pfedfair.engines.site.ledger import NAME, Ledger
from pfedfair.engines.site.policy import Policy, PolicyError

Z = 7.66716  # one answer of epsilon 0.5


def test_every_answer_counts_also_in_other_runs_and_after_restarts(tmp_path):
    policy = Policy(epsilon=2.58, delta=1e-5)
    for number in range(20):
        ledger = Ledger(tmp_path, policy)  # as in a new process
        ledger.admit(f"run {number % 2}")
        ledger.afford("gaussian", Z)
        message = ledger.spend("gaussian", Z)
    assert message == ("answers with noise so far: 20; in total they cost epsilon 2.570 of 2.58 "
                    "(delta 1e-05)")  # fmt: skip
    before = (tmp_path / NAME).read_text()
    assert json.loads(before)["epsilon"] == pytest.approx(2.5704, abs=1e-4)
    for ask in (ledger.afford, ledger.spend):
        with pytest.raises(PolicyError, match=r"budget is spent: its policy has epsilon = 2.58"):
            ask("gaussian", Z)
        with pytest.raises(PolicyError, match="budget is spent"):
            ask("laplace", 0.5)
    assert (tmp_path / NAME).read_text() == before
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_both_kinds_of_noise_are_one_budget(tmp_path):
    ledger = Ledger(tmp_path, Policy(epsilon=5.5))
    for _ in range(20):
        ledger.spend("gaussian", Z)
    for _ in range(3):
        message = ledger.spend("laplace", 1.0)
    assert "so far: 23; in total they cost epsilon 5.44" in message


def test_messages_and_runs_are_counted_by_day(tmp_path):
    days = ["2026-01-01"]
    ledger = Ledger(tmp_path, Policy(messages_per_day=5, runs_per_day=2), lambda: days[0])
    for run in ("a", "b", "a"):
        ledger.admit(run)
    with pytest.raises(PolicyError, match="runs-per-day = 2; the run asks for one more"):
        ledger.admit("c")
    ledger.admit()
    ledger.admit("a")
    with pytest.raises(PolicyError, match="messages-per-day = 5; the run asks for one more"):
        ledger.admit("a")
    days[0] = "2025-12-31"  # a clock that is put back
    with pytest.raises(PolicyError, match="messages-per-day"):
        ledger.admit("a")
    days[0] = "2026-01-02"
    ledger.admit("c")


def test_sets_of_sites_are_counted_by_day(tmp_path):
    days = ["2026-01-01"]
    ledger = Ledger(tmp_path, Policy(), lambda: days[0])
    before = {"day": days[0], "messages": 3, "runs": [], "gaussian": {}, "laplace": {}}
    (tmp_path / NAME).write_text(json.dumps(before))  # as earlier versions wrote it
    cohorts = [[["a", 1], ["b", 1], ["c", 1]], [["a", 2], ["b", 1], ["c", 1]], [["a", 1], ["b", 1]]]
    for cohort in (*cohorts[:2], *cohorts[:2]):
        with ledger.adding_up(cohort):
            pass
    with (
        pytest.raises(PolicyError, match="cohorts-per-day = 2; the run asks for one more"),
        ledger.adding_up(cohorts[2]),
    ):
        raise AssertionError("it is not to be opened")
    assert json.loads((tmp_path / NAME).read_text())["messages"] == 3
    days[0] = "2026-01-02"
    with ledger.adding_up(cohorts[2]):
        pass


def test_sketches_are_counted_by_month_and_an_older_ledger_has_none(tmp_path):
    """With a few of the same sum every day a server would soon know all numbers of one site."""
    days = ["2026-01-01"]
    ledger = Ledger(tmp_path, Policy(sketches_per_month=1), lambda: days[0])
    ledger.admit()
    book = json.loads((tmp_path / NAME).read_text())
    del book["sketches"]
    (tmp_path / NAME).write_text(json.dumps(book))
    ledger.sketch()
    for days[0] in ("2026-01-01", "2026-01-31", "2025-12-31"):
        with pytest.raises(PolicyError, match="sketches-per-month = 1; the run asks for one more"):
            ledger.sketch()
    days[0] = "2026-02-01"
    ledger.sketch()


@pytest.mark.parametrize("text", ["", "{}", '{"day": 1}', "[]"])
def test_a_ledger_that_cannot_be_read_is_no_empty_one(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    ledger = Ledger(tmp_path, Policy())
    for ask in (ledger.admit, lambda: ledger.spend("laplace", 1.0)):
        with pytest.raises(pff.InputError, match="what has been spent is unknown"):
            ask()
    assert (tmp_path / NAME).read_text() == text


def test_two_at_once_do_not_lose_an_answer(tmp_path):
    def spend(_):
        for _ in range(5):
            Ledger(tmp_path, Policy()).spend("gaussian", 100.0)

    with ThreadPoolExecutor(2) as both:
        list(both.map(spend, range(2)))
    assert json.loads((tmp_path / NAME).read_text())["gaussian"] == {"100.0": 10}
