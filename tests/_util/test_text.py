"""Names from data and from sites, wherever they are shown; and a terminal without our letters."""

import os
import subprocess
import sys

import pandas as pd
import pytest
from rich.console import Console

from made_people import people
from pfedfair import report
from pfedfair._util import terminal
from pfedfair._util.text import escape_formulas, escape_markdown, sanitise, unescape_formulas
from pfedfair.studies.view import Column, Table, View

EVIL = "\x1b]0;gone\x07\x1b[2J\u202e<script>alert(1)</script>[x](http://y)`z`|=1+1"


def test_codes_are_shown_and_letters_are_left():
    assert sanitise("a\x1b[31mb\x9b2J\u202ec") == "a\\x1b[31mb\\x9b2J\\u202ec"
    for text in ("Zürich", "日本", "≤ 0.1", "a\tb\nc", "O'Neil"):
        assert sanitise(text) == text


@pytest.mark.parametrize(
    "cell", ["=1+1", "@SUM(A1)", "+1+cmd|' /C calc'!A0", "-cmd", "\t=1", "\r=1"]
)
def test_a_formula_is_no_formula_in_a_csv_file(cell):
    frame = pd.DataFrame({"name": [cell, "x"], cell: [1.0, 2.0]})
    made = escape_formulas(frame)
    assert made["name"].tolist() == [f"'{cell}", "x"]
    assert list(made) == ["name", f"'{cell}"]
    assert unescape_formulas(made["name"]).tolist() == [cell, "x"]


def test_numbers_and_names_are_left_in_a_csv_file():
    cells = ["-5", "+1.2e-3", "+49 (30) 123", "a=b", "", "'quoted", "-", None, 3]
    frame = pd.DataFrame({"cell": pd.Series(cells, dtype=object), "number": -1.0})
    assert escape_formulas(frame) is frame
    assert unescape_formulas(pd.Series(["'quoted", "a=b"])).tolist() == ["'quoted", "a=b"]


def view():
    frame = pd.DataFrame({"client": [EVIL, "=1+1"], "n": [1, 2]})
    columns = (Column("client", lambda row: str(row["client"])), Column(EVIL, "{n}"))
    table = Table(heading=EVIL, frame=frame, columns=columns, lines=(EVIL,), lines_heading=EVIL)
    texts = {"legend": (EVIL,), "cautions": (("note", EVIL),), "files": {"numbers.csv": frame}}
    return View(title=EVIL, tables=(table,), **texts)


def test_a_view_shows_names_as_text(tmp_path, capsys):
    report.terminal.show(view(), Console(width=200, force_terminal=True, color_system=None))
    shown = capsys.readouterr().out
    assert "\\x1b" in shown
    report.write(view(), tmp_path)
    text, numbers = ((tmp_path / name).read_text() for name in ("report.md", "numbers.csv"))
    for code in "\x1b\x07\u202e":
        assert code not in shown
        assert code not in text
    assert "<" not in text
    assert text.count("&lt;script>") == 8
    assert text.count(r"\[x](") == 8  # no link
    assert text.count(r"\`z\`") == 8
    assert "\n'=1+1,2" in numbers
    assert escape_markdown("a_b * c") == "a_b * c"


def test_notes_errors_and_bars_show_names_as_text(capsys, monkeypatch):
    for name in ("console", "errors"):
        monkeypatch.setattr(terminal, name, Console(stderr=name == "errors", force_terminal=True,
                                                    color_system=None))  # fmt: skip
    terminal.say(EVIL)
    with terminal.progress(EVIL, 1.0, quiet=False):
        pass
    with pytest.raises(SystemExit):
        terminal.fail(EVIL, 2)
    out, err = capsys.readouterr()
    assert "\x1b" not in out
    for code in ("\x1b[2J", "\x07", "\u202e"):
        assert code not in out + err


COMMANDS = """
import sys
from pfedfair.cli import main

table = "t.csv --label hired --sensitive sex --client site --method transport --rounds 3"
for words in (
    f"train {table} --set agree=1 --set bins=50 --out run",
    "predict run --client NAME --input t.csv --output p.csv --keep-columns all",
    "audit p.csv --label hired --prediction decision --sensitive sex --out audit",
    "report run",
):
    sys.argv = ["pfedfair", *words.split()]
    sys.argv = [name if word == "NAME" else word for word in sys.argv]
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
"""


def test_commands_work_in_an_ascii_locale(tmp_path):
    """In one process, for all of them need a second to start; the client's name is typed."""
    frame = people().rename(columns={"a": "größe"}).replace({"site 0": "Zürich", "m": "männlich"})
    frame = frame.assign(hired=frame["hired"].map({0: "nein ≤", 1: "ja"}))
    frame.to_csv(tmp_path / "t.csv", index=False)
    env = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "OMP_NUM_THREADS": "1"}
    code = COMMANDS.replace("import sys\n", "import sys\nname = sys.argv[1]\n")
    done = subprocess.run(
        [sys.executable, "-c", code, "Zürich"], cwd=tmp_path, env=env, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert done.stdout.isascii()
    assert "Zürich" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    assert "nein ≤" in (tmp_path / "p.csv").read_text(encoding="utf-8")
