"""Newton steps at the server, from the sums: of the model, and of models without a fold."""

import torch
from torch import Tensor

from pfedfair.methods.newton.design import symmetric
from pfedfair.methods.newton.likelihood import PARTS
from pfedfair.methods.newton.sums import blocks

LIFTS = 0.0, *(10.0**k for k in range(-10, 1))  # of the diagonal, until there is a factor


def penalty(shape: torch.Size) -> Tensor:
    """Return 1 where a ridge applies to coefficients ``(outputs, q)``, and 0 at intercepts."""
    found = torch.ones(shape, dtype=torch.float64)
    found[:, -1] = 0.0
    return found


def value(loss: Tensor, coefficients: Tensor, ridge: Tensor) -> Tensor:
    """Return the objective of coefficients ``(points, outputs, q)`` with losses ``(points,)``."""
    size = (coefficients[..., :-1] ** 2).sum((1, 2))
    return loss + ridge * size / 2


def steps(hessian: Tensor, slopes: Tensor, ridges: Tensor) -> Tensor:
    """Return the Newton steps of a block for each ridge, like `slopes` ``(ridges, outputs, q)``.

    Slopes are those of the objective; `hessian` is the upper triangle for the losses only.
    """
    _, outputs, q = slopes.shape
    matrix = symmetric(hessian)
    if outputs > 1:  # a common shift of all intercepts has no effect
        at = torch.arange(1, outputs + 1) * q - 1
        matrix[at[:, None], at] += matrix.diagonal()[at].mean() / outputs
    where = penalty(slopes.shape[1:]).flatten()
    each = zip(ridges, slopes.flatten(1), strict=True)
    return torch.stack([solve(matrix, ridge * where, slope) for ridge, slope in each]).view_as(
        slopes
    )


def solve(matrix: Tensor, diagonal: Tensor, side: Tensor) -> Tensor:
    """Solve ``(matrix + diag(diagonal)) x = side``, all ``(n,)``; NaN if no lift helps."""
    curved = matrix.clone()
    curved.diagonal().add_(diagonal)
    lifted = curved.diagonal().mean() * torch.eye(len(curved), dtype=curved.dtype)
    for lift in LIFTS:  # rounding may make an almost flat direction negative
        factor, failed = torch.linalg.cholesky_ex(curved + lift * lifted if lift else curved)
        if not failed:
            return torch.cholesky_solve(side[:, None], factor)[:, 0]
    return torch.full_like(side, torch.nan)  # not a sum over rows


def advance(
    points: Tensor, loss: Tensor, sums: tuple[Tensor, Tensor], ridge: Tensor, chosen: Tensor
) -> tuple[Tensor, bool]:
    """Return a block's next points, proposed and accepted, and whether the step was accepted.

    Points are ``(2, outputs, q)``. If the objective is not lower at the proposed point, the next
    proposal is the lowest on the line to it; otherwise a Newton step from it, by the ridge that has
    just been `chosen`. `sums` are the losses' gradient and the upper triangle of their Hessian.
    """
    way = points[1] + PARTS[:, None, None] * (points[0] - points[1])
    found = value(loss, way, ridge)
    if found[0] > found[-1] + 1e-12 * found[-1].abs():
        return torch.stack([way[int(found[:-1].argmin())], points[1]]), False
    at, (gradient, hessian) = points[0], sums
    slope = gradient + chosen * penalty(at.shape) * at
    return torch.stack([at - steps(hessian, slope[None], chosen[None])[0], at]), True


def leave_out(starts: Tensor, gradient: Tensor, hessian: Tensor, ridges: Tensor) -> Tensor:
    """Return the models without each fold, by one Newton step from `starts`, for each ridge.

    Starts and the gradients of the other folds' losses there are ``(folds, outputs, q)``; `hessian`
    has the triangles of the Hessians. The models are ``(folds, ridges, outputs, q)``.
    """
    folds, found = len(starts), []
    ridges = ridges * (folds - 1) / folds  # relative to the number of rows
    for at, slope, curved in zip(starts, gradient, hessian, strict=True):
        slopes = slope + ridges[:, None, None] * penalty(at.shape) * at
        found.append(at - steps(curved, slopes, ridges))
    return torch.stack(found)


def unfold(sums: dict[str, Tensor], outputs: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Return each block's gradients ``(..., outputs, q)`` and Hessians' triangles."""
    gradients = blocks(sums["gradient"], outputs)
    sizes = [g.shape[-2] * g.shape[-1] for g in gradients]
    parts = torch.split(sums["hessian"], [n * (n + 1) // 2 for n in sizes], dim=-1)
    return list(zip(gradients, parts, strict=True))
