"""What is said of one run: few people, one decision for everybody, the level."""

import pandas as pd
import torch

from pfedfair._util.errors import in_a_command
from pfedfair.report import markdown
from pfedfair.rules import Likeliest, Thresholds
from pfedfair.studies import one_run

GROUPS, LABELS = ("women", "men"), ("no", "yes")


def results(**columns):
    """Four clients of a run that shall keep a gap of 0.05."""
    frame = pd.DataFrame({"client": ["a", "b", "c", "d"]}).assign(
        dataset="table", method="transport", level="≤ 0.05", seed=0, seconds=1.5, protocol="own",
        config="{}", target_ddp=0.05, role="overrepresented", n_train=400, share_s1=0.5, n_test=100,
        n_test_s0=50, n_test_s1=50, accuracy=0.8, accuracy_low=0.7, accuracy_high=0.9,
        ddp=[0.0, 0.01, 0.04, 0.3], ddp_low=[0.0, 0.0, 0.0, 0.1], ddp_high=0.5, ddp_people=50,
        npr_s0=0.5, npr_s1=0.6, one_decision=False,
    )  # fmt: skip
    return frame.assign(**columns)


def view(frame):
    return one_run.view(frame, frame, GROUPS, LABELS, Likeliest())


def test_who_keeps_the_target():
    (line, more) = view(results()).tables[0].lines
    assert line == (
        "DDP at most 0.05: 3 of 4 clients are within it; clearly above it (95 % interval): d."
    )
    assert "confidence=0.95" in more
    with in_a_command():
        assert "--confidence 0.95" in view(results()).tables[0].lines[1]


def test_one_decision_for_everybody_is_no_merit():
    shown = view(results(one_decision=[True, True, False, False], ddp=[0.0, 0.0, 0.04, 0.3]))
    assert (
        "3 of 4 clients are within it, 2 of them because all rows get the same decision; clearly"
    ) in shown.tables[0].lines[0]
    (note,) = shown.notes
    assert note.startswith("all held-out rows get the same decision at client a, b:")
    (note,) = view(results(one_decision=True)).notes
    assert "at every client:" in note


def test_too_few_people_to_tell():
    shown = view(results(n_test_s0=[50, 50, 50, 3], ddp_people=[50, 50, 50, 3]))
    first, few, *_ = shown.tables[0].lines
    assert first == (
        "DDP at most 0.05: 3 of 3 clients are within it; none is clearly above it (95 % interval)."
    )
    assert few == "too few rows at 1 of the other clients: d."
    cells = dict(zip(results()["client"], shown.tables[0].cells(), strict=True))
    assert "too few rows" in cells["d"]
    assert cells["d"][-2:] == ["few", ".600"]
    assert ".040 [.000, .500]" in cells["c"]
    (note,) = shown.notes
    assert note == "too few held-out rows of a group: client d (3 of women)."


def test_a_client_without_a_group_is_not_one_of_few():
    frame = results(n_test_s0=[50, 50, 50, 0], ddp_people=[50, 50, 50, 0])
    frame.loc[3, ["ddp", "ddp_low", "ddp_high", "npr_s0"]] = float("nan")
    shown = view(frame)
    assert "3 of 3 clients" in shown.tables[0].lines[0]
    assert len(shown.tables[0].lines) == 1
    assert "n/a" in shown.tables[0].cells()[3]
    assert shown.notes == ()


def test_results_of_an_earlier_version_are_shown():
    frame = results()
    new = ["n_test_s0", "n_test_s1", "ddp_people", "one_decision"]
    shown = view(frame.drop(columns=new))
    assert shown.notes == ()
    assert "3 of 4 clients are within it;" in shown.tables[0].lines[0]


def test_the_heading_says_how_fair_it_was_to_be():
    assert view(results()).tables[0].heading == "transport on table, seed 0, gap ≤ 0.05, 1.5 s"
    eta = results(level="0.9", target_ddp=float("nan"))
    assert "seed 0, eta 0.9" in markdown.text(view(eta))
    assert view(results(level="")).tables[0].heading == "transport on table, seed 0, 1.5 s"


def test_the_sentence_comes_first_and_says_what_is_sure():
    shown = view(results())
    assert shown.sentence.startswith("0 of 4 sites keep a gap (DDP) of at most 0.05 with 95 %")
    assert "client d clearly does not" in shown.sentence
    assert markdown.text(shown).startswith(f"# \n\n**{shown.sentence}**")


def test_of_very_many_clients_those_with_the_largest_gaps_are_shown():
    number = one_run.MOST + 1
    rows = pd.concat([results()] * (number // 4 + 1), ignore_index=True).iloc[:number]
    gaps = [0.001 * (k % 97) for k in range(number)]
    rows = rows.assign(client=[f"c{k}" for k in range(number)], ddp=gaps, cost=0.0)
    few = Thresholds(torch.tensor([[0.0, 0.0, 0.0, 0.0]] * 2))
    shown = one_run.view(rows, rows, GROUPS, LABELS, few)
    for table in shown.tables:
        assert len(table.cells()) == one_run.SHOWN
        assert table.cells()[0][0] == "c96"
        least = sorted(gaps)[-one_run.SHOWN]
        assert table.frame["ddp"].min() >= least
    assert "50 of 101 clients, those with the largest gaps" in shown.tables[0].heading
    every = view(rows.iloc[:-1])
    assert len(every.tables[0].cells()) == one_run.MOST
    assert "largest gaps" not in every.tables[0].heading
