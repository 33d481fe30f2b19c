"""Clients' counts in `Transport`, and the server's estimates from their sums.

Rows are counted in cells of their scores, by group, and by label and half where the model was not
trained on them.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import noise, seeds
from pfedfair.data.task import Task, outputs
from pfedfair.federation import Batch
from pfedfair.methods.base import State
from pfedfair.methods.clients import Clients, hold_out, persons_of
from pfedfair.models import Cells
from pfedfair.models.base import Slope
from pfedfair.partition.persons import COUNTS
from pfedfair.penalties.objective import Objective, loss_slope
from pfedfair.theory import effects, shrinkage
from pfedfair.theory.belief import Belief, shapes_of
from pfedfair.theory.calibration import (
    calibrate,
    calibrate_each,
    covariance_root,
    logit_errors,
)
from pfedfair.theory.tilts import Likelihood, likelihood

SENT = "sent_"  # begins the names of counts with noise, at a client
QUADRATIC = ("slope", "curve", "constant")  # of a `Likelihood`


def cells_for(bins: int, task: Task) -> Cells:
    """Return the cells for counts: of the score, and of the guess of S if S is not known."""
    if task.aware:
        return Cells(task.classes, bins)
    divisor, group_bins = (5, 20) if task.groups == 2 else (10, 60)
    return Cells(task.classes, max(10, bins // divisor), task.groups, group_bins)


@dataclass(frozen=True, eq=False)
class ClientsWithHead(Clients):
    """Clients whose network has an auxiliary head, which is trained to predict S."""

    def label_blocks(self) -> list[tuple[int, Tensor]]:
        task = self.table.task
        return [*super().label_blocks(), (outputs(task.groups), self.table.s)]

    def slope(self, objective: Objective, w: Tensor, batch: Batch) -> Slope:
        width = outputs(self.table.task.classes)
        of_s = batch._replace(y=batch.s.to(batch.y))

        def slope(logits: Tensor) -> Tensor:
            of_head = loss_slope(logits[..., width:], of_s)
            return torch.cat([objective.slope(logits[..., :width], batch), of_head], dim=-1)

        return slope


def with_head(clients: Clients) -> ClientsWithHead:
    """Return the clients for a network with an auxiliary head."""
    return ClientsWithHead(
        **{field.name: getattr(clients, field.name) for field in fields(Clients)}
    )


def split(clients: Clients, part: float, private: bool) -> tuple[Clients, Clients]:
    """Return the clients with their training rows, and with a `part` that is held out.

    If counts are `private`, by independent random draws, so that no row influences another one.
    """
    if not private:
        return hold_out(clients, part)
    trained, held = [], []
    for i, rows in enumerate(clients.rows):
        chosen = _draws(clients, i, 0) < part
        chosen &= not chosen.all()  # if all were drawn, all are trained on
        trained.append(rows[~chosen])
        held.append(rows[chosen])
    sizes = clients.sizes or [len(rows) for rows in clients.rows]
    return replace(clients, rows=trained, sizes=sizes), replace(clients, rows=held)


def _draws(clients: Clients, i: int, purpose: int) -> np.ndarray:
    """Return a random number in [0, 1) for each row of client i, by its mark or its position.

    If it is known whose rows they are, all rows of a person have the same number.
    """
    rows, stream = clients.rows[i], (clients.seed, seeds.HELD, clients.ids[i], purpose)
    if clients.marks is None and (persons := persons_of(clients, COUNTS + purpose)):
        return persons.draws(rows)
    if clients.marks is None:
        return seeds.generator(*stream).random(len(rows))
    return seeds.uniforms(clients.marks[rows], *stream)


def count(w: Tensor, trained: Clients, held: Clients, cells: Cells, private: bool) -> State:
    """Count held-out rows by half, S, Y and cell of score, and the others by S and cell.

    By the scores of `w`, one model for all, ``(p,)``, or one for each client.
    """
    w = w.expand(len(held), -1)
    table = held.table
    group, label = table.s.numpy(), table.y.numpy()
    groups, classes = table.task.groups, table.task.classes
    shapes = {"held": (2, groups, classes, cells.number), "trained": (groups, cells.number)}
    counts = {name: np.zeros((len(held), *shape)) for name, shape in shapes.items()}
    persons = persons_of(held, COUNTS + 1)
    for i in range(len(held)):
        for name, clients in (("held", held), ("trained", trained)):
            rows = clients.rows[i]
            s, cell = group[rows], cells.locate(clients.scores(w[i], i)).numpy()
            at: tuple[np.ndarray, ...] = (s, cell)
            if name == "held":
                half = np.arange(len(rows)) % 2
                if persons is not None:
                    half = persons.halves(rows)
                if private:  # by a draw, see `split`
                    half = (_draws(held, i, 1) < 0.5).astype(np.int64)
                at = (half, s, label[rows].astype(np.int64), cell)
            flat = np.ravel_multi_index(at, shapes[name])
            counts[name][i].ravel()[:] = np.bincount(flat, minlength=counts[name][i].size)
    return {name: torch.from_numpy(array) for name, array in counts.items()}


def add_noise(counts: State, epsilon: float) -> State:
    """Return the message: the counts with discrete Laplace noise, other noise at every call.

    A row more or less changes one count by one, so the message is epsilon-differentially private.
    """
    return {
        name: tensor + torch.from_numpy(noise.laplace(epsilon, tensor.numel())).view_as(tensor)
        for name, tensor in counts.items()
    }


def learn(messages: State, bins: int) -> State:
    """Estimate eta, trust, prior and the guess of S from the sums of clients' counts."""
    sums = messages["held"].sum(0), messages["trained"].sum(0)
    held, trained = (tensor.clamp(min=0) for tensor in sums)  # noise may go below 0
    held_rows = by_group(sums[0])
    unseen = held_rows.clamp(min=0)
    groups, classes = held.shape[1:3]
    cells = next(found for aware in (True, False)
                 if (found := cells_for(bins, Task(groups, classes, aware))).number
                 == unseen.shape[1])  # fmt: skip
    trust = [shrinkage.worth(trained[s].numpy(), unseen[s].numpy()) for s in range(groups)]
    calibrated = calibrate_cells(held.numpy(), cells)
    new = {name: torch.from_numpy(array) for name, array in calibrated.items()}
    new["trust"] = torch.tensor(trust, dtype=torch.float64)
    new["prior"] = torch.from_numpy(shrinkage.FLAT.copy())
    if cells.group is None and classes == 2:
        new["population"] = torch.from_numpy(effects.unknown(groups).vector)
        new["everybody"] = held_rows + sums[1]
    if cells.group:
        new["guess"] = torch.from_numpy(group_guess(held.sum(2).numpy(), cells))
    # Not clamped: a client subtracts its own counts with their noise.
    return new | {"counts": held_rows + new["trust"][:, None] * sums[1]}


