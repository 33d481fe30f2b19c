"""Ditto (Li, Hu, Beirami and Smith, ICML 2021): FedAvg, and a personal model along with it.

The global model w is FedAvg's and never sees the personal ones. Client i carries v_i from round
to round, with steps on F_i(v) + gamma/2 ||v - w||^2. With eta > 0 the personal loss F_i is the
fair one while the global model's stays cross-entropy: fairness at the clients only.
"""

from dataclasses import dataclass
from typing import TypedDict

from torch import Tensor

from pfedfair.methods.base import Answer, Clients, Cost, Model, State, States
from pfedfair.methods.moreau import Moreau
from pfedfair.penalties.objective import Objective


class OwnState(TypedDict):
    v: Model  # its personal model


@dataclass(frozen=True, kw_only=True)
class Ditto(Moreau):
    """Ditto's Algorithm 1; then the final solve of `Moreau`, from v_i (`prox_epochs=0`: none)."""

    states = States(own=OwnState)

    def cost(self) -> Cost:
        return Cost(2 * self.epochs, self.prox_epochs)

    def start_clients(self, server: State, own: State, clients: Clients) -> State:
        return {"v": clients.replicate(server["w"])}

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w, v = clients.replicate(server["w"]), own["v"].clone()
        step, personal_step = self.step(), self.inner_step()
        for batch in self.minibatches(clients, t):
            clients.descend(Objective(), w, step, [batch])
            clients.descend(self.objective, v, personal_step, [batch], self.gamma, server["w"])
        return {"w": w}, {"v": v}

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.solve(own["v"].clone(), server["w"], clients)
