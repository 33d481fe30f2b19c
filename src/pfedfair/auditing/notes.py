"""What is few, absent or odd among the rows of an audit, in sentences."""

from collections.abc import Iterator, Sequence

import numpy as np

from pfedfair import metrics
from pfedfair.auditing.measures import count
from pfedfair.auditing.rows import Rows
from pfedfair.intervals import FEWEST


def remarks(rows: Rows, prediction: str) -> Iterator[str]:
    """Say what a reader of the numbers should know."""
    counts = count(rows, rows.decided)
    people = counts.sum((2, 3))[:, : len(rows.groups)]
    few = [f"{g} ({n})" for g, n in zip(rows.groups, people[0], strict=True) if n < FEWEST]
    if few:
        yield f"too few people to tell: {some('group', few)}."
    if rows.second is not None and np.array_equal(rows.second, rows.decided):
        yield "both columns of decisions are the same."
    if rows.score is not None:
        low, high = np.nanmin(rows.score), np.nanmax(rows.score)
        if low < 0 or high > 1:
            yield f"scores go from {low:.3g} to {high:.3g}: they are no chances, so there is no calibration."
    alike = metrics.one_decision(counts)
    if alike[0]:
        yield f"everybody gets the same decision in '{prediction}': a gap of 0 is no merit."
    if rows.clients == ("",):
        return
    names = np.array(rows.clients, dtype=object)
    people, alike, counts = people[1:], alike[1:], counts[1:]
    if len(rows.groups) > 1:
        for which, what in (
            ((people > 0).sum(1) == 1, "have people of one group only, so no gap"),
            (((people > 0) & (people < FEWEST)).any(1), f"have fewer than {FEWEST} people of a group"),
            ((counts[:, :, -1].sum(-1) > 0).sum(1) < 2, "have no EOPP, for the people with the "
             f"label {rows.labels[-1]} are of one group, or there are none"),
        ):  # fmt: skip
            if which.any():
                yield f"{which.sum()} of {len(names)} clients {what}: {some('client', names[which])}."
    if alike.any() and not alike.all():
        yield (
            f"everybody gets the same decision at {alike.sum()} of {len(names)} clients: "
            f"{some('client', names[alike])}."
        )


def some(what: str, names: Sequence[str]) -> str:
    """The first three of some names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{what} {', '.join(map(str, names[:3]))}{more}"
