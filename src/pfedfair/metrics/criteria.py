"""Fairness criteria: which rates must not differ between groups.

Metrics, penalties and the linear program all read this one table.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Criterion:
    """A fairness criterion: which decisions are compared, and among which rows."""

    measure: str  # the gap's name, also the column of the results
    words: str  # what the gap is, in a sentence
    among: Callable[[int], list[int | None]]  # labels, by the number of classes; None is all rows
    decisions: Callable[[int], list[int]]

    def comparisons(self, classes: int) -> list[tuple[int | None, int]]:
        """Return the label and the decision of each rate that is compared.

        >>> [CRITERIA[name].comparisons(2) for name in ("dp", "eo", "eopp")]
        [[(None, 1)], [(0, 1), (1, 1)], [(1, 1)]]
        """
        return [(y, c) for y in self.among(classes) for c in self.decisions(classes)]


def _every(classes: int) -> list[int]:
    return [1] if classes == 2 else list(range(classes))  # one of two determines the other


CRITERIA = {
    "dp": Criterion(
        "ddp",
        "DDP: the gap between the groups' rates of a prediction, the largest if there are several; "
        "for two groups and labels |P(Yhat=1 | S=0) - P(Yhat=1 | S=1)|; lower is better (↓).",
        lambda classes: [None],
        _every,
    ),
    "eo": Criterion(
        "eo",
        "EO: the largest gap between the groups' rates of positive predictions among rows of "
        "equal label (equalised odds); lower is better (↓).",
        lambda classes: list(range(classes)),
        _every,
    ),
    "eopp": Criterion(
        "eopp",
        "EOPP: the gap between the groups' rates of positive predictions among rows with the "
        "last label (equal opportunity); lower is better (↓).",
        lambda classes: [classes - 1],
        lambda classes: [classes - 1],
    ),
}
MEASURES = {criterion.measure: criterion for criterion in CRITERIA.values()}
