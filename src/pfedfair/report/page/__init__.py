"""A self-contained HTML page from a JSON document: it draws, sorts and filters, computes nothing.

The page embeds the document once, as JSON. A static HTML version for readers without JavaScript is
rendered from the same document; the script makes it interactive. Nothing is loaded: a
Content-Security-Policy forbids every request, and allows only this script and style sheet, by
their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pfedfair.report.page import formats
from pfedfair.studies.words import TOO_FEW

FOLDER = Path(__file__).parent
SCRIPTS = (
    "base", "marks", "overview", "rows", "strip", "curves", "tradeoff", "slider",
    "details", "site", "shapes", "main",
)  # fmt: skip
STYLES = ("page", "charts", "print")
STATIC = 300  # rows of a table without JavaScript
EMPTY: dict[str, Any] = {
    "more": [], "live": None, "parts": [], "slider": None, "details": None, "shapes": None,
    "sent": None, "warnings": [], "about": [], "glossary": [], "audit": None, "server": None,
    "target": None, "confidence": None, "gap": None, "groups": [], "labels": [], "positive": None,
}  # fmt: skip
WORDS = {
    "verdicts": {
        "within": "the whole interval is at most the target",
        "not clear": "the interval reaches across the target",
        "exceeds": "the whole interval exceeds the target",
        "few": TOO_FEW,
        "same": "one decision for all rows, so a gap of 0 means nothing",
        "none": "no gap: rows of one group only",
    },
    "kinds": {
        "run": "One run", "comparison": "Comparison", "study": "Study", "audit": "Audit",
        "server": "Server",
    },
    "warnings": {
        "collapsed": "one decision", "random draws": "random draws", "too small": "too small",
        "levelling down": "levelling down", "few": "few rows", "left out": "left out",
        "note": "note",
    },
    "states": {"present": "here", "missing": "missing", "refused": "refused"},
}  # fmt: skip


def render(document: Mapping[str, Any]) -> str:
    """Return the page of a document: one file, no network.

    >>> page = render({"kind": "run", "title": "a < b", "sentence": "All sites are within it."})
    >>> "<h1" in page and "a &lt; b" in page
    True
    """
    script, style = parts()
    policy = "; ".join([
        "default-src 'none'", f"script-src '{digest(script)}'", f"style-src '{digest(style)}'",
        "img-src data:", "base-uri 'none'", "form-action 'none'",
    ])  # fmt: skip
    page: str = _template().render(
        doc={**EMPTY, **document}, words=WORDS, static=STATIC, policy=policy,
        data=escape(document), texts=escape(WORDS), script=script, style=style,
    )  # fmt: skip
    return page


def escape(value: Any) -> str:
    r"""Return JSON that may stand in HTML: no character that HTML interprets, no NaN.

    >>> print(escape({"a": "</script> & \u2028"}))
    {"a":"\u003c/script\u003e \u0026 \u2028"}
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def digest(text: str) -> str:
    """Return the hash of an inline script or style sheet, as a policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def parts() -> tuple[str, str]:
    """Return the script, its files joined into one function, and the style sheet."""
    files = [(FOLDER / "script" / f"{name}.js").read_text("utf-8") for name in SCRIPTS]
    style = "".join((FOLDER / f"{name}.css").read_text("utf-8") for name in STYLES)
    return "(() => {\n'use strict';\n" + "\n".join(files) + "})();\n", style


@cache
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    env = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    env.filters |= formats.FILTERS
    return env.get_template("page.html.j2")
