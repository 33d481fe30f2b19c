"""A view as Markdown."""

from pfedfair._util.text import escape_markdown
from pfedfair.studies.view import Table, View


def text(view: View) -> str:
    """Return the sentence, tables and their notes, pictures, and the legend."""
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
    """Return a table as lines; lines within a cell are joined by the column's `between`."""
    head = [column.heading.replace("\n", " ") for column in one.columns]
    between = [column.between for column in one.columns]
    rows = [list(map(_join, row, between)) for row in one.cells()]
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows)]


def _join(cell: str, between: str) -> str:
    lines = cell.replace("-\n", "-").split("\n")  # a name that was broken for the screen
    return between.join(line.strip() for line in lines if line.strip())


def _line(text: str) -> str:
    """Return a text in one line."""
    return escape_markdown(" ".join(text.splitlines()))


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(escape_markdown(cell).replace("|", "\\|") for cell in cells) + " |"
