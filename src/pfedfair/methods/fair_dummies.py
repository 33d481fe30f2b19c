r"""Fair dummies: Romano, Bates and Candes, "Achieving Equalized Odds by Resampling Sensitive
Attributes", NeurIPS 2020 (RES in tables of others, though no row is resampled).

A fair dummy is another S for the same row, drawn given only the label: s~ from P(S | Y = y), the
client's own shares, anew in every epoch. If decisions have equal odds, nothing distinguishes
(chance, S, Y) from (chance, S~, Y). An adversary d, a small network, tries to:

.. math::
    A(d, f) = \tfrac12 E \, h(-d(f, s, y)) + \tfrac12 E \, h(d(f, \tilde s, y)), \qquad
    h(v) = \log(1 + e^v), \qquad \min_d A

with f the chances of the labels by the model, S and Y one-hot. The model takes the loss of the
adversary with the answers exchanged, and a covariance:

.. math::
    \min_w \; (1 - \mu) \, E \, \ell(w; x, y) + \mu \Bigl[
    \tfrac12 E \, h(d(f, s, y)) + \tfrac12 E \, h(-d(f, \tilde s, y))
    + c \, \| \mathrm{cov}(f, s) - \mathrm{cov}(f, \tilde s) \|^2 \Bigr]

In every minibatch the adversary takes a step, then the model does. It aims at equalised odds: equal
rates among rows of the same label, not equal rates.

Differs from the authors' code (yromano/fair_dummies): there d takes logits, has three layers, goes
over all rows between two steps of the model, and both are pretrained separately; here d takes
chances and has one layer of `width`, steps alternate, without pretraining. The covariance
there is that of the full vector, of which only the part above depends on the model (twice).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot, softplus

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.task import Task, outputs
from pfedfair.federation import Batch
from pfedfair.methods.base import ANY_TASK, Clients, Dial, State
from pfedfair.methods.checks import above_zero, at_least, no_eta, zero_or_more
from pfedfair.methods.local import Local
from pfedfair.models import MLP
from pfedfair.models.optimisers import Adam
from pfedfair.penalties.objective import loss, loss_slope, slope_of


@dataclass(frozen=True, kw_only=True)
class FairDummies(Local):
    """Local training against an adversary that looks for S in chances, given Y.

    Attributes
    ----------
    mu
        Weight of fairness, 1 - mu that of the loss.
    second
        The paper's weight of the covariance (second moments), c above.
    width
        Units of the adversary's layer.
    alpha_adversary
        The adversary's step size (Adam).
    """

    mu: float = 0.9
    second: float = 10.0
    width: int = 32
    alpha_adversary: float = 3e-3

    supports = ANY_TASK
    place = "centralised"
    dial = Dial(
        setting="mu",
        levels=({"mu": 0.0}, {"mu": 0.5}, {"mu": 0.8}, {"mu": 0.9}, {"mu": 0.97}),
        hint="train longer, lower mu or raise alpha",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        no_eta(self)
        if not 0 <= self.mu < 1:
            raise InputError(f"mu must be in [0, 1), got {self.mu:g}.")
        zero_or_more(self, "second")
        at_least(1, self, "width")
        above_zero(self, "alpha_adversary")

    def adversary(self, task: Task) -> MLP:
        """Return the network d, of chances, S and Y."""
        return MLP(outputs(task.classes) + task.groups + task.classes, (self.width,))

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        task, cells = clients.table.task, clients.cells()
        theta, adversary = clients.replicate(server["w"]), self.adversary(task)
        streams = [seeds.generator(clients.seed, seeds.ADVERSARY, i) for i in clients.ids]
        d = torch.stack([adversary.init(rng) for rng in streams])
        step, answer = self.step(), Adam(self.alpha_adversary)
        for epoch in range(self.rounds * self.epochs):
            rngs = [seeds.generator(clients.seed, seeds.DUMMY, i, epoch) for i in clients.ids]
            for batch in clients.epoch(epoch, self.batch):
                dummy = dummies(cells, batch, rngs)
                logits, pullback = clients.network.vjp(theta, batch.x, batch.s)
                answer(d, guess_gradient(adversary, d, logits, batch, dummy, task))

                def value(z: Tensor, batch: Batch = batch, dummy: Tensor = dummy) -> Tensor:
                    return self.value(z, batch, dummy, adversary, d, task)

                step(theta, pullback(slope_of(value, logits)))
        return theta

    def value(
        self, logits: Tensor, batch: Batch, dummy: Tensor, adversary: MLP, d: Tensor, task: Task
    ) -> Tensor:
        """Return the model's objective in every row, ``(rows,)``."""
        shown, weight = pairs(logits, batch, dummy, task)
        answers = adversary.logits(d, shown, batch.s)[..., 0]
        fooled = (weight * softplus(torch.where(is_true(shown), answers, -answers))).sum(1)
        moved = (one_hot(batch.s, task.groups) - one_hot(dummy, task.groups)).to(logits)
        f = chances(logits)
        centred = f - torch.einsum("rn,rnc->rc", batch.weight, f).unsqueeze(1)
        gap = torch.einsum("rn,rnc,rng->rcg", batch.weight, centred, moved)
        fair = fooled + self.second * gap.square().sum((1, 2))
        return (1 - self.mu) * loss(logits, batch) + self.mu * fair


def chances(logits: Tensor) -> Tensor:
    """Return the model's probability of the second label, or of each of more than two."""
    return logits.softmax(-1) if logits.shape[-1] > 1 else logits.sigmoid()


def pairs(logits: Tensor, batch: Batch, dummy: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Return the adversary's inputs, with the true S and then with dummies, and their weights."""
    label = one_hot(batch.y.long(), task.classes).to(logits)
    f, groups = chances(logits), task.groups
    both = [torch.cat([f, one_hot(s, groups).to(f), label], -1) for s in (batch.s, dummy)]
    return torch.cat(both, 1), torch.cat([batch.weight, batch.weight], 1) / 2


def is_true(shown: Tensor) -> Tensor:
    """Return which of `pairs` have the true S: the first half, ``(n,)``."""
    return torch.arange(shown.shape[1]) < shown.shape[1] // 2


def guess_gradient(
    adversary: MLP, d: Tensor, logits: Tensor, batch: Batch, dummy: Tensor, task: Task
) -> Tensor:
    """Return every adversary's gradient of A, ``(rows, size)``."""
    shown, weight = pairs(logits, batch, dummy, task)
    answers, pullback = adversary.vjp(d, shown, batch.s)
    true = is_true(shown).to(weight).expand_as(weight)
    return pullback(loss_slope(answers, Batch(shown, true, true, weight)))


def dummies(cells: Tensor, batch: Batch, rngs: Sequence[np.random.Generator]) -> Tensor:
    """Draw every row's fair dummy from P(S | Y), by counts ``(rows, classes, groups)``.

    Each model has its own stream, from which its rows draw, but not the padding.
    """
    limit = cells.cumsum(2)
    draws = torch.zeros(batch.y.shape, dtype=torch.float64)
    for row_draws, weight, rng in zip(draws, batch.weight, rngs, strict=True):
        real = weight > 0
        row_draws[real] = torch.from_numpy(rng.random(int(real.sum())))
    row = torch.arange(len(limit)).unsqueeze(1)
    upto = limit[row, batch.y.long()].double()  # (rows, n, groups)
    passed = (draws.unsqueeze(-1) * upto[..., -1:] >= upto).sum(-1)
    return passed.clamp(max=cells.shape[2] - 1)
