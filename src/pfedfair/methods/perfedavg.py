"""Per-FedAvg (Fallah, Mokhtari and Ozdaglar, NeurIPS 2020), first-order.

The global model is trained to be a good start: minimise the mean of L_i(w - a grad L_i(w)). A
client then takes a few gradient steps on its own training rows (never on test rows). With eta > 0
both losses are fair ones.
"""

from dataclasses import dataclass

from torch import Tensor

from pfedfair.methods.base import BY_GRADIENTS, Answer, Clients, Cost, Method, State, Tuning
from pfedfair.methods.checks import above_zero, at_least
from pfedfair.methods.moreau import PROX_EPOCHS_FROM


@dataclass(frozen=True, kw_only=True)
class PerFedAvg(Method):
    """Algorithm 1 of the paper with the first-order gradient (the Hessian left out).

    Attributes
    ----------
    alpha_inner
        The paper's alpha: step size of the adaptation, by gradient descent.
    adapt_epochs
        Epochs of adaptation at the end.
    """

    alpha_inner: float = 0.01
    adapt_epochs: int = 1

    supports = BY_GRADIENTS
    tuning = Tuning(personal=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "alpha_inner")
        at_least(0, self, "adapt_epochs")

    def cost(self) -> Cost:
        return Cost(2 * self.epochs, self.adapt_epochs)

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w = clients.replicate(server["w"])
        step = self.step()
        passes = (list(clients.epoch(epoch, self.batch)) for epoch in self.epochs_of(t))
        # Each step adapts on one minibatch and is judged on another (the same if there is but one).
        pairs = (pair for b in passes for pair in zip(b, b[1:] + b[:1], strict=True))
        for adapt, judge in pairs:
            grad = clients.gradient(self.objective, w, adapt).add_(w, alpha=self.ridge)
            adapted = w - self.alpha_inner * grad
            step(w, clients.gradient(self.objective, adapted, judge))
        return {"w": w}, {}

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        theta = clients.replicate(server["w"])
        for epoch in range(self.adapt_epochs):
            for batch in clients.epoch(PROX_EPOCHS_FROM + epoch, self.batch):
                grad = clients.gradient(self.objective, theta, batch)
                theta -= self.alpha_inner * grad.add_(theta, alpha=self.ridge)
        return theta
