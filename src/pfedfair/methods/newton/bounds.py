"""What the sums of a client with so many rows cannot be: checks of messages of `Newton`.

Cross-entropy is convex, and it is the number of rows times log(classes) for a model of zeros. Its
slope in an intercept is at most 1 for each row, and its curvature there at most 1/4.
"""

from collections.abc import Mapping
from math import log

import torch
from torch import Tensor

from pfedfair.methods.newton.design import symmetric
from pfedfair.methods.newton.likelihood import PARTS
from pfedfair.methods.newton.sums import blocks

SLACK = 1e-3  # relative, for rounding errors: Hessians are in single precision
FACTORED = 2000  # coefficients of a Hessian that is factored; of larger ones, the diagonal is read


def impossible(message: Mapping[str, Tensor], server: Mapping[str, Tensor], rows: int) -> str:
    """Return why sums over at most `rows` rows cannot be these, or "".

    `server` is the state that they answer, not of the last stage.
    """
    points, names = server["points"], ("rows", "outputs", "loss", "gradient", "hessian")
    if missing := [name for name in names if name not in message]:
        return f"'{missing[0]}' is missing"
    counted = float(message["rows"].sum())
    if counted > rows * (1 + SLACK):
        return f"it counts {counted:g} of {rows} rows"
    total, given = points.shape[1], message["outputs"].flatten()
    whole = bool(((given - given.round()).abs() < SLACK).all()) and float(given.min()) >= 1
    if not whole or total % int(given.round().sum()):
        return f"'outputs' are {given.tolist()}, for a model of {total} coefficients"
    outputs = [int(k) for k in given.round()]
    q = total // sum(outputs)
    numbers = sum(k * q * (k * q + 1) // 2 for k in outputs)
    shapes = {"loss": (len(outputs), len(PARTS)), "gradient": (len(message["rows"]), total)}
    shapes["hessian"] = (len(message["rows"]), numbers)
    for name, shape in shapes.items():
        if tuple(message[name].shape) != shape:
            return f"'{name}' has shape {tuple(message[name].shape)}, not {shape}"
    limit = counted * (1 + SLACK)
    for name in ("loss", "held_loss"):
        if name in message and float(message[name].min()) < -SLACK:
            return f"'{name}' is negative"
    gradients, parts = blocks(message["gradient"].sum(0), outputs), message["hessian"].sum(0)
    triangles = torch.split(parts, [k * q * (k * q + 1) // 2 for k in outputs])
    for k, loss, gradient, triangle in zip(
        outputs, message["loss"], gradients, triangles, strict=True
    ):
        usual = counted * log(max(2, k))
        if not bool(points.any()) and bool(((loss - usual).abs() > SLACK * usual).any()):
            return f"'loss' of a model of zeros is {float(loss[0]):g}, not {usual:g}"
        if float(gradient[:, -1].abs().max()) > limit:
            return f"'gradient' has a slope of more than 1 for each of {counted:g} rows"
        matrix = symmetric(triangle)
        if float(matrix.diagonal()[q - 1 :: q].max()) > limit / 4:
            return f"'hessian' has a curvature of more than 1/4 for each of {counted:g} rows"
        if not is_convex(matrix):
            return "'hessian' is not positive semidefinite"
    return ""


def is_convex(matrix: Tensor) -> bool:
    """Return whether a symmetric matrix is positive semidefinite, up to rounding errors."""
    diagonal = matrix.diagonal()
    if float(diagonal.min()) < 0 or len(matrix) > FACTORED:
        return float(diagonal.min()) >= 0
    lift = SLACK * float(diagonal.max()) + torch.finfo(matrix.dtype).tiny
    _, failed = torch.linalg.cholesky_ex(matrix + lift * torch.eye(len(matrix)).to(matrix))
    return not bool(failed)
