"""Local training: every client on its own, nothing is sent.

ERM(local) in the paper; with eta > 0, KDE(local).
"""

from dataclasses import dataclass

from torch import Tensor

from pfedfair.algorithms.base import Algorithm, Clients, State


@dataclass(frozen=True, kw_only=True)
class Local(Algorithm):
    """`rounds` times `epochs` passes over the client's own rows, from the common initial model."""

    federated = False
    personal = True

    def cost(self) -> tuple[float, float]:
        return 0.0, float(self.rounds * self.epochs)

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        theta = clients.replicate(server["w"])
        step = self.step()
        for t in range(self.rounds):
            for batch in self.minibatches(clients, t):
                step(theta, clients.gradient(self.objective, theta, batch))
        return theta
