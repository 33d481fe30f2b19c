"""What the sites' tables must have in common, agreed before the first round.

A site describes its table by aggregates of its training rows, at least `LEAST_ROWS` of them, after
what few people have was put together (`few`), `LEAST` people unless the site says otherwise. For
ramps: how many people have a level, where `LEAST` or more have it, and how many are near a number,
which is the mean of `LEAST` people or a value that so many have. For the standard encoding: sums
and sums of squared deviations, and the categories. From these the server makes the encoding that
fitting on all rows together would give, but for what so few people have.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, isfinite, sqrt
from typing import Any

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables.cells import floats
from pfedfair.data.tables.dates import base_of, needed
from pfedfair.data.tables.encoder import Encoder, from_dict
from pfedfair.data.tables.piecewise import LEAST, Piecewise
from pfedfair.data.tables.roles import LIKE_A_NAME
from pfedfair.data.tables.summary import Summary
from pfedfair.data.task import Task
from pfedfair.engines.site.bounds import bounded, unbelievable
from pfedfair.engines.site.identifiers import look_so, voted_out, without
from pfedfair.engines.site.missing_columns import alike, is_empty, midnight
from pfedfair.engines.site.rare_values import OTHER, blended, trained_on

# Encoding, columns of numbers and of categories, labels, groups: what a site's table must have.
Agreed = tuple[str, Sequence[str], Sequence[str], Sequence[str], Sequence[str]]
Sums = tuple[float, float, int]
LEAST_ROWS = 20
FEW_LEVELS = 20


@dataclass(frozen=True)
class Description:
    """What a site says of its table.

    `place` orders the sites (a partition's number; otherwise all are 0 and go by name). For ramps
    there is a `summary`; otherwise `numbers` has each column's sum, its sum of squared deviations
    from the site's own mean, and how many cells are not empty.
    """

    site: str
    place: int
    rows: int
    numbers: dict[str, Sums]
    categories: dict[str, tuple[str, ...]]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    hidden: tuple[int, ...]
    summary: Summary | None = None
    empty: tuple[str, ...] = ()  # columns without a cell: whatever the others have there will do
    identifiers: tuple[str, ...] = ()  # columns that look like names or numbers of people

    @property
    def encoding(self) -> str:
        return "standard" if self.summary is None else "piecewise"

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The columns of numbers, and those of categories."""
        told = self if self.summary is None else self.summary
        return sorted(told.numbers), sorted(told.categories)

    @property
    def agreed(self) -> Agreed:
        return self.encoding, *self.names, self.labels, self.groups

    def to_json(self) -> str:
        summary = None if self.summary is None else self.summary.to_dict()
        return json.dumps(vars(self) | {"summary": summary})

    @classmethod
    def from_json(cls, text: str) -> Description:
        given = json.loads(text)
        summary = given.pop("summary", None)
        given = _tuples(given)
        given["numbers"] = {
            c: (float(total), float(away), int(n))
            for c, (total, away, n) in given["numbers"].items()
        }
        made = cls(**given, summary=None if summary is None else Summary.from_dict(summary))
        enough = type(made.rows) is int and made.rows >= LEAST_ROWS
        named = made.site and made.labels and made.groups and len(made.columns) == 2
        named = named and isinstance(made.identifiers, tuple)
        named = named and all(type(column) is str for column in made.identifiers)
        sums = made.numbers.values()
        finite = enough and all(isfinite(x + y) and y >= 0 <= n <= made.rows for x, y, n in sums)
        if not (finite and named):
            raise ValueError("a description must have rows, labels, groups and finite sums")
        return made


@dataclass(frozen=True)
class Schema:
    """What all sites encode their rows by; `aware` says whether S is an input of the model."""

    encoder: Encoder | Piecewise
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    hidden: tuple[int, ...]
    aware: bool
    left: tuple[str, ...] = ()  # columns that look like names or numbers of people to most sites

    @property
    def agreed(self) -> Agreed:
        return self.encoder.encoding, *self.encoder.names, self.labels, self.groups

    @property
    def task(self) -> Task:
        return Task(len(self.groups), len(self.labels), self.aware)

    def to_json(self) -> str:
        return json.dumps(vars(self) | {"encoder": self.encoder.to_dict()})

    @classmethod
    def from_json(cls, text: str) -> Schema:
        given = json.loads(text)
        encoder = from_dict(given.pop("encoder"), {})
        if not isinstance(encoder, Encoder | Piecewise):
            raise ValueError("a schema must have an encoder of columns")
        return cls(encoder, **_tuples(given))


def describe(
    data: Dataset, rows: np.ndarray, site: str, place: int, exclude: str, least: int = LEAST
) -> Description:
    """Describe the given rows of a table; the column `exclude` is not an input.

    What fewer than `least` of them have is not told, see `few`.
    """
    every, rows = rows, trained_on(data, rows, least)
    if len(rows) < LEAST_ROWS:
        few = f", {len(rows)} of them of a label and a group that {least} people have"
        few *= len(rows) < len(every)
        raise InputError(
            f"Site '{site}' has {len(every)} training rows{few}: at least {LEAST_ROWS} are needed."
        )
    labels, groups = (
        tuple(name for code, name in enumerate(words) if (codes[rows] == code).any())
        for codes, words in ((data.y, data.label_names), (data.s, data.group_names))
    )
    names = labels, groups, (data.label_column, data.sensitive_column)
    data = replace(data, frame=data.frame.iloc[rows].reset_index(drop=True))
    rows = np.arange(len(rows))
    inputs = [c for c in (*data.numeric, *data.categorical) if c != exclude]
    empty = tuple(c for c in inputs if is_empty(data, c))
    named = look_so(data, exclude)
    data = blended(data, [rows], least, exclude)
    if data.encoding == "piecewise":
        summary = Summary.of(data, rows, exclude, least)
        for column, counts in summary.categories.items():
            others = counts.other + counts.levels.pop(OTHER, 0)
            summary.categories[column] = replace(counts, other=others)
        return Description(
            site, place, len(rows), {}, {}, *names, data.hidden, summary, empty, named
        )
    numeric = [column for column in data.numeric if column != exclude]
    numbers = {c: _sums(floats(needed(data.frame, c).iloc[rows])) for c in numeric}
    fitted = Encoder.fit(data, rows, exclude=exclude or None).categories
    levels = {c: tuple(level for level in seen if level != OTHER) for c, seen in fitted.items()}
    for column, seen in levels.items():  # they are told to all sites
        if not data.categorical[column] and len(seen) > max(FEW_LEVELS, len(rows) / 5):
            raise InputError(
                f"Column '{column}' of site '{site}' has {len(seen)} different values in "
                f"{len(rows)} rows, like a name or a number of a person: drop it, or make fewer "
                "categories of it."
            )
    return Description(
        site, place, len(rows), numbers, levels, *names, data.hidden, None, empty, named
    )


def _sums(values: np.ndarray) -> Sums:
    """The sum, the sum of squared deviations from the mean, and the number of all but NaN."""
    values = values[~np.isnan(values)]
    if len(values) == 0 or (values == values[0]).all():
        return float(values[:1].sum()) * len(values), 0.0, len(values)
    total = fsum(values)
    return total, fsum(np.square(values - total / len(values))), len(values)


def difference(agreed: Agreed, other: Description) -> str | None:
    """Say in what a description differs from what was agreed, by column; None if in nothing."""
    encoding, numbers, categories, *values = agreed
    if encoding != other.encoding:
        return f"its encoding is {other.encoding}, it should be {encoding}"
    own_numbers, own_categories = other.names
    every, there = [*numbers, *categories], [*own_numbers, *own_categories]
    lacks = {c for c in every if base_of(c)[0] in other.empty or midnight(c, there)}  # and may
    for column in numbers:
        if column not in own_numbers and column not in lacks:
            what = "has words in it" if column in own_categories else _absent(other, column)
            return f"column '{column}' {what}, it should be a column of numbers"
    for column in categories:
        if column not in own_categories and column not in lacks:
            what = "has numbers in it" if column in own_numbers else _absent(other, column)
            return f"column '{column}' {what}, it should be a column of categories"
    bases = {base_of(column)[0] for column in every}
    for column in there:
        beside = (column in other.empty and column in bases) or midnight(column, every)
        if column not in every and not beside:
            return f"column '{column}' is not one of the agreed columns; drop it"
    roles = zip(("label", "sensitive"), other.columns, values, strict=True)
    for (role, column, known), own in zip(roles, (other.labels, other.groups), strict=True):
        if not set(own) <= set(known):
            plural = "s" * (len(own) > 1)
            said = f"the {role} column '{column}' has the value{plural} {_listed(own)}"
            return f"{said}, it should have {_listed(known)}"
    return None


def _absent(one: Description, column: str) -> str:
    """Why a site has no such column."""
    return LIKE_A_NAME if base_of(column)[0] in one.identifiers else "is missing"


def agree(
    found: Sequence[Description], blind: bool = False, hidden: tuple[int, ...] = ()
) -> tuple[Schema, dict[str, str]]:
    """Return the common schema, and for every site that does not fit it the reason.

    The table that fits most sites is what is agreed, the first of several such; a site need not
    have people of every label and group. What looks like a name to most of them is left out.
    """

    def unlike(first: Description) -> dict[str, str]:
        """Why other sites do not fit one's table."""
        whys = {one.site: difference(first.agreed, one) for one in found}
        return {site: why for site, why in whys.items() if why is not None}

    lies = unbelievable(found)
    found = [one for one in found if one.site not in lies]
    if not found:
        whys = " ".join(f"Site '{site}': {why}." for site, why in lies.items())
        raise InputError(f"No site's description can be believed. {whys}")
    left = voted_out(found)
    found = [without(one, left) for one in found]
    forms: dict[str, Description] = {}
    for one in found:
        forms.setdefault(repr(one.agreed), one)  # of several alike, the first
    refused, first = min(
        ((unlike(one), one) for one in forms.values()), key=lambda pair: len(pair[0])
    )
    fit = bounded([alike(one, first) for one in found if one.site not in refused])
    for k, role, values in ((0, "label", first.labels), (1, "sensitive", first.groups)):
        if len(values) < 2:
            raise InputError(
                f"The {role} column '{first.columns[k]}' has one value at all sites, {values[0]}: "
                "there is nothing to learn or to compare."
            )
    encoder = _encoder(fit)
    if encoder.width == 0 and blind:
        raise InputError("The sites' tables have no column to predict from.")
    names = first.labels, first.groups, first.columns
    return Schema(encoder, *names, hidden or first.hidden, not blind, left), refused | lies


def _encoder(sites: Sequence[Description]) -> Encoder | Piecewise:
    told = [one.summary for one in sites if one.summary is not None]
    if told:
        return Piecewise.of(Summary.sum(told))
    categories = {
        column: tuple(sorted({level for one in sites for level in one.categories[column]}))
        for column in sites[0].categories
    }
    gaps = tuple(c for c in sites[0].numbers if any(one.numbers[c][2] < one.rows for one in sites))
    return Encoder(*_moments(sites), categories, gaps)


def _tuples(given: Any) -> Any:
    """Undo what JSON does to tuples."""
    if isinstance(given, dict):
        return {name: _tuples(value) for name, value in given.items()}
    return tuple(given) if isinstance(given, list) else given


def _listed(values: Sequence[str]) -> str:
    *most, last = values
    return f"{', '.join(most)} and {last}" if most else last


def _moments(sites: Sequence[Description]) -> tuple[dict[str, float], dict[str, float]]:
    """Means and standard deviations over all sites' rows together; of a constant column, 1."""
    mean, scale = {}, {}
    for column in sites[0].numbers:
        told = [one.numbers[column] for one in sites if one.numbers[column][2] > 0]
        n = sum(own for _, _, own in told)
        means = [total / own for total, _, own in told]
        within = fsum(away for _, away, _ in told)
        if within == 0 and len(set(means)) <= 1:
            mean[column], scale[column] = (means or [0.0])[0], 1.0
            continue
        mean[column] = centre = fsum(total for total, _, _ in told) / n
        between = fsum(own * (m - centre) ** 2 for (_, _, own), m in zip(told, means, strict=True))
        scale[column] = sqrt((within + between) / n)
    return mean, scale
