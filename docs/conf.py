"""Sphinx's settings; ``make docs`` builds the site into ``build/docs``."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

from sphinx.application import Sphinx

from pfedfair import __version__
from pfedfair.methods.defaults import settings

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from method_figures import write  # noqa: E402

# The methods of each page, from its line "Methods: ...".
PAGES = {
    path.stem: tuple(re.findall(r"`([\w-]+)`", line))
    for path in sorted((HERE / "methods").glob("*.md"))
    for line in re.findall(r"^Methods?: .*", path.read_text(), re.M)
}

project = "pfedfair"
author = "The pfedfair authors"
copyright = author
version = release = __version__
html_title = project
html_theme = "alabaster"  # Sphinx's own: nothing more to install
html_theme_options = {"page_width": "1100px", "sidebar_width": "250px", "fixed_sidebar": True}
extensions = ["myst_parser", "sphinx.ext.mathjax"]
exclude_patterns = ["_generated", "results"]  # the latter's files are included by results.md
myst_enable_extensions = ["amsmath", "dollarmath", "substitution"]
myst_heading_anchors = 3


def tuned(methods: tuple[str, ...]) -> str:
    """Return a table of the methods' tuned settings, with tuned.toml's remark on each."""
    text = (files("pfedfair.methods.defaults") / "tuned.toml").read_text()
    remarks = {
        (data, method): remark
        for data, method, remark in re.findall(r"^\[(\w+)\.([\w-]+)\] *# *(.*)$", text, re.M)
    }
    rows = ["| method | data | settings | remark |", "|---|---|---|---|"]
    for method in methods:
        for data in ("adult", "compas"):
            chosen = ", ".join(f"{name} {value}" for name, value in settings(data, method).items())
            remark = remarks.get((data, method), "")
            rows.append(f"| `{method}` | {data} | {chosen or 'the defaults'} | {remark} |")
    return "\n".join(rows)


myst_substitutions = {f"tuned_{page}": tuned(methods) for page, methods in PAGES.items()}


def draw(app: Sphinx) -> None:
    """Draw the figures that pages ask for, before any page is read."""
    texts = {page: (HERE / "methods" / f"{page}.md").read_text() for page in PAGES}
    asked = {page: PAGES[page] for page, text in texts.items() if f"_generated/{page}." in text}
    write(HERE / "results" / "points.csv", HERE / "_generated", asked)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", draw)
