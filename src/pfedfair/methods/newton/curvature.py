"""What clients of `Newton` add up over their rows: losses, gradients and Hessians.

A client's rows are laid out, or looked up, some thousand at a time. Logits, losses and gradients
are computed in double precision, so that the optimum is exact; a client's Hessian is sent in
single: it leads to the optimum, it does not say where that is.

Coefficients of a block are ``(outputs, q)``, the intercept last; blocks stand one after another. A
block is what the network learns: the label, and where S has to be guessed, S.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.methods.clients import Clients
from pfedfair.methods.newton import lookup
from pfedfair.methods.newton.design import Dense, Design, Lines, Looked

ROWS = 8192  # rows that are laid out at a time
FOLDS_STREAM = 2  # of the stream for held rows
ROWS_LOOKED = 8 * ROWS  # that are looked up
WIDE = 256  # inputs from which on that is quicker without a library, too


def blocks(flat: Tensor, outputs: list[int]) -> list[Tensor]:
    """Cut coefficients ``(..., total)`` into blocks ``(..., outputs, q)``."""
    q = flat.shape[-1] // sum(outputs)
    parts = torch.split(flat, [k * q for k in outputs], dim=-1)
    return [part.reshape(*part.shape[:-1], k, q) for part, k in zip(parts, outputs, strict=True)]


def model(flat: Tensor, outputs: list[int]) -> Tensor:
    """The coefficients as a network's row has them: see `Network.design`."""
    parts = [(part[..., :-1].flatten(-2), part[..., -1]) for part in blocks(flat, outputs)]
    return torch.cat([piece for part in parts for piece in part], dim=-1)


def fold_rows(clients: Clients, i: int, folds: int) -> list[np.ndarray]:
    """A client's rows in folds of nearly equal size, the same ones at every call."""

    def deal() -> list[np.ndarray]:
        rng = seeds.generator(clients.seed, seeds.HELD, clients.ids[i], FOLDS_STREAM)
        return np.array_split(rng.permutation(clients.rows[i]), folds)

    return clients.once(("folds", i, folds), deal)


class Piece(NamedTuple):
    """Rows of some clients, or some of one's: what their logits are linear in, what they are."""

    clients: slice
    whole: bool  # whether these are all of their rows
    ends: list[int]  # where every fold of every client begins, and the last one ends
    design: Design
    people: list[Lines]  # for every block


def pieces(clients: Clients, folds: int) -> Iterable[Piece]:
    """Clients' rows, fold after fold, some at a time; those of small tables are kept."""
    if not clients.remembers:
        return cut_up(clients, folds)
    return clients.once(("pieces", folds), lambda: list(cut_up(clients, folds)))


def cut_up(clients: Clients, folds: int) -> Iterator[Piece]:
    """The same, made anew."""
    at_once = ROWS_LOOKED if looked_up(clients) else ROWS
    for some in together([len(own) for own in clients.rows], at_once):
        each = range(len(clients))[some]
        rows, ends = in_order([part for i in each for part in fold_rows(clients, i, folds)])
        number = max(1, -(-len(rows) // at_once))  # a client may have many
        for k in range(number):
            start, stop = (len(rows) * end // number for end in (k, k + 1))
            own = rows[start:stop]
            people = [Lines(labels[own], heft(clients, own)) for _, labels in clients.lessons()]
            cuts = [min(max(end, start), stop) - start for end in ends]
            yield Piece(some, number == 1, cuts, design_of(clients, own), people)


def together(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Clients in order, as many at a time as have `most` rows together, and at least one.

    >>> list(together([5, 3, 9, 1], 8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    first, rows = 0, 0
    for i, size in enumerate(sizes):
        if i > first and rows + size > most:
            yield slice(first, i)
            first, rows = i, 0
        rows += size
    yield slice(first, len(sizes))


def in_order(parts: list[np.ndarray]) -> tuple[Tensor, list[int]]:
    """Rows one part after another, and where the parts begin and end."""
    ends = np.cumsum([0, *map(len, parts)])
    return torch.from_numpy(np.concatenate(parts)), ends.tolist()


def looked_up(clients: Clients) -> bool:
    """Whether inputs are looked up, not laid out: always in C, else where there are many."""
    encoder = clients.table.encoder
    if not isinstance(encoder, Piecewise) or not encoder.tables:  # S may be all that is known
        return False
    return lookup.LIBRARY is not None or clients.table.width >= WIDE


def design_of(clients: Clients, rows: Tensor) -> Design:
    """What the logits of some rows are linear in."""
    table, network, s = clients.table, clients.network, clients.table.s[rows][None]
    if not looked_up(clients):
        return Dense(network.design(table.inputs(rows)[None], s)[0])
    assert isinstance(table.encoder, Piecewise)
    more = network.design(torch.zeros(1, len(rows), 0), s)[0]
    if lookup.LIBRARY:
        return lookup.Compiled(table.x.index_select(0, rows), more, table.encoder.ranges)
    return Looked(table.x[rows], more, table.encoder.tables)


def people(clients: Clients, folds: int) -> Tensor:
    """How many rows each client has in each fold, or what they weigh, ``(clients, folds)``."""
    weight = clients.table.weight
    mass = (lambda part: len(part)) if weight is None else lambda part: float(weight[part].sum())

    def count() -> Tensor:
        each = [[mass(part) for part in fold_rows(clients, i, folds)] for i in range(len(clients))]
        return torch.tensor(each, dtype=torch.float64)

    return clients.once(("people", folds), count)


def heft(clients: Clients, part: Tensor) -> Tensor | None:
    """How much some rows count, ``(n,)``, if not all alike."""
    weight = clients.table.weight
    return None if weight is None else weight[part].double()
