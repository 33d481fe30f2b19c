"""The document of a page: its parts, its numbers as JSON, and its glossary."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies.view import Table, View
from pfedfair.studies.words import TOO_FEW

VERSION = 1
DIGITS = 6
MORE = 4  # lines below the sentence
Document = dict[str, Any]
CONFIDENCE = 0.95  # of all intervals
KINDS = ("run", "comparison", "study", "audit", "server")


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page as data: fields that are None or empty are not shown. No text is markup."""

    kind: str
    title: str
    sentence: str
    more: Sequence[str] = ()
    gap: str = "ddp"
    target: float | None = None
    confidence: float | None = CONFIDENCE
    groups: Sequence[str] = ()
    labels: Sequence[str] = ()
    positive: str | None = None
    live: Mapping[str, Any] | None = None
    parts: Sequence[Document] = ()
    slider: Document | None = None
    details: Sequence[Document | None] | None = None
    shapes: Sequence[Document] | None = None
    sent: Document | None = None
    warnings: Sequence[tuple[str, str]] = ()
    about: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    hints: Mapping[str, str] | None = None
    audit: Document | None = None
    server: Document | None = None

    def to_json(self) -> Document:
        """Return the document: text, numbers, lists, and null for what is unknown."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        content |= {"version": VERSION, "gap": gap_words(self.gap), "glossary": glossary(self.gap)}
        content["warnings"] = [{"kind": kind, "text": text} for kind, text in self.warnings]
        content["about"] = [{"heading": heading, "rows": [list(row) for row in rows]}
                            for heading, rows in self.about if rows]  # fmt: skip
        document: Document = jsonable(content)
        return document


def more_of(view: View) -> list[str]:
    """Return the lines that complete the sentence: those below the first tables."""
    return [*view.more, *(line for table in view.tables for line in table.lines)][:MORE]


def table_of(table: Table) -> Document:
    """Return the text of a table."""
    return {
        "heading": table.heading,
        "heads": [one.heading for one in table.columns],
        "cells": table.cells(),
        "keys": table.keys,
        "lines_heading": table.lines_heading,
        "lines": list(table.lines),
        "detail": table.detail,
    }


def gap_words(gap: str) -> Document:
    """Return the key, name and definition of a gap."""
    words = MEASURES[gap].words.partition(": ")[2]
    return {"key": gap, "name": gap.upper(), "words": words[:1].upper() + words[1:]}


def jsonable(value: Any) -> Any:
    """Return a value for JSON: numbers rounded to six digits, None for those not finite."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(one) for key, one in value.items()}
    if isinstance(value, str) or value is None:
        return value if value is None else str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return round(float(value), DIGITS) if np.isfinite(value) else None
    if isinstance(value, Iterable):
        return [jsonable(one) for one in value]
    raise TypeError(f"{type(value).__name__} is not for a document")


def column(values: Any) -> list[Any]:
    """Return a column of rounded numbers, None for those that are unknown."""
    array = np.asarray(values, dtype=float)
    rounded = np.round(array, DIGITS).tolist()
    return [one if known else None for one, known in zip(rounded, np.isfinite(array), strict=True)]


def counts(values: Any) -> list[int | None]:
    """Return a column of counts, None for those that are unknown."""
    array = np.asarray(values, dtype=float)
    return [int(one) if np.isfinite(one) else None for one in array]


def glossary(gap: str) -> list[list[str]]:
    """Return the terms of a page and what they mean."""
    name = gap_words(gap)
    return [
        ["site, client", "One place with its own rows: a bank branch, a hospital, a state."],
        ["group (S)", "What decisions should not depend on, such as sex: the rows with one value."],
        ["decision", "What the model predicts for a row; the positive decision is named above."],
        [f"gap ({name['name']})", name["words"]],
        ["target", "The largest gap that the decisions at a site may have."],
        ["made to keep", "What a rule was made for, before it was measured. On average (an "
         "estimate): about half of such sites may exceed the target. With a confidence level: by a "
         "model of the site's rows, for each site or for all jointly. A certificate holds for any "
         "distribution of rows, from the number of rows that there are."],
        ["measured on", "The rows that the gap is computed from, which no model was trained on: "
         "the site's own, or the pool of all sites' with each group weighted to its share at the "
         "site. No site has all the rows of the pool."],
        ["95 % interval", "Where the true number is, in 95 of 100 such measurements. With few rows "
         "it is wide."],
        ["within, exceeds", "The whole interval is at most the target, or exceeds it. Not clear: "
         "the target is inside the interval; with the rows that are named it would end there."],
        ["random draw", "A decision that is drawn at random, between two scores; equal rows may "
         "get different ones."],
        ["levelling down", "The gap closes mainly because the better-off group loses positive "
         "decisions, not because the other one gets more."],
        [TOO_FEW, f"Fewer than {FEWEST} rows of a group: its rate is not reported."],
        ["accuracy", "The share of right decisions, on held-out rows."],
        ["constant", "The accuracy of one decision for all rows, the most frequent label: a model "
         "should beat it."],
        ["AUC, recall, precision", "How often a row with the positive label has the higher score; "
         "the part of such rows that is decided so; the part of rows decided so that has it."],
        ["frontier", "The least error that thresholds on the shared model's scores can have at "
         "each gap, chosen with the test labels: no method, but a mark."],
        ["rank", "Methods share one unless one of them is clearly worse: differences in pairs, "
         "over seeds, with 95 % confidence for all pairs of methods together."],
        ["threshold", "The score from which the decision is positive; between two numbers it is "
         "drawn at random."],
        ["epsilon", "How well noise hides one row in what a site sends; smaller is better."],
    ]  # fmt: skip
