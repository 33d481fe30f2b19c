"""The messages of `Newton`'s clients: sums over their rows, see `curvature`."""

import torch
from torch import Tensor

from pfedfair.algorithms import intercepts
from pfedfair.algorithms.clients import Clients
from pfedfair.algorithms.curvature import blocks, heft, people, pieces
from pfedfair.algorithms.design import Lines, Sums, whole
from pfedfair.algorithms.likelihood import PARTS, chances, misses


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
    message = {
        "people": mass if apart else mass.sum(1, keepdim=True),
        "outputs": widths(clients),
        "loss": torch.zeros(len(clients), len(outputs), len(PARTS), dtype=torch.float64),
    }
    gradients, hessians, likely = [], [], []
    for i in range(len(clients)):
        shift = own_intercepts(clients, i, coefficients[0], folds, tau)
        each = added_up(clients, i, coefficients, shift, folds, apart)
        message["loss"][i] = torch.stack([found.loss for found in each])
        gradients.append(torch.cat([found.gradient.flatten(1) for found in each], dim=1))
        triangles = [found.hessian for found in each]
        if tau is not None:
            size = coefficients[0][0].numel()
            at = torch.arange(1, outputs[0] + 1) * (size // outputs[0]) - 1
            curved, gradient = whole(triangles[0].sum(0)), each[0].gradient[..., -1].sum(0)
            likely.append(intercepts.evidence(curved[at[:, None], at], gradient, shift[0]))
            if not apart:
                profiled = intercepts.profiled(curved, at, tau)
                triangles[0] = profiled[*torch.triu_indices(size, size)][None]
            if tau > 0:
                way = shift[1] + PARTS[:, None] * (shift[0] - shift[1])
                message["loss"][i, 0] += (way**2).sum(1) / (2 * tau**2)
        hessians.append(torch.cat(triangles, dim=1).float())
    message |= {"gradient": torch.stack(gradients), "hessian": torch.stack(hessians)}
    return message if tau is None else message | {"evidence": torch.stack(likely)}


def added_up(
    clients: Clients, i: int, coefficients: list[Tensor], shift: Tensor, folds: int, apart: bool
) -> list[Sums]:
    """A client's sums for every block, in parts by fold if `apart`."""
    found: list[Sums] = []
    for rows, ends, design in pieces(clients, i, folds):
        ends, much = ends if apart else [0, len(rows)], heft(clients, rows)
        each = []
        for b, (_, labels) in enumerate(clients.lessons()):
            own = shift if b == 0 else torch.zeros_like(coefficients[b][..., 0])
            each.append(design.sums(coefficients[b], own, Lines(labels[rows], much), ends))
        if found:
            each = [Sums(*map(torch.add, *both)) for both in zip(found, each, strict=True)]
        found = each
    return found


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
        for piece in pieces(clients, i, folds):
            rows, design, much = piece.rows, piece.design, heft(clients, piece.rows)
            left = torch.ones(folds, len(rows)) if much is None else much.repeat(folds, 1)
            for fold, lines in piece.folds:
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
        for piece in pieces(clients, i, folds):
            for k, lines in piece.folds:
                rows, design = piece.rows[lines], piece.design.part(lines)
                for b, (_, labels) in enumerate(lessons):
                    own = shift[0] if b == 0 else torch.zeros(outputs[b], dtype=torch.float64)
                    some = Lines(labels[rows], heft(clients, rows))
                    found[i, b] += design.losses(coefficients[b][k], own, some)
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
