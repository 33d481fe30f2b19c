"""What clients of `Transport` count, and what the server learns from the sums.

Rows are counted in cells of their scores, by group, and by label and half where the model was not
trained on them.
"""

from dataclasses import dataclass, fields, replace
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from pfedfair._util import seeds
from pfedfair.data.task import Task, outputs
from pfedfair.federation import Batch
from pfedfair.methods.base import State
from pfedfair.methods.clients import Clients, hold_out
from pfedfair.models import Cells
from pfedfair.models.base import Slope
from pfedfair.penalties.objective import Objective, loss_slope
from pfedfair.theory import effects, shrinkage
from pfedfair.theory.belief import Belief, others
from pfedfair.theory.calibration import calibrate, calibrate_each
from pfedfair.theory.tilts import Likelihood, likelihood

QUADRATIC = ("slope", "curve", "constant")  # of a `Likelihood`


def cells_for(bins: int, task: Task) -> Cells:
    """Where rows are counted: by the score, and by the guess of S if S is not known."""
    if task.aware:
        return Cells(task.classes, bins)
    few, many = (5, 20) if task.groups == 2 else (10, 60)  # cells of the score, of the guess
    return Cells(task.classes, max(10, bins // few), task.groups, many)


@dataclass(frozen=True, eq=False)
class ClientsWithHead(Clients):
    """Clients whose network has an auxiliary head: with every gradient the head learns S."""

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
    """The same clients, for a network with an auxiliary head."""
    return ClientsWithHead(
        **{field.name: getattr(clients, field.name) for field in fields(Clients)}
    )


def split(clients: Clients, part: float, private: bool) -> tuple[Clients, Clients]:
    """The clients with the rows that they train on, and with the `part` that is held out.

    If counts are `private`, by a random draw for every row, so that no row influences another's.
    """
    if not private:
        return hold_out(clients, part)
    trained, held = [], []
    for i, rows in enumerate(clients.rows):
        chosen = _draws(clients, i, 0) < part
        chosen &= not chosen.all()  # one or two rows are all trained on
        trained.append(rows[~chosen])
        held.append(rows[chosen])
    sizes = clients.sizes or [len(rows) for rows in clients.rows]
    return replace(clients, rows=trained, sizes=sizes), replace(clients, rows=held)


def _draws(clients: Clients, i: int, purpose: int) -> np.ndarray:
    """A random number in [0, 1) for each row of client i: by the row's key, or else its place."""
    rows, stream = clients.rows[i], (clients.seed, seeds.HELD, clients.ids[i], purpose)
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
    for i in range(len(held)):
        for name, clients in (("held", held), ("trained", trained)):
            rows = clients.rows[i]
            s, place = group[rows], cells.place(clients.scores(w[i], i)).numpy()
            at: tuple[np.ndarray, ...] = (s, place)
            if name == "held":
                half = np.arange(len(rows)) % 2
                if private:  # by a draw, see `split`
                    half = (_draws(held, i, 1) < 0.5).astype(np.int64)
                at = (half, s, label[rows].astype(np.int64), place)
            cell = np.ravel_multi_index(at, shapes[name])
            counts[name][i].ravel()[:] = np.bincount(cell, minlength=counts[name][i].size)
    return {name: torch.from_numpy(each) for name, each in counts.items()}


def noised(counts: State, clients: Clients, epsilon: float | None) -> State:
    """The message: the counts, with noise if epsilon says so."""
    message = {name: tensor.clone() for name, tensor in counts.items()}
    if epsilon is None:
        return message
    for i, client in enumerate(clients.ids):
        whole = b"".join(tensor[i].numpy().tobytes() for tensor in counts.values())
        rng = seeds.generator(clients.seed, seeds.NOISE, client, crc32(whole))
        for tensor in message.values():  # other counts have other noise, or it would cancel
            tensor[i] += torch.from_numpy(rng.laplace(0, 1 / epsilon, tensor[i].shape))
    return message


def learn(messages: State, bins: int) -> State:
    """What the server knows after the counts: eta, trust, prior, the guess of S, and the counts."""
    sums = messages["held"].sum(0), messages["trained"].sum(0)
    held, trained = (tensor.clamp(min=0) for tensor in sums)  # noise may go below 0
    everybody = by_group(sums[0])
    unseen = everybody.clamp(min=0)
    groups, classes = held.shape[1:3]
    cells = next(found for aware in (True, False)
                 if (found := cells_for(bins, Task(groups, classes, aware))).number
                 == unseen.shape[1])  # fmt: skip
    trust = [shrinkage.worth(trained[s].numpy(), unseen[s].numpy()) for s in range(groups)]
    new = {"eta": torch.from_numpy(calibrated(held.numpy(), cells))}
    new["trust"] = torch.tensor(trust, dtype=torch.float64)
    new["prior"] = torch.from_numpy(shrinkage.FLAT.copy())
    if cells.group is None and classes == 2:
        new["population"] = torch.from_numpy(effects.unknown(groups).vector)
        new["everybody"] = everybody + sums[1]
    if cells.group:
        new["guess"] = torch.from_numpy(guess(held.sum(2).numpy(), cells))
    # As they are: a client takes its own off, and its noise with them.
    return new | {"counts": everybody + new["trust"][:, None] * sums[1]}


def by_group(held: Tensor) -> Tensor:
    """Held-out rows of all labels and halves, ``(..., groups, cells)``.

    The server and the clients add them up in one order, whose own then leave nothing where no
    other client has rows. PyTorch's sum over both axes at once takes twenty times as long.
    """
    return held.sum(-2).sum(-3)


def beliefs(server: State, own: State, sent: State, kappa: float | None) -> Belief:
    """What every client knows of its scores: by its own rows, and all others'.

    `own` are its counts, `sent` what of them (with noise, if any) is among the server's.
    """
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
    """The likelihood of clients' effects by their counts, which no round of agreement changes."""
    if belief.population is None:
        return {}
    assert belief.all_counts is not None
    assert belief.all_pooled is not None
    found = likelihood(belief.all_counts, others(belief.all_pooled))
    return {name: torch.from_numpy(getattr(found, name)) for name in QUADRATIC}


def shared_belief(server: State, kappa: float | None) -> dict[str, Any]:
    """What is the same in every client's `Belief`."""
    population = of_population(server, len(server["counts"]))
    return {"prior": server["prior"].numpy(), "kappa": kappa, "population": population}


def likeness(belief: Belief, silent: bool) -> State:
    """Every client's posterior of each kappa, summed over its groups, and of its effects.

    A `silent` client, whose counts are private, sends zeros. So does one for groups that it, or
    no other client, has rows of.
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
    """How clients differ, if that is learnt for such a task."""
    vector = server.get("population")
    return None if vector is None else effects.from_vector(vector.numpy(), groups)


def agreed(server: State, messages: State) -> State:
    """What the server has learnt from a round of `likeness`."""
    votes = messages["alike"].sum(0) + torch.from_numpy(shrinkage.FLAT)
    new = {"prior": votes / votes.sum()}
    if "effects" in messages:
        before = of_population(server, len(server["counts"]))
        assert before is not None
        statistics = messages["effects"].sum(0).numpy()
        new["population"] = torch.from_numpy(effects.learn(statistics, before).vector)
    return new


def calibrated(held: np.ndarray, cells: Cells) -> np.ndarray:
    """P(Y) in every cell, ``(groups, classes, cells)``, from ``(2, groups, classes, cells)``."""
    wide = cells.number // cells.label.number  # cells of the guess of S for each of the score's
    rows = held.reshape(*held.shape[:3], cells.label.number, wide).sum(-1)
    each = calibrate_each(rows.swapaxes(0, 1), cells.label.centres)
    return np.repeat(np.stack([eta for eta, _ in each]), wide, axis=2)


def guess(held: np.ndarray, cells: Cells) -> np.ndarray:
    """P(S) in every cell by the head, calibrated; ``(groups, cells)`` from ``(2, ...)``.

    As it would be if the groups were of equal size.
    """
    assert cells.group is not None
    rows = held.reshape(*held.shape[:2], cells.label.number, cells.group.number).sum(2)
    share = rows.sum((0, 2)).clip(min=1.0)
    odds = calibrate(rows, cells.group.centres)[0] / share[:, None]
    return np.tile(odds / odds.sum(0), cells.label.number)