def by_group(held: Tensor) -> Tensor:
    """Add up held-out rows over labels and halves, ``(..., groups, cells)``.

    Server and clients add them up in the same order, so that the difference is exactly 0 where no
    other client has rows. PyTorch's sum over both axes at once takes twenty times as long.
    """
    return held.sum(-2).sum(-3)


def beliefs(server: State, own: State, kappa: float | None) -> Belief:
    """Return every client's posterior of its score distributions.

    The server's sums include the client's counts, with noise if it added some.
    """
    sent = {name: own.get(SENT + name, own[name]) for name in ("held", "trained")}
    held, sent_held = by_group(own["held"]), by_group(sent["held"])
    found: dict[str, Any] = {}
    for mark, total in (("", "counts"), ("all_", "everybody")):
        if total in server:
            part = torch.ones_like(server["trust"]) if mark else server["trust"]
            found[f"{mark}counts"] = (held + part[:, None] * own["trained"]).numpy()
            rest = server[total] - (sent_held + part[:, None] * sent["trained"])
            found[f"{mark}pooled"] = rest.clamp(min=0).numpy()
    if "slope" in own:
        found["quadratic"] = Likelihood(*(own[name].numpy() for name in QUADRATIC))
    return Belief(**found, **shared_belief(server, kappa))


