"""What there is to show of results: numbers and how to say them. `pfedfair.report` shows it.

A view is data: frames of numbers, and for each column of a table how a row's numbers are written. A
renderer computes nothing, so the screen, Markdown and a page show the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and what a row of the frame says in it.

    `cell` is a function of the row, or a text with its numbers' names in braces. Both may have
    several lines: our number, its uncertainty, the paper's number. Where lines are not possible,
    `between` stands between them.
    """

    heading: str
    cell: Callable[[pd.Series], str] | str
    between: str = " / "

    def says(self, row: pd.Series) -> str:
        return self.cell.format_map(row) if isinstance(self.cell, str) else self.cell(row)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers, a row of `frame` for each row of the table, and the `columns` that show them.

    The first `keys` columns say whose a row is. The first `bright` lines of a cell are its own, the
    others remarks: intervals, or the paper's numbers. `lines` go below the numbers.
    A table of `detail` is too long for a screen: it belongs in a report.
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
        """All cells as text, row by row."""
        return [[c.says(row) for c in self.columns] for _, row in self.frame.iterrows()]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """All that is needed to draw a figure.

    `name` is that of its file, `kind` one of `pfedfair.report.figures.KINDS`, which says what
    `frames` and `words` (titles, names of axes) it needs; panels stand `across` in a line.
    """

    name: str
    kind: str
    frames: Mapping[str, pd.DataFrame]
    words: Mapping[str, str] = field(default_factory=dict)
    across: int = 2


@dataclass(frozen=True, kw_only=True)
class View:
    """Tables, pictures, what the numbers mean (`legend`), what to beware of (`cautions`).

    `sentence` is the first thing to read, `more` what belongs to it; `cautions` have a kind, see
    `pfedfair.studies.cautions`, and a sentence. `differs` says of clients, by number, how their
    people differ from other clients'. `files` are frames to be kept as CSV, by file name.
    """

    title: str = ""
    sentence: str = ""
    more: tuple[str, ...] = ()
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...] = ()
    legend: tuple[str, ...] = ()
    cautions: tuple[tuple[str, str], ...] = ()
    differs: Mapping[int, str] = field(default_factory=dict)
    files: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to beware of, as sentences."""
        return tuple(text for _, text in self.cautions)

    def noting(self, notes: Iterable[str], kind: str = "note") -> "View":
        """The same view, with more to beware of."""
        return replace(self, cautions=(*self.cautions, *((kind, text) for text in notes)))
