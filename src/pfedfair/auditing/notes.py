"""What is few, absent or odd among the rows of an audit, in sentences."""

from collections.abc import Iterator, Sequence

import numpy as np

from pfedfair import metrics
from pfedfair.auditing.measures import count
from pfedfair.auditing.rows import Rows
from pfedfair.metrics.intervals import FEWEST


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
            said = "they are no chances, so there is no calibration"
            yield f"scores go from {low:.3g} to {high:.3g}: {said}."
    alike = metrics.one_decision(counts)
    if alike[0]:
        yield f"everybody gets the same decision in '{prediction}': a gap of 0 is no merit."
    if rows.clients == ("",):
        return
    names = np.array(rows.clients, dtype=object)
    people, alike, counts = people[1:], alike[1:], counts[1:]
    if len(rows.groups) > 1:
        few = ((people > 0) & (people < FEWEST)).any(1)
        yes = rows.labels[-1]
        last = (counts[:, :, -1].sum(-1) > 0).sum(1)  # groups with people of the positive label
        for which, what in (
            ((people > 0).sum(1) == 1, "have people of one group only, so no gap"),
            (few, f"have fewer than {FEWEST} people of a group"),
            (
                last == 1,
                f"have people with the label {yes} in one group only, so no EOPP",
            ),
            (last == 0, f"have nobody with the label {yes}, so no EOPP"),
        ):
            if which.any():
                who = some("client", names[which])
                yield f"{which.sum()} of {len(names)} clients {what}: {who}."
    if alike.any() and not alike.all():
        yield (
            f"everybody gets the same decision at {alike.sum()} of {len(names)} clients: "
            f"{some('client', names[alike])}."
        )


def some(what: str, names: Sequence[str]) -> str:
    """The first three of some names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{what} {', '.join(map(str, names[:3]))}{more}"
