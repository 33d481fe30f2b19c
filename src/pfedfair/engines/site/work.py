"""A site's part of a run: rounds on its own rows, then its personal model.

Nothing here sends anything: what is returned is what may leave the site.
"""

import logging
import re
from collections.abc import Mapping
from typing import cast

from pfedfair._util.errors import InputError
from pfedfair._util.files import write_parquet
from pfedfair.engines.local import Fitted
from pfedfair.engines.site import memory
from pfedfair.engines.site.cache import Kept, Ready, heard
from pfedfair.engines.site.checks import check_model, refusal
from pfedfair.engines.site.ledger import Ledger
from pfedfair.engines.site.masking import all_asked, question
from pfedfair.engines.site.policy import Policy
from pfedfair.engines.site.privacy import (
    blurred,
    clipped,
    noise_of,
    relative_noise,
    stricter,
    within,
)
from pfedfair.engines.site.rows import Site, federate_site, read_site
from pfedfair.engines.site.schema import Schema
from pfedfair.engines.site.secrets import secret_of, seed_for
from pfedfair.engines.site.settings import Config, Settings, make_algorithm
from pfedfair.methods import Clients, Method, State
from pfedfair.metrics.intervals import FEWEST
from pfedfair.models import Network
from pfedfair.runs.run import Run
from pfedfair.runs.training import usual_network

log = logging.getLogger("pfedfair")


def make_network(schema: Schema, algorithm: Method) -> Network:
    """Return the network that all sites train, whoever has which rows."""
    algorithm.check(schema.task)
    hidden = () if algorithm.linear else schema.hidden
    usual = usual_network(schema.encoder.width, hidden, schema.task)
    return algorithm.network(usual, schema.task)


def one_row(state: State) -> State:
    """The only row of a stack: what one site sends."""
    return {name: rows[0].clone() for name, rows in state.items()}


def play(
    algorithm: Method, server: State, own: State, clients: Clients, t: int, rounds: int
) -> tuple[State, State, int]:
    """Play up to `rounds` rounds at this site alone; return its message, its state, and how many.

    From the second on, a round goes on from the site's own answer: the model that it would send
    takes the place of the server's. Rounds of another kind, with other messages (thresholds at the
    end), are never mixed with the ones before. A method that sends no model plays one round.
    """
    sent, own = algorithm.client_round(server, own, clients, t)
    message, done = one_row(sent), 1
    carried = [name for name in algorithm.models if name in message]
    while carried and done < min(rounds, algorithm.rounds - t):
        local = server | {name: message[name] for name in carried}
        sent, further = algorithm.client_round(local, own, clients, t + done)
        if set(sent) != set(message):
            break
        message, own, done = one_row(sent), further, done + 1
    return message, own, done


