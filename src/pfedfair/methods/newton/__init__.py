r"""Federated Newton: the optimum of the pooled rows, in a handful of messages. Our own method.

For a network that is linear in its parameters the loss is convex, and what the pooled optimum needs
of a client are sums over its rows. In one message each client sends its loss, gradient and Hessian
at the server's point; the server adds them up and takes Newton's step for

.. math:: \sum_i \sum_{j \in \text{rows of } i} \ell(w; x_j, y_j) + \frac{n \rho}{2} \|w\|^2

with ridge :math:`\rho` on all coefficients but the intercepts, and n rows in all. It is the
objective of scikit-learn's LogisticRegression with C = 1 / (n rho): however heterogeneous the
clients are, the model is that of centralised training. More than two classes: softmax.

A step may be too long. Clients therefore send the losses at 1, 1/2, 1/4, ... of the step as well,
and where the full step does not lower the objective the server takes the best of these.

If no ridge is given it is chosen by federated cross-validation. Each client deals its rows to
`folds` folds, and sends one message with sums by fold. From these the server makes, by one Newton
step each, the models without each fold for seven ridges; in one message the clients answer with
their losses on the folds that these had not seen, and the server keeps the largest ridge whose
loss is within a thousandth of the least. Again, with ridges nearby, from the models without each
fold. Of ten messages four are about ridges, and every one is a Newton step as well; clients
compute nothing once the model has converged. With fewer than eight rounds there is one grid of
ridges instead of two; one round has the ridge 1 / n.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NotRequired, TypedDict

import torch
from torch import Tensor

from pfedfair._util.errors import InputError, known
from pfedfair.data.task import Task
from pfedfair.methods.base import (
    ANY_TASK,
    Answer,
    Averaged,
    Clients,
    Cost,
    Method,
    Model,
    State,
    States,
    Summed,
    SummedCounts,
    Supports,
    Tuning,
)
from pfedfair.methods.checks import at_least
from pfedfair.methods.newton import steps
from pfedfair.methods.newton.bounds import impossible
from pfedfair.methods.newton.intercepts import TAUS
from pfedfair.methods.newton.sums import (
    blocks,
    by_fold,
    held_losses,
    left_gradients,
    model,
    outputs_of,
    own_intercepts,
    rows_by_fold,
)
from pfedfair.models import Network

SUMS, FOLDS, TRIES = "sums", "sums by fold", "models to try"  # kinds of messages
MIDDLE = 1.0  # n times the ridge, before one is chosen
WIDE = 10.0 ** torch.arange(-2, 5, dtype=torch.float64)  # times MIDDLE, the first time
NEAR = 10.0 ** (torch.arange(-3, 4, dtype=torch.float64) / 4)  # times the first choice
ALMOST = 1e-3  # part of a loss that a smaller ridge has to gain, as it converges more slowly
SMALL = 1e-6  # a step at which the method has converged
LONG = 1e-2  # a last step at which it has not, with a warning
DONE = -1
BETWEEN = ("tries", "starts")  # state for the next message only


class ServerState(TypedDict):
    w: Model
    points: Tensor  # coefficients, proposed and last accepted, (2, total)
    ridges: Tensor  # of each block; 0 if not chosen yet
    stage: Tensor  # of the plan, (); -1 after convergence
    useful: Tensor  # the number of messages before, ()
    step: Tensor  # the length of the last step, against the largest coefficient, ()
    tau: NotRequired[Tensor]  # the scale of clients' personal intercepts, ()
    starts: NotRequired[Tensor]  # models without each fold, to start from, (folds, total)
    tries: NotRequired[Tensor]  # models without each fold, for each ridge, (folds, 7, total)


class MessageState(TypedDict):
    # What a client sends: sums over its rows; after convergence, only their number
    rows: SummedCounts  # their number, or their weight, by fold
    outputs: NotRequired[Averaged]  # of each block
    loss: NotRequired[Summed]  # of each block, on the line to the proposed point
    gradient: NotRequired[Summed]  # by fold
    hessian: NotRequired[Summed]  # by fold, upper triangles
    left_gradient: NotRequired[Summed]  # of all rows but a fold's, at the model without it
    evidence: NotRequired[Summed]  # the log-likelihood of each tau
    held_loss: NotRequired[Summed]  # of each block and ridge


@dataclass(frozen=True, kw_only=True)
class Newton(Method):
    """Newton's method on sums of gradients and Hessians.

    Attributes
    ----------
    rounds
        The maximal number of messages.
    ridge
        Weight of ||w||^2 / 2 relative to the mean loss, without intercepts. 0: by cross-validation.
    folds
        Of the cross-validation.
    weighting
        Whether a client counts by its "size", as in centralised training, or all clients equally
        ("uniform").
    intercepts
        "shared", or "personal": each client has its own, see `intercepts.py`.
    """

    rounds: int = 10
    weighting: str = "size"
    folds: int = 5
    intercepts: str = "shared"

    states = States(ServerState, MessageState)
    tuning = Tuning(tuned=False, model="additive")

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "folds")
        known("intercepts", self.intercepts, ["shared", "personal"])
        if self.eta > 0:
            raise InputError("Newton minimises cross-entropy only: leave out eta.")

    @property
    def supports(self) -> Supports:
        weights = self.intercepts == "shared"
        return replace(ANY_TASK, weights=weights, wrapping=True, linear_only=True)

    @property
    def sums(self) -> dict[str, str]:
        return super().sums if self.weighting == "size" else {}

    @property
    def scorer_state(self) -> tuple[str, ...]:
        personal = ("points", "tau") if self.intercepts == "personal" else ()
        return ("w", "step", *personal)

    def warning(self, server: State) -> str:
        if float(server["step"]) <= LONG:
            return ""
        return (
            f"Newton's method has not converged after {self.rounds} messages: its last step was "
            f"{float(server['step']):.0%} of the largest coefficient. Perhaps some columns "
            "separate the labels perfectly; more rounds, or a ridge, help."
        )

    @property
    def plan(self) -> tuple[str, ...]:
        """Return the kinds of messages in order; the last one is repeated."""
        if self.ridge > 0 or self.rounds == 1:
            return (SUMS,)
        times = 2 if self.rounds >= 8 else 1
        before = min(3, max(0, self.rounds - 1 - 2 * times))
        return (SUMS,) * before + (FOLDS, TRIES) * times + (SUMS,)

    def about(self, stage: Tensor) -> str:
        """Return the kind of message of a stage."""
        return self.plan[min(int(stage), len(self.plan) - 1)]

    def network(self, default: Network, task: Task) -> Network:
        default.design(
            torch.zeros(1, 0, 1), torch.zeros(1, 0, dtype=torch.int64)
        )  # raises if it is not linear
        return default

    def cost(self) -> Cost:
        return Cost(1.0)

    def scorers(self, server: State, clients: Clients) -> Tensor:
        if "tau" not in server:
            return clients.share(server["w"])
        found = clients.replicate(server["w"])
        outputs = outputs_of(clients)
        coefficients = blocks(server["points"][:1], outputs)[0]
        end = coefficients[0].numel()  # of the first block, whose intercepts are last
        u = own_intercepts(clients, coefficients, self.folds, server["tau"])[:, 0]
        found[:, end - outputs[0] : end] += u.to(found)
        return found

    def personalise(self, server: State, own: State, clients: Clients) -> Tensor:
        return self.scorers(server, clients)

    def impossible(self, message: State, server: State, sizes: Sequence[int]) -> str:
        why = super().impossible(message, server, sizes)
        return why or ("" if server["stage"] == DONE else impossible(message, server, sum(sizes)))

    def start_server(self, server: State, sizes: Tensor) -> State:
        w = server["w"]
        prior = torch.zeros((), dtype=torch.float64)
        personal = {"tau": prior} if self.intercepts == "personal" else {}
        return personal | {
            "w": torch.zeros_like(w),
            "points": torch.zeros(2, len(w), dtype=torch.float64),
            "ridges": torch.zeros(1, dtype=torch.float64),
            "stage": torch.tensor(0),
            "useful": torch.tensor(0),
            "step": torch.zeros((), dtype=torch.float64),
        }

    def client_round(self, server: State, own: State, clients: Clients, t: int) -> Answer:
        if server["stage"] == DONE:
            return {"rows": rows_by_fold(clients, 1).clone()}, {}
        about, points, tau = self.about(server["stage"]), server["points"], server.get("tau")
        message = by_fold(clients, points, self.folds, about == FOLDS, tau)
        if about == TRIES:
            message |= held_losses(clients, server["tries"], points, tau)
        if "starts" in server:
            message |= left_gradients(clients, server["starts"], points, tau)
        return message, {}

    def server_round(self, server: State, messages: State, sizes: Tensor) -> State:
        after = {name: tensor.clone() for name, tensor in server.items() if name not in BETWEEN}
        if server["stage"] == DONE:
            return after
        rows = messages["rows"].sum(1)
        outputs = [int(k) for k in messages["outputs"][0]]
        share = torch.ones_like(rows)
        if self.weighting == "uniform":
            share = rows.mean() / rows.clamp(min=1)
        names = set(messages) - {"rows", "outputs", "evidence"}
        total = {name: weighted_sum(messages[name], share) for name in names}
        n = float(rows.sum())
        ridges = n * server["ridges"].expand(len(outputs))
        if not bool(ridges.any()):
            ridges = torch.full_like(ridges, n * self.ridge or MIDDLE)
        after["useful"] += 1
        if "evidence" in messages:
            after["tau"] = TAUS[messages["evidence"].sum(0).argmax()].clone()
        steady = "tau" not in after or torch.equal(after["tau"], server["tau"])
        chosen = ridges
        if "held_loss" in total:
            best = least(total["held_loss"])
            chosen = ridges * self.grid(server["stage"])[best]
            after |= self.next_starts(server, best, outputs)
        moved, converged = self.move(server, (ridges, chosen), total, outputs)
        after |= moved
        if converged and steady and int(server["stage"]) >= len(self.plan) - 1:
            after["stage"] = torch.tensor(DONE)
        w = model(after["points"][0], outputs).to(server["w"])
        return after | {"ridges": chosen / n, "w": w}

    def grid(self, stage: Tensor) -> Tensor:
        """Return the factors of the ridge that a stage tries."""
        before = self.plan[: int(stage) + 1].count(FOLDS)
        return WIDE if before < 2 else NEAR

    def next_starts(self, server: State, best: Tensor, outputs: list[int]) -> State:
        """Return the models without each fold by the best ridges, if a second grid follows."""
        if self.about(server["stage"] + 1) != FOLDS:
            return {}
        each = zip(blocks(server["tries"], outputs), best, strict=True)
        return {"starts": torch.cat([models[:, k].flatten(1) for models, k in each], dim=1)}

    def move(
        self, server: State, ridges: tuple[Tensor, Tensor], total: State, outputs: list[int]
    ) -> tuple[State, bool]:
        """Take a step in every block; return the new state, and whether the method has converged.

        `ridges` are the previous and the chosen ones. If the sums are by fold, the state has the
        models to try.
        """
        stage, points, tries, good = server["stage"], [], [], True
        each = zip(blocks(server["points"], outputs), steps.unfold(total, outputs), strict=True)
        for b, (at, (gradient, hessian)) in enumerate(each):
            sums = gradient.sum(0), hessian.sum(0)
            old, chosen = ridges[0][b], ridges[1][b]
            found, accepted = steps.advance(at, total["loss"][b], sums, old, chosen)
            points.append(found.flatten(1))
            good &= accepted
            if self.about(stage) == FOLDS:
                starts, slopes = at[0].expand_as(gradient), sums[0] - gradient
                if "starts" in server:
                    starts = blocks(server["starts"], outputs)[b]
                    slopes = blocks(total["left_gradient"], outputs)[b]
                curved = sums[1] - hessian  # of the other folds
                grid = chosen * self.grid(stage)
                tries.append(steps.leave_out(starts, slopes, curved, grid).flatten(2))
        after = {"points": torch.cat(points, dim=1)}
        after["stage"] = stage + (good or self.about(stage) == TRIES)
        if tries and good:
            after["tries"] = torch.cat(tries, dim=2)
        elif "starts" in server:
            after["starts"] = server["starts"].clone()
        moved, size = after["points"].diff(dim=0).abs().max(), after["points"].abs().max()
        after["step"] = moved / size.clamp(min=1.0)
        return after, good and bool(after["step"] <= SMALL)


def least(held_loss: Tensor) -> Tensor:
    """Return each block's largest ridge whose loss is the least, or almost, ``(blocks,)``."""
    almost = held_loss <= (1 + ALMOST) * held_loss.amin(1, keepdim=True)
    return held_loss.shape[1] - 1 - almost.int().flip(1).argmax(1)


def weighted_sum(each: Tensor, share: Tensor) -> Tensor:
    """Return the weighted sum over clients in double precision, one by one to save memory."""
    if bool((share == 1.0).all()):
        return torch.sum(each, 0, dtype=torch.float64)
    total = torch.zeros(each.shape[1:], dtype=torch.float64)
    for one, weight in zip(each, share, strict=True):
        total += weight * one
    return total
