"""A view as Markdown: one table after the other."""

from pfedfair._util.text import marked
from pfedfair.studies.view import Table, View


def text(view: View) -> str:
    """The sentence, tables, what is said of them, pictures, and what the numbers mean."""
    lines = [f"# {_line(view.title)}"]
    if view.sentence:
        lines += ["", f"**{_line(view.sentence)}**", *(f"\n{_line(line)}" for line in view.more)]
    for one in view.tables:
        lines += ["", f"## {_line(one.heading)}", "", *table(one)]
        if one.lines:
            lines += ["", _line(one.lines_heading), "", *(f"- {_line(line)}" for line in one.lines)]
    for picture in view.pictures:
        lines += ["", f"![{_line(picture.words.get('title', picture.name))}]({picture.name}.png)"]
    lines += ["", "## What the numbers are", "", *(f"- {_line(line)}" for line in view.legend)]
    lines += ["", *(f"Note: {_line(note)}" for note in view.notes)] if view.notes else []
    return "\n".join(lines) + "\n"


def table(one: Table) -> list[str]:
    """The lines of a table; lines within a cell have a slash between, or what the column says."""
    head = [column.heading.replace("\n", " ") for column in one.columns]
    between = [column.between for column in one.columns]
    rows = [list(map(_join, row, between)) for row in one.cells()]
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows)]


def _join(cell: str, between: str) -> str:
    whole = cell.replace("-\n", "-")  # a name that was broken for the screen
    return between.join(line.strip() for line in whole.split("\n") if line.strip())


def _line(text: str) -> str:
    """A text that stays within its line."""
    return marked(" ".join(text.splitlines()))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(marked(cell).replace("|", "\\|") for cell in cells) + " |"
