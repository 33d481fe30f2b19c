"""Clients as one batch: rows are encoded once, then stacked, padded and weighted on demand.

The table of rows is stored flat; only what a chunk of clients trains on at the moment is laid out
as ``(clients, rows, inputs)``, so clients of very unequal size cost no extra memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair._util.errors import InputError, near
from pfedfair._util.notebook import block
from pfedfair._util.scalars import to_int
from pfedfair.data.dataset import Dataset
from pfedfair.data.tables import encoder as inputs
from pfedfair.data.task import Task
from pfedfair.partition import Partition, Plan, choose
from pfedfair.partition.persons import mark_shared

STORED = (torch.uint8, torch.float16)  # types in which large inputs are stored, not computed with
CHUNK = 25  # clients at a time: with small networks 25 take a tenth less than 10, 50 no less


def unpack(x: Tensor, encoder: inputs.Inputs | None) -> Tensor:
    """Return the inputs of rows as a network takes them, float32, from what the encoder packed."""
    x = x if encoder is None else encoder.unpack(x)
    return x.float() if x.dtype in STORED else x


class Table(NamedTuple):
    """Encoded rows: inputs ``(n, ...)``, labels and groups ``(n,)``, and the task.

    Labels and groups are counted from 0. S is not among the inputs. Inputs are stored
    as the encoder packs them, perhaps as bytes or in half precision; a `Batch` has them in single.
    """

    x: Tensor
    y: Tensor
    s: Tensor
    task: Task = Task()
    encoder: inputs.Inputs | None = None
    weight: Tensor | None = None  # how much each row counts, if not all alike, (n,)
    person: Tensor | None = None  # codes of the rows' persons, see `partition.persons`, (n,)

    def inputs(self, rows: Tensor | np.ndarray | slice) -> Tensor:
        """Return the inputs of rows by their numbers, as a network takes them, float32."""
        return unpack(self.x[rows], self.encoder)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row's inputs."""
        return tuple(self.x.shape[1:]) if self.encoder is None else self.encoder.shape

    @property
    def width(self) -> int:
        return prod(self.shape)


class Batch(NamedTuple):
    """Some rows of every client in a chunk, padded to the same number.

    Attributes
    ----------
    x
        Inputs, ``(clients, n, ...)``.
    y, s
        Labels (float) and groups (integer), ``(clients, n)``.
    weight
        ``(clients, n)``: 1 / (number of rows) for a client's own rows, 0 for padding. It is the
        mask: ``(weight * v).sum(1)`` is the mean of v at every client. Where the table has weights,
        it is the weighted mean.
    """

    x: Tensor
    y: Tensor
    s: Tensor
    weight: Tensor


@dataclass(frozen=True, eq=False)
class Federation:
    """The clients of a run: their rows, partition, encoder and encoded table."""

    data: Dataset
    partition: Partition
    encoder: inputs.Inputs
    table: Table
    seed: int

    def __len__(self) -> int:
        return len(self.partition.names)

    def __repr__(self) -> str:
        clients = f"{len(self)} client{'s' * (len(self) != 1)}"
        rows = f"{self.sizes.sum():,} training rows"
        return f"<Federation of {self.data.name}: {clients}, {rows}; {'; '.join(self.words())}>"

    def _repr_html_(self) -> str:
        heading = f"{self.data.name}: {len(self)} client{'s' * (len(self) != 1)}"
        return block(heading, [f"{line}." for line in self.words()], self.partition.table())

    def words(self) -> list[str]:
        """Describe the inputs of the models, the label and the groups."""
        inputs = self.data.inputs_words(self.partition.column)
        label, groups = self.data.role_words()
        use = "is an input, too" if self.table.task.aware else "is not an input"
        name, _, names = groups.partition(": ")
        return [f"Inputs: {inputs}", label, f"{name} ({names}) {use}"]

    @property
    def sizes(self) -> np.ndarray:
        return np.array([len(rows) for rows in self.partition.train])

    @property
    def masses(self) -> np.ndarray:
        """How much each client counts by its size: its rows, or what they weigh."""
        weight = self.data.weight
        return self.sizes if weight is None else np.array(
            [weight[rows].sum() for rows in self.partition.train])  # fmt: skip

    def describe(self) -> str:
        return self.partition.describe()


def client_number(names: Sequence[str], client: object) -> int:
    """Return the position of a client: a text is its name, a whole number its position (from 0).

    >>> client_number(["11", "2"], "2"), client_number(["11", "2"], 0)
    (1, 0)
    """
    listed = ", ".join(names if len(names) < 9 else (*names[:3], "...", names[-1]))
    if isinstance(client, str):
        if client in names:
            return list(names).index(client)
        close = near(client, names)
        close = close if close.startswith("did") else "the names are "
        raise InputError(f"There is no client {str(client)!r}: {close}{listed}.")
    if isinstance(client, Integral) and not isinstance(client, bool):
        position = int(client)
        if 0 <= position < len(names):
            return position
        last = f"from 0 to {len(names) - 1}"
        raise InputError(
            f"There is no client {position}: positions go {last}, and the names, which are "
            f"texts, are {listed}."
        )
    raise InputError(f"A client is given by its name, a text, or its position; got {client!r}.")


