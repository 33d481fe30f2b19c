"""Runs on a Ray cluster: rows go there with their digests, results come back and are written here.

No shared disk is needed. `remote` is what a worker does; here is what the command does.
"""

import hashlib
import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from operator import mul
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair.engines.ray import LOCAL
from pfedfair.engines.ray.broker import Order
from pfedfair.engines.ray.crew import events
from pfedfair.engines.ray.gate import check_cluster
from pfedfair.experiments.pool import Report
from pfedfair.experiments.sameness import kind_of_cpu, software
from pfedfair.experiments.spec import Source, Spec, load_source

Keep = Callable[[Spec, bytes], None]  # what is done with the rows of a finished run
KEPT = "finished runs are kept, and the same command goes on from there"


@dataclass
class Crew:
    """A cluster at an address that asks for a token and takes ours, or "local", one of our own."""

    address: str
    settings: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.settings = check_cluster(self.address)

    def spread(self, specs: Sequence[Spec], jobs: int | None, report: Report, keep: Keep) -> None:
        """Do all runs on the cluster; each that is done is kept at once."""
        names: dict[Source, str] = {}
        data: dict[str, bytes] = {}
        for source in dict.fromkeys(spec.source for spec in specs):
            content = pickle.dumps(load_source(source), protocol=5)
            names[source] = hashlib.sha256(content).hexdigest()
            data[names[source]] = content
        order = Order(
            self.address,
            self.settings,
            "pfedfair.experiments.remote:work",
            [(pickle.dumps(spec, protocol=5), names[spec.source]) for spec in specs],
            data,
            software(),
            min(jobs or os.cpu_count() or 1, len(specs)) if self.address == LOCAL else jobs,
        )
        with closing(events(order)) as told:
            _Listener(specs, report, keep, self.address).hear(told)


class _Listener:
    """What is known of the runs at a cluster."""

    def __init__(self, specs: Sequence[Spec], report: Report, keep: Keep, address: str) -> None:
        self.specs, self.report, self.keep = specs, report, keep
        self.where = "on this machine" if address == LOCAL else f"at {address}"
        self.work = [spec.work for spec in specs]
        self.parts = [0.0] * len(specs)
        self.done: set[int] = set()
        self.again = 0
        self.other: set[str] = set()

    def hear(self, told: Any) -> None:
        for kind, *words in told:
            getattr(self, f"on_{kind}")(*words)
            self.report(sum(map(mul, self.parts, self.work)), len(self.done))
            if len(self.done) == len(self.specs):
                break
        else:
            raise InputError(f"The cluster {self.where} is gone: {KEPT}.")
        if self.again:
            runs = "A run was" if self.again == 1 else f"{self.again} runs were"
            warnings.warn(
                f"{runs} done again, as the process or machine at work was lost.", stacklevel=2
            )
        if self.other:
            warnings.warn(
                f"Some runs were done on another kind of processor ({', '.join(sorted(self.other))}"
                f"; here {kind_of_cpu()}): their last digits may differ from those of this "
                "machine.",
                stacklevel=2,
            )

    def on_open(self) -> None:
        pass

    on_wait = on_open

    def on_parts(self, parts: dict[int, float]) -> None:
        for n, part in parts.items():
            self.parts[n] = max(self.parts[n], part)  # a bar does not go back

    def on_done(self, content: tuple[bytes, list[str], str], n: int) -> None:
        rows, said, cpu = content
        self.keep(self.specs[n], rows)
        self.parts[n] = 1.0
        self.done.add(n)
        self.other |= {cpu} - {kind_of_cpu()}
        for text in said:
            warnings.warn(text, stacklevel=2)

    def on_again(self, why: str, n: int) -> None:
        self.again += 1

    def on_refused(self, sentence: str, n: int) -> None:
        raise InputError(sentence)

    def on_unready(self, what: str, n: int) -> None:
        raise InputError(f"The machine {what}: all machines need the same software; {KEPT}.")

    def on_lost(self, why: str, n: int) -> None:
        raise InputError(
            f"The run {self.specs[n].key} was lost again and again ({why}), perhaps for want of "
            f"memory: {KEPT}."
        )

    def on_nobody(self, minutes: str) -> None:
        raise InputError(
            f"The cluster {self.where} has had no machine for {minutes} minutes: {KEPT}."
        )

    def on_broken(self, traceback: str, n: int) -> None:
        raise RuntimeError(f"In the run {self.specs[n].key} on the cluster:\n{traceback}")
