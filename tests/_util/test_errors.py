"""Sentences speak of options as the user gave them."""

import re
from pathlib import Path

import pytest

import pfedfair as pff
from made_people import people
from pfedfair._util.errors import has_column, in_a_command, option, setting

SOURCE = Path(pff.__file__).parent
# Commands to type, and sentences that commands only print.
TYPED = re.compile(r"pfedfair embed|engines/flower|studies/one_run|--set changes one|errors\.py")


def test_in_python_no_sentence_has_dashes():
    """All of the source but commands is read: an option is spelt by `option`, never by hand."""
    found = []
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if name.startswith("cli/"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"(?<![\w-])--[a-z]", line) and not TYPED.search(f"{name} {line}"):
                found.append(f"{name}:{number}: {line.strip()}")
    assert found == []


def test_both_spellings_of_one_mistake(pfedfair, tmp_path):
    frame = people().assign(race=["a"] * 100 + ["b"] * 150 + ["c"] * 10)
    with pytest.raises(pff.InputError, match="say merge_groups=True to make one group"):
        pff.from_frame(frame, "hired", "race")
    frame.to_csv(tmp_path / "p.csv", index=False)
    asked = ("train", "p.csv", "--label", "hired", "--sensitive", "race", "--client", "site")
    code, _, err = pfedfair(*asked)
    assert code == 2
    assert "say --merge-groups to make one group" in err
    with pytest.raises(pff.InputError, match="merge_groups=True"):  # a command has ended
        pff.from_frame(frame, "hired", "race")


def test_long_names_and_long_lists_are_abbreviated():
    names = ["y" * 10_000_000, *(f"c{k}" for k in range(5000))]
    with pytest.raises(pff.InputError) as refusal:
        has_column("x" * 10_000_000, names, "for the label")
    assert len(str(refusal.value)) < 1000
    assert "x... (10,000,000 characters)' for the label" in str(refusal.value)
    assert "c48 and 4,951 more" in str(refusal.value)


def test_a_table_without_a_plan(pfedfair, csv):
    data = pff.load(csv, "hired", "sex")
    with pytest.raises(pff.InputError, match=r"partition\.by_column.*partition\.dirichlet_shares"):
        data.federate()
    _, _, err = pfedfair("train", csv, "--label", "hired", "--sensitive", "sex")
    assert "(--client), or let clients be drawn (--partition dirichlet --clients N)" in err


def test_settings_have_dashes_in_commands_only():
    with pytest.raises(pff.InputError, match="'target_ddp' means nothing to fedavg"):
        pff.make("fedavg", {"target_ddp": 0.1})
    with in_a_command():
        assert setting("target_ddp") == "target-ddp"
        with pytest.raises(pff.InputError, match="'target-ddp' means nothing to fedavg"):
            pff.make("fedavg", {"target_ddp": 0.1})
    assert setting("target_ddp") == "target_ddp"
    assert option("rows", 3) == "rows=3"


def test_notes_speak_the_same_way():
    frame = people().assign(id=[f"p{i}" for i in range(260)])
    (note,) = pff.from_frame(frame, "hired", "sex").notes
    assert note.endswith("; keep takes a column all the same.")
    with in_a_command():
        (note,) = pff.from_frame(frame, "hired", "sex").notes
    assert note.endswith("; --keep takes a column all the same.")