def federate(
    data: Dataset, plan: Plan | str | None, seed: int = 0, sensitive_as_input: bool = True
) -> Federation:
    """Deal the rows of `data` as `plan` says and encode them, fitted on training rows only."""
    if not isinstance(plan, Plan):
        plan = choose("fixed", data, column=plan)
    seed = to_int("seed", seed)
    partition = replace(plan.split(data, seed), column=plan.column)
    for name, rows in zip(partition.names, partition.train, strict=True):
        if len(rows) == 0:
            raise InputError(f"Client {name} has no training rows.")
    encoder = inputs.fit(data, partition.train, plan.column)
    if encoder.width == 0 and not sensitive_as_input:
        raise InputError(f"'{data.name}' has no column left to predict from.")
    return encoded(data, partition, encoder, sensitive_as_input, seed)


def encoded(
    data: Dataset, partition: Partition, encoder: inputs.Inputs, aware: bool, seed: int = 0
) -> Federation:
    """Encode the rows of a given partition by a given encoder, as a site does too."""
    persons = data.persons
    table = Table(
        x=torch.from_numpy(encoder.pack(data.raw_inputs)),
        y=torch.from_numpy(data.y.astype(np.float32)),
        s=torch.from_numpy(data.s),
        task=Task(len(data.group_names), len(data.label_names), aware),
        encoder=encoder,
        weight=None if data.weight is None else torch.from_numpy(data.weight.astype(np.float32)),
        person=None if persons is None else torch.from_numpy(mark_shared(persons, partition.train)),
    )
    return Federation(data, partition, encoder, table, seed)


def stack(table: Table, rows: Sequence[np.ndarray]) -> Batch:
    """Stack the given rows of every client, padded to the longest."""
    return gather(table, *pad(rows))


def gather(table: Table, index: np.ndarray, weight: np.ndarray) -> Batch:
    """Lay out rows by their numbers."""
    flat = torch.from_numpy(index.ravel())
    rows = table.x.index_select(0, flat).view(*index.shape, *table.x.shape[1:])
    x = unpack(rows, table.encoder)
    y = table.y.index_select(0, flat).view(index.shape)
    s = table.s.index_select(0, flat).view(index.shape)
    return Batch(x, y, s, shares(table, flat.view(index.shape), torch.from_numpy(weight)))


def shares(table: Table, index: Tensor, weight: Tensor) -> Tensor:
    """Return the rows' weights in their minibatches, ``(..., n)``: equal, or as the table says."""
    if table.weight is None:
        return weight
    weighted = weight * table.weight[index]
    total = weighted.sum(-1, keepdim=True).clamp_min(torch.finfo(weighted.dtype).tiny)
    return weighted / total * weight.sum(-1, keepdim=True)


def pad(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers and weights ``(len(rows), longest)``, see `Batch`."""
    longest = max(map(len, rows))
    index = np.zeros((len(rows), longest), dtype=np.int64)
    weight = np.zeros((len(rows), longest), dtype=np.float32)
    for i, own in enumerate(rows):
        index[i, : len(own)] = own
        weight[i, : len(own)] = 1 / max(len(own), 1)
    return index, weight


def steps(n: int, batch: int) -> int:
    """Return the number of minibatches in an epoch over `n` rows.

    Each has at least `batch` rows, or all `n`: the fairness penalty of a small
    remainder would be noise.

    >>> steps(2400, 600), steps(1000, 600), steps(100, 600)
    (4, 1, 1)
    """
    return max(1, n // batch)


def minibatches(
    own: np.ndarray, batch: int, rng: np.random.Generator, size: int | None = None
) -> list[np.ndarray]:
    """Shuffle a client's rows and cut them into minibatches of nearly equal size.

    As many as `size` rows would have, by default those that are given.
    """
    return np.array_split(rng.permutation(own), steps(size or len(own), batch))


def epoch_of(orders: Sequence[np.ndarray], n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut the shuffled rows of all clients at once, as `minibatches` does for one.

    Return row numbers and weights ``(clients, n_steps, longest)``, see `pad`.
    """
    longest = max(-(-len(order) // n_steps) for order in orders)
    index = np.zeros((len(orders), n_steps, longest), dtype=np.int64)
    weight = np.empty((len(orders), n_steps, longest), dtype=np.float32)
    for own, order, share in zip(index, orders, weight, strict=True):
        inside, share[...] = _cuts(len(order), n_steps, longest)
        own[inside] = order
    return index, weight


def _cuts(n: int, n_steps: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a mask of the filled positions of each minibatch of `n` rows, and their weights."""
    number = n // n_steps + (np.arange(n_steps) < n % n_steps)
    inside = np.arange(longest) < number[:, None]
    weight = (inside / np.maximum(number, 1)[:, None]).astype(np.float32)
    return inside, weight


def chunks(
    sizes: np.ndarray,
    batch: int,
    at_once: int = CHUNK,
    memory: float = np.inf,
    client_bytes: int = 0,
    row_bytes: int = 0,
) -> list[np.ndarray]:
    """Group clients that can train in one stack: equal numbers of steps, similar sizes.

    A chunk has at most `at_once` clients, and takes at most `memory` bytes unless it is a single
    client. A client takes `client_bytes`, and `row_bytes` for each of its rows.

    >>> chunks(np.array([1200, 100, 1250, 90]), batch=600)
    [array([3, 1]), array([0, 2])]
    """
    n_steps = np.array([steps(n, batch) for n in sizes])
    order = np.lexsort((sizes, n_steps))
    groups = np.split(order, np.flatnonzero(np.diff(n_steps[order])) + 1)
    parts: list[np.ndarray] = []
    for group in groups:
        fit = memory // max(client_bytes + row_bytes * sizes[group].max(), 1)
        number = -(-len(group) // int(max(1, min(at_once, fit))))
        parts += np.array_split(group, number)
    return parts
