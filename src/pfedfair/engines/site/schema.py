"""What the sites' tables must have in common, agreed before the first round.

A site describes its table by column names, categories, and for each column of numbers its sum and
its sum of squared deviations: aggregates of all its training rows, at least `LEAST_ROWS` of them.
From these the server makes the encoding that fitting on all rows together would give.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import fsum, isfinite, sqrt
from typing import Any

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.data.encoder import Encoder
from pfedfair.errors import InputError
from pfedfair.kinds import Kinds

# Columns of numbers and of categories, labels, groups: what a site's table must have.
Agreed = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]
LEAST_ROWS = 20
FEW_LEVELS = 20


@dataclass(frozen=True)
class Description:
    """What a site says of its table.

    `place` orders the sites (a partition's number; otherwise all are 0 and go by name); `numbers`
    has each column's sum and sum of squared deviations from the site's own mean.
    """

    site: str
    place: int
    rows: int
    numbers: dict[str, tuple[float, float]]
    categories: dict[str, tuple[str, ...]]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    hidden: tuple[int, ...]

    @property
    def agreed(self) -> Agreed:
        return sorted(self.numbers), sorted(self.categories), self.labels, self.groups

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Description:
        given = _tuples(json.loads(text))
        given["numbers"] = {c: (float(v[0]), float(v[1])) for c, v in given["numbers"].items()}
        made = cls(**given)
        enough = type(made.rows) is int and made.rows >= LEAST_ROWS
        named = made.site and made.labels and made.groups and len(made.columns) == 2
        sums = made.numbers.values()
        if not (enough and named and all(isfinite(x + y) and y >= 0 for x, y in sums)):
            raise ValueError("a description must have rows, labels, groups and finite sums")
        return made


@dataclass(frozen=True)
class Schema:
    """What all sites encode their rows by; `aware` says whether S is an input of the model."""

    encoder: Encoder
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    hidden: tuple[int, ...]
    aware: bool

    @property
    def agreed(self) -> Agreed:
        return [*self.encoder.mean], [*self.encoder.categories], self.labels, self.groups

    @property
    def kinds(self) -> Kinds:
        return Kinds(len(self.groups), len(self.labels), self.aware)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Schema:
        given = _tuples(json.loads(text))
        return cls(**given | {"encoder": Encoder(**given["encoder"])})


def describe(data: Dataset, rows: np.ndarray, site: str, place: int, exclude: str) -> Description:
    """Describe the given rows of a table; the column `exclude` is not an input."""
    if len(rows) < LEAST_ROWS:
        raise InputError(
            f"Site '{site}' has {len(rows)} training rows, at least {LEAST_ROWS} are needed."
        )
    train = data.frame.iloc[rows]
    numbers = {}
    for column in (column for column in data.numeric if column != exclude):
        values = train[column].to_numpy(np.float64)
        if not np.isfinite(values).all():
            raise InputError(f"Column '{column}' of site '{site}' has empty or infinite numbers.")
        constant = bool((values == values[0]).all())
        total = fsum(values)
        away = 0.0 if constant else fsum(np.square(values - total / len(values)))
        numbers[column] = (float(values[0]) * len(values) if constant else total, away)
    levels = Encoder.fit(data, rows, exclude=exclude or None).categories
    for column, seen in levels.items():  # they are told to all sites
        if not data.categorical[column] and len(seen) > max(FEW_LEVELS, len(rows) / 5):
            raise InputError(
                f"Column '{column}' of site '{site}' has {len(seen)} different values in "
                f"{len(rows)} rows, like a name or a number of a person: drop it, or make fewer "
                "categories of it."
            )
    names = data.label_names, data.group_names, (data.label_column, data.sensitive_column)
    return Description(site, place, len(rows), numbers, levels, *names, data.hidden)


def difference(agreed: Agreed, other: Description) -> str | None:
    """Say in what a description differs from what was agreed, by column; None if in nothing."""
    numbers, categories, *values = agreed
    for column in numbers:
        if column not in other.numbers:
            what = "has words in it" if column in other.categories else "is missing"
            return f"column '{column}' {what}, it should be a column of numbers"
    for column in categories:
        if column not in other.categories:
            what = "has numbers in it" if column in other.numbers else "is missing"
            return f"column '{column}' {what}, it should be a column of categories"
    for column in (*other.numbers, *other.categories):
        if column not in numbers and column not in categories:
            return f"column '{column}' is not one of the agreed columns; drop it"
    roles = zip(("label", "sensitive"), other.columns, values, strict=True)
    for (role, column, known), own in zip(roles, (other.labels, other.groups), strict=True):
        if not set(own) <= set(known):
            plural = "s" * (len(own) > 1)
            said = f"the {role} column '{column}' has the value{plural} {_listed(own)}"
            return f"{said}, it should have {_listed(known)}"
    return None


def agree(
    found: Sequence[Description], blind: bool = False, hidden: tuple[int, ...] = ()
) -> tuple[Schema, dict[str, str]]:
    """Return the common schema, and for every site that does not fit it the reason.

    The table that fits most sites is what is agreed, the first of several such; a site need not
    have people of every label and group.
    """

    def unlike(first: Description) -> dict[str, str]:
        """Why other sites do not fit one's table."""
        whys = {one.site: difference(first.agreed, one) for one in found}
        return {site: why for site, why in whys.items() if why is not None}

    forms = {repr(one.agreed): one for one in reversed(found)}  # of several alike, the first
    refused, first = min(
        ((unlike(one), one) for one in reversed(forms.values())), key=lambda pair: len(pair[0])
    )
    fit = [one for one in found if one.site not in refused]
    for k, role, values in ((0, "label", first.labels), (1, "sensitive", first.groups)):
        if len(values) < 2:
            raise InputError(
                f"The {role} column '{first.columns[k]}' has one value at all sites, {values[0]}: "
                "there is nothing to learn or to compare."
            )
    mean, scale = _moments(fit)
    categories = {
        column: tuple(sorted({level for one in fit for level in one.categories[column]}))
        for column in first.categories
    }
    encoder = Encoder(mean, scale, categories)
    if encoder.width == 0 and blind:
        raise InputError("The sites' tables have no column to predict from.")
    names = first.labels, first.groups, first.columns
    return Schema(encoder, *names, hidden or first.hidden, not blind), refused


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
    n = sum(one.rows for one in sites)
    mean, scale = {}, {}
    for column in sites[0].numbers:
        mean[column] = centre = fsum(one.numbers[column][0] for one in sites) / n
        own = [one.numbers[column][0] / one.rows for one in sites]
        within = fsum(one.numbers[column][1] for one in sites)
        if within == 0 and len(set(own)) == 1:
            mean[column], scale[column] = own[0], 1.0
            continue
        between = fsum(one.rows * (m - centre) ** 2 for one, m in zip(sites, own, strict=True))
        scale[column] = sqrt((within + between) / n)
    return mean, scale
