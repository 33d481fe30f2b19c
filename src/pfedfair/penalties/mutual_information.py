r"""Mutual information between a soft prediction and S, in two forms.

`mutual_information` is the plug-in value for the joint distribution of the soft *decision*,
:math:`\sum p(y, s) \log \frac{p(y, s)}{p(y) p(s)}` (Kamishima et al. 2012).

`adversarial_mutual_information` measures the *score*: an adversary predicts S from it, and

.. math:: I(\text{score}; S) \ge H(S) + \max_q E \log q(S \mid \text{score})

(Cho, Hwang and Suh, "A fair classifier using mutual information", ISIT 2020). The adversary here is
a logistic regression on the score and its square (with a small ridge, so that its weights stay
finite), solved to its optimum by Newton's method in every call. By the envelope theorem its
weights are constants for the gradient.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from pfedfair.penalties.joint import product, soft_joint


def mutual_information(logits: Tensor, y: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """Return the mutual information of soft decision and S in nats, ``(rows,)``."""
    joint = soft_joint(logits, s, weight)
    ratio = joint.clamp_min(torch.finfo(joint.dtype).tiny) / product(joint)
    return (joint * ratio.log()).sum((-1, -2))


def adversarial_mutual_information(
    logits: Tensor,
    y: Tensor,
    s: Tensor,
    weight: Tensor,
    newton_steps: int = 12,
    ridge: float = 1e-4,
) -> Tensor:
    """Return the adversary's lower bound on the mutual information of score and S, ``(rows,)``.

    S is binary. For a row with one group only it is 0.
    """
    score = torch.sigmoid(logits[..., 0])
    clues = torch.stack([torch.ones_like(score), score, score**2], dim=-1)
    beta = _adversary(clues.detach(), s, weight, newton_steps, ridge)
    guess = (clues * beta[:, None, :]).sum(-1)
    signed = torch.where(s == 1, guess, -guess)
    share = (weight * s).sum(1)
    entropy = torch.special.entr(share) + torch.special.entr(1 - share)
    # The adversary maximises its likelihood less the ridge; so must the value, for the envelope.
    bound = entropy + (weight * logsigmoid(signed)).sum(1) - ridge / 2 * (beta**2).sum(1)
    both = [((weight > 0) & (s == z)).any(1) for z in (0, 1)]  # a share of 1 may be rounded
    return torch.where(both[0] & both[1], bound, torch.zeros_like(bound))


@torch.no_grad()
def _adversary(clues: Tensor, s: Tensor, weight: Tensor, steps: int, ridge: float) -> Tensor:
    """Weighted logistic regression of S on the clues by Newton's method, ``(rows, clues)``."""
    beta = clues.new_zeros(clues.shape[0], clues.shape[2])
    penalty = ridge * torch.eye(clues.shape[2], dtype=clues.dtype)
    for _ in range(steps):
        guess = torch.sigmoid((clues * beta[:, None, :]).sum(-1))
        slope = (clues * (weight * (s - guess))[..., None]).sum(1) - ridge * beta
        curvature = clues.mT @ (clues * (weight * guess * (1 - guess))[..., None]) + penalty
        beta = beta + torch.linalg.solve(curvature, slope)
    return beta