class Work:
    """All that a site needs for one order of the server.

    Parameters
    ----------
    order, server
        What the server says: ``round``, ``number`` (the site's), ``key`` (the run's),
        ``local-rounds``, ``schema``; and its state.
    node, run
        The site's own settings, and the run's.
    held
        What the site's process remembers; it may be empty, the disk is enough.
    """

    def __init__(
        self, order: Config, server: State, node: Config, run: Config, held: memory.Memory
    ) -> None:
        self.order, self.server, self.held, self.run = order, server, held, run
        self.t = int(order["round"])
        self.key = _plain("key", order["key"], r"[0-9a-f-]{1,100}")
        self.name = _plain("name", run["name"], r"\w[\w.-]{0,99}")
        self.policy, self.algorithm = Policy.of(node), make_algorithm(run)
        self.policy.check_run(run)
        self.policy.check_method(self.algorithm)
        self.policy.check_order(order)
        self.privacy, self.secure = stricter(run, node), bool(run.get("secure-sum"))
        ending = self.t >= self.algorithm.rounds - self.algorithm.closing
        self.alone = self.algorithm.secret and ending  # no row has a say in what another counts as
        self.node, asked = node, str(order["schema"])
        least, secret = self.policy.least_people, self.algorithm.secret
        kept = Kept.of(node, asked, least, self.alone, secret)
        found = None if kept is None else kept.read()
        self.site: Site | None = None
        if kept is None or found is None:
            with heard() as said:
                self.site = read_site(node, run)
        self.folder = self.site.folder if self.site else cast(Kept, kept).folder
        self.ledger = Ledger(self.folder, self.policy)
        self.ledger.admit(self.key)
        self.schema = Schema.from_json(asked)
        self.policy.check_schema(self.schema)
        if self.site:
            found = self.encode(self.site)
            if kept:
                kept.write(found, said)
        self.use(cast(Ready, found))

    def encode(self, site: Site) -> Ready:
        """Encode the site's table as all sites do."""
        least, secret = self.policy.least_people, self.algorithm.secret
        self.federation = made = federate_site(site, self.schema, least, self.alone)
        marks = site.marks if secret else None
        return Ready(made.table, made.partition.train[0], len(site.train), marks)

    def use(self, rows: Ready) -> None:
        """Train on these rows."""
        self.people = rows.people  # that the site counts for, at the most
        self.seed = seed = int(self.run["seed"])
        if self.algorithm.secret:  # the server knows the run's seed
            seed = seed_for(secret_of(self.folder), f"run {self.key}")
        network, ids = make_network(self.schema, self.algorithm), [int(self.order["number"])]
        table = rows.table._replace(task=self.schema.task, encoder=self.schema.encoder)
        self.clients = Clients(network, table, [rows.rows], ids, seed, marks=rows.marks)

    def train(self) -> tuple[State, int]:
        """Do one or several rounds; return the algorithm's message of the last, and how many."""
        clip, epsilon, delta = self.privacy
        noise = relative_noise(epsilon, delta) if epsilon else 0.0
        costs = {"gaussian": noise, "laplace": self.algorithm.noise(self.t)}
        costs = {kind: noise for kind, noise in costs.items() if noise > 0}
        for kind, noise in costs.items():
            self.ledger.afford(kind, noise)  # before any work
        rounds, own = int(self.order["local-rounds"]), self.own()
        sent, own, done = play(self.algorithm, self.server, own, self.clients, self.t, rounds)
        if clip:
            sent = clipped(sent, self.server, clip)
        elif self.secure:
            sent = self.shortened(sent)
        for kind, noise in costs.items():
            log.info("pfedfair: %s", self.ledger.spend(kind, noise))
        deviation = noise_of(clip, epsilon, delta)
        if deviation:
            sent = blurred(sent, deviation)
        limit = self.policy.max_change + 1.5 * deviation
        why = refusal(sent, self.server, self.algorithm.models, limit)
        if why is not None:
            raise InputError(f"This site's answer is not sent: {why}.")
        memory.remember(self.folder, self.held, self.key, self.t + done, own)
        return sent, done

    def shortened(self, sent: State) -> State:
        """No further than the site and the run allow: in a secure sum nobody else looks."""
        limit = 0.999 * min(self.policy.max_change, float(self.order["max-change"]))
        sent, short = within(sent, self.server, self.algorithm.models, limit)
        for name in short:
            log.warning("pfedfair: '%s' moved too far here and is shortened to %g (max-change)",
                        name, limit)  # fmt: skip
        return sent

    @property
    def question(self) -> str:
        return question(self.t, self.server)

    def asked(self, people: Mapping[int, int]) -> str:
        """A name for all that this site is asked, and every other one in the sum should be."""
        key = Settings.read(self.run).key(self.schema)
        rounds, change = self.order["local-rounds"], self.order["max-change"]
        return all_asked(self.question, key, int(rounds), float(change), people)

    def finish(self) -> dict[str, float]:
        """Make the personal model, keep it, measure it; return its accuracy and DDP."""
        if self.site is None:  # what is kept beside a model is told of the table itself
            self.site = read_site(self.node, self.run)
            self.use(self.encode(self.site))
        own = self.own()
        theta = self.algorithm.personalise(self.server, own, self.clients)
        check_model("personal", theta)
        rules = list(self.algorithm.rules(self.server, own, self.clients))
        # Its counts are not kept: for another target they would need its number and secret, too.
        fitted = Fitted(self.server["w"], theta, rules, self.server, {})
        run = Run(self.federation, self.algorithm, self.clients.network, fitted, self.seed, 0.0)
        folder = self.folder / self.name
        run.save(folder)
        if not len(self.site.test):
            return {}
        table = run.table("own").drop(columns="role")
        write_parquet(folder / "clients.parquet", table)
        row = table.iloc[0]
        told = f"{row['ddp']:.3f}" if row["ddp_people"] >= FEWEST else "unknown (too few people)"
        log.info("pfedfair: %s: accuracy %.3f, DDP %s on %d held-out rows; the model is in %s",
                 self.site.name, row["accuracy"], told, row["n_test"], folder)  # fmt: skip
        return {"accuracy": float(row["accuracy"]), "ddp": float(row["ddp"])}

    def own(self) -> State:
        """What the site kept of the rounds before; what it starts with, if it has nothing."""
        found = memory.recall(self.folder, self.held, self.key, self.t)
        if found is None:
            if self.t:
                log.warning("pfedfair: no state of earlier rounds here, starting from the server's")
            return self.algorithm.start(self.server, self.clients)
        if found[1] < self.t:
            log.warning("pfedfair: this site missed rounds %d to %d", found[1] + 1, self.t)
        return found[0]


def _plain(what: str, word: object, form: str) -> str:
    """Refuse a word of the server's that would lead out of a folder of ours."""
    if not re.fullmatch(form, str(word)):
        raise InputError(f"The run's {what} '{word}' is not a plain word.")
    return str(word)
