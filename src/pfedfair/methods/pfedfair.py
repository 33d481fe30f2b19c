r"""pFedFair (Lei, Gong, Dou and Farnia 2025), Algorithm 1.

.. math::
    \min_w \frac 1 m \sum_i \Bigl\{ L_i(w) + \lambda \min_{\theta_i}
    \bigl[ L_{fair,i}(\theta_i) + \frac{\gamma}{2} \|\theta_i - w\|^2 \bigr] \Bigr\}

The global model w is trained for accuracy; client i's model theta_i is fair, and tied to w.
"""

from dataclasses import dataclass

from pfedfair._util.errors import known
from pfedfair.methods.base import Answer, Clients, Cost, State
from pfedfair.methods.checks import zero_or_more
from pfedfair.methods.moreau import Moreau
from pfedfair.penalties.objective import Objective


@dataclass(frozen=True, kw_only=True)
class PFedFair(Moreau):
    """Algorithm 1 of the paper; its lines are numbered in the code.

    Attributes
    ----------
    lam
        The paper's lambda: weight of the fair envelope in the global model's gradient. With 0
        the global model is FedAvg's, and fairness comes only from the final solve.
    envelope_gradient
        Line 6. "point": the gradient of L_fair at theta_i, as printed (without the slip of adding
        a gradient to a value); "prox": gamma (w - theta_i). Both are the same at the exact argmin.
    """

    eta: float = 0.9
    lam: float = 0.4
    envelope_gradient: str = "point"

    def __post_init__(self) -> None:
        super().__post_init__()
        known("envelope_gradient", self.envelope_gradient, ["point", "prox"])
        zero_or_more(self, "lam")

    def cost(self) -> Cost:
        inner = self.K + (self.envelope_gradient == "point") if self.lam else 0
        return Cost((1 + inner) * self.epochs, self.prox_epochs)

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        clean, fair = Objective(), self.objective
        w = clients.replicate(server["w"])
        step = self.step()
        for batch in self.minibatches(clients, t):
            g = clients.gradient(clean, w, batch)  # line 4
            if self.lam > 0:
                theta = self.prox(fair, w, clients, batch)  # line 5
                if self.envelope_gradient == "point":  # line 6
                    g_fair = clients.gradient(fair, theta, batch)
                else:
                    g_fair = self.gamma * (w - theta)
                g += self.lam * g_fair
            step(w, g)  # line 7: w <- w - alpha (g + lambda g_fair)
        return {"w": w}, {}  # line 8, the mean, is Phase.server_round
