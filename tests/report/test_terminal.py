import io

import pandas as pd
import pytest
from rich.cells import cell_len
from rich.console import Console

from pfedfair.report import markdown, terminal
from pfedfair.studies import Column, Table, View, one_run


def screen(table, width=80):
    console = Console(width=width, file=io.StringIO())
    terminal.print_table(table, console)
    return console.file.getvalue()


def numbers(columns, rows=2):
    frame = pd.DataFrame([[100 * r + c for c in range(columns)] for r in range(rows)])
    shown = [Column(f"head {c}", lambda row, c=c: f"number {row[c]}") for c in range(columns)]
    row_name = Column("key", lambda row: f"row {row.name}")
    return Table(heading="Many", frame=frame, columns=(row_name, *shown))


def test_a_wide_table_is_shown_in_blocks():
    text = screen(numbers(20))
    assert max(map(len, text.splitlines())) <= 80
    for c in range(20):
        assert text.count(f"head {c} ") == 1
        assert f"number {100 + c} " in text
    assert text.count("row 0") == text.count("key") > 2


WORDS = "St. Mary's Hospital, North Wing (Oncology and Palliative Care), Second Floor"


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("width", [40, 57, 80, 200])
@pytest.mark.parametrize("name", [WORDS, "x" * 150, "short"])
def test_numbers_are_never_cut_or_folded(name, width, keys):
    """Whatever the names are; in a pipe a console has 80 columns."""
    numbers = [f".{k}23 [.{k}00, .{k}99]" for k in range(9)]
    shown = [Column(f"gap {k}", lambda row, one=one: one) for k, one in enumerate(numbers)]
    row_name = [Column("client", lambda row: name), Column("level", lambda row: "≤ 0.05")]
    table = Table(frame=pd.DataFrame({"a": [1, 2]}), columns=(*row_name[:keys], *shown), keys=keys)
    text = screen(table, width)
    assert max(map(cell_len, text.splitlines())) <= width
    for number in numbers:
        assert text.count(number) == 2
    assert "".join(name.split()) in "".join(
        "".join(line[: width // 3 + 2].split()) for line in text.splitlines()
    ).replace("≤0.05", "")


def test_a_name_that_is_wider_than_the_screen_is_folded():
    long = "x" * 100
    table = Table(
        heading="", frame=pd.DataFrame({"a": [1]}), columns=(Column(long, lambda r: long),)
    )
    text = screen(table)
    assert text.count("x") == 200
    assert max(map(len, text.splitlines())) <= 80


def test_names_are_not_markup():
    frame = pd.DataFrame({"a": ["[/x]"]})
    table = Table(
        heading="[bold]", frame=frame, columns=(Column("[i]", lambda row: row["a"]),),
        lines_heading="[red]", lines=("[blue]",),
    )  # fmt: skip
    text = screen(table)
    for name in ("[/x]", "[bold]", "[i]", "[red]", "[blue]"):
        assert name in text


def test_markdown_has_a_row_for_each_and_no_stray_bars():
    table = Table(
        heading="One", frame=pd.DataFrame({"a": ["x|y", "z"]}),
        columns=(Column("two\nlines", lambda row: f"{row['a']}\n±1"),),
    )  # fmt: skip
    view = View(title="Title", tables=(table,), legend=("what",), cautions=(("note", "beware"),))
    lines = markdown.text(view).splitlines()
    assert lines[0] == "# Title"
    assert "| two lines |" in lines
    assert "| x\\|y / ±1 |" in lines
    assert "- what" in lines
    assert "Note: beware" in lines


GROUPS, LABELS = ["women", "men"], ["no", "yes"]
MORE = {"auc": 0.8, "recall": 0.7, "precision": 0.6, "balanced_accuracy": 0.9}


def test_the_clients_of_a_run_fit_in_80_columns():
    frame = pd.DataFrame({"client": ["1"], "role": "underrepresented", "n_train": 2400})
    frame = frame.assign(share_s1=0.1667, npr_s0=0.5, npr_s1=0.5)
    for name in ("accuracy", "ddp", "eo", "eopp"):
        frame[[name, f"{name}_low", f"{name}_high"]] = [0.8, 0.7812, 0.8912]
    frame = frame.assign(verdict="not clear", randomised=0.011, constant=0.7)
    text = screen(one_run.clients(frame, "title"))
    for number in (".800 [.781, .891]", "80.0 [78.1, 89.1]", "2,400", "not clear", "1.1"):
        assert number in text
    assert text.count("client") == 1  # in one block
    text = screen(one_run.further(frame.assign(**MORE), GROUPS, LABELS, ["ddp"]))
    for number in ("0.17", "50.0", ".800", ".700", ".600", "90.0"):
        assert number in text
    assert text.count("client") == 1
    text = screen(one_run.further(frame, GROUPS, LABELS, ["ddp", "eo", "eopp"]))
    assert "EOPP" in text
    assert text.count("client") == 1
