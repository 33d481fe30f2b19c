"""What the server of `Newton` makes of the sums: steps, and models left without a fold."""

import torch
from torch import Tensor

from pfedfair.algorithms.curvature import blocks
from pfedfair.algorithms.design import whole
from pfedfair.algorithms.likelihood import PARTS


def penalty(shape: torch.Size) -> Tensor:
    """Where a ridge counts, for coefficients ``(outputs, q)``: everywhere but at intercepts."""
    found = torch.ones(shape, dtype=torch.float64)
    found[:, -1] = 0.0
    return found


def value(loss: Tensor, coefficients: Tensor, ridge: Tensor) -> Tensor:
    """The objective of coefficients ``(points, outputs, q)`` with losses ``(points,)``."""
    size = (coefficients[..., :-1] ** 2).sum((1, 2))
    return loss + ridge * size / 2


def step(hessian: Tensor, slope: Tensor, ridge: Tensor) -> Tensor:
    """The Newton step of a block, of the slope's shape ``(outputs, q)``.

    `slope` is the whole objective's, `hessian` that of the losses alone.
    """
    outputs, q = slope.shape
    curved = hessian.clone()
    curved.diagonal().add_(ridge * penalty(slope.shape).flatten())
    if outputs > 1:  # all intercepts together may move freely, and need not
        at = torch.arange(1, outputs + 1) * q - 1
        curved[at[:, None], at] += hessian.diagonal()[at].mean() / outputs
    factor, failed = torch.linalg.cholesky_ex(curved)
    lift = 1e-10
    while failed:  # rounding in the products may leave what is almost flat below 0
        lifted = curved.diagonal().mean() * torch.eye(len(curved), dtype=curved.dtype)
        factor, failed = torch.linalg.cholesky_ex(curved + lift * lifted)
        lift *= 10
    return torch.cholesky_solve(slope.reshape(-1, 1), factor).view(slope.shape)


def advance(
    points: Tensor, loss: Tensor, sums: tuple[Tensor, Tensor], ridge: Tensor, chosen: Tensor
) -> tuple[Tensor, bool]:
    """A block's next points ``(2, outputs, q)``, asked and accepted, and whether the first was.

    If the objective is not lower at the point that was asked for, the next is the lowest on the
    way there; otherwise a Newton step from it, by the ridge that has just been `chosen`. `sums` are
    the losses' gradient and Hessian.
    """
    way = points[1] + PARTS[:, None, None] * (points[0] - points[1])
    found = value(loss, way, ridge)
    if found[0] > found[-1] + 1e-12 * found[-1].abs():
        return torch.stack([way[int(found[:-1].argmin())], points[1]]), False
    at, (gradient, hessian) = points[0], sums
    slope = gradient + chosen * penalty(at.shape) * at
    return torch.stack([at - step(hessian, slope, chosen), at]), True


def left_out(starts: Tensor, gradient: Tensor, hessian: Tensor, ridges: Tensor) -> Tensor:
    """The models without each fold, by one Newton step, for each ridge.

    From `starts` ``(folds, outputs, q)``, the gradients there of the other folds' losses, of the
    same shape, and the Hessians of each fold's. The models are ``(folds, ridges, outputs, q)``.
    """
    folds, found, total = len(starts), [], hessian.sum(0)
    for at, slope, own in zip(starts, gradient, hessian, strict=True):
        curved = total - own
        for ridge in ridges * (folds - 1) / folds:  # it is against the mean loss
            found.append(at - step(curved, slope + ridge * penalty(at.shape) * at, ridge))
    return torch.stack(found).view(folds, len(ridges), *starts.shape[1:])


def unfolded(sums: dict[str, Tensor], outputs: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Gradients ``(..., outputs, q)`` and Hessians of every block, from a message's tensors."""
    gradients = blocks(sums["gradient"], outputs)
    sizes = [g.shape[-2] * g.shape[-1] for g in gradients]
    parts = torch.split(sums["hessian"], [n * (n + 1) // 2 for n in sizes], dim=-1)
    return [(gradient, whole(part)) for gradient, part in zip(gradients, parts, strict=True)]
