"""The ledger of a site's answers: how many, and their privacy cost.

One file on the site's disk, written before an answer leaves: after a crash in between it counts an
answer that was not received, but never misses one. It persists across runs and restarts.
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
from pfedfair._util.limits import parse_json, read_text
from pfedfair.engines.site.accounting import epsilon_of
from pfedfair.engines.site.policy import Policy, PolicyError

NAME = "ledger.json"
EMPTY: dict[str, Any] = {
    "day": "", "messages": 0, "runs": [], "cohorts": [], "sketches": 0, "gaussian": {},
    "laplace": {},
}  # fmt: skip


def today() -> str:
    return datetime.now(UTC).date().isoformat()


class Ledger:
    """The ledger in a site's folder; `policy` has the budget."""

    def __init__(self, folder: Path, policy: Policy, day: Callable[[], str] = today) -> None:
        self.path, self.policy, self.day = folder / NAME, policy, day

    def admit(self, run: str = "") -> None:
        """Count a message of the server's, of a `run` if it belongs to one."""
        policy = self.policy
        with self._open() as book:
            self._start_day(book)
            book["messages"] += 1
            book["runs"] = sorted({*book["runs"], run} - {""})
            if book["messages"] > policy.messages_per_day:
                raise policy.refuse("messages_per_day", "one more")
            if len(book["runs"]) > policy.runs_per_day:
                raise policy.refuse("runs_per_day", "one more")

    def sketch(self) -> None:
        """Count a sketch of the site's numbers in a secure sum."""
        with self._open() as book:
            self._start_day(book)
            book["sketches"] += 1
            if book["sketches"] > self.policy.sketches_per_month:
                raise self.policy.refuse("sketches_per_month", "one more")

    @contextmanager
    def adding_up(self, cohort: list[Any]) -> Iterator[None]:
        """Count the sites and weights of a sum, unless the block fails.

        The sums of two cohorts at nearly the same model differ by the numbers of a few sites.
        """
        with self._open() as book:
            self._start_day(book)
            if cohort not in book["cohorts"]:
                book["cohorts"].append(cohort)
            if len(book["cohorts"]) > self.policy.cohorts_per_day:
                raise self.policy.refuse("cohorts_per_day", "one more")
            yield

    def _start_day(self, book: dict[str, Any]) -> None:
        """Start the counts of a day, if it is a new one; setting the clock back resets nothing."""
        if self.day() > book["day"]:
            if self.day()[:7] > book["day"][:7]:
                book["sketches"] = 0
            book |= {"day": self.day(), "messages": 0, "runs": [], "cohorts": []}

    def afford(self, kind: str, noise: float) -> None:
        """Refuse an answer that would exceed the budget; spend nothing."""
        self._add(self._read(), kind, noise)

    def spend(self, kind: str, noise: float) -> str:
        """Count an answer with noise; return a message with the total cost of all answers.

        Parameters
        ----------
        kind, noise
            "gaussian" and the standard deviation over the sensitivity, or "laplace" and epsilon.
        """
        with self._open() as book:
            epsilon = self._add(book, kind, noise)
            answers = sum(sum(book[one].values()) for one in ("gaussian", "laplace"))
        return (
            f"answers with noise so far: {answers}; in total they cost epsilon {epsilon:.3f} "
            f"of {self.policy.epsilon:g} (delta {self.policy.delta:g})"
        )

    def _add(self, book: dict[str, Any], kind: str, noise: float) -> float:
        """Add an answer to the ledger; return the epsilon of all."""
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
            book = {"cohorts": [], "sketches": 0} | parse_json(read_text(self.path))
            for name, value in EMPTY.items():
                if type(book[name]) is not type(value):
                    raise ValueError(f"'{name}' is not there")
            for kind in ("gaussian", "laplace"):
                if not all(float(z) > 0 and n >= 0 for z, n in book[kind].items()):
                    raise ValueError(f"'{kind}' has impossible numbers")
        except Exception as error:
            raise InputError(
                f"{self.path} cannot be read ({first_line(error)}): without it, what has been "
                "spent is unknown, and nothing is answered. Restore it."
            ) from error
        return dict(book)

    @contextmanager
    def _open(self) -> Iterator[dict[str, Any]]:
        """Open the ledger for writing, by one process at a time; save it unless the block fails."""
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock"), timeout=60):
            book = self._read()
            yield book
            with atomic(self.path) as temporary:
                temporary.touch(mode=0o600)
                temporary.write_text(json.dumps(book, indent=1) + "\n")
            _flush(self.path.parent)


def _flush(folder: Path) -> None:
    """Flush the folder, so that the renamed file survives a power cut."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
