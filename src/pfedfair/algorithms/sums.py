"""The messages of `Newton`'s clients: sums over their rows, see `curvature`."""

from typing import NamedTuple

import torch
from torch import Tensor

from pfedfair.algorithms import intercepts
from pfedfair.algorithms.clients import Clients
from pfedfair.algorithms.curvature import (
    PARTS,
    blocks,
    chances,
    heft,
    hessian,
    loss_of,
    misses,
    people,
    pieces,
)  # fmt: skip
from pfedfair.algorithms.design import whole


class Sums(NamedTuple):
    """Sums of a fold's rows, for every block."""

    gradient: list[Tensor]  # (outputs, q)
    hessian: list[Tensor]  # upper triangles


def by_fold(
    clients: Clients, points: Tensor, folds: int, apart: bool, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's sums at ``points[0]``, and its losses on the way there from ``points[1]``.

    By fold if `apart`. With `tau` every client has an intercept of its own. The Hessian follows it
    unless it is by fold.
    """
    outputs = [k for k, _ in clients.lessons()]
    coefficients = blocks(points, outputs)
    loss = torch.zeros(len(clients), len(outputs), len(PARTS), dtype=torch.float64)
    gradients, hessians, likely = [], [], []
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, coefficients[0], folds, tau)
        each, loss[i] = added_up(clients, i, coefficients, shift, folds, apart)
        gradients += [torch.cat([g.flatten() for g in found.gradient]) for found in each]
        triangles = [found.hessian for found in each]
        if tau is not None:
            size = coefficients[0][0].numel()
            at = torch.arange(1, outputs[0] + 1) * (size // outputs[0]) - 1
            curved = whole(torch.stack([parts[0] for parts in triangles]).sum(0))
            gradient = torch.stack([found.gradient[0][:, -1] for found in each]).sum(0)
            likely.append(intercepts.evidence(curved[at[:, None], at], gradient, shift[0]))
            if not apart:
                profiled = intercepts.profiled(curved, at, tau)
                triangles[0][0] = profiled[*torch.triu_indices(size, size)]
            if tau > 0:
                way = shift[1] + PARTS[:, None] * (shift[0] - shift[1])
                loss[i, 0] += (way**2).sum(1) / (2 * tau**2)
        hessians += [torch.cat(parts).float() for parts in triangles]
    mass = people(clients, folds)
    message = {
        "people": mass if apart else mass.sum(1, keepdim=True),
        "outputs": widths(clients),
        "loss": loss,
        "gradient": torch.stack(gradients).view(*mass.shape[:1], -1, gradients[0].numel()),
        "hessian": torch.stack(hessians).view(*mass.shape[:1], -1, hessians[0].numel()),
    }
    return message if tau is None else message | {"evidence": torch.stack(likely)}


def added_up(
    clients: Clients, i: int, coefficients: list[Tensor], shift: Tensor, folds: int, apart: bool
) -> tuple[list[Sums], Tensor]:
    """A client's sums, of each fold if `apart`, and losses, ``(blocks, parts of the way)``."""
    lessons = clients.lessons()
    shapes = [block.shape[1:] for block in coefficients]
    sizes = [shape.numel() * (shape.numel() + 1) // 2 for shape in shapes]
    found = [Sums([torch.zeros(shape, dtype=torch.float64) for shape in shapes],
                  [torch.zeros(size, dtype=torch.float64) for size in sizes])
             for _ in range(folds if apart else 1)]  # fmt: skip
    loss = torch.zeros(len(lessons), len(PARTS), dtype=torch.float64)
    for rows, parts, design in pieces(clients, i, folds):
        much = heft(clients, rows)
        for b, (_, labels) in enumerate(lessons):
            y = labels[rows]
            z = design.scores(coefficients[b])
            if b == 0:
                z = z + shift[:, None]
            way = z[1] + PARTS[:, None, None] * (z[0] - z[1])
            loss[b] += (much * loss_of(way, y)).sum(1)
            chance = chances(z[0])
            slope = misses(chance, y, much)
            for fold, lines in parts if apart else [(0, slice(None))]:
                some, own = design.part(lines), found[fold]
                own.gradient[b].add_(some.pull(slope[lines]))
                own.hessian[b].add_(hessian(some, chance[lines], heft(clients, rows[lines])))
    return found, loss


def left_gradients(
    clients: Clients, starts: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's gradients at the models without each fold, over all rows but the fold's.

    `starts` is ``(folds, total)``. A client's own intercept is the one at ``points[0]``.
    """
    lessons, folds = clients.lessons(), len(starts)
    outputs = [k for k, _ in lessons]
    coefficients = blocks(starts, outputs)
    found = [torch.zeros(len(clients), *block.shape).to(block) for block in coefficients]
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, blocks(points[:1], outputs)[0], folds, tau)
        for rows, parts, design in pieces(clients, i, folds):
            left = torch.ones(folds, len(rows)) * heft(clients, rows)
            for fold, lines in parts:
                left[fold, lines] = 0.0
            for b, (_, labels) in enumerate(lessons):
                z = design.scores(coefficients[b])
                chance = chances(z + shift if b == 0 else z)
                found[b][i] += design.pull(left[..., None] * misses(chance, labels[rows]))
    return {"left_gradient": torch.cat([block.flatten(2) for block in found], dim=-1)}


def held_losses(
    clients: Clients, tries: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's losses on each fold of the models that did not see it, added up.

    `tries` is ``(folds, models, total)``; the losses are ``(clients, blocks, models)``. A
    client's own intercept is the one at ``points[1]``, where the models come from.
    """
    lessons, folds = clients.lessons(), len(tries)
    outputs = [k for k, _ in lessons]
    coefficients = blocks(tries, outputs)
    found = torch.zeros(len(clients), len(lessons), tries.shape[1], dtype=torch.float64)
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, blocks(points[1:], outputs)[0], folds, tau)
        for rows, parts, design in pieces(clients, i, folds):
            much, each = heft(clients, rows), [(k, design.part(lines)) for k, lines in parts]
            for b, (_, labels) in enumerate(lessons):
                z = torch.cat([some.scores(coefficients[b][k]) for k, some in each], dim=1)
                if b == 0:
                    z = z + shift
                found[i, b] += (much * loss_of(z, labels[rows])).sum(1)
    return {"held_loss": found}


def own_intercepts(
    clients: Clients, i: int, coefficients: Tensor, folds: int, tau: Tensor | None
) -> Tensor:
    """A client's own intercept at each point, ``(points, outputs)``; 0 without tau."""
    none = coefficients.new_zeros(coefficients.shape[:2])
    if tau is None or tau == 0 or not len(clients.rows[i]):
        return none
    labels = clients.lessons()[0][1]
    parts = [(design.scores(coefficients), labels[rows])
             for rows, _, design in pieces(clients, i, folds)]  # fmt: skip
    z, y = torch.cat([z for z, _ in parts], dim=1), torch.cat([y for _, y in parts])
    return torch.stack([intercepts.solve(at, y, tau) for at in z])


def widths(clients: Clients) -> Tensor:
    """Every block's number of outputs, once for each client."""
    each = torch.tensor([k for k, _ in clients.lessons()], dtype=torch.float64)
    return each.repeat(len(clients), 1)
