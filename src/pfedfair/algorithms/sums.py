"""The messages of `Newton`'s clients: sums over their rows, see `curvature`."""

import torch
from torch import Tensor

from pfedfair.algorithms import intercepts
from pfedfair.algorithms.clients import Clients
from pfedfair.algorithms.curvature import blocks, people, pieces
from pfedfair.algorithms.design import Sums, whole
from pfedfair.algorithms.likelihood import PARTS, chances, misses
from pfedfair.spare import new


def by_fold(
    clients: Clients, points: Tensor, folds: int, apart: bool, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's sums at ``points[0]``, and its losses on the way there from ``points[1]``.

    By fold if `apart`. With `tau` every client has an intercept of its own. The Hessian follows it
    unless it is by fold.
    """
    outputs = [k for k, _ in clients.lessons()]
    coefficients = blocks(points, outputs)
    mass = people(clients, folds)
    sizes, parts = [block[0].numel() for block in coefficients], folds if apart else 1
    numbers = sum(size * (size + 1) // 2 for size in sizes)
    message = {
        "people": mass if apart else mass.sum(1, keepdim=True),
        "outputs": widths(clients),
        "loss": torch.zeros(len(clients), len(outputs), len(PARTS), dtype=torch.float64),
        "gradient": points.new_empty(len(clients), parts, sum(sizes)),
        "hessian": new((len(clients), parts, numbers), torch.float32),
    }
    likely = []
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, coefficients[0], folds, tau)
        each = added_up(clients, i, coefficients, shift, folds, apart)
        triangles = [found.hessian for found in each]
        torch.stack([found.loss for found in each], out=message["loss"][i])
        flat = [found.gradient.flatten(1) for found in each]
        torch.cat(flat, dim=1, out=message["gradient"][i])
        if tau is not None:
            at = torch.arange(1, outputs[0] + 1) * (sizes[0] // outputs[0]) - 1
            curved = whole(triangles[0].double().sum(0))
            gradient = each[0].gradient[..., -1].sum(0)
            likely.append(intercepts.evidence(curved[at[:, None], at], gradient, shift[0]))
            if not apart:
                profiled = intercepts.profiled(curved, at, tau)
                triangles[0] = profiled[*torch.triu_indices(sizes[0], sizes[0])][None].float()
            if tau > 0:
                way = shift[1] + PARTS[:, None] * (shift[0] - shift[1])
                message["loss"][i, 0] += (way**2).sum(1) / (2 * tau**2)
        torch.cat(triangles, dim=1, out=message["hessian"][i])
    return message if tau is None else message | {"evidence": torch.stack(likely)}


def added_up(
    clients: Clients, i: int, coefficients: list[Tensor], shift: Tensor, folds: int, apart: bool
) -> list[Sums]:
    """A client's sums for every block, in parts by fold if `apart`."""
    shifts = [shift, *(torch.zeros_like(block[..., 0]) for block in coefficients[1:])]
    found: list[Sums] = []
    for piece in pieces(clients, i, folds):
        ends = piece.ends if apart else [0, piece.ends[-1]]
        blocks_of = zip(coefficients, shifts, piece.people, strict=True)
        each = [piece.design.sums(*block, ends) for block in blocks_of]
        found = [both(*pair) for pair in zip(found, each, strict=True)] if found else each
    return found


def both(one: Sums, other: Sums) -> Sums:
    """The sums of some rows and of others; Hessians are added up in double precision."""
    hessian = (one.hessian.double() + other.hessian).to(one.hessian)
    return Sums(one.loss + other.loss, one.gradient + other.gradient, hessian)


def left_gradients(
    clients: Clients, starts: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's gradients at the models without each fold, over all rows but the fold's.

    `starts` is ``(folds, total)``. A client's own intercept is the one at ``points[0]``.
    """
    outputs, folds = [k for k, _ in clients.lessons()], len(starts)
    coefficients = blocks(starts, outputs)
    found = [torch.zeros(len(clients), *block.shape).to(block) for block in coefficients]
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, blocks(points[:1], outputs)[0], folds, tau)
        for piece in pieces(clients, i, folds):
            for b, (y, much) in enumerate(piece.people):
                left = torch.ones(folds, len(y)) if much is None else much.repeat(folds, 1)
                for fold, lines in piece.folds:
                    left[fold, lines] = 0.0
                z = piece.design.scores(coefficients[b])
                chance = chances(z + shift if b == 0 else z)
                found[b][i] += piece.design.pull(left[..., None] * misses(chance, y))
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
    found = torch.zeros(len(clients), len(outputs), tries.shape[1], dtype=torch.float64)
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, blocks(points[1:], outputs)[0], folds, tau)
        for piece in pieces(clients, i, folds):
            for b, some in enumerate(piece.people):
                own = shift[0] if b == 0 else torch.zeros(outputs[b], dtype=torch.float64)
                found[i, b] += piece.design.losses(coefficients[b], own, some, piece.ends)
    return {"held_loss": found}


def own_intercepts(
    clients: Clients, i: int, coefficients: Tensor, folds: int, tau: Tensor | None
) -> Tensor:
    """A client's own intercept at each point, ``(points, outputs)``; 0 without tau."""
    none = coefficients.new_zeros(coefficients.shape[:2])
    if tau is None or tau == 0 or not len(clients.rows[i]):
        return none
    parts = [(piece.design.scores(coefficients), piece.people[0].y)
             for piece in pieces(clients, i, folds)]  # fmt: skip
    z, y = torch.cat([z for z, _ in parts], dim=1), torch.cat([y for _, y in parts])
    return torch.stack([intercepts.solve(at, y, tau) for at in z])


def widths(clients: Clients) -> Tensor:
    """Every block's number of outputs, once for each client."""
    each = torch.tensor([k for k, _ in clients.lessons()], dtype=torch.float64)
    return each.repeat(len(clients), 1)
