"""The one exception that a user is meant to read."""


class InputError(ValueError):
    """Bad input: one sentence that says what was wrong, where, and what to do.

    The command line prints it and exits with code 2.
    """


def known(kind: str, name: str, choices: list[str]) -> str:
    """Return `name` if it is one of `choices`; otherwise say which ones there are.

    >>> known("method", "fedavg", ["fedavg", "pfedfair"])
    'fedavg'
    """
    if name not in choices:
        raise InputError(f"Unknown {kind} '{name}': choose one of {', '.join(choices)}.")
    return name
