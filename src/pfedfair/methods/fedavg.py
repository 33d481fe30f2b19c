"""FedAvg (McMahan et al., AISTATS 2017): local steps from the global model, then the mean.

With eta > 0 every client steps on its fair loss: FedAvg + KDE in the paper. One model for all.
"""

from dataclasses import dataclass

from pfedfair.methods.base import BY_GRADIENTS, Answer, Clients, Method, State


@dataclass(frozen=True, kw_only=True)
class FedAvg(Method):
    """One epoch of local steps per round."""

    supports = BY_GRADIENTS

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        w = clients.replicate(server["w"])
        clients.learn(self.objective, w, self.step(), self.epochs_of(t), self.batch)
        return {"w": w}, {}
