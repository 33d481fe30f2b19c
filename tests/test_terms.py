"""Terms that must not come back: `docs/glossary.md` has the one that the field uses instead."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "pfedfair"
# What a search can decide; some right names contain one of these, as `certainty_cost`, a column.
TERMS = {
    "told": (r"\btold\b", "report, describe, message"),
    "said": (r"\bsaid\b", "report, message, warning, note"),
    "lot": (r"\blots?\b", "random draw, randomised decision"),
    "coin": (r"\bcoins?\b", "random stream"),
    "set-aside": (r"\bset[ _]aside\b", "held-out rows, calibration rows"),
    "empty-cell": (r"\bempty cells?\b", "missing value"),
    "sure": (r"\bhow sure\b|\bsur(er|est)\b|\bcertainty\b", "confidence level, interval"),
    "ramp": (r"\bramps?\b", "piecewise-linear basis, knots"),
    "lacking": (r"\blacking\b", "missing columns"),
    "plain": (r"\b(def|import) plain\b|\bplain\(", "sanitise, to Python scalars"),
    "alone": (r"\balone\b", "exclusive, only, trains locally, unbatched"),
    "desk": (r"\bspare\b|\bdesks?\b|\brooms?\b", "cache, workspace, buffer"),
    "gathers": (r"\bgather(s|ed)\b", "requires all rows in one place, collects"),
    "closing": (r"\bclosing\b", "phase after training"),
    "headed": (r"\b(Headed|Watchful)\b|\bclass People\b", "auxiliary head, table options"),
}
# Adjectives and participles: a module is a noun of the field.
MODULES = {
    "last", "spare", "plain", "told", "few", "lacking", "whole", "based", "gathered", "stacked",
    "once", "kept", "left", "said", "desk", "beside", "together",
}  # fmt: skip
# Names in files that users' programs read, and `contextlib.closing`.
ALLOWED = {"engines": "lacking", "experiments": "closing", "export": "lot"}
PAGES_NOT_YET = "told said lot sure lacking alone"
FILES = [path for path in sorted(SOURCE.rglob("*")) if path.suffix in (".py", ".pyi", ".j2", ".js")]
PARTS = sorted({path.relative_to(SOURCE).parts[0] for path in FILES})


def found(paths, pattern):
    """Where a pattern is found."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_the_source_uses_the_terms_of_the_field(part):
    files = [path for path in FILES if path.relative_to(SOURCE).parts[0] == part]
    for term in TERMS.keys() - set(ALLOWED.get(part, "").split()):
        pattern, better = TERMS[term]
        assert not found(files, pattern), f"say {better}"


def test_pages_use_the_terms_of_the_field():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    for term in TERMS.keys() - set(PAGES_NOT_YET.split()):
        pattern, better = TERMS[term]
        assert not found(pages, pattern), f"say {better}"


def test_modules_are_nouns():
    names = {str(path.relative_to(SOURCE)) for path in FILES if path.stem in MODULES}
    assert not names
