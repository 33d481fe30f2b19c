r"""The Moreau envelope, which pFedMe, Ditto and pFedFair share.

.. math:: L^{(\gamma)}(w) = \min_\theta L(\theta) + \frac{\gamma}{2} \|\theta - w\|^2

The minimiser theta(w) is the personal model; the envelope's gradient is gamma (w - theta(w)).
"""

from dataclasses import dataclass

from torch import Tensor

from pfedfair._util.errors import known
from pfedfair.federation import Batch
from pfedfair.methods.base import BY_GRADIENTS, Clients, Method, State, Tuning
from pfedfair.methods.checks import above_zero, at_least, zero_or_more
from pfedfair.models.optimisers import OPTIMISERS, Step
from pfedfair.penalties.objective import Objective

PROX_EPOCHS_FROM = 1_000_000  # epoch numbers of the final solve: a stream of their own


@dataclass(frozen=True, kw_only=True)
class Moreau(Method):
    """Hyper-parameters of a personal model that is tied to the global one.

    Attributes
    ----------
    gamma
        How strongly a personal model is tied to the global one. 0: not at all.
    K
        Inner steps on each minibatch.
    alpha_inner
        Step size of the inner steps and of the final solve.
    inner
        Their optimiser, "adam" or "sgd".
    prox_epochs
        Epochs of the final solve, from the last global model, over all of a client's rows.
    """

    gamma: float = 0.01
    K: int = 5
    alpha_inner: float = 1e-3
    inner: str = "adam"
    prox_epochs: int = 30

    supports = BY_GRADIENTS
    tuning = Tuning(personal=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        known("inner optimiser", self.inner, OPTIMISERS)
        at_least(1, self, "K")
        at_least(0, self, "prox_epochs")
        zero_or_more(self, "gamma")
        above_zero(self, "alpha_inner")

    def inner_step(self) -> Step:
        return OPTIMISERS[self.inner](self.alpha_inner, self.ridge)

    def prox(self, objective: Objective, w: Tensor, clients: Clients, batch: Batch) -> Tensor:
        """Approximate argmin of objective(theta) + gamma/2 ||theta - w||^2 by K steps from w."""
        theta = w.clone()
        clients.descend(objective, theta, self.inner_step(), [batch] * self.K, self.gamma, w)
        return theta

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        """Solve the prox problem at the last w, over each client's full training data.

        The paper's output is from before the last server step, which belongs to an older w.
        """
        return self.solve(clients.replicate(server["w"]), server["w"], clients)

    def solve(self, theta: Tensor, w: Tensor, clients: Clients) -> Tensor:
        """Minimise objective(theta) + gamma/2 ||theta - w||^2 in place, from `theta` on."""
        epochs = range(PROX_EPOCHS_FROM, PROX_EPOCHS_FROM + self.prox_epochs)
        step = self.inner_step()
        clients.learn(self.objective, theta, step, epochs, self.batch, self.gamma, w)
        return theta
