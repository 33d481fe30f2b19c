"""Views: the numbers of results and their formats, for the renderers in `pfedfair.report`.

A view is data: frames of numbers, and for each column of a table the format of a row's numbers. A
renderer computes nothing, so the terminal, Markdown and a page show the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and the text of its cells.

    `cell` is a function of a row of the frame, or a format string with the names of its numbers.
    Both may have several lines: our number, its uncertainty, the paper's number. Where lines are
    not possible, they are joined by `between`.
    """

    heading: str
    cell: Callable[[pd.Series], str] | str
    between: str = " / "

    def text(self, row: pd.Series) -> str:
        """Return the cell of a row."""
        return self.cell.format_map(row) if isinstance(self.cell, str) else self.cell(row)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers, a row of `frame` for each row of the table, and the `columns` that show them.

    The first `keys` columns identify a row. The first `bright` lines of a cell are its value, the
    others remarks: intervals, or the paper's numbers. `lines` go below the numbers.
    A table of `detail` is too long for a terminal: it belongs in a report.
    """

    heading: str = ""
    frame: pd.DataFrame
    columns: tuple[Column, ...]
    keys: int = 1
    bright: int = 2
    lines_heading: str = ""
    lines: tuple[str, ...] = ()
    detail: bool = False

    def cells(self) -> list[list[str]]:
        """Return all cells as text, row by row."""
        return [[c.text(row) for c in self.columns] for _, row in self.frame.iterrows()]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All that is needed to draw a figure.

    `name` is that of its file, `kind` one of `pfedfair.report.figures.KINDS`, which determines the
    `frames` and `words` (titles, names of axes) that it needs; a line has `across` panels.
    """

    name: str
    kind: str
    frames: Mapping[str, pd.DataFrame]
    words: Mapping[str, str] = field(default_factory=dict)
    across: int = 2


@dataclass(frozen=True, kw_only=True)
class View:
    """Tables, pictures, the meaning of numbers (`legend`), warnings (`cautions`).

    `sentence` is the main result, `more` the lines that complete it; `cautions` have a kind, see
    `pfedfair.studies.cautions`, and a sentence. `explained` is where the meaning of numbers can be
    read, for the terminal, which prints the legend if it is "". `files` are frames to be saved as
    CSV, by file name.
    """

    title: str = ""
    sentence: str = ""
    more: tuple[str, ...] = ()
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...] = ()
    legend: tuple[str, ...] = ()
    explained: str = ""
    cautions: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """The warnings as sentences."""
        return tuple(text for _, text in self.cautions)

    def noting(self, notes: Iterable[str], kind: str = "note") -> "View":
        """Return the view with additional warnings."""
        return replace(self, cautions=(*self.cautions, *((kind, text) for text in notes)))
