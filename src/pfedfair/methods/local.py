"""Local training: every client trains on its own rows, and sends nothing.

ERM(local) in the paper; with eta > 0, KDE(local). With all rows at one client
(``partition.together()``) it is centralised training. Methods with other objectives derive from it
and override `gradients`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from pfedfair.federation import Batch
from pfedfair.methods.base import BY_GRADIENTS, Clients, Cost, Method, Phase, State, Tuning

Gradient = Callable[[Tensor, Batch], Tensor]  # of models (clients, p) and a minibatch, (clients, p)


@dataclass(frozen=True, kw_only=True)
class Local(Method):
    """`rounds` times `epochs` passes over the client's own rows, from the common initial model."""

    supports = BY_GRADIENTS
    place = "local"
    tuning = Tuning(personal=True)

    @property
    def phases(self) -> tuple[Phase, ...]:
        return ()

    def cost(self) -> Cost:
        return Cost(0.0, self.rounds * self.epochs)

    def gradients(self, clients: Clients) -> Gradient:
        """Return the function of gradients in training, after any preparation."""
        return partial(clients.gradient, self.objective)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.descend(clients.replicate(server["w"]), clients, self.gradients(clients))

    def descend(self, theta: Tensor, clients: Clients, gradient: Gradient) -> Tensor:
        """Take all steps of training on the models `theta`, in place."""
        step = self.step()
        for t in range(self.rounds):
            for batch in self.minibatches(clients, t):
                step(theta, gradient(theta, batch))
        return theta
