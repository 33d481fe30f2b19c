"""The one exception that a user is meant to read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

_commands = False  # whether a command is running, so that options are typed with dashes

MOST = 50  # names that an error lists
LONGEST = 80  # characters of a name in an error


class InputError(ValueError):
    """Bad input: one sentence that says what was wrong, where, and what to do.

    The command line prints it and exits with code 2.
    """

    __module__ = "pfedfair"  # where users find it


def shorten(name: str) -> str:
    """Return a name; of a long one the beginning and its length.

    >>> shorten("age"), shorten("x" * 81)[39:]
    ('age', 'x... (81 characters)')
    """
    if len(name) <= LONGEST:
        return name
    return f"{name[: LONGEST // 2]}... ({len(name):,} characters)"


def known(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return `name` if it is one of `choices`; otherwise say which ones there are.

    >>> known("method", "fedavg", ["fedavg", "pfedfair"])
    'fedavg'
    """
    choices = list(choices)
    if name not in choices:
        raise InputError(
            f"Unknown {kind} '{shorten(name)}': {near(name, choices)}{listed(choices)}."
        )
    return name


def near(name: str, choices: Iterable[str]) -> str:
    """Return the beginning of a list of choices: the nearest one, if any is near.

    >>> near("pfedfiar", ["fedavg", "pfedfair"]), near("mars", ["adult"])
    ("did you mean 'pfedfair'? There are ", 'choose one of ')
    """
    lower = {c.lower(): c for c in reversed(list(choices)) if len(c) <= LONGEST}
    word = name[: LONGEST + 1].strip().lower()
    swapped = [other for other in lower if sorted(other) == sorted(word)]  # letters, as in sxe
    close = swapped or get_close_matches(word, list(lower), n=1, cutoff=0.7)
    return f"did you mean '{lower[close[0]]}'? There are " if close else "choose one of "


def listed(names: Iterable[str]) -> str:
    """Join names with commas; of more than `MOST`, the first ones and a number."""
    names = list(names)
    text = ", ".join(map(shorten, names[:MOST]))
    rest = len(names) - MOST
    return text if rest <= 0 else f"{text} and {rest:,} more"


def has_column(column: str, columns: Iterable[object], what: str) -> None:
    """Refuse a missing column; `what` says what it is for."""
    names = list(map(str, columns))
    if column not in names:
        choices = near(column, names) + listed(names)
        raise InputError(f"There is no column '{shorten(column)}' {what}: {choices}.")


@contextmanager
def in_a_command() -> Iterator[None]:
    """Let `option` speak of options as they are typed in a command."""
    global _commands
    before, _commands = _commands, True
    try:
        yield
    finally:
        _commands = before


def option(name: str, value: Any = None, python: str | None = None) -> str:
    """Spell an option as the user gave it: in a command, or in Python, where `python` may say how.

    >>> option("merge_groups", True), option("model", "linear"), option("data", python="folder")
    ('merge_groups=True', "model='linear'", 'folder')
    >>> with in_a_command():
    ...     option("merge_groups", True), option("model", "linear"), option("data", python="folder")
    ('--merge-groups', '--model linear', '--data')
    """
    if _commands:
        typed = f"--{name.replace('_', '-')}"
        return typed if value is None or value is True else f"{typed} {value}"
    if python is not None:
        return python
    return name if value is None else f"{name}={value!r}"


def setting(name: str) -> str:
    """Spell the name of a setting: with dashes in a command."""
    return name.replace("_", "-") if _commands else name
