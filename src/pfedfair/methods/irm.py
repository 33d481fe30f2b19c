r"""IRM: Arjovsky, Bottou, Gulrajani and Lopez-Paz, "Invariant Risk Minimization", 2019
(arXiv:1907.02893), with the groups of S as environments.

A model is invariant if no environment would rather have its logits scaled. With R_e the mean loss
of the rows of environment e and z their logits, IRMv1 is

.. math::
    \min_w \frac{1}{\max(1, \lambda)} \, \frac1E \sum_e
    \Bigl[ R_e(z) + \lambda \Bigl( \frac{d}{dk} R_e(k z) \Big|_{k = 1} \Bigr)^2 \Bigr]

The derivative at the dummy scale k = 1 is known: the mean over e of z times d(loss)/dz. For the
first `warmup` steps lambda is at most 1; then the optimiser is restarted. E is the number of
environments with rows in a minibatch.

It does not aim at equal decisions, but at scores with the same meaning in both groups.

Differs from the paper: environments are groups of S. The dummy scale, the warm-up, the new
optimiser and the division by lambda are those of the authors' Colored MNIST and of DomainBed (which
has lambda 100 and 500 steps); the warm-up is at most half of all steps, as lambda would otherwise
never be used in a short training. DomainBed multiplies the derivatives of two halves of a minibatch
(no bias); we square that of all. The authors' weight decay is the setting `ridge`, which is
divided too.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pfedfair.federation import Batch
from pfedfair.methods.base import ANY_TASK, Clients, Dial, State
from pfedfair.methods.checks import at_least, no_eta, zero_or_more
from pfedfair.methods.local import Local
from pfedfair.models.optimisers import OPTIMISERS
from pfedfair.penalties.objective import loss_slope, losses, slope_of


@dataclass(frozen=True, kw_only=True)
class IRM(Local):
    """IRMv1 on each client's rows; groups of S are the environments.

    Attributes
    ----------
    lam
        Weight of the squared derivatives; 0 is the mean of the groups' risks.
    warmup
        Steps with a weight of at most 1, but at most half of all steps.
    """

    lam: float = 100.0
    warmup: int = 500

    supports = ANY_TASK
    place = "centralised"
    dial = Dial(
        setting="lam",
        levels=({"lam": 0.0}, {"lam": 1.0}, {"lam": 10.0}, {"lam": 100.0}, {"lam": 1000.0}),
        hint="train longer, lower lam or raise alpha",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        no_eta(self)
        zero_or_more(self, "lam")
        at_least(0, self, "warmup")

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        theta = clients.replicate(server["w"])
        warm = min(self.warmup, self.rounds * self.epochs * clients.steps(self.batch) // 2)
        batches = (batch for t in range(self.rounds) for batch in self.minibatches(clients, t))
        optimiser, step = OPTIMISERS[self.optimiser], self.step()
        for k, batch in enumerate(batches):
            if k == warm and self.lam > 1:
                step = optimiser(self.alpha, self.ridge / self.lam)
            lam = min(1.0, self.lam) if k < warm else self.lam
            step(theta, self.gradient(theta, clients, batch, lam))
        return theta

    def gradient(self, theta: Tensor, clients: Clients, batch: Batch, lam: float) -> Tensor:
        """Return every client's gradient with a weight `lam`, ``(clients, p)``."""
        groups = clients.table.task.groups

        def slope(logits: Tensor) -> Tensor:
            return slope_of(lambda z: value(z, batch, groups, lam), logits)

        return clients.network.gradient(theta, batch.x, batch.s, slope)


def value(logits: Tensor, batch: Batch, groups: int, lam: float) -> Tensor:
    """Return the objective of every row, ``(rows,)``; groups without samples are ignored."""
    weight = batch.weight.unsqueeze(-1) * one_hot(batch.s, groups)
    share = weight.sum(1, keepdim=True)
    weight = weight / share.clamp(min=torch.finfo(weight.dtype).tiny)
    scaled = (loss_slope(logits, batch._replace(weight=torch.ones_like(batch.y))) * logits).sum(-1)
    risk = torch.einsum("rne,rn->re", weight, losses(logits, batch))
    derivative = torch.einsum("rne,rn->re", weight, scaled)
    present = (share[:, 0] > 0).sum(1).clamp(min=1)
    return (risk + lam * derivative**2).sum(1) / present / max(1.0, lam)
