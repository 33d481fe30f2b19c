"""The clients that train in one stack, as a method sees them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.data.task import outputs
from pfedfair.federation import Batch, Table, epoch_of, gather, pad, stack, steps
from pfedfair.models import Network
from pfedfair.models.base import Buffers, Slope
from pfedfair.models.optimisers import Step
from pfedfair.partition import stratified
from pfedfair.partition.persons import HELD, Persons
from pfedfair.penalties.objective import Objective

WIDE = 256  # inputs
CACHE_MEMORY = 256 * 2**20  # bytes of all clients' inputs that may be cached
CACHED_BYTES = 12  # of a cached input, in single and in double precision
EPOCH_MEMORY = 2 * 2**20  # bytes of inputs laid out at a time: those of a few steps of an epoch
SCORED_INPUTS = 2**22  # numbers that are scored at a time
MEASURED_ROWS = 8192  # rows that are scored at a time by a network with batch statistics
SETTLING = 2_000_000  # the number of the epoch in which models are settled

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Clients:
    """A stack of clients: their rows, their random streams, their gradients.

    `ids` are the clients' numbers in the federation, `rows` the row numbers of each in `table`.
    `sizes`, if given, are the numbers of rows by which an epoch is cut into minibatches: all
    clients of a stack must have equal numbers of these, also when each holds out rows. `marks`, if
    given, are secret numbers of the table's rows, for random draws that depend on no other row.
    `buffers` are scratch memory for gradients, which all clients of a run may share.
    """

    network: Network
    table: Table
    rows: Sequence[np.ndarray]
    ids: Sequence[int]
    seed: int
    sizes: Sequence[int] | None = None
    marks: np.ndarray | None = None
    buffers: Buffers = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def replicate(self, w: Tensor) -> Tensor:
        """Give every client its own copy of the model `w`, ``(clients, p)``."""
        return w.repeat(len(self), 1)

    def share(self, w: Tensor) -> Tensor:
        """Give all clients one common copy of the model `w`, ``(clients, p)``, to read only."""
        return w.clone().expand(len(self), -1)

    def epoch(self, number: int, batch: int) -> Iterator[Batch]:
        """Yield every client's rows once, in minibatches whose order depends on `number`."""
        n_steps = self.steps(batch)
        if self.caches_rows and n_steps == 1:
            yield self.all_rows  # in one step the order does not matter
        elif self.network.unbatched:
            assert len(self) == 1, "this network takes one client at a time"
            for part in np.array_split(self._orders(number)[0], n_steps):
                yield gather(self.table, *pad([part]))
        else:
            yield from self._lay_out(*epoch_of(self._orders(number), n_steps))

    def steps(self, batch: int) -> int:
        """Return the number of minibatches of an epoch, which is the same for all clients."""
        sizes = self.sizes or [len(rows) for rows in self.rows]
        number = {steps(size, batch) for size in sizes}
        assert len(number) == 1, "clients of a stack have unequal numbers of steps"
        return number.pop()

    def _orders(self, number: int) -> list[np.ndarray]:
        """Return every client's rows, shuffled for this epoch."""
        return [
            seeds.generator(self.seed, seeds.MINIBATCH, client, number).permutation(rows)
            for rows, client in zip(self.rows, self.ids, strict=True)
        ]

    def _lay_out(self, index: np.ndarray, weight: np.ndarray) -> Iterator[Batch]:
        """Yield minibatches of these rows ``(clients, steps, n)``, laid out a few at a time."""
        n_steps = index.shape[1]
        at_once = max(1, EPOCH_MEMORY * n_steps // (4 * index.size * self.table.width + 1))
        for k in range(0, n_steps, at_once):
            batches = gather(self.table, index[:, k : k + at_once], weight[:, k : k + at_once])
            yield from map(Batch, *(tensor.unbind(1) for tensor in batches))

    @property
    def caches_rows(self) -> bool:
        """Whether to cache all rows' inputs, since laying wide ones out takes most of the time."""
        width, memory = self.table.width, 4 * self.table.width * len(self.table.x)
        return width >= WIDE and memory <= CACHE_MEMORY and not self.network.unbatched

    @property
    def memoises(self) -> bool:
        """Whether the table is small enough for `memoise` to cache."""
        return CACHED_BYTES * self.table.width * len(self.table.x) <= CACHE_MEMORY

    def memoise(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return `make()` of these clients' rows, from a cache if the table is small."""
        if not self.memoises:
            return make()
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]  # type: ignore[no-any-return]

    @cached_property
    def _cache(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def all_rows(self) -> Batch:
        """All rows of every client."""
        return stack(self.table, self.rows)

    def settle(self, w: Tensor, batch: int) -> Tensor:
        """Return the trained models with the statistics that the network measures on their rows."""
        passes = lambda: (minibatch.x for minibatch in self.epoch(SETTLING, batch))  # noqa: E731
        return self.network.settle(w, passes)

    def cells(self) -> Tensor:
        """Count each client's rows by label and group, ``(clients, classes, groups)``."""
        task = self.table.task
        found = torch.zeros(len(self), task.classes * task.groups)
        for i, rows in enumerate(self.rows):
            cell = self.table.y[rows].long() * task.groups + self.table.s[rows]
            found[i] = torch.bincount(cell, minlength=found.shape[1])
        return found.view(-1, task.classes, task.groups)

    def logits(self, w: Tensor, batch: Batch) -> Tensor:
        """Return the logits of every client's model on its rows, ``(clients, n, outputs)``."""
        return self.network.logits(w, batch.x, batch.s)

    def scores(self, w: Tensor, i: int) -> Tensor:
        """Return the logits of all rows of client i by the model `w` ``(p,)``, ``(n, outputs)``.

        Inputs are laid out a block at a time. A network with batch statistics gets large blocks, as
        one that is not settled takes the statistics of each block.
        """
        rows, width = torch.as_tensor(self.rows[i]), max(1, self.table.width)
        at_once = MEASURED_ROWS if self.network.measured else max(1, SCORED_INPUTS // width)
        parts = torch.split(rows, at_once)
        x, s, encoder = self.table.x, self.table.s, self.table.encoder
        return torch.cat([self.network.scores(w, x[part], s[part], encoder) for part in parts])

    def label_blocks(self) -> list[tuple[int, Tensor]]:
        """Return the number of outputs, and all rows' labels, of each part of a model."""
        return [(outputs(self.table.task.classes), self.table.y)]

    def slope(self, objective: Objective, w: Tensor, batch: Batch) -> Slope:
        """Return the slope of every client's objective at the models `w`."""
        return lambda logits: objective.slope(logits, batch)

    def gradient(self, objective: Objective, w: Tensor, batch: Batch) -> Tensor:
        """Return the gradient of every client's objective at its row of `w`, ``(clients, p)``."""
        slope = self.slope(objective, w, batch)
        return self.network.gradient(w, batch.x, batch.s, slope, self.buffers)

    def descend(
        self,
        objective: Objective,
        w: Tensor,
        step: Step,
        batches: Iterable[Batch],
        gamma: float = 0.0,
        centre: Tensor | None = None,
    ) -> None:
        """Step down the objective on each minibatch, in place.

        With a `centre`, down the objective + gamma/2 ||w - centre||^2.
        """
        for batch in batches:
            grad = self.gradient(objective, w, batch)
            if centre is not None:
                grad.add_(w - centre, alpha=gamma)
            step(w, grad)

    def learn(
        self,
        objective: Objective,
        w: Tensor,
        step: Step,
        epochs: Sequence[int],
        batch: int,
        gamma: float = 0.0,
        centre: Tensor | None = None,
    ) -> None:
        """Step down on all minibatches of these epochs, see `descend`."""
        for number in epochs:
            self.descend(objective, w, step, self.epoch(number, batch), gamma, centre)


def persons_of(clients: Clients, purpose: int) -> Persons | None:
    """Return whose the rows of clients are, if it is known."""
    person = clients.table.person
    return None if person is None else Persons(person.numpy(), clients.seed, purpose)


def hold_out(clients: Clients, part: float) -> tuple[Clients, Clients]:
    """Return the clients with their training rows, and with a `part` that is held out.

    The split is stratified by group and the same in every round.
    """
    s, persons = clients.table.s.numpy(), persons_of(clients, HELD)
    parts = []
    for rows, client in zip(clients.rows, clients.ids, strict=True):
        rng = seeds.generator(clients.seed, seeds.HELD, client)
        held, rest = stratified(rows, s, part, rng, persons)
        if len(held) == 0 and len(rest) > 1:  # of many small groups
            held = rest[:1] if persons is None else persons.fewest(rest)
            rest = np.setdiff1d(rest, held)
        parts.append((held, rest))
    sizes = clients.sizes or [len(rows) for rows in clients.rows]
    trained = replace(clients, rows=[rest for _, rest in parts], sizes=sizes)
    return trained, replace(clients, rows=[held for held, _ in parts])
