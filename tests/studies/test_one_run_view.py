"""The view of one run: one count, warnings, what the rules change, further measures."""

import numpy as np
import pandas as pd
import torch

from pfedfair.report import markdown
from pfedfair.rules import Likeliest, Thresholds
from pfedfair.studies import cautions, judgement, one_run
from pfedfair.studies.decisions import Changes

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
    return one_run.view(judgement.of_frames(frame, frame), GROUPS, LABELS, Likeliest())


def test_one_count_of_who_keeps_the_target():
    shown = view(results(ddp_high=[0.02, 0.04, 0.09, 0.5]))
    assert "2 of 4 sites clearly within 0.05, 1 exceeds it (site d: " in shown.sentence
    assert [row[-1] for row in shown.tables[0].cells()] == [
        "within", "within", "not clear", "exceeds",
    ]  # fmt: skip
    everything = markdown.text(shown)
    assert everything.startswith(f"# \n\n**{shown.sentence}**")
    assert everything.count("of 4") == 1


def test_one_decision_for_all_rows_is_no_merit():
    shown = view(results(one_decision=[True, True, False, False], ddp=[0.0, 0.0, 0.04, 0.3]))
    assert shown.sentence.startswith("At sites a and b, all rows get the same decision")
    (note,) = shown.notes
    assert note.startswith("all held-out rows get the same decision at client a, b:")
    (note,) = view(results(one_decision=True)).notes
    assert "at every client:" in note


def test_too_few_rows():
    shown = view(results(n_test_s0=[50, 50, 50, 3], ddp_people=[50, 50, 50, 3]))
    assert "1 with too few rows (site d)" in shown.sentence
    cells = dict(zip(results()["client"], shown.tables[0].cells(), strict=True))
    assert "too few rows" in cells["d"]
    assert ".040 [.000, .500]" in cells["c"]
    assert shown.tables[-1].cells()[3][-2:] == ["few", "40.0"]
    (note,) = shown.notes
    assert note == "too few held-out rows of a group: client d (3 of women)."


def test_a_client_without_a_group_is_not_one_of_few():
    frame = results(n_test_s0=[50, 50, 50, 0], ddp_people=[50, 50, 50, 0])
    frame.loc[3, ["ddp", "ddp_low", "ddp_high", "npr_s0"]] = float("nan")
    shown = view(frame)
    assert "1 with rows of one group only (site d)" in shown.sentence
    assert "n/a" in shown.tables[0].cells()[3]
    assert shown.notes == ()


def test_results_of_an_earlier_version_are_shown():
    new = ["n_test_s0", "n_test_s1", "ddp_people", "one_decision"]
    shown = view(results().drop(columns=new))
    assert shown.notes == ()
    assert "0 of 4 sites clearly within 0.05" in shown.sentence


def test_warnings_name_sites_and_what_would_do():
    frame = results(
        randomised=[0.0, 0.005, 0.03, 0.4], too_small=[False, False, True, True],
        enough_rows=[0, 0, 412.0, 90.0], constant=[0.7, 0.7, 0.7, 0.9],
    )  # fmt: skip
    frame.loc[2:, "enough_target"] = [0.08, 0.1]
    shown = view(frame)
    warnings = dict(shown.cautions)
    assert warnings[cautions.RANDOM].endswith("get different ones: client c (3.0 %), d (40 %).")
    assert warnings[cautions.SMALL].endswith(
        "client c (about 410 more rows or a target of 0.08 would do), d (about 90 more rows or a "
        "target of 0.1 would do)."
    )
    assert (
        warnings[cautions.COLLAPSED] == "no more accurate than one decision for all rows: client d."
    )
    assert shown.tables[0].columns[-1].heading == "random\n%"
    assert shown.tables[0].cells()[3][-1] == "40.0"


def test_levelling_down_is_a_warning_and_the_changes_a_table():
    changes = Changes(*(np.array([part] * 4) for part in ([9, 40], [1, 0], [0, 30], [50, 50])))
    frame = results(cost=0.02)
    few = Thresholds(torch.tensor([[0.0, 0.0, 0.0, 0.0]] * 2))
    judged = judgement.of_frames(frame, frame, changed=changes)
    shown = one_run.view(judged, GROUPS, LABELS, few)
    assert shown.more[0].startswith(
        "At all sites together, 120 of 200 rows of men lose the decision yes, 4 of 200 rows of "
        "women gain it, compared with the likeliest label: mostly levelling down"
    )
    assert dict(shown.cautions)[cautions.DOWN].endswith("group at every client.")
    rows = shown.tables[1].cells()
    assert rows[0] == ["a", "+1 -0", "+0 -30", "+2.0"]
    assert rows[-1] == ["all", "+4 -0", "+0 -120", ""]
    pool = judgement.of_frames(frame.assign(protocol="pool"), frame, changed=changes)
    assert len(one_run.view(pool, GROUPS, LABELS, few).tables[1].cells()) == 4


def test_further_measures_are_a_table_of_their_own():
    shown = view(results(auc=0.812, recall=0.5, precision=float("nan"), balanced_accuracy=0.71))
    heads = [column.heading for column in shown.tables[-1].columns]
    assert heads[-3:] == ["AUC ↑", "recall\n↑", "balanced\n% ↑"]  # no precision
    assert shown.tables[-1].cells()[0][-3:] == [".812", ".500", "71.0"]


def test_the_heading_says_how_fair_it_was_to_be():
    assert view(results()).tables[0].heading == "transport on table, seed 0, gap ≤ 0.05, 1.5 s"
    eta = results(level="0.9", target_ddp=float("nan"))
    assert "seed 0, eta 0.9" in markdown.text(view(eta))
    assert view(results(level="")).tables[0].heading == "transport on table, seed 0, 1.5 s"


def test_of_very_many_clients_those_with_the_largest_gaps_are_shown():
    number = one_run.MOST + 1
    rows = pd.concat([results()] * (number // 4 + 1), ignore_index=True).iloc[:number]
    gaps = [0.001 * (k % 47) for k in range(number)]
    rows = rows.assign(client=[f"c{k}" for k in range(number)], ddp=gaps, cost=0.0)
    few = Thresholds(torch.tensor([[0.0, 0.0, 0.0, 0.0]] * 2))
    shown = one_run.view(judgement.of_frames(rows, rows), GROUPS, LABELS, few)
    for table in shown.tables:
        assert len(table.cells()) == one_run.SHOWN
        assert table.cells()[0][0] == "c46"
        least = sorted(gaps)[-one_run.SHOWN]
        assert table.frame["ddp"].min() >= least
    assert "20 of 51 clients, those with the largest gaps" in shown.tables[0].heading
    every = view(rows.iloc[:-1])
    assert len(every.tables[0].cells()) == one_run.MOST
    assert "largest gaps" not in every.tables[0].heading


def test_many_gaps_have_the_targeted_one_first_and_their_noise_floor():
    ends = {f"{gap}{end}": 0.2 for gap in ("eo", "eopp") for end in ("", "_low", "_high")}
    frame = results(config='{"criterion": "eo"}', eo_floor=0.11, **ends)
    shown = view(frame)
    heads = [column.heading for column in shown.tables[0].columns]
    assert "EO ↓" in heads
    assert "DDP ↓" not in heads
    heads = [column.heading for column in shown.tables[-1].columns]
    assert heads[-3:] == ["EO\nby chance", "DDP ↓", "EOPP ↓"]
    assert shown.tables[-1].cells()[0][-3] == ".110"
    assert one_run.FLOOR in shown.legend
