"""Names that come from data or from other people, where they are shown: as text and nothing else.

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
    r"""Show codes as what they are, so that a terminal does not obey them.

    >>> sanitise("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return CODES.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def marked(text: str) -> str:
    r"""Show a text in Markdown as it is: no HTML, link, picture or code of its own.

    >>> marked("<b>x</b> [y](z)")
    '&lt;b>x&lt;/b> \\[y](z)'
    >>> marked("0.04 [0.03, 0.05]")
    '0.04 [0.03, 0.05]'
    """
    odd = r"([\[`\\])" if re.search(r"\][(\[:]", text) else r"([`\\])"
    return re.sub(odd, r"\\\1", sanitise(text).replace("<", "&lt;"))


def inert(frame: pd.DataFrame) -> pd.DataFrame:
    """A table for a CSV file: a spreadsheet computes nothing of what is in its texts.

    A text that would be a formula begins with an apostrophe, as spreadsheets themselves write it.
    """
    import pandas as pd

    texts = [c for c in frame if not pd.api.types.is_numeric_dtype(frame[c].dtype)]
    odd = [c for c in texts if any(map(_formula, _different(frame[c])))]
    names = {c: safe(c) for c in frame if _formula(c)}
    if not odd and not names:
        return frame
    made = frame.copy()
    for c in odd:
        made[c] = frame[c].map(safe)
    return made.rename(columns=names)


def alive(column: pd.Series[str]) -> pd.Series[str]:
    """Undo `inert` in a file of our own."""
    return column.str.replace(QUOTED, "", n=1, regex=True)


def _different(column: pd.Series[Any]) -> Collection[Any]:
    """The cells of a column, each once if that can be."""
    if hasattr(column, "cat"):
        return list(column.cat.categories)
    cells = column.tolist()
    try:
        return set(cells)
    except TypeError:  # lists and the like
        return cells


def _formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell[:1] in FIRST and FORMULA.match(cell) is not None


def safe(cell: Any) -> Any:
    """A cell that is no formula."""
    return f"'{cell}" if _formula(cell) else cell
