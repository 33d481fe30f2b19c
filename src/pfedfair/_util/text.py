"""Escape texts from data or from other sites for terminals, Markdown and spreadsheets.

A name may hold codes that move a terminal's cursor, Markdown or HTML, or a spreadsheet's formula.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# Controls but for tab and newline; what ends a line elsewhere; what turns the direction of writing.
CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d\s.,()/eE-]*$)")  # but -5, +1.2e-3 and +49 (30) 123
FIRST = frozenset("=@\t\r+-")  # what a formula begins with
QUOTED = re.compile(rf"'(?={FORMULA.pattern})")


def sanitise(text: str) -> str:
    r"""Escape control codes, so that a terminal does not obey them.

    >>> sanitise("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return CODES.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_markdown(text: str) -> str:
    r"""Escape a text for Markdown: no HTML, link, picture or code of its own.

    >>> escape_markdown("<b>x</b> [y](z)")
    '&lt;b>x&lt;/b> \\[y](z)'
    >>> escape_markdown("0.04 [0.03, 0.05]")
    '0.04 [0.03, 0.05]'
    """
    odd = r"([\[`\\])" if re.search(r"\][(\[:]", text) else r"([`\\])"
    return re.sub(odd, r"\\\1", sanitise(text).replace("<", "&lt;"))


def escape_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Escape formulas in a table for a CSV file, so that a spreadsheet does not compute them.

    A text that would be a formula begins with an apostrophe, as spreadsheets themselves write it.
    """
    import pandas as pd

    texts = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c].dtype)]
    odd = [c for c in texts if any(map(_is_formula, _distinct(frame[c])))]
    names = {c: escape_formula(c) for c in frame if _is_formula(c)}
    if not odd and not names:
        return frame
    made = frame.copy()
    for c in odd:
        made[c] = frame[c].map(escape_formula)
    return made.rename(columns=names)


def unescape_formulas(column: pd.Series[str]) -> pd.Series[str]:
    """Undo `escape_formulas` in a file of our own."""
    return column.str.replace(QUOTED, "", n=1, regex=True)


def _distinct(column: pd.Series[Any]) -> Collection[Any]:
    """Return the distinct cells of a column, or all of them if they cannot be hashed."""
    if hasattr(column, "cat"):
        return list(column.cat.categories)
    cells = column.tolist()
    try:
        return set(cells)
    except TypeError:  # lists and the like
        return cells


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell[:1] in FIRST and FORMULA.match(cell) is not None


def escape_formula(cell: Any) -> Any:
    """Escape a cell that a spreadsheet would read as a formula."""
    return f"'{cell}" if _is_formula(cell) else cell
