"""Describe lines of a text file with more cells than there are names of columns."""

from __future__ import annotations

import csv
import re
from contextlib import suppress

from pfedfair._util.files import first_line
from pfedfair.data.tables.delimited import Layout

EXPECTED = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")  # by pandas' parser


def describe(error: Exception) -> str:
    """Return what a parser says, in our words if a line has too many cells.

    >>> describe(ValueError("C error: Expected 7 fields in line 3, saw 8"))
    'line 3 has 8 cells, there are 7 names of columns'
    """
    found = EXPECTED.search(str(error))
    if found is None:
        return first_line(error)
    names, line, cells = map(int, found.groups())
    return too_long(line, cells, names)


def too_long(line: int, cells: int, names: int) -> str:
    return f"line {line} has {cells} cells, there are {names} names of columns"


def find_longer(layout: Layout) -> str:
    """Describe the first line of a file with more cells than names."""
    names = len(layout.names)
    with layout.open() as file, suppress(csv.Error):
        rows = csv.reader(file, delimiter=layout.separator, skipinitialspace=True)
        for row in rows:
            if len(row) > names:
                return too_long(rows.line_num, len(row), names)
    return "a line has more cells than there are names of columns"
