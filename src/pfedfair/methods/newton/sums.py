"""The messages of `Newton`'s clients: sums over their rows, see `curvature`."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from pfedfair.methods.clients import Clients
from pfedfair.methods.newton import curvature, intercepts
from pfedfair.methods.newton.curvature import blocks, pieces
from pfedfair.methods.newton.design import Sums, parts, triangle, whole
from pfedfair.methods.newton.likelihood import PARTS, chances, misses


def by_fold(
    clients: Clients, points: Tensor, folds: int, apart: bool, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's sums at ``points[0]``, and its losses on the way there from ``points[1]``.

    By fold if `apart`. With `tau` every client has an intercept of its own. The Hessian follows it
    unless it is by fold.
    """
    outputs = [k for k, _ in clients.lessons()]
    coefficients = blocks(points, outputs)
    mass = curvature.people(clients, folds)
    shift = own_intercepts(clients, coefficients[0], folds, tau)
    each = added_up(clients, coefficients, shift, folds, apart)
    message = {
        "people": mass.clone() if apart else mass.sum(1, keepdim=True),
        "outputs": widths(clients),
        "loss": torch.stack([found.loss for found in each], dim=1),
        "gradient": side_by_side([found.gradient.flatten(2) for found in each]),
        "hessian": side_by_side([found.hessian for found in each]),
    }
    if tau is None:
        return message
    size, likely = coefficients[0][0].numel(), []
    at = torch.arange(1, outputs[0] + 1) * (size // outputs[0]) - 1
    for own, found, loss, triangles in zip(
        shift, each[0].gradient, message["loss"][:, 0], message["hessian"], strict=True
    ):
        first = triangles[:, : size * (size + 1) // 2]
        curved, gradient = whole(first.double().sum(0)), found[..., -1].sum(0)
        likely.append(intercepts.evidence(curved[at[:, None], at], gradient, own[0]))
        if not apart:
            first[0] = triangle(intercepts.profiled(curved, at, tau).contiguous())
        if tau > 0:
            way = own[1] + PARTS[:, None] * (own[0] - own[1])
            loss += (way**2).sum(1) / (2 * tau**2)
    return message | {"evidence": torch.stack(likely)}


def side_by_side(each: list[Tensor]) -> Tensor:
    """Blocks' numbers one after another; those of one block as they are."""
    return each[0] if len(each) == 1 else torch.cat(each, dim=-1)


def added_up(
    clients: Clients, coefficients: list[Tensor], shift: Tensor, folds: int, apart: bool
) -> list[Sums]:
    """For every block all clients' sums, ``(clients, parts, ...)``, in parts by fold if `apart`.

    Losses are those of all parts, ``(clients, ...)``.
    """
    shifts = [shift, *(shift.new_zeros(len(clients), *c.shape[:2]) for c in coefficients[1:])]
    number, found = folds if apart else 1, []
    for of, some in groupby(pieces(clients, folds), lambda piece: piece.clients):
        each: list[Sums] = []
        for piece in some:  # several if a client has many rows: Hessians are exact then
            ends, more = piece.ends if apart else piece.ends[::folds], []
            for points, own, people in zip(coefficients, shifts, piece.people, strict=True):
                own = own[of].repeat_interleave(number, dim=0)
                more.append(piece.design.sums(points, own, people, ends, exact=not piece.whole))
            pairs = zip(each, more, strict=True)
            each = [Sums(*map(torch.add, *both)) for both in pairs] if each else more
        found.append([by_client(one, number) for one in each])
    blocks_of = zip(*found, strict=True)  # each has what all pieces have of it
    return [Sums(*map(one_after_another, zip(*each, strict=True))) for each in blocks_of]


def by_client(sums: Sums, parts: int) -> Sums:
    """Sums of some clients' parts, client by client; losses of all parts together."""
    loss, gradient, hessian = (each.view(-1, parts, *each.shape[1:]) for each in sums)
    return Sums(loss.sum(1), gradient, hessian.float())


def one_after_another(each: Sequence[Tensor]) -> Tensor:
    """Clients' numbers one after another; those of one piece as they are."""
    return each[0] if len(each) == 1 else torch.cat(list(each))


def left_gradients(
    clients: Clients, starts: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's gradients at the models without each fold, over all rows but the fold's.

    `starts` is ``(folds, total)``. A client's own intercept is the one at ``points[0]``.
    """
    outputs, folds = [k for k, _ in clients.lessons()], len(starts)
    coefficients = blocks(starts, outputs)
    shift = own_intercepts(clients, blocks(points[:1], outputs)[0], folds, tau)
    found = [torch.zeros(len(clients), *block.shape).to(block) for block in coefficients]
    for piece in pieces(clients, folds):
        each, all_cuts = parts(piece.ends[::folds]), parts(piece.ends)
        for k, (own, lines) in enumerate(zip(shift[piece.clients], each, strict=True)):
            i, design = piece.clients.start + k, piece.design.part(lines)
            cuts = all_cuts[k * folds : (k + 1) * folds]
            for b, (y, much) in enumerate(people.part(lines) for people in piece.people):
                left = torch.ones(folds, len(y)) if much is None else much.repeat(folds, 1)
                for fold, cut in enumerate(cuts):
                    left[fold, cut.start - lines.start : cut.stop - lines.start] = 0.0
                z = design.scores(coefficients[b])
                chance = chances(z + own if b == 0 else z)
                found[b][i] += design.pull(left[..., None] * misses(chance, y))
    return {"left_gradient": torch.cat([block.flatten(2) for block in found], dim=-1)}


def held_losses(
    clients: Clients, tries: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's losses on each fold of the models that did not see it, added up.

    `tries` is ``(folds, models, total)``; the losses are ``(clients, blocks, models)``. A
    client's own intercept is the one at ``points[1]``, where the models come from.
    """
    outputs, folds = [k for k, _ in clients.lessons()], len(tries)
    coefficients = blocks(tries, outputs)
    shift = own_intercepts(clients, blocks(points[1:], outputs)[0], folds, tau)[:, 0]
    found = torch.zeros(len(clients), len(outputs), tries.shape[1], dtype=torch.float64)
    for piece in pieces(clients, folds):
        for b, people in enumerate(piece.people):
            own = shift[piece.clients] if b == 0 else shift.new_zeros(1, outputs[b])
            own = own.expand((len(piece.ends) - 1) // folds, -1).repeat_interleave(folds, dim=0)
            lost = piece.design.losses(coefficients[b], own, people, piece.ends)
            found[piece.clients, b] += lost.view(-1, folds, lost.shape[1]).sum(1)
    return {"held_loss": found}


def own_intercepts(
    clients: Clients, coefficients: Tensor, folds: int, tau: Tensor | None
) -> Tensor:
    """Every client's own intercept at each point, ``(clients, points, outputs)``; 0 without tau."""
    found = coefficients.new_zeros(len(clients), *coefficients.shape[:2])
    if tau is None or tau == 0:
        return found
    told: dict[int, list[tuple[Tensor, Tensor]]] = defaultdict(list)
    for piece in pieces(clients, folds):
        z, y = piece.design.scores(coefficients), piece.people[0].y
        for i, lines in enumerate(parts(piece.ends[::folds]), piece.clients.start):
            told[i].append((z[:, lines], y[lines]))
    for i, some in told.items():
        if len(clients.rows[i]):
            z, y = torch.cat([z for z, _ in some], dim=1), torch.cat([y for _, y in some])
            found[i] = torch.stack([intercepts.solve(at, y, tau) for at in z])
    return found


def widths(clients: Clients) -> Tensor:
    """Every block's number of outputs, once for each client."""
    each = torch.tensor([k for k, _ in clients.lessons()], dtype=torch.float64)
    return each.repeat(len(clients), 1)
