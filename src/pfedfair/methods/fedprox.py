"""FedProx (Li et al., MLSys 2020): FedAvg with a tie to the round's global model.

Client i steps on L_i(w) + mu/2 ||w - w_t||^2, so that a long local epoch does not stray. One model
for all; with eta > 0 on the fair loss.
"""

from dataclasses import dataclass

from pfedfair.methods.base import BY_GRADIENTS, Answer, Clients, Method, State
from pfedfair.methods.checks import zero_or_more


@dataclass(frozen=True, kw_only=True)
class FedProx(Method):
    """One epoch of proximal local steps per round.

    Attributes
    ----------
    mu
        Strength of the tie; 0 is FedAvg.
    """

    mu: float = 0.1

    supports = BY_GRADIENTS

    def __post_init__(self) -> None:
        super().__post_init__()
        zero_or_more(self, "mu")

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w_t, w = server["w"], clients.replicate(server["w"])
        clients.learn(self.objective, w, self.step(), self.epochs_of(t), self.batch, self.mu, w_t)
        return {"w": w}, {}
