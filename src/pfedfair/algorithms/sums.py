"""The messages of `Newton`'s clients: sums over their rows, see `curvature`."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pfedfair.algorithms import intercepts
from pfedfair.algorithms.clients import Clients
from pfedfair.algorithms.curvature import (
    PARTS,
    add_hessian,
    blocks,
    chances,
    fold_rows,
    heft,
    loss_of,
    misses,
    people,
    pieces,
    upper,
    whole,
)  # fmt: skip


class Sums(NamedTuple):
    """Sums of a fold's rows, for every block."""

    gradient: list[Tensor]  # (outputs, q)
    hessian: list[Tensor]  # (outputs, q, outputs, q), its upper blocks


def by_fold(clients: Clients, points: Tensor, folds: int, tau: Tensor | None) -> dict[str, Tensor]:
    """Every client's sums at ``points[0]``, and its losses on the way there from ``points[1]``.

    With `tau` every client has an intercept of its own. The Hessian follows it unless it is by
    fold.
    """
    outputs = [k for k, _ in clients.lessons()]
    coefficients = blocks(points, outputs)
    loss = torch.zeros(len(clients), len(outputs), len(PARTS), dtype=torch.float64)
    gradients, hessians, likely = [], [], []
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, coefficients[0], tau)
        each = []
        for rows in fold_rows(clients, i, folds):
            found, lost = added_up(clients, rows, coefficients, shift)
            loss[i] += lost
            each.append(found)
            gradients.append(torch.cat([g.flatten() for g in found.gradient]))
        triangles = [[upper(h) for h in found.hessian] for found in each]
        if tau is not None:
            size = coefficients[0][0].numel()
            at = torch.arange(1, outputs[0] + 1) * (size // outputs[0]) - 1
            hessian = whole(torch.stack([parts[0] for parts in triangles]).sum(0), size)
            gradient = torch.stack([found.gradient[0][:, -1] for found in each]).sum(0)
            likely.append(intercepts.evidence(hessian[at[:, None], at], gradient, shift[0]))
            if folds == 1:
                profiled = intercepts.profiled(hessian, at, tau)
                triangles[0][0] = profiled[*torch.triu_indices(size, size)]
            if tau > 0:
                way = shift[1] + PARTS[:, None] * (shift[0] - shift[1])
                loss[i, 0] += (way**2).sum(1) / (2 * tau**2)
        hessians += [torch.cat(parts).float() for parts in triangles]
    message = {
        "people": people(clients, folds),
        "outputs": widths(clients),
        "loss": loss,
        "gradient": torch.stack(gradients).view(len(clients), folds, -1),
        "hessian": torch.stack(hessians).view(len(clients), folds, -1),
    }
    return message if tau is None else message | {"evidence": torch.stack(likely)}


def added_up(
    clients: Clients, rows: np.ndarray, coefficients: list[Tensor], shift: Tensor
) -> tuple[Sums, Tensor]:
    """The sums of some of a client's rows, and the losses, ``(blocks, parts of the way)``."""
    lessons = clients.lessons()
    shapes = [block.shape[1:] for block in coefficients]
    gradient = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    hessian = [torch.zeros(*shape, *shape, dtype=torch.float64) for shape in shapes]
    loss = torch.zeros(len(lessons), len(PARTS), dtype=torch.float64)
    for part, design in pieces(clients, rows):
        much = heft(clients, part)
        for b, (_, labels) in enumerate(lessons):
            y = labels[part]
            z = design.scores(coefficients[b])
            if b == 0:
                z = z + shift[:, None]
            way = z[1] + PARTS[:, None, None] * (z[0] - z[1])
            loss[b] += (much * loss_of(way, y)).sum(1)
            chance = chances(z[0])
            gradient[b] += design.pull(misses(chance, y, much))
            add_hessian(hessian[b], design, chance, much)
    return Sums(gradient, hessian), loss


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
        shift = own_intercepts(clients, i, blocks(points[:1], outputs)[0], tau)
        for k, rows in enumerate(fold_rows(clients, i, folds)):
            others = torch.arange(folds) != k
            for part, design in pieces(clients, rows):
                much = heft(clients, part)
                for b, (_, labels) in enumerate(lessons):
                    z = design.scores(coefficients[b][others])
                    chance = chances(z + shift if b == 0 else z)
                    found[b][i, others] += design.pull(misses(chance, labels[part], much))
    return {"left_gradient": torch.cat([block.flatten(2) for block in found], dim=-1)}


def held_losses(
    clients: Clients, tries: Tensor, points: Tensor, tau: Tensor | None
) -> dict[str, Tensor]:
    """Every client's losses on each fold of the models that did not see it, added up.

    `tries` is ``(folds, models, total)``; the losses are ``(clients, blocks, models)``. A
    client's own intercept is the one at ``points[1]``, where the models come from.
    """
    lessons = clients.lessons()
    outputs = [k for k, _ in lessons]
    found = torch.zeros(len(clients), len(lessons), tries.shape[1], dtype=torch.float64)
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, blocks(points[1:], outputs)[0], tau)
        for k, rows in enumerate(fold_rows(clients, i, len(tries))):
            coefficients = blocks(tries[k], outputs)
            for part, design in pieces(clients, rows):
                much = heft(clients, part)
                for b, (_, labels) in enumerate(lessons):
                    z = design.scores(coefficients[b])
                    if b == 0:
                        z = z + shift
                    found[i, b] += (much * loss_of(z, labels[part])).sum(1)
    return {"held_loss": found}


def own_intercepts(clients: Clients, i: int, coefficients: Tensor, tau: Tensor | None) -> Tensor:
    """A client's own intercept at each point, ``(points, outputs)``; 0 without tau."""
    none = coefficients.new_zeros(coefficients.shape[:2])
    if tau is None or tau == 0:
        return none
    y = clients.lessons()[0][1][torch.from_numpy(clients.rows[i])]
    parts = [design.scores(coefficients) for _, design in pieces(clients, clients.rows[i])]
    if not parts:
        return none
    return torch.stack([intercepts.solve(z, y, tau) for z in torch.cat(parts, dim=1)])


def widths(clients: Clients) -> Tensor:
    """Every block's number of outputs, once for each client."""
    each = torch.tensor([k for k, _ in clients.lessons()], dtype=torch.float64)
    return each.repeat(len(clients), 1)
