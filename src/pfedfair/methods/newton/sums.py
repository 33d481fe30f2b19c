"""The messages of `Newton`'s clients: losses, gradients and Hessians, added up over rows.

Clients' rows are laid out, or looked up, some thousands at a time. Logits, losses and gradients are
in double precision, so that the optimum is exact.

Coefficients of a block are ``(outputs, q)``, the intercept last; blocks stand one after another. A
block is what the network learns: the label, and where S has to be guessed, S.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.methods.clients import Clients, persons_of
from pfedfair.methods.newton import intercepts, lookup
from pfedfair.methods.newton.design import (
    Dense,
    Design,
    Labels,
    LookedUp,
    Sums,
    part_of,
    symmetric,
    triangle,
)
from pfedfair.methods.newton.likelihood import PARTS, chances, slopes_of
from pfedfair.partition.persons import FOLDS

ROWS = 8192  # rows that are laid out at a time
ROWS_LOOKED_UP = 8 * ROWS  # that are looked up
WIDE = 256  # inputs from which on that is faster without C, too
FOLDS_STREAM = 2  # of the stream for held-out rows


# --- blocks of coefficients --------------------------------------------------------------------


def blocks(flat: Tensor, outputs: list[int]) -> list[Tensor]:
    """Cut coefficients ``(..., total)`` into blocks ``(..., outputs, q)``."""
    q = flat.shape[-1] // sum(outputs)
    parts = torch.split(flat, [k * q for k in outputs], dim=-1)
    return [part.reshape(*part.shape[:-1], k, q) for part, k in zip(parts, outputs, strict=True)]


def model(flat: Tensor, outputs: list[int]) -> Tensor:
    """Return the coefficients as a network's row has them: see `Network.design`."""
    parts = [(part[..., :-1].flatten(-2), part[..., -1]) for part in blocks(flat, outputs)]
    return torch.cat([piece for part in parts for piece in part], dim=-1)


def outputs_of(clients: Clients) -> list[int]:
    """Return every block's number of outputs."""
    return [k for k, _ in clients.label_blocks()]


# --- rows of clients ---------------------------------------------------------------------------


class Piece(NamedTuple):
    """Rows of several clients, or a part of one client's: their design and labels."""

    clients: slice
    ends: list[int]  # the start of every fold of every client, and the end of the last one
    design: Design
    labels: list[Labels]  # for every block


def pieces(clients: Clients, folds: int) -> Iterable[Piece]:
    """Return clients' rows in pieces, fold after fold; those of small tables are cached."""
    if not clients.memoises:
        return make_pieces(clients, folds)
    return clients.memoise(("pieces", folds), lambda: list(make_pieces(clients, folds)))


