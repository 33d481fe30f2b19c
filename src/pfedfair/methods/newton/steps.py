"""What the server of `Newton` makes of the sums: steps, and models left without a fold."""

import torch
from torch import Tensor

from pfedfair.methods.newton.curvature import blocks
from pfedfair.methods.newton.design import triangle, whole
from pfedfair.methods.newton.likelihood import PARTS
from pfedfair.methods.newton.ridges import solve


def penalty(shape: torch.Size) -> Tensor:
    """Where a ridge counts, for coefficients ``(outputs, q)``: everywhere but at intercepts."""
    found = torch.ones(shape, dtype=torch.float64)
    found[:, -1] = 0.0
    return found


def value(loss: Tensor, coefficients: Tensor, ridge: Tensor) -> Tensor:
    """The objective of coefficients ``(points, outputs, q)`` with losses ``(points,)``."""
    size = (coefficients[..., :-1] ** 2).sum((1, 2))
    return loss + ridge * size / 2


def steps(hessian: Tensor, slopes: Tensor, ridges: Tensor) -> Tensor:
    """The Newton steps of a block for each ridge, of the slopes' shape ``(ridges, outputs, q)``.

    Slopes are the whole objective's, `hessian` that of the losses alone: its upper triangle.
    """
    _, outputs, q = slopes.shape
    if outputs > 1:  # all intercepts together may move freely, and need not
        matrix, at = whole(hessian), torch.arange(1, outputs + 1) * q - 1
        matrix[at[:, None], at] += matrix.diagonal()[at].mean() / outputs
        hessian = triangle(matrix)
    more = ridges[:, None] * penalty(slopes.shape[1:]).flatten()
    return solve(hessian, more, slopes.flatten(1)).view(slopes.shape)


def advance(
    points: Tensor, loss: Tensor, sums: tuple[Tensor, Tensor], ridge: Tensor, chosen: Tensor
) -> tuple[Tensor, bool]:
    """A block's next points ``(2, outputs, q)``, asked and accepted, and whether the first was.

    If the objective is not lower at the point that was asked for, the next is the lowest on the
    way there; otherwise a Newton step from it, by the ridge that has just been `chosen`. `sums` are
    the losses' gradient and the upper triangle of their Hessian.
    """
    way = points[1] + PARTS[:, None, None] * (points[0] - points[1])
    found = value(loss, way, ridge)
    if found[0] > found[-1] + 1e-12 * found[-1].abs():
        return torch.stack([way[int(found[:-1].argmin())], points[1]]), False
    at, (gradient, hessian) = points[0], sums
    slope = gradient + chosen * penalty(at.shape) * at
    return torch.stack([at - steps(hessian, slope[None], chosen[None])[0], at]), True


def left_out(starts: Tensor, gradient: Tensor, hessian: Tensor, ridges: Tensor) -> Tensor:
    """The models without each fold, by one Newton step, for each ridge.

    From `starts` ``(folds, outputs, q)``, and of the other folds' losses the gradients there, of
    the same shape, and the triangles of Hessians. The models are ``(folds, ridges, outputs, q)``.
    """
    folds, found = len(starts), []
    ridges = ridges * (folds - 1) / folds  # they are against the mean loss
    for at, slope, curved in zip(starts, gradient, hessian, strict=True):
        slopes = slope + ridges[:, None, None] * penalty(at.shape) * at
        found.append(at - steps(curved, slopes, ridges))
    return torch.stack(found)


def unfolded(sums: dict[str, Tensor], outputs: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Gradients ``(..., outputs, q)`` and Hessians' triangles of every block, from a message."""
    gradients = blocks(sums["gradient"], outputs)
    sizes = [g.shape[-2] * g.shape[-1] for g in gradients]
    parts = torch.split(sums["hessian"], [n * (n + 1) // 2 for n in sizes], dim=-1)
    return list(zip(gradients, parts, strict=True))
