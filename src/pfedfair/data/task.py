"""The task of a model: the numbers of groups and classes, and whether it gets S."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """The numbers of groups and classes, and whether a model gets a row's group.

    A model that does not get S is `blind`; otherwise it is `aware`.
    """

    groups: int = 2
    classes: int = 2
    aware: bool = True

    @property
    def binary(self) -> bool:
        return self.groups == self.classes == 2


def outputs(classes: int) -> int:
    """Return the number of a network's outputs: one log-odds for two classes."""
    return 1 if classes == 2 else classes


def inputs(groups: int) -> int:
    """Return the number of inputs for S: one (0 or 1) for two groups, else one for each group."""
    return 1 if groups == 2 else groups
