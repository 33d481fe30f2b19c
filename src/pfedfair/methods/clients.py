"""Some clients side by side, as an algorithm sees them."""

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
from pfedfair.penalties.objective import Objective

WIDE = 256  # inputs
WHOLE_MEMORY = 256 * 2**20  # bytes of all clients' inputs that are kept laid out
KEPT = 12  # bytes of an input that is kept, in single and in double precision
EPOCH_MEMORY = 2 * 2**20  # bytes of inputs that are laid out together: some steps of an epoch
AT_ONCE = 2**22  # inputs of people who are scored at a time
MEASURED = 8192  # people who are scored at a time by a network that measures them
SETTLING = 2_000_000  # the number of the epoch in which models are settled

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Clients:
    """Some clients, side by side: their rows, their random streams, their gradients.

    `ids` are the clients' numbers in the federation, `rows` the row numbers of each in `table`.
    `sizes`, if given, are the numbers of rows that say how many minibatches an epoch has: clients
    side by side must have as many, also when each holds out some rows. `marks`, if given, are
    secret numbers of the table's rows, for random draws that no other row has a say in.
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
        """Give every client one copy of the model `w`, ``(clients, p)``: not to be written to."""
        return w.clone().expand(len(self), -1)

    def epoch(self, number: int, batch: int) -> Iterator[Batch]:
        """One pass over every client's rows in minibatches. The same number, the same order."""
        n_steps = self.steps(batch)
        if self.wide and n_steps == 1:
            yield self.whole  # in one step the order is nothing
        elif self.network.unbatched:
            assert len(self) == 1, "this network takes one client at a time"
            for part in np.array_split(self._orders(number)[0], n_steps):
                yield gather(self.table, *pad([part]))
        else:
            yield from self._laid_out(*epoch_of(self._orders(number), n_steps))

    def steps(self, batch: int) -> int:
        """Return the number of minibatches of an epoch, which is the same for all clients."""
        sizes = self.sizes or [len(own) for own in self.rows]
        number = {steps(size, batch) for size in sizes}
        assert len(number) == 1, "clients side by side have unequal numbers of steps"
        return number.pop()

    def _orders(self, number: int) -> list[np.ndarray]:
        """Every client's rows, shuffled for this epoch."""
        return [
            seeds.generator(self.seed, seeds.MINIBATCH, client, number).permutation(own)
            for own, client in zip(self.rows, self.ids, strict=True)
        ]

    def _laid_out(self, index: np.ndarray, weight: np.ndarray) -> Iterator[Batch]:
        """Minibatches of these rows, ``(clients, steps, n)``, some steps at a time."""
        n_steps = index.shape[1]
        at_once = max(1, EPOCH_MEMORY * n_steps // (4 * index.size * self.table.width + 1))
        for k in range(0, n_steps, at_once):
            some = gather(self.table, index[:, k : k + at_once], weight[:, k : k + at_once])
            yield from map(Batch, *(tensor.unbind(1) for tensor in some))

    @property
    def wide(self) -> bool:
        """Whether people's inputs are so long that laying them out anew takes most of the time."""
        width, memory = self.table.width, 4 * self.table.width * len(self.table.x)
        return width >= WIDE and memory <= WHOLE_MEMORY and not self.network.unbatched

    @property
    def remembers(self) -> bool:
        """Whether the table is so small that what is made of its rows may be kept, see `once`."""
        return KEPT * self.table.width * len(self.table.x) <= WHOLE_MEMORY

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What is made of these clients' rows: of a small table once, and then kept."""
        if not self.remembers:
            return make()
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]  # type: ignore[no-any-return]

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def whole(self) -> Batch:
        """All rows of every client."""
        return stack(self.table, self.rows)

    def settled(self, w: Tensor, batch: int) -> Tensor:
        """Every client's model with what the network measures of its people, at the end."""
        passes = lambda: (some.x for some in self.epoch(SETTLING, batch))  # noqa: E731
        return self.network.settle(w, passes)

    def cells(self) -> Tensor:
        """How many of a client's rows have each label and group, ``(clients, classes, groups)``."""
        task = self.table.task
        found = torch.zeros(len(self), task.classes * task.groups)
        for i, own in enumerate(self.rows):
            cell = self.table.y[own].long() * task.groups + self.table.s[own]
            found[i] = torch.bincount(cell, minlength=found.shape[1])
        return found.view(-1, task.classes, task.groups)

    def logits(self, w: Tensor, batch: Batch) -> Tensor:
        """Every client's model on its own people, ``(clients, n, outputs)``."""
        return self.network.logits(w, batch.x, batch.s)

    def scores(self, w: Tensor, i: int) -> Tensor:
        """The logits of all people of client i by the model `w` ``(p,)``, ``(n, outputs)``.

        Their inputs are laid out some at a time. A network that measures something of its people
        sees many at a time, as what it has not measured yet is taken from those.
        """
        rows, width = torch.as_tensor(self.rows[i]), max(1, self.table.width)
        at_once = MEASURED if self.network.measured else max(1, AT_ONCE // width)
        parts = torch.split(rows, at_once)
        return torch.cat([self.network.scores(w, self.table, some) for some in parts])

    def label_blocks(self) -> list[tuple[int, Tensor]]:
        """What each part of a model's row learns: its number of outputs, and all rows' labels."""
        return [(outputs(self.table.task.classes), self.table.y)]

    def slope(self, objective: Objective, w: Tensor, batch: Batch) -> Slope:
        """The slope of every client's objective, where `w` are the models at hand."""
        return lambda logits: objective.slope(logits, batch)

    def gradient(self, objective: Objective, w: Tensor, batch: Batch) -> Tensor:
        """Every client's gradient of its objective at its own row of `w`, ``(clients, p)``."""
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


def hold_out(clients: Clients, part: float) -> tuple[Clients, Clients]:
    """The clients with the rows that they train on, and with a `part` that they do not.

    Both groups in proportion, the same rows in every round.
    """
    s = clients.table.s.numpy()
    parts = []
    for rows, client in zip(clients.rows, clients.ids, strict=True):
        held, rest = stratified(rows, s, part, seeds.generator(clients.seed, seeds.HELD, client))
        if len(held) == 0 and len(rest) > 1:  # a few of many groups
            held, rest = rest[:1], rest[1:]
        parts.append((held, rest))
    sizes = clients.sizes or [len(rows) for rows in clients.rows]
    trained = replace(clients, rows=[rest for _, rest in parts], sizes=sizes)
    return trained, replace(clients, rows=[held for held, _ in parts])
