"""The schema of the sites' tables, agreed before the first round.

A site describes its table by aggregates of its training rows, at least `LEAST_ROWS` of them, after
rare values were pooled (`rare_values`): those of fewer than `LEAST` rows, unless its policy says
otherwise. For the piecewise-linear basis: the counts of categories and of numbers. For the standard
encoding: sums and sums of squared deviations, and the categories. From these the server makes the
encoding that fitting on all rows in one place would give, apart from the rare values.
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
from pfedfair.data.tables.dates import base_of, require_column
from pfedfair.data.tables.encoder import Encoder, from_dict
from pfedfair.data.tables.piecewise import LEAST, Piecewise
from pfedfair.data.tables.roles import LIKE_A_NAME
from pfedfair.data.tables.summary import Summary
from pfedfair.data.task import Task
from pfedfair.engines.site.bounds import bound_descriptions, find_unbelievable
from pfedfair.engines.site.identifiers import drop_columns, find_identifiers, majority_identifiers
from pfedfair.engines.site.missing_columns import fill_columns, is_absent_hour, is_empty
from pfedfair.engines.site.rare_values import OTHER, pool_rare_values, training_rows

# Encoding, columns of numbers and of categories, labels, groups: required of a site's table.
Agreed = tuple[str, Sequence[str], Sequence[str], Sequence[str], Sequence[str]]
Sums = tuple[float, float, int]
LEAST_ROWS = 20
MAX_CODES = 20


@dataclass(frozen=True)
class Description:
    """A site's description of its table.

    `place` orders the sites (a partition's number; otherwise all are 0 and sorted by name). For
    the piecewise-linear basis there is a `summary`; otherwise `numbers` has each column's sum, its
    sum of squared deviations from the site's own mean, and its number of values.
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
    empty: tuple[str, ...] = ()  # columns without a value, compatible with any kind
    identifiers: tuple[str, ...] = ()  # columns that look like identifiers

    @property
    def encoding(self) -> str:
        return "standard" if self.summary is None else "piecewise"

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """The columns of numbers, and those of categories."""
        columns = self if self.summary is None else self.summary
        return sorted(columns.numbers), sorted(columns.categories)

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
    """The common encoding of all sites; `aware`: whether S is an input of the model."""

    encoder: Encoder | Piecewise
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    hidden: tuple[int, ...]
    aware: bool
    left: tuple[str, ...] = ()  # columns that look like identifiers to most sites

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

    Values of fewer than `least` rows are not described, see `rare_values`.
    """
    every, rows = rows, training_rows(data, rows, least)
    if len(rows) < LEAST_ROWS:
        rare = f", {len(rows)} of them of a label and a group that {least} rows have"
        rare *= len(rows) < len(every)
        raise InputError(
            f"Site '{site}' has {len(every)} training rows{rare}: at least {LEAST_ROWS} are needed."
        )
    labels, groups = (
        tuple(name for code, name in enumerate(words) if (codes[rows] == code).any())
        for codes, words in ((data.y, data.label_names), (data.s, data.group_names))
    )
    names = labels, groups, (data.label_column, data.sensitive_column)
    data = replace(data, frame=data.frame.iloc[rows].reset_index(drop=True))
    rows = np.arange(len(rows))
    inputs = [[c for c in columns if c != exclude] for columns in (data.numeric, data.categorical)]
    empty = tuple(c for columns in inputs for c in columns if is_empty(data, c))
    named = find_identifiers(data, exclude)
    data = pool_rare_values(data, [rows], least, inputs)
    if data.encoding == "piecewise":
        summary = Summary.of(data, rows, exclude)
        for column, counts in summary.categories.items():
            others = counts.other + counts.counts.pop(OTHER, 0)
            summary.categories[column] = replace(counts, other=others)
        return Description(
            site, place, len(rows), {}, {}, *names, data.hidden, summary, empty, named
        )
    numbers = {c: _sums(floats(require_column(data.frame, c).iloc[rows])) for c in inputs[0]}
    fitted = Encoder.fit(data, rows, exclude=exclude or None).categories
    categories = {c: tuple(v for v in values if v != OTHER) for c, values in fitted.items()}
    for column, values in categories.items():  # they are sent to all sites
        if not data.categorical[column] and len(values) > max(MAX_CODES, len(rows) / 5):
            raise InputError(
                f"Column '{column}' of site '{site}' has {len(values)} different values in "
                f"{len(rows)} rows, like an identifier of persons: drop it, or make fewer "
                "categories of it."
            )
    return Description(
        site, place, len(rows), numbers, categories, *names, data.hidden, None, empty, named
    )


def _sums(values: np.ndarray) -> Sums:
    """Return the sum, the sum of squared deviations from the mean, and the count of all but NaN."""
    values = values[~np.isnan(values)]
    if len(values) == 0 or (values == values[0]).all():
        return float(values[:1].sum()) * len(values), 0.0, len(values)
    total = fsum(values)
    return total, fsum(np.square(values - total / len(values))), len(values)


def difference(agreed: Agreed, other: Description) -> str | None:
    """Return how a description differs from the agreed table, by column, or None."""
    encoding, numbers, categories, *values = agreed
    if encoding != other.encoding:
        return f"its encoding is {other.encoding}, it should be {encoding}"
    own_numbers, own_categories = other.names
    expected, present = [*numbers, *categories], [*own_numbers, *own_categories]
    may_miss = {c for c in expected if base_of(c)[0] in other.empty or is_absent_hour(c, present)}
    for column in numbers:
        if column not in own_numbers and column not in may_miss:
            what = "has words in it" if column in own_categories else _absent(other, column)
            return f"column '{column}' {what}, it should be a column of numbers"
    for column in categories:
        if column not in own_categories and column not in may_miss:
            what = "has numbers in it" if column in own_numbers else _absent(other, column)
            return f"column '{column}' {what}, it should be a column of categories"
    bases = {base_of(column)[0] for column in expected}
    for column in present:
        may_add = (column in other.empty and column in bases) or is_absent_hour(column, expected)
        if column not in expected and not may_add:
            return f"column '{column}' is not one of the agreed columns; drop it"
    roles = zip(("label", "sensitive"), other.columns, values, strict=True)
    for (role, column, known), own in zip(roles, (other.labels, other.groups), strict=True):
        if not set(own) <= set(known):
            plural = "s" * (len(own) > 1)
            found = f"the {role} column '{column}' has the value{plural} {_listed(own)}"
            return f"{found}, it should have {_listed(known)}"
    return None


def _absent(one: Description, column: str) -> str:
    """Return why a site has no such column."""
    return LIKE_A_NAME if base_of(column)[0] in one.identifiers else "is missing"


def agree(
    found: Sequence[Description], blind: bool = False, hidden: tuple[int, ...] = ()
) -> tuple[Schema, dict[str, str]]:
    """Return the common schema, and for every site that does not fit it the reason.

    The table that fits most sites is agreed on, the first of several such; a site need not have
    rows of every label and group. Columns that look like identifiers to most sites are left out.
    """

    def unlike(first: Description) -> dict[str, str]:
        """Return the sites that do not fit one's table, and why."""
        whys = {one.site: difference(first.agreed, one) for one in found}
        return {site: why for site, why in whys.items() if why is not None}

    unbelievable = find_unbelievable(found)
    found = [one for one in found if one.site not in unbelievable]
    if not found:
        whys = " ".join(f"Site '{site}': {why}." for site, why in unbelievable.items())
        raise InputError(f"No site's description can be believed. {whys}")
    identifiers = majority_identifiers(found)
    found = [drop_columns(one, identifiers) for one in found]
    forms: dict[str, Description] = {}
    for one in found:
        forms.setdefault(repr(one.agreed), one)  # the first of several
    refused, first = min(
        ((unlike(one), one) for one in forms.values()), key=lambda pair: len(pair[0])
    )
    fit = bound_descriptions([fill_columns(one, first) for one in found if one.site not in refused])
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
    schema = Schema(encoder, *names, hidden or first.hidden, not blind, identifiers)
    return schema, refused | unbelievable


def _encoder(sites: Sequence[Description]) -> Encoder | Piecewise:
    summaries = [one.summary for one in sites if one.summary is not None]
    if summaries:
        return Piecewise.of(Summary.sum(summaries))
    categories = {
        column: tuple(sorted({value for one in sites for value in one.categories[column]}))
        for column in sites[0].categories
    }
    gaps = tuple(c for c in sites[0].numbers if any(one.numbers[c][2] < one.rows for one in sites))
    return Encoder(*_moments(sites), categories, gaps)


def _tuples(given: Any) -> Any:
    """Turn the lists of JSON back into tuples."""
    if isinstance(given, dict):
        return {name: _tuples(value) for name, value in given.items()}
    return tuple(given) if isinstance(given, list) else given


def _listed(values: Sequence[str]) -> str:
    *most, last = values
    return f"{', '.join(most)} and {last}" if most else last


def _moments(sites: Sequence[Description]) -> tuple[dict[str, float], dict[str, float]]:
    """Return means and standard deviations over all sites' rows; 1 for a constant column."""
    mean, scale = {}, {}
    for column in sites[0].numbers:
        sums = [one.numbers[column] for one in sites if one.numbers[column][2] > 0]
        n = sum(own for _, _, own in sums)
        means = [total / own for total, _, own in sums]
        within = fsum(away for _, away, _ in sums)
        if within == 0 and len(set(means)) <= 1:
            mean[column], scale[column] = (means or [0.0])[0], 1.0
            continue
        mean[column] = centre = fsum(total for total, _, _ in sums) / n
        between = fsum(own * (m - centre) ** 2 for (_, _, own), m in zip(sums, means, strict=True))
        scale[column] = sqrt((within + between) / n)
    return mean, scale
