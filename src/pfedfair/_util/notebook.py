"""HTML of an object in a notebook: a sentence or two, and a small table."""

from collections.abc import Sequence
from html import escape

import pandas as pd

MOST = 20  # rows of a table
NAMED = 8  # names of a list


def abbreviate(names: Sequence[str], most: int = NAMED) -> str:
    """Join the first names with commas, and say how many more there are.

    >>> abbreviate(["a", "b", "c", "d"], most=2), abbreviate(["a"])
    ('a, b and 2 more', 'a')
    """
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def block(heading: str, lines: Sequence[str], table: pd.DataFrame | None = None) -> str:
    """Return HTML in which nothing that came from a user is markup.

    >>> block("a < b", ["one & two"])
    '<div><p><strong>a &lt; b</strong></p><p>one &amp; two</p></div>'
    """
    parts = [f"<p><strong>{escape(heading)}</strong></p>"]
    if lines:
        parts.append(f"<p>{'<br>'.join(map(escape, lines))}</p>")
    if table is not None:
        parts.append(table.head(MOST).to_html(index=False, float_format="{:.3f}".format, border=0))
        if len(table) > MOST:
            parts.append(f"<p>and {len(table) - MOST} more rows</p>")
    return f"<div>{''.join(parts)}</div>"
