"""pFedMe (T. Dinh, Tran and Nguyen, NeurIPS 2020): minimise the mean Moreau envelope.

With eta > 0 the envelope is that of the fair loss: pFedMe + KDE in the paper.
"""

from dataclasses import dataclass

from torch import Tensor

from pfedfair.methods.base import Answer, Clients, Cost, State
from pfedfair.methods.checks import above_zero
from pfedfair.methods.moreau import Moreau


@dataclass(frozen=True, kw_only=True)
class PFedMe(Moreau):
    """pFedMe's Algorithm 1.

    Attributes
    ----------
    beta
        How far the server moves to the clients' mean (its equation for w at the server).
    """

    beta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        above_zero(self, "beta")

    def cost(self) -> Cost:
        return Cost(self.K * self.epochs, self.prox_epochs)

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w = clients.replicate(server["w"])
        step = self.step()
        for batch in self.minibatches(clients, t):
            theta = self.prox(self.objective, w, clients, batch)  # line 7
            step(w, self.gamma * (w - theta))  # line 8: the gradient of the envelope
        return {"w": w}, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:  # line 11
        mean = super().server_round(server, messages, sizes)
        return {"w": (1 - self.beta) * server["w"] + self.beta * mean["w"]}
