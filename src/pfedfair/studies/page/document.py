"""The document itself: its parts, its numbers, and words that are the same on every page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies.view import View

VERSION = 1
DIGITS = 6
MORE = 4  # lines beside a sentence
Document = dict[str, Any]
CONFIDENCE = 0.95  # of all intervals
KINDS = ("run", "comparison", "study", "audit", "server")


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page as data: what is None or empty is not shown. No text in it is markup."""

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
    left: Document | None = None
    warnings: Sequence[tuple[str, str]] = ()
    about: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    hints: Mapping[str, str] | None = None
    audit: Document | None = None
    server: Document | None = None

    def to_json(self) -> Document:
        """The document: text, numbers, lists, and null where something is not known."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        found |= {"version": VERSION, "gap": gap_words(self.gap), "glossary": glossary(self.gap)}
        found["warnings"] = [{"kind": kind, "text": text} for kind, text in self.warnings]
        found["about"] = [{"heading": heading, "rows": [list(row) for row in rows]}
                          for heading, rows in self.about if rows]  # fmt: skip
        plainly: Document = plain(found)
        return plainly


def more_of(view: View) -> list[str]:
    """A few lines that belong to the sentence: what is said of the first tables."""
    return [*view.more, *(line for table in view.tables for line in table.lines)][:MORE]


def gap_words(gap: str) -> Document:
    words = MEASURES[gap].words.partition(": ")[2]
    return {"key": gap, "name": gap.upper(), "words": words[:1].upper() + words[1:]}


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers rounded to six digits, null where there is none."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, str) or value is None:
        return value if value is None else str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return round(float(value), DIGITS) if np.isfinite(value) else None
    if isinstance(value, Iterable):
        return [plain(one) for one in value]
    raise TypeError(f"{type(value).__name__} is not for a document")


def column(values: Any) -> list[Any]:
    """A column of numbers, quickly."""
    array = np.asarray(values, dtype=float)
    rounded = np.round(array, DIGITS).tolist()
    return [one if known else None for one, known in zip(rounded, np.isfinite(array), strict=True)]


def whole(values: Any) -> list[int | None]:
    """A column of counts."""
    array = np.asarray(values, dtype=float)
    return [int(one) if np.isfinite(one) else None for one in array]


def glossary(gap: str) -> list[list[str]]:
    """The words of a page, for people who have not met them."""
    name = gap_words(gap)
    return [
        ["site, client", "One place with people of its own: a bank branch, a hospital, a state."],
        ["group (S)", "What decisions should not depend on, such as sex: the people of one kind."],
        ["decision", "What the model says of a person; the positive one is named above."],
        [f"gap ({name['name']})", name["words"]],
        ["target", "The largest gap that the decisions at a site may have."],
        ["95 % interval", "Where the true number is, in 95 of 100 such measurements. Few people "
         "make it wide."],
        ["within, above", "The whole interval is below the target, or above it. Not clear: the "
         "target is inside the interval."],
        ["too few people", f"Fewer than {FEWEST} people of a group: nothing can be told."],
        ["accuracy", "The share of right decisions, on rows that nobody trained on."],
        ["constant", "The accuracy of one decision for everybody, the most frequent label: a model "
         "should beat it."],
        ["frontier", "The least error that thresholds on the shared model's scores can have at "
         "each gap, set with hindsight: no method, but a mark."],
        ["threshold", "The score from which the decision is positive; between two numbers a lot "
         "decides."],
        ["epsilon", "How well noise hides one person in what leaves a site; the smaller the "
         "better."],
    ]  # fmt: skip
