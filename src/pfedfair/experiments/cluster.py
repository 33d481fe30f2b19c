"""Runs on a Ray cluster: rows are sent with their digests, results are received and written here.

No shared disk is needed. This is the client's side; `pfedfair.experiments.worker` runs on the
cluster.
"""

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from operator import mul
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair.engines.ray import LOCAL
from pfedfair.engines.ray.broker import Order
from pfedfair.engines.ray.crew import events
from pfedfair.engines.ray.gate import check_cluster
from pfedfair.experiments.environment import processor, software
from pfedfair.experiments.pool import Report
from pfedfair.experiments.spec import Source, Spec, Unit, load_source, work_of

Write = Callable[[Spec, bytes], None]  # called with the rows of a finished run
KEPT = "finished runs are kept, and the same command goes on from there"


@dataclass
class Crew:
    """A cluster at an address, checked for a token that it requires; "local" starts one."""

    address: str
    settings: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.settings = check_cluster(self.address)

    def spread(self, units: Sequence[Unit], jobs: int | None, report: Report, write: Write) -> None:
        """Do all units on the cluster; write the runs of each one as soon as it is done."""
        names: dict[Source, str] = {}
        data: dict[str, bytes] = {}
        for source in dict.fromkeys(unit[0].source for unit in units):
            content = pickle.dumps(load_source(source), protocol=5)
            names[source] = hashlib.sha256(content).hexdigest()
            data[names[source]] = content
        order = Order(
            self.address,
            self.settings,
            "pfedfair.experiments.worker:work",
            [(pickle.dumps(unit, protocol=5), names[unit[0].source]) for unit in units],
            data,
            software(),
            min(jobs or os.cpu_count() or 1, len(units)) if self.address == LOCAL else jobs,
        )
        with closing(events(order)) as received:
            Listener(units, report, write, self.address).listen(received)


class Listener:
    """The progress of the units on a cluster, updated by the events of its broker."""

    def __init__(self, units: Sequence[Unit], report: Report, write: Write, address: str) -> None:
        self.units, self.report, self.write = units, report, write
        self.place = "on this machine" if address == LOCAL else f"at {address}"
        self.work = [work_of(unit) for unit in units]
        self.parts = [0.0] * len(units)
        self.done: set[int] = set()
        self.repeated = 0
        self.other_cpus: set[str] = set()

    def listen(self, received: Iterable[tuple[Any, ...]]) -> None:
        for kind, *content in received:
            getattr(self, f"on_{kind}")(*content)
            runs = sum(len(self.units[n]) for n in self.done)
            self.report(sum(map(mul, self.parts, self.work)), runs)
            if len(self.done) == len(self.units):
                break
        else:
            raise InputError(f"The cluster {self.place} is gone: {KEPT}.")
        if self.repeated:
            runs_were = "A run was" if self.repeated == 1 else f"{self.repeated} runs were"
            warnings.warn(
                f"{runs_were} done again, as the process or machine at work was lost.",
                stacklevel=2,
            )
        if self.other_cpus:
            cpus = ", ".join(sorted(self.other_cpus))
            warnings.warn(
                f"Some runs were done on another kind of processor ({cpus}; here {processor()}): "
                "their last digits may differ from those of this machine.",
                stacklevel=2,
            )

    def on_open(self) -> None:
        pass

    on_wait = on_open

    def on_parts(self, parts: dict[int, float]) -> None:
        for n, part in parts.items():
            self.parts[n] = max(self.parts[n], part)  # a progress bar does not go back

    def on_done(self, content: tuple[list[bytes], list[str], str], n: int) -> None:
        results, messages, cpu = content
        for spec, rows in zip(self.units[n], results, strict=True):
            self.write(spec, rows)
        self.parts[n] = 1.0
        self.done.add(n)
        self.other_cpus |= {cpu} - {processor()}
        for message in messages:
            warnings.warn(message, stacklevel=2)

    def on_again(self, why: str, n: int) -> None:
        self.repeated += 1

    def on_refused(self, message: str, n: int) -> None:
        raise InputError(message)

    def on_unready(self, what: str, n: int) -> None:
        raise InputError(f"The machine {what}: all machines need the same software; {KEPT}.")

    def on_lost(self, why: str, n: int) -> None:
        raise InputError(
            f"The run {self.units[n][0].key} was lost again and again ({why}), perhaps for want of "
            f"memory: {KEPT}."
        )

    def on_idle(self, minutes: str) -> None:
        raise InputError(
            f"The cluster {self.place} has had no machine for {minutes} minutes: {KEPT}."
        )

    def on_broken(self, traceback: str, n: int) -> None:
        raise RuntimeError(f"In the run {self.units[n][0].key} on the cluster:\n{traceback}")
