"""Bounds on descriptions: a site with a false description must not spoil the others' run.

Impossible descriptions are refused, and so are those that are `FAR` from the median of all sites.
The influence of unusual ones is bounded: no site counts for more rows than all others combined, and
no column of a site lies further out than `WIDE` times the typical scale. With fewer than three
sites there is no majority, and nothing is bounded.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pfedfair._util.text import sanitise
from pfedfair.data.tables.summary import Counts, Summary, Values

if TYPE_CHECKING:
    from pfedfair.engines.site.schema import Description

log = logging.getLogger("pfedfair")
MAX_ROWS = 10**9
MAX_MOMENT = 1e30  # a mean, or a standard deviation
FAR = 1000.0  # times the typical scale: refused
WIDE = 10.0  # times the typical scale: clipped to that
MIN_SITES = 3  # that can outvote one
MAX_NAME = 200  # characters
MAX_VALUES = 10_000


class Typical(NamedTuple):
    """The centre and the scale of a column of numbers at most sites."""

    centre: float
    scale: float


def find_unbelievable(found: Sequence[Description]) -> dict[str, str]:
    """Return the sites whose descriptions are refused, and why."""
    refused = {one.site: why for one in found if (why := impossible(one))}
    rest = [one for one in found if one.site not in refused]
    if len(rest) < MIN_SITES:
        return refused
    rows = median(one.rows for one in rest)
    found_moments = {one.site: moments(one) for one in rest}
    usual = _typical(found_moments)
    for one in rest:
        if one.rows > FAR * rows:
            refused[one.site] = f"it says that it has {one.rows:,} rows, the others have {rows:g}"
        for column, (mean, spread) in found_moments[one.site].items():
            if column not in usual:
                continue
            centre, scale = usual[column]
            if max(abs(mean - centre), spread) > FAR * scale:
                refused.setdefault(
                    one.site,
                    f"column '{column}' has numbers around {mean:.3g}, spread by {spread:.3g}; the "
                    f"others' are around {centre:.3g}, spread by {scale:.3g}",
                )
    return refused


def impossible(one: Description) -> str | None:
    """Return what is impossible in a description, whatever the others are, or None."""
    if one.rows > MAX_ROWS:
        return f"it says that it has {one.rows:,} rows, at most {MAX_ROWS:,} can be"
    names = [one.site, *one.columns, *one.labels, *one.groups, *(c for k in one.names for c in k)]
    if sanitise(one.site) != one.site or len(one.site.splitlines()) != 1:
        return "its name has characters that cannot be shown"
    categories = dict(one.categories)
    if one.summary is not None:
        categories = {c: tuple(column.counts) for c, column in one.summary.categories.items()}
    for name in (*names, *(name for values in categories.values() for name in values)):
        if len(name) > MAX_NAME:
            return f"it has a name of {len(name)} characters, at most {MAX_NAME} can be"
    for column, values in categories.items():
        if len(values) > MAX_VALUES:
            return f"column '{column}' has {len(values):,} categories, at most {MAX_VALUES:,} can"
    for column, cells in _cells(one).items():
        if cells > one.rows:
            return f"column '{column}' has {cells:,} cells in {one.rows:,} rows"
    for column, both in moments(one).items():
        if not all(isfinite(x) and abs(x) <= MAX_MOMENT for x in both):
            return f"column '{column}' has numbers that are too large to be"
    return None


def bound_descriptions(found: Sequence[Description]) -> list[Description]:
    """Return the descriptions with bounded influence, unchanged if all are typical."""
    if len(found) < MIN_SITES:
        return list(found)
    weights = bound_weights([one.rows for one in found])
    found_moments = {one.site: moments(one) for one in found}
    usual = _typical(found_moments)
    made = []
    for one, weight in zip(found, weights, strict=True):
        if weight < one.rows:
            log.warning("pfedfair: site '%s' says that it has more rows than all others combined; "
                        "it counts for %d of %d", one.site, weight, one.rows)  # fmt: skip
            one = _scale_counts(one, weight)
        wide = {
            column: usual[column]
            for column, (mean, spread) in found_moments[one.site].items()
            if column in usual
            and max(abs(mean - usual[column].centre), spread) > WIDE * usual[column].scale
        }
        if wide:
            log.warning("pfedfair: at site '%s' numbers are spread unlike the others', and counted "
                        "as %g times as wide at most: %s",
                        one.site, WIDE, ", ".join(wide))  # fmt: skip
            one = _clip_numbers(one, wide)
        made.append(one)
    return made


def bound_weights(rows: Sequence[int]) -> list[int]:
    """Return the number of rows that each site counts for: at most those of all others combined."""
    if len(rows) < MIN_SITES:
        return list(rows)
    return [min(n, sum(rows) - n) for n in rows]


def moments(one: Description) -> dict[str, tuple[float, float]]:
    """Return the mean and standard deviation of each column of numbers that is not empty."""
    found = {}
    with np.errstate(all="ignore"):
        if one.summary is None:
            for column, (total, away, n) in one.numbers.items():
                if n > 0:
                    found[column] = total / n, float(np.sqrt(away / n))
            return found
        for column, cells in one.summary.numbers.items():
            if n := int(cells.counts.sum()):
                values, share = cells.values, cells.counts / n
                mean = float((values * share).sum())
                found[column] = mean, float(np.sqrt((np.square(values - mean) * share).sum()))
    return found


def _typical(sites: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, Typical]:
    """Return the typical values of columns that enough sites have and that are not constant."""
    found = {}
    for column in dict.fromkeys(column for one in sites.values() for column in one):
        each = [one[column] for one in sites.values() if column in one]
        centre = median(mean for mean, _ in each)
        scale = median(spread for _, spread in each) + median(abs(m - centre) for m, _ in each)
        if len(each) >= MIN_SITES and scale > 0:
            found[column] = Typical(centre, scale)
    return found


def _cells(one: Description) -> dict[str, int]:
    """Return the number of cells that each column describes."""
    if one.summary is None:
        return {column: n for column, (_, _, n) in one.numbers.items()}
    found = {c: int(t.counts.sum()) + t.empty for c, t in one.summary.numbers.items()}
    for c, counts in one.summary.categories.items():
        found[c] = sum(counts.counts.values()) + counts.other + counts.empty
    return found


def _scale_counts(one: Description, rows: int) -> Description:
    """Scale a description down to fewer rows."""
    part = rows / one.rows

    def less(n: int) -> int:
        return round(n * part)

    numbers = {c: (a * part, b * part, less(n)) for c, (a, b, n) in one.numbers.items()}
    summary = one.summary
    if summary is not None:
        summary = Summary(
            {
                c: Values(t.values, np.rint(t.counts * part).astype(np.int64), less(t.empty))
                for c, t in summary.numbers.items()
            },
            {
                c: Counts({k: less(n) for k, n in t.counts.items()}, less(t.other), less(t.empty))
                for c, t in summary.categories.items()
            },
        )
    return replace(one, rows=rows, numbers=numbers, summary=summary)


def _clip_numbers(one: Description, wide: Mapping[str, Typical]) -> Description:
    """Clip a description's numbers to `WIDE` times the typical scale."""
    numbers, summary = dict(one.numbers), one.summary
    for column, (centre, scale) in wide.items():
        low, high = centre - WIDE * scale, centre + WIDE * scale
        if summary is not None:
            cells = summary.numbers[column]
            clipped = replace(cells, values=np.clip(cells.values, low, high))
            summary = replace(summary, numbers=summary.numbers | {column: clipped})
            continue
        total, away, n = numbers[column]
        mean = min(max(total / n, low), high)
        numbers[column] = mean * n, min(away, n * (WIDE * scale) ** 2), n
    return replace(one, numbers=numbers, summary=summary)