def make_pieces(clients: Clients, folds: int) -> Iterator[Piece]:
    """Yield clients' rows in pieces, fold after fold."""
    at_once = ROWS_LOOKED_UP if is_looked_up(clients) else ROWS
    weight = clients.table.weight
    for block in client_blocks([len(rows) for rows in clients.rows], at_once):
        parts = [part for i in range(len(clients))[block] for part in fold_rows(clients, i, folds)]
        rows, ends = torch.from_numpy(np.concatenate(parts)), np.cumsum([0, *map(len, parts)])
        number = max(1, -(-len(rows) // at_once))  # a client may have many
        for start, stop in pairwise([len(rows) * k // number for k in range(number + 1)]):
            piece = rows[start:stop]
            weights = torch.ones(len(piece)) if weight is None else weight[piece]
            labels = [Labels(y[piece], weights.double()) for _, y in clients.label_blocks()]
            cuts = (ends.clip(start, stop) - start).tolist()
            yield Piece(block, cuts, design_of(clients, piece), labels)


def fold_rows(clients: Clients, i: int, folds: int) -> list[np.ndarray]:
    """Return a client's rows in folds of nearly equal size, the same ones at every call."""

    def deal() -> list[np.ndarray]:
        rng = seeds.generator(clients.seed, seeds.HELD, clients.ids[i], FOLDS_STREAM)
        rows, persons = clients.rows[i], persons_of(clients, FOLDS)
        if persons is not None:
            equal = np.full((1, folds), 1 / folds)
            return persons.deal(rows, np.zeros_like(clients.table.person), equal, rng)
        return np.array_split(rng.permutation(rows), folds)

    return clients.memoise(("folds", i, folds), deal)


def rows_by_fold(clients: Clients, folds: int) -> Tensor:
    """Return each client's number of rows by fold, or their weight, ``(clients, folds)``."""
    weight = clients.table.weight
    mass = (lambda part: len(part)) if weight is None else lambda part: float(weight[part].sum())

    def count() -> Tensor:
        each = [[mass(part) for part in fold_rows(clients, i, folds)] for i in range(len(clients))]
        return torch.tensor(each, dtype=torch.float64)

    return clients.memoise(("rows", folds), count)


def client_blocks(sizes: Sequence[int], most: int) -> Iterator[slice]:
    """Yield consecutive clients that have at most `most` rows in total, and at least one client.

    >>> list(client_blocks([5, 3, 9, 1], 8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    first, rows = 0, 0
    for i, size in enumerate(sizes):
        if i > first and rows + size > most:
            yield slice(first, i)
            first, rows = i, 0
        rows += size
    yield slice(first, len(sizes))


def is_looked_up(clients: Clients) -> bool:
    """Return whether inputs are looked up, not laid out: always in C, else if they are wide."""
    least = 1 if lookup.LIBRARY else WIDE  # without inputs there is nothing to look up
    return isinstance(clients.table.encoder, Piecewise) and clients.table.width >= least


def design_of(clients: Clients, rows: Tensor) -> Design:
    """Return the design of these rows."""
    table, network, s = clients.table, clients.network, clients.table.s[rows][None]
    if not is_looked_up(clients):
        return Dense(network.design(table.inputs(rows)[None], s)[0])
    assert isinstance(table.encoder, Piecewise)
    dense = network.design(torch.zeros(1, len(rows), 0), s)[0]
    return LookedUp(table.x.index_select(0, rows), dense, table.encoder.basis)


# --- sums over them ----------------------------------------------------------------------------


def by_fold(
    clients: Clients, points: Tensor, folds: int, apart: bool, tau: Tensor | None
) -> dict[str, Tensor]:
    """Return clients' sums at ``points[0]``, and losses on the line to it from ``points[1]``.

    Sums are by fold if `apart`. With `tau` every client has a personal intercept, which the Hessian
    is profiled over unless it is by fold.
    """
    outputs = outputs_of(clients)
    coefficients = blocks(points, outputs)
    shift = own_intercepts(clients, coefficients[0], folds, tau)
    each = add_up(clients, coefficients, shift, folds, apart)
    rows = rows_by_fold(clients, folds)
    message = {
        "rows": rows.clone() if apart else rows.sum(1, keepdim=True),
        "outputs": torch.tensor(outputs, dtype=torch.float64).repeat(len(clients), 1),
        "loss": torch.stack([sums.loss.sum(1) for sums in each], dim=1),
        "gradient": concatenate([sums.gradient.flatten(2) for sums in each], dim=-1),
        "hessian": concatenate([sums.hessian for sums in each], dim=-1),
    }
    if tau is None:
        return message
    size, likely = coefficients[0][0].numel(), []
    at = torch.arange(1, outputs[0] + 1) * (size // outputs[0]) - 1
    for u, gradient, loss, triangles in zip(
        shift, each[0].gradient, message["loss"][:, 0], message["hessian"], strict=True
    ):
        first = triangles[:, : size * (size + 1) // 2]
        curved = symmetric(first.double().sum(0))
        slope = gradient[..., -1].sum(0)
        likely.append(intercepts.evidence(curved[at[:, None], at], slope, u[0]))
        if not apart:
            first[0] = triangle(intercepts.profile(curved, at, tau))
        if tau > 0:
            way = u[1] + PARTS[:, None] * (u[0] - u[1])
            loss += (way**2).sum(1) / (2 * tau**2)
    return message | {"evidence": torch.stack(likely)}


def add_up(
    clients: Clients, coefficients: list[Tensor], shift: Tensor, folds: int, apart: bool
) -> list[Sums]:
    """Return every block's sums of all clients, ``(clients, parts, ...)``: by fold if `apart`."""
    shifts = [shift, *(shift.new_zeros(len(clients), *c.shape[:2]) for c in coefficients[1:])]
    number, found = folds if apart else 1, []
    for block, parts in groupby(pieces(clients, folds), lambda piece: piece.clients):
        total: list[Sums] = []
        for piece in parts:  # several if a client has many rows
            ends = piece.ends if apart else piece.ends[::folds]
            each = [
                piece.design.sums(points, u[block].repeat_interleave(number, dim=0), labels, ends)
                for points, u, labels in zip(coefficients, shifts, piece.labels, strict=True)
            ]
            pairs = zip(total, each, strict=True)
            total = [Sums(*map(torch.add, *both)) for both in pairs] if total else each
        found.append(
            [Sums(*(part.view(-1, number, *part.shape[1:]) for part in sums)) for sums in total]
        )
    return [Sums(*map(concatenate, zip(*block, strict=True))) for block in zip(*found, strict=True)]


def concatenate(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenate tensors; a single one, perhaps a large Hessian, is not copy_state."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim)


def left_gradients(
    clients: Clients, starts: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Return clients' gradients at the models without each fold, over all rows but the fold's.

    `starts` is ``(folds, total)``. A client's own intercept is the one at ``points[0]``.
    """
    outputs, folds = outputs_of(clients), len(starts)
    coefficients = blocks(starts, outputs)
    shift = own_intercepts(clients, blocks(points[:1], outputs)[0], folds, tau)[:, 0]
    found = [torch.zeros(len(clients), *block.shape).to(block) for block in coefficients]
    for piece in pieces(clients, folds):
        client, fold = (part_of(ends) for ends in (piece.ends[::folds], piece.ends))
        outside = torch.arange(folds)[:, None] != fold % folds
        for b, (y, weight) in enumerate(piece.labels):
            z = piece.design.scores(coefficients[b])
            chance = chances(z + shift[piece.clients][client] if b == 0 else z)
            slopes = slopes_of(chance, y) * (outside * weight)[..., None]
            found[b][piece.clients] += piece.design.pull(slopes, piece.ends[::folds])
    return {"left_gradient": torch.cat([block.flatten(2) for block in found], dim=-1)}


def held_losses(
    clients: Clients, tries: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Return clients' losses on each fold of the models that did not see it, added up.

    `tries` is ``(folds, models, total)``; the losses are ``(clients, blocks, models)``. A
    client's own intercept is the one at ``points[1]``, where the models come from.
    """
    outputs, folds = outputs_of(clients), len(tries)
    coefficients = blocks(tries, outputs)
    shift = own_intercepts(clients, blocks(points[1:], outputs)[0], folds, tau)[:, 0]
    found = torch.zeros(len(clients), len(outputs), tries.shape[1], dtype=torch.float64)
    for piece in pieces(clients, folds):
        for b, labels in enumerate(piece.labels):
            u = shift[piece.clients].repeat_interleave(folds, dim=0)
            u = u if b == 0 else u.new_zeros(len(u), outputs[b])
            losses = piece.design.losses(coefficients[b], u, labels, piece.ends)
            found[piece.clients, b] += losses.view(-1, folds, losses.shape[1]).sum(1)
    return {"held_loss": found}


def own_intercepts(
    clients: Clients, coefficients: Tensor, folds: int, tau: Tensor | None
) -> Tensor:
    """Return clients' own intercepts, ``(clients, points, outputs)``: 0 without tau."""
    found = coefficients.new_zeros(len(clients), *coefficients.shape[:2])
    if tau is None or tau == 0:
        return found
    rows: dict[int, list[tuple[Tensor, Tensor]]] = {}
    for piece in pieces(clients, folds):
        z, y = piece.design.scores(coefficients), piece.labels[0].y
        for i, cut in enumerate(pairwise(piece.ends[::folds]), piece.clients.start):
            rows.setdefault(i, []).append((z[:, slice(*cut)], y[slice(*cut)]))
    for i, parts in rows.items():
        if len(clients.rows[i]):
            z, y = torch.cat([z for z, _ in parts], dim=1), torch.cat([y for _, y in parts])
            found[i] = torch.stack([intercepts.solve(at, y, tau) for at in z])
    return found
