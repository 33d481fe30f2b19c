"""Notes on the rows of an audit: too few, missing, all with one decision."""

from collections.abc import Iterator, Sequence

import numpy as np

from pfedfair import metrics
from pfedfair._util import notebook
from pfedfair.auditing.measures import count
from pfedfair.auditing.rows import Rows
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies.words import TOO_FEW


def remarks(rows: Rows, prediction: str) -> Iterator[str]:
    """Yield notes that qualify the numbers."""
    counts = count(rows, rows.decided)
    number = counts.sum((2, 3))[:, : len(rows.groups)]
    small = [f"{g} ({n})" for g, n in zip(rows.groups, number[0], strict=True) if n < FEWEST]
    if small:
        yield f"{TOO_FEW}: {list_names('group', small)}."
    if rows.second is not None and np.array_equal(rows.second, rows.decided):
        yield "both columns of decisions are the same."
    if rows.score is not None:
        low, high = np.nanmin(rows.score), np.nanmax(rows.score)
        if low < 0 or high > 1:
            why = "they are no probabilities, so there is no calibration"
            yield f"scores go from {low:.3g} to {high:.3g}: {why}."
    same = metrics.one_decision(counts)
    if same[0]:
        yield f"all rows get the same decision in '{prediction}': a gap of 0 is no merit."
    if not rows.has_clients:
        return
    names = np.array(rows.clients, dtype=object)
    number, same, counts = number[1:], same[1:], counts[1:]
    if len(rows.groups) > 1:
        yes = rows.labels[-1]
        positive = (counts[:, :, -1].sum(-1) > 0).sum(1)  # groups with rows of the positive label
        for which, what in (
            ((number > 0).sum(1) == 1, "have rows of one group only, so no gap"),
            (
                ((number > 0) & (number < FEWEST)).any(1),
                f"have fewer than {FEWEST} rows of a group",
            ),
            (positive == 1, f"have rows with the label {yes} in one group only, so no EOPP"),
            (positive == 0, f"have no rows with the label {yes}, so no EOPP"),
        ):
            if which.any():
                listed = list_names("client", names[which])
                yield f"{which.sum()} of {len(names)} clients {what}: {listed}."
    if same.any() and not same.all():
        yield (
            f"all rows get the same decision at {same.sum()} of {len(names)} clients: "
            f"{list_names('client', names[same])}."
        )


def list_names(what: str, names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are."""
    return f"{what} {notebook.abbreviate([*map(str, names)], 3)}"
