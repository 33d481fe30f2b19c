"""What a site has answered: how often, and how much of its privacy that has cost.

One file on the site's disk, written before an answer leaves: a crash in between may cost an answer
that nobody got, but never forgets one. It outlives runs and restarts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic, first_line
from pfedfair.engines.site.accounting import epsilon_of
from pfedfair.engines.site.policy import Policy, PolicyError

NAME = "ledger.json"
EMPTY: dict[str, Any] = {"day": "", "messages": 0, "runs": [], "gaussian": {}, "laplace": {}}


def today() -> str:
    return datetime.now(UTC).date().isoformat()


class Ledger:
    """The file in a site's folder; `policy` says how much there is to spend."""

    def __init__(self, folder: Path, policy: Policy, day: Callable[[], str] = today) -> None:
        self.path, self.policy, self.day = folder / NAME, policy, day

    def admit(self, run: str = "") -> None:
        """Count a message of the server's, of a `run` if it belongs to one."""
        policy = self.policy
        with self._open() as book:
            if self.day() > book["day"]:  # a clock that is put back brings nothing
                book |= {"day": self.day(), "messages": 0, "runs": []}
            book["messages"] += 1
            book["runs"] = sorted({*book["runs"], run} - {""})
            if book["messages"] > policy.messages_per_day:
                raise policy.refuse("messages_per_day", "one more")
            if len(book["runs"]) > policy.runs_per_day:
                raise policy.refuse("runs_per_day", "one more")

    def afford(self, kind: str, noise: float) -> None:
        """Refuse an answer that would cost more than what is left; spend nothing."""
        self._add(self._read(), kind, noise)

    def spend(self, kind: str, noise: float) -> str:
        """Count an answer with noise; say what all answers together have cost.

        Parameters
        ----------
        kind, noise
            "gaussian" and the standard deviation over the sensitivity, or "laplace" and epsilon.
        """
        with self._open() as book:
            epsilon = self._add(book, kind, noise)
            answers = sum(sum(book[one].values()) for one in ("gaussian", "laplace"))
        return (
            f"answers with noise so far: {answers}; together they cost epsilon {epsilon:.3f} "
            f"of {self.policy.epsilon:g} (delta {self.policy.delta:g})"
        )

    def _add(self, book: dict[str, Any], kind: str, noise: float) -> float:
        """Put an answer into the book; return the epsilon of all."""
        book[kind][repr(noise)] = book[kind].get(repr(noise), 0) + 1
        gaussian, laplace = (
            {float(z): int(n) for z, n in book[one].items()} for one in ("gaussian", "laplace")
        )
        epsilon = epsilon_of(gaussian, laplace, self.policy.delta)
        if epsilon > self.policy.epsilon:
            raise PolicyError(
                f"This site's privacy budget is spent: its policy has epsilon = "
                f"{self.policy.epsilon:g}, and one more answer with noise would make it "
                f"{epsilon:.3g}."
            )
        book["epsilon"], book["delta"] = epsilon, self.policy.delta
        return epsilon

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return deepcopy(EMPTY)
        try:
            book = json.loads(self.path.read_text())
            for name, value in EMPTY.items():
                if type(book[name]) is not type(value):
                    raise ValueError(f"'{name}' is not there")
            for kind in ("gaussian", "laplace"):
                if not all(float(z) > 0 and n >= 0 for z, n in book[kind].items()):
                    raise ValueError(f"'{kind}' has impossible numbers")
        except Exception as error:
            raise InputError(
                f"{self.path} cannot be read ({first_line(error)}): without it nobody knows what "
                "has been spent, and nothing is answered. Restore it."
            ) from error
        return dict(book)

    @contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        """The book, to write into: kept when the block ends well, by one process at a time."""
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock"), timeout=60):
            book = self._read()
            yield book
            with atomic(self.path) as beside:
                beside.touch(mode=0o600)
                beside.write_text(json.dumps(book, indent=1) + "\n")
            _flush(self.path.parent)


def _flush(folder: Path) -> None:
    """Have the disk remember the file's new name, too."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
