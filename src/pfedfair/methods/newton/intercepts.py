r"""Personal intercepts of clients, with a Gaussian prior estimated from all of them.

Client i adds :math:`u_i \sim N(0, \tau^2)` to the logits of all of its rows. For given coefficients
it solves for the best u_i locally, so the server's Newton method does not depend on it: the loss is
then the profile over u_i, as are its gradient and (`profile`) its Hessian. The likelihood of each
tau follows from the curvature in u_i (Laplace's method); the server adds up the logarithms and
takes the likeliest tau.
"""

import torch
from torch import Tensor

from pfedfair.methods.newton.likelihood import chances, curvature_of, loss_of, slopes_of

# Candidate values of tau
TAUS = torch.cat([torch.zeros(1), torch.logspace(-2, 0.6, 27)]).double()
STEPS, SMALL = 50, 1e-10


def solve(z: Tensor, y: Tensor, tau: Tensor) -> Tensor:
    """Return the client's u, ``(outputs,)``, from labels and logits ``(n, outputs)`` without it."""
    u = z.new_zeros(z.shape[-1])
    if tau == 0:
        return u

    def value(at: Tensor) -> Tensor:
        return loss_of((z + at)[None], y).sum() + (at**2).sum() / (2 * tau**2)

    best = value(u)
    for _ in range(STEPS):
        chance = chances(z + u)
        slope = slopes_of(chance, y).sum(0) + u / tau**2
        curved = curvature_of(chance).sum(0) + torch.eye(len(u)).to(u) / tau**2
        move = torch.linalg.solve(curved, slope)
        while (found := value(u - move)) > best + SMALL * best.abs():
            move = move / 2
        u, best = u - move, found
        if move.abs().max() <= SMALL:
            break
    return u


def evidence(hessian: Tensor, gradient: Tensor, u: Tensor) -> Tensor:
    """Return the log-likelihood of each tau, up to a constant, ``(taus,)``.

    By the client's loss around u: its gradient ``(outputs,)`` and Hessian in u.
    """
    pull = hessian @ u - gradient
    eye = torch.eye(len(u)).to(u)
    widths = torch.linalg.slogdet(eye + TAUS[:, None, None] ** 2 * hessian)[1]
    inverse = torch.linalg.inv(TAUS[1:, None, None] ** -2 * eye + hessian)
    gain = torch.cat([u.new_zeros(1), (inverse @ pull) @ pull])
    found: Tensor = (gain - widths) / 2
    return found


def profile(hessian: Tensor, at: Tensor, tau: Tensor) -> Tensor:
    """Return a client's Hessian profiled over u, the intercepts at the indices `at`."""
    if tau == 0:
        return hessian
    block = hessian[at[:, None], at] + torch.eye(len(at)).to(hessian) / tau**2
    follows: Tensor = torch.linalg.solve(block, hessian[at])
    return hessian - hessian[:, at] @ follows
