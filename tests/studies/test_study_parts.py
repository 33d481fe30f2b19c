import json

import pytest

from made_up import two_methods
from pfedfair.studies import comparison, parts, summary, words
from pfedfair.studies.table1 import client_grid


def test_verdicts():
    def judge(claim, **more):
        (line,) = parts.judged(two_methods(**more), [claim])
        return line

    more = judge(("b", "a", "mean_accuracy"))
    assert more.startswith("holds: b has higher mean accuracy than a: +2.0 [")
    assert more.endswith("percentage points")
    assert judge(("a", "b", "mean_accuracy")).startswith("does not hold")
    assert judge(("b", "a", "mean_ddp")).startswith("holds: b has lower mean DDP than a: -0.020")
    assert judge(("a", "b", "mean_accuracy"), shift=0.0).startswith("no clear difference")
    one = judge(("b", "a", "mean_accuracy"), seeds=1)
    assert (
        one == "not clear with one seed: b has higher mean accuracy than a: +2.0 percentage points"
    )
    one = judge(("b", "a", "mean_ddp"), seeds=1)
    assert one == "not clear with one seed: b has lower mean DDP than a: -0.020"
    assert parts.judged(two_methods(), [("a", "nobody", "mean_ddp")]) == ()


def test_table1_figures_are_the_papers():
    adult = parts.printed("table1", "adult")
    assert len(adult) == 35
    assert len(parts.printed("table3", "adult", 50)) == 12
    assert len(parts.printed("table3", "compas", 50)) == len(parts.printed("", "adult")) == 0
    assert adult.loc[("pfedfair", "1"), "accuracy"] == pytest.approx(0.847)
    assert adult.loc[("fedavg-kde", "1"), "ddp"] == 0.104
    frame = two_methods().replace({"a": "fedavg-kde"}).assign(dataset="adult")
    table = client_grid(frame, summary.summary(frame))
    first = table.cells()[0]
    assert first[0].startswith("fedavg-kde\n")
    assert [cell.split("\n")[2] for cell in first[1:]] == ["81.9 .104", "85.5 .073"]
    assert table.cells()[1][1].endswith("\n-")  # the paper has no b


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"kind": "FixedShares", "clients": 2}, "fixed shares"),
        ({"kind": "DirichletMixture", "clients": 2}, "Dirichlet shares"),
        ({"kind": "DirichletShares", "clients": 2}, "drawn shares"),
        ({"kind": "ByColumn", "column": "site"}, "by site"),
    ],
)
def test_a_heading_for_every_plan(plan, said):
    frame = two_methods().assign(partition=json.dumps(plan))
    assert words.heading(frame) == f"d, 2 clients, {said}, 4 seeds"


def test_the_summary_has_what_is_in_its_file():
    view = comparison(two_methods())
    table = view.files["summary.csv"].set_index("method")
    first = view.tables[1].cells()[0]
    assert first[:2] == ["a", "0.9"]
    assert first[4].startswith(f"{100 * table.loc['a', 'mean_accuracy']:.1f} ±")
    assert "level" in table  # four limits of a method without eta are not four times "eta 0"
    assert "model" not in table
    assert view.tables[-1].detail  # client by client
    assert len(view.tables[-1].frame) == 4


def test_models_that_predict_one_class_are_named():
    frame = two_methods()
    frame["collapsed"] = frame["method"] == "b"
    assert comparison(frame).notes == ("models that predict one class for all rows: b on d (8).",)


def test_one_class_for_held_out_rows_only_is_told_apart():
    frame = two_methods().assign(one_decision=False)
    frame["one_decision"] = frame["method"] == "a"
    assert comparison(frame).notes == ("the same on held-out rows only: a on d (8).",)


def test_gaps_of_few_people_are_not_told_client_by_client():
    frame = two_methods().assign(ddp_people=40)
    first = frame["client"] == frame["client"].iloc[0]
    frame.loc[first & (frame["seed"] == frame["seed"].iloc[0]), "ddp_people"] = 3
    view = comparison(frame)
    (note,) = view.notes
    assert note.startswith("too few rows for the DDP of 1 of 2 clients")
    cells = [row[5] for row in view.tables[-1].cells()]
    few = [row[2] == frame["client"].iloc[0] for row in view.tables[-1].cells()]
    assert [cell == "too few rows" for cell in cells] == few
    assert any(few)
    assert not all(few)


def test_groups_that_no_gap_covers_are_noted():
    frame = two_methods().assign(ddp_people=40, ddp_apart="")
    frame.loc[frame["client"] == frame["client"].iloc[0], "ddp_apart"] = "'x' (3)"
    (note,) = comparison(frame).notes
    assert note.startswith("The DDP of 1 client does not cover groups with fewer than 5 held-out")


def test_panels_are_for_the_kinds_of_client_that_there_are():
    frame = two_methods()
    (picture,) = comparison(frame).pictures
    assert picture.frames["curves"]["panel"].nunique() == 2
    (picture,) = comparison(frame[frame["role"] == "overrepresented"]).pictures
    (panel,) = picture.frames["curves"]["panel"].unique()
    assert panel == "d, all in one place"
