"""A view in the terminal: tables in as many blocks as its width requires."""

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from pfedfair._util.text import sanitise
from pfedfair.studies.view import Table, View


def show(view: View, console: Console) -> None:
    """Print the sentence, the tables and their notes, the legend or where it is, and warnings."""
    title = view.title
    if view.sentence:
        console.print()
        console.print(Text(view.sentence, style="bold"))
        for line in view.more:
            console.print(Text(line))
    for one in view.tables:
        if not one.detail:
            print_table(one, console, title)
            title = ""
    console.print()
    for line in () if view.explained else view.legend:
        console.print(Text(sanitise(line)))
    for note in view.notes:
        console.print(Text.assemble(("Note: ", "yellow"), sanitise(note)))
    if view.explained:
        console.print(Text(view.explained))


def print_table(table: Table, console: Console, title: str = "") -> None:
    """Print a table; if it is too wide, in several blocks of columns.

    Numbers are never truncated or wrapped, also in a pipe, which has no width. Names in the first
    columns are wrapped if they take more than a third of it.
    """
    cells = [[sanitise(text) for text in row] for row in table.cells()]
    heads = [sanitise(column.heading) for column in table.columns]
    widths = [
        max(cell_len(line) for text in column for line in text.split("\n"))
        for column in zip(heads, *cells, strict=True)
    ]
    for k in range(table.keys):
        widths[k] = min(widths[k], max(console.width // 3, 13))
    space = 2 if sum(width + 2 for width in widths) < console.width else 1
    console.print()
    for text in filter(None, (title, table.heading)):
        console.print(Text(sanitise(text), style="bold"))
    for shown in _blocks([w + space for w in widths], table.keys, console.width - 1):
        grid = Grid(
            box=SIMPLE_HEAD,
            padding=(0, space - 1, 0, 0),  # and a space from the box
            pad_edge=False,
            leading=int(any(text.count("\n") > 1 for row in cells for text in row)),
        )
        for k in shown:
            least = widths[k] if widths[k] < console.width - 2 else None
            grid.add_column(
                Text(heads[k]),
                overflow="fold",
                min_width=least,
                max_width=widths[k] if k < table.keys else None,
            )
        for row in cells:
            grid.add_row(*(_styled(row[k], table.bright) for k in shown))
        console.print(grid)
    for line in (table.lines_heading, *(f"- {line}" for line in table.lines)):
        if table.lines:
            console.print(Text(sanitise(line)))


def _styled(text: str, bright: int) -> Text:
    lines = text.split("\n")
    rest = "".join(f"\n{line}" for line in lines[bright:])
    return Text.assemble("\n".join(lines[:bright]), (rest, "dim"))


def _blocks(widths: list[int], keys: int, width: int) -> list[list[int]]:
    """Return the columns of each block; the first ones, a row's names, are in every block.

    >>> _blocks([10, 10, 10, 10], 1, 32)
    [[0, 1, 2], [0, 3]]
    """
    first = list(range(keys))
    full = free = width - sum(widths[:keys])
    blocks = [first.copy()]
    for k in range(keys, len(widths)):
        if widths[k] > free and len(blocks[-1]) > keys:
            blocks.append(first.copy())
            free = full
        blocks[-1].append(k)
        free -= widths[k]
    return blocks
