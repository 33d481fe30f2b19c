"""The one exception that a user is meant to read."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 50  # names that an error lists


class InputError(ValueError):
    """Bad input: one sentence that says what was wrong, where, and what to do.

    The command line prints it and exits with code 2.
    """


def known(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return `name` if it is one of `choices`; otherwise say which ones there are.

    >>> known("method", "fedavg", ["fedavg", "pfedfair"])
    'fedavg'
    """
    choices = list(choices)
    if name not in choices:
        raise InputError(f"Unknown {kind} '{name}': {near(name, choices)}{listed(choices)}.")
    return name


def near(name: str, choices: Iterable[str]) -> str:
    """Begin a list of choices, with the nearest one first if there is one.

    >>> near("pfedfiar", ["fedavg", "pfedfair"]), near("mars", ["adult"])
    ("did you mean 'pfedfair'? There are ", 'choose one of ')
    """
    lower = {choice.lower(): choice for choice in reversed(list(choices))}
    word = name.strip().lower()
    swapped = [other for other in lower if sorted(other) == sorted(word)]  # letters, as in sxe
    close = swapped or get_close_matches(word, list(lower), n=1, cutoff=0.7)
    return f"did you mean '{lower[close[0]]}'? There are " if close else "choose one of "


def listed(names: Iterable[str]) -> str:
    """Names with commas between; the first ones, if they are many."""
    every = list(names)
    more = len(every) - MOST
    return ", ".join(every) if more <= 0 else f"{', '.join(every[:MOST])} and {more} more"


def has_column(column: str, columns: Iterable[object], what: str) -> None:
    """Refuse a column that is not there; `what` says what for."""
    names = list(map(str, columns))
    if column not in names:
        there = near(column, names) + listed(names)
        raise InputError(f"There is no column '{column}' {what}: {there}.")
