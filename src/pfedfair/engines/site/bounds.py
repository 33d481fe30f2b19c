"""Which descriptions are believed: a site that lies about its table must not spoil the others' run.

What cannot be is refused, and so is what is `FAR` from what most sites say. What is merely unusual
is counted, but not in full: nobody counts for more people than all others together, and no column
of a site is further out than `WIDE` times what is usual. Of fewer than three sites nobody can say
who is right.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pfedfair._util.text import plain
from pfedfair.data.tables.summary import Counts, Summary, Values

if TYPE_CHECKING:
    from pfedfair.engines.site.schema import Description

log = logging.getLogger("pfedfair")
MOST_ROWS = 10**9
LARGEST = 1e30  # a mean, or a spread
FAR = 1000.0  # times what is usual: refused
WIDE = 10.0  # times what is usual: counted as that
ENOUGH = 3  # sites that can outvote one
LONGEST = 200  # characters of a name
MOST_LEVELS = 10_000


class Usual(NamedTuple):
    """What most sites say of a column of numbers: its centre, and how far its cells are spread."""

    centre: float
    scale: float


def unbelievable(found: Sequence[Description]) -> dict[str, str]:
    """Whose descriptions are refused, and why."""
    refused = {one.site: why for one in found if (why := impossible(one))}
    rest = [one for one in found if one.site not in refused]
    if len(rest) < ENOUGH:
        return refused
    rows = median(one.rows for one in rest)
    told = {one.site: moments(one) for one in rest}
    usual = _usual(told)
    for one in rest:
        if one.rows > FAR * rows:
            refused[one.site] = f"it says that it has {one.rows:,} rows, the others have {rows:g}"
        for column, (mean, spread) in told[one.site].items():
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
    """Say what cannot be in a description, whatever others say."""
    if one.rows > MOST_ROWS:
        return f"it says that it has {one.rows:,} rows, at most {MOST_ROWS:,} can be"
    names = [one.site, *one.columns, *one.labels, *one.groups, *(c for k in one.names for c in k)]
    if plain(one.site) != one.site or len(one.site.splitlines()) != 1:
        return "its name has characters that cannot be shown"
    levels = dict(one.categories)
    if one.summary is not None:
        levels = {c: tuple(counts.levels) for c, counts in one.summary.categories.items()}
    for name in (*names, *(level for several in levels.values() for level in several)):
        if len(name) > LONGEST:
            return f"it has a name of {len(name)} characters, at most {LONGEST} can be"
    for column, several in levels.items():
        if len(several) > MOST_LEVELS:
            return f"column '{column}' has {len(several):,} categories, at most {MOST_LEVELS:,} can"
    for column, people in _people(one).items():
        if people > one.rows:
            return f"column '{column}' has {people:,} cells in {one.rows:,} rows"
    for column, both in moments(one).items():
        if not all(isfinite(x) and abs(x) <= LARGEST for x in both):
            return f"column '{column}' has numbers that are too large to be"
    return None


def bounded(found: Sequence[Description]) -> list[Description]:
    """Descriptions that count for no more than they should; nothing changes if all are usual."""
    if len(found) < ENOUGH:
        return list(found)
    weights = bounded_rows([one.rows for one in found])
    told = {one.site: moments(one) for one in found}
    usual = _usual(told)
    made = []
    for one, weight in zip(found, weights, strict=True):
        if weight < one.rows:
            log.warning("pfedfair: site '%s' says that it has more rows than all others together; "
                        "it counts for %d of %d", one.site, weight, one.rows)  # fmt: skip
            one = _fewer(one, weight)
        wide = {
            column: usual[column]
            for column, (mean, spread) in told[one.site].items()
            if column in usual
            and max(abs(mean - usual[column].centre), spread) > WIDE * usual[column].scale
        }
        if wide:
            log.warning("pfedfair: at site '%s' numbers are spread unlike the others', and counted "
                        "as %g times as wide at most: %s",
                        one.site, WIDE, ", ".join(wide))  # fmt: skip
            one = _narrower(one, wide)
        made.append(one)
    return made


def bounded_rows(rows: Sequence[int]) -> list[int]:
    """How many people each site counts for: as many as all others together at the most."""
    if len(rows) < ENOUGH:
        return list(rows)
    return [min(own, sum(rows) - own) for own in rows]


def moments(one: Description) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of each column of numbers that has any."""
    found = {}
    with np.errstate(all="ignore"):
        if one.summary is None:
            for column, (total, away, n) in one.numbers.items():
                if n > 0:
                    found[column] = total / n, float(np.sqrt(away / n))
            return found
        for column, told in one.summary.numbers.items():
            if people := int(told.counts.sum()):
                share = told.counts / people
                mean = float((told.values * share).sum())
                found[column] = mean, float(np.sqrt((np.square(told.values - mean) * share).sum()))
    return found


def _usual(told: Mapping[str, Mapping[str, tuple[float, float]]]) -> dict[str, Usual]:
    """What most sites say, of columns that enough of them have and in which cells differ."""
    found = {}
    for column in dict.fromkeys(column for one in told.values() for column in one):
        each = [one[column] for one in told.values() if column in one]
        centre = median(mean for mean, _ in each)
        scale = median(spread for _, spread in each) + median(abs(m - centre) for m, _ in each)
        if len(each) >= ENOUGH and scale > 0:
            found[column] = Usual(centre, scale)
    return found


def _people(one: Description) -> dict[str, int]:
    """How many people each column tells of."""
    if one.summary is None:
        return {column: n for column, (_, _, n) in one.numbers.items()}
    found = {c: int(told.counts.sum()) + told.empty for c, told in one.summary.numbers.items()}
    for c, counts in one.summary.categories.items():
        found[c] = sum(counts.levels.values()) + counts.other + counts.empty
    return found


def _fewer(one: Description, rows: int) -> Description:
    """The same shares of fewer people."""
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
                c: Counts({k: less(n) for k, n in t.levels.items()}, less(t.other), less(t.empty))
                for c, t in summary.categories.items()
            },
        )
    return replace(one, rows=rows, numbers=numbers, summary=summary)


def _narrower(one: Description, wide: Mapping[str, Usual]) -> Description:
    """The same people with numbers no further out than `WIDE` times what is usual."""
    numbers, summary = dict(one.numbers), one.summary
    for column, (centre, scale) in wide.items():
        low, high = centre - WIDE * scale, centre + WIDE * scale
        if summary is not None:
            told = summary.numbers[column]
            within = Values(np.clip(told.values, low, high), told.counts, told.empty)
            summary = replace(summary, numbers=summary.numbers | {column: within})
            continue
        total, away, n = numbers[column]
        mean = min(max(total / n, low), high)
        numbers[column] = mean * n, min(away, n * (WIDE * scale) ** 2), n
    return replace(one, numbers=numbers, summary=summary)