def quadratics(belief: Belief) -> State:
    """Approximate the likelihood of clients' effects, which is the same in all `agree` rounds."""
    if belief.population is None:
        return {}
    assert belief.all_counts is not None
    assert belief.all_pooled is not None
    found = likelihood(belief.all_counts, shapes_of(belief.all_pooled))
    return {name: torch.from_numpy(getattr(found, name)) for name in QUADRATIC}


def shared_belief(server: State, kappa: float | None) -> dict[str, Any]:
    """Return the fields that are the same in every client's `Belief`."""
    population = of_population(server, len(server["counts"]))
    return {"prior": server["prior"].numpy(), "kappa": kappa, "population": population}


def likeness(belief: Belief, silent: bool) -> State:
    """Return every client's posterior of each kappa, summed over groups, and of its effects.

    It is zero for `silent` clients, whose counts are private, and for groups of which the client,
    or all other clients, have no rows.
    """
    clients, groups, _ = belief.counts.shape
    counted = (belief.counts.sum(-1) > 0) & ~belief.without_pool
    alike = np.zeros((clients, len(shrinkage.KAPPAS)))
    of_effects = np.zeros((clients, effects.length(groups)))
    if not silent:
        each = shrinkage.kappa_posterior(belief.counts, belief.centres, belief.prior)
        alike = np.where(counted[..., None], each, 0.0).sum(1)
        if belief.population:
            statistics = effects.statistics(belief.likelihood, belief.population)
            of_effects = np.where(counted.any(1)[:, None], statistics, 0.0)
    sent = {"alike": torch.from_numpy(alike)}
    learnt = belief.population is not None
    return sent | ({"effects": torch.from_numpy(of_effects)} if learnt else {})


def of_population(server: State, groups: int) -> effects.Effects | None:
    """Return the population of clients' effects, if it is estimated for this task."""
    vector = server.get("population")
    return None if vector is None else effects.from_vector(vector.numpy(), groups)


def update(server: State, messages: State) -> State:
    """Update the prior of kappa and the population from a round of `likeness`."""
    votes = messages["alike"].sum(0) + torch.from_numpy(shrinkage.FLAT)
    new = {"prior": votes / votes.sum()}
    if "effects" in messages:
        before = of_population(server, len(server["counts"]))
        assert before is not None
        statistics = messages["effects"].sum(0).numpy()
        new["population"] = torch.from_numpy(effects.learn(statistics, before).vector)
    return new


def calibrate_cells(held: np.ndarray, cells: Cells) -> dict[str, np.ndarray]:
    """Return P(Y) by cell, ``eta`` ``(groups, classes, cells)``; of two classes also its error.

    Counts are ``(2, groups, classes, cells)``; ``eta_error`` is a `calibration.covariance_root`.
    """
    wide = cells.number // cells.label.number  # cells of the guess of S for each of the score's
    rows = held.reshape(*held.shape[:3], cells.label.number, wide).sum(-1).swapaxes(0, 1)
    eta = np.stack([one for one, _ in calibrate_each(rows, cells.label.centres)])
    found = {"eta": np.repeat(eta, wide, axis=2)}
    if eta.shape[1] == 2:
        found["eta_error"] = covariance_root(rows, eta[:, 1], cells.label.centres)
    return found


def error_by_cell(root: np.ndarray, cells: Cells) -> np.ndarray:
    """Return how the logit of P(Y=1) may err in every cell, see `calibration.logit_errors`."""
    wide = cells.number // cells.label.number
    return np.repeat(logit_errors(root, cells.label.centres), wide, axis=2)


def group_guess(held: np.ndarray, cells: Cells) -> np.ndarray:
    """Return the calibrated P(S) in every cell by the head, ``(groups, cells)``.

    It is for groups of equal size; counts are ``(2, groups, cells)``.
    """
    assert cells.group is not None
    rows = held.reshape(*held.shape[:2], cells.label.number, cells.group.number).sum(2)
    share = rows.sum((0, 2)).clip(min=1.0)
    odds = calibrate(rows, cells.group.centres)[0] / share[:, None]
    return np.tile(odds / odds.sum(0), cells.label.number)
