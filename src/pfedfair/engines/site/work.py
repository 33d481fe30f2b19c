"""A site's part of a run: rounds on the site's rows, then its personal model.

An order is read (`Order.read`), checked against the site's policy (`permitted`), and carried out on
rows from the cache or the table (`Source`). Nothing is sent from here: only return values may
leave the site.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from pfedfair._util.errors import InputError
from pfedfair._util.files import write_parquet
from pfedfair.engines.local import Fitted
from pfedfair.engines.site import memory, votes
from pfedfair.engines.site.accounting import relative_noise
from pfedfair.engines.site.cache import Source
from pfedfair.engines.site.checks import check_model, refusal
from pfedfair.engines.site.ledger import Ledger
from pfedfair.engines.site.masking import order_digest, state_digest
from pfedfair.engines.site.policy import Policy, PolicyError, permitted
from pfedfair.engines.site.privacy import (
    FAR_NOISE,
    add_noise,
    clip_update,
    limit_change,
    max_steps,
    noise_deviation,
    strictest,
)
from pfedfair.engines.site.rounds import make_network, play_rounds
from pfedfair.engines.site.schema import Schema
from pfedfair.engines.site.secrets import secret_of, seed_for
from pfedfair.engines.site.settings import Config, Order, Settings
from pfedfair.methods import Clients, Method, State
from pfedfair.methods.phases import Phase, adds_noise, phase_at, started
from pfedfair.metrics.intervals import FEWEST
from pfedfair.runs.run import Run

log = logging.getLogger("pfedfair")


def accept(config: Config, server: State, node: Config, run: Config, held: memory.Memory) -> Work:
    """Return the work that an order of the server asks for, if the site allows it.

    Parameters
    ----------
    config, server
        The order, see `Order`, and the server's state.
    node, run
        The site's settings, and the run's.
    held
        The states in the memory of the site's process; it may be empty, the disk is enough.
    """
    order = Order.read(config, run)
    policy, algorithm = permitted(node, run)
    policy.check_order(order)
    privacy = strictest(run, node)
    phase, t = phase_at(algorithm.phases, order.round)
    if order.phase != (phase.name if phase else ""):
        raise InputError(
            f"The server asks for phase '{order.phase}' in round {order.round + 1}, where "
            f"{type(algorithm).__name__} has '{phase.name if phase else 'no phase'}': it may be of "
            "another version."
        )
    noise = adds_noise(algorithm.phases)
    # With noise, after training, no row may affect how another one is encoded.
    independent = noise and not (phase and phase.trains)
    source = Source.open(node, run, order.schema, policy.least_people, independent, noise)
    ledger = Ledger(source.folder, policy)
    ledger.admit(order.key)
    schema = Schema.from_json(order.schema)
    policy.check_schema(schema)
    clients, n_rows = make_clients(order, algorithm, source, schema, int(run["seed"]))
    return Work(
        order, server, run, held, policy, algorithm, phase, t, privacy, source, ledger, schema,
        clients, n_rows,
    )  # fmt: skip


def make_clients(
    order: Order, algorithm: Method, source: Source, schema: Schema, seed: int
) -> tuple[Clients, int]:
    """Return the site as a stack of one client, and the number of rows that it counts for."""
    rows = source.encoded(schema)
    if adds_noise(algorithm.phases):  # the server knows the run's seed
        seed = seed_for(secret_of(source.folder), f"run {order.key}")
    table = rows.table._replace(task=schema.task, encoder=schema.encoder)
    network = make_network(schema, algorithm)
    clients = Clients(network, table, [rows.rows], [order.number], seed, marks=rows.row_keys)
    return clients, rows.n_train


@dataclass
class Work:
    """An accepted order, and all that the site needs to carry it out."""

    order: Order
    server: State
    run: Config
    held: memory.Memory
    policy: Policy
    algorithm: Method
    phase: Phase | None  # None after the last round
    t: int  # the round's number in its phase
    privacy: tuple[float, float, float]  # clip, epsilon, delta
    source: Source
    ledger: Ledger
    schema: Schema
    clients: Clients
    n_rows: int  # that the site counts for, at most

    @property
    def secure(self) -> bool:
        return bool(self.run.get("secure-sum"))

    def train(self) -> tuple[State, int]:
        """Do one or several rounds; return the method's message of the last, and how many."""
        order, server, phase = self.order, self.server, self.phase
        if phase is None:
            raise InputError("The server asks for a round after the last one.")
        clip, epsilon, delta = self.privacy
        noise = relative_noise(epsilon, delta) if epsilon else 0.0
        costs = {"gaussian": noise, "laplace": phase.noise}
        costs = {kind: noise for kind, noise in costs.items() if noise > 0}
        question, folder = self.question if costs else "", self.source.folder
        if costs and (found := memory.stored_answer(folder, order.key, order.round, question)):
            log.info("pfedfair: the same question again: the same answer, at no further cost")
            return found
        for kind, noise in costs.items():
            self.ledger.afford(kind, noise)  # before any work
        sent, own, done = play_rounds(
            phase, server, self.recall(), self.clients, self.t, order.local_rounds
        )
        if clip:
            sent = clip_update(sent, server, clip)
        elif self.secure:
            sent = self.limit_change(sent)
        for kind, noise in costs.items():
            log.info("pfedfair: %s", self.ledger.spend(kind, noise))
        if epsilon:
            sent = add_noise(sent, self.server, clip, max_steps(epsilon, delta))
        limit = self.policy.max_change + FAR_NOISE * noise_deviation(clip, epsilon, delta)
        why = refusal(sent, server, phase.states.models, limit)
        if why is not None:
            raise InputError(f"This site's answer is not sent: {why}.")
        memory.remember(folder, self.held, order.key, order.round + done, own)
        if costs:
            memory.store_answer(folder, order.key, order.round, question, sent, done)
        return sent, done

    def vote(self, states: Sequence[State]) -> int:
        """Return which of the server's proposed states is best here, see `votes`."""
        if self.privacy[1] or adds_noise(self.algorithm.phases):
            raise PolicyError("This site does not vote where answers have noise.")
        if self.phase is None:
            raise InputError("The server asks for a vote after the last round.")
        # In a secure sum the server has no answers to leave out: it proposes earlier states.
        most = 1 + votes.MAX_EARLIER if self.secure else votes.MAX_STATES
        if not 2 <= len(states) <= most:
            raise PolicyError(f"This site votes on 2 to {most} states, not on {len(states)}.")
        done = self.order.round + self.order.local_rounds
        found = memory.recall(self.source.folder, self.held, self.order.key, done)
        own = found[0] if found else {}
        return votes.vote(self.algorithm, self.phase, states, own, self.clients, self.secure)

    def limit_change(self, sent: State) -> State:
        """Shorten an update to the site's and the run's limit: in a secure sum only it can."""
        assert self.phase is not None
        limit = 0.999 * min(self.policy.max_change, self.order.max_change)
        sent, shortened = limit_change(sent, self.server, self.phase.states.models, limit)
        for name in shortened:
            log.warning("pfedfair: '%s' moved too far here and is shortened to %g (max-change)",
                        name, limit)  # fmt: skip
        return sent

    @property
    def question(self) -> str:
        """Return a digest of all that the server asks: its order, its state, the settings."""
        asked = [asdict(self.order), self.state_digest, dict(self.run), self.privacy]
        text = json.dumps(asked, sort_keys=True, default=str)
        return sha256(text.encode()).hexdigest()

    @property
    def state_digest(self) -> str:
        return state_digest(self.order.round, self.server)

    def order_digest(self, weights: Mapping[int, int]) -> str:
        """Return a digest of this site's order, which should be the same for all in the sum."""
        key, order = Settings.read(self.run).key(self.schema), self.order
        return order_digest(self.state_digest, key, order.local_rounds, order.max_change, weights)

    def finish(self) -> dict[str, float]:
        """Make the personal model, save it, measure it; return its accuracy and DDP."""
        site, federation = self.source.table(), self.source.federation(self.schema)
        own = self.recall()
        theta = self.algorithm.personalise(self.server, own, self.clients)
        check_model("personal", theta)
        rules = list(self.algorithm.rules(self.server, own, self.clients))
        # The counts are not saved: to retarget, they would need the site's number and secret.
        fitted = Fitted(self.server["w"], theta, rules, self.server, {})
        seed = int(self.run["seed"])
        run = Run(federation, self.algorithm, self.clients.network, fitted, seed, 0.0)
        folder = self.source.folder / self.order.name
        run.save(folder)
        if not len(site.test):
            return {}
        table = run.table("own").drop(columns="role")
        write_parquet(folder / "clients.parquet", table)
        row = table.iloc[0]
        ddp = f"{row['ddp']:.3f}" if row["ddp_people"] >= FEWEST else "unknown (too few rows)"
        log.info("pfedfair: %s: accuracy %.3f, DDP %s on %d held-out rows; the model is in %s",
                 site.name, row["accuracy"], ddp, row["n_test"], folder)  # fmt: skip
        return {"accuracy": float(row["accuracy"]), "ddp": float(row["ddp"])}

    def recall(self) -> State:
        """Return the site's state after its last round, or its first state if it has none."""
        t, phases = self.order.round, self.algorithm.phases
        found = memory.recall(self.source.folder, self.held, self.order.key, t)
        if found is None:
            if t:
                log.warning("pfedfair: no state of earlier rounds here, starting from the server's")
            begun = [self.phase] if self.phase else list(phases[-1:])
            own: State = {}
        else:
            own, seen = found
            begun = started(phases, seen, t)
            if seen < t:
                log.warning("pfedfair: this site missed rounds %d to %d", seen + 1, t)
        for phase in begun:
            own = phase.start_clients(self.server, own, self.clients)
        return own
