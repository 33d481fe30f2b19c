"""What a site does with the server's messages.

``query.describe``: describe the table. ``train``: take part in a round. ``train.finish``: make the
personal model, keep it, measure it. What goes back to the server: the description's aggregates; the
algorithm's own message; that the model is there. An error goes back without its text, which may
speak of rows: the text is in the site's own log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import torch
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pfedfair.algorithms import Algorithm, Clients, State, Transport
from pfedfair.engines.flower import memory
from pfedfair.engines.flower.checks import models, refusal
from pfedfair.engines.flower.post import FAILED
from pfedfair.engines.flower.privacy import audit_mod, privacy_mod, secret_seed
from pfedfair.engines.flower.records import one_row, pack, unpack
from pfedfair.engines.flower.schema import Schema, describe
from pfedfair.engines.flower.task import (
    Site,
    federate_site,
    make_algorithm,
    make_clients,
    make_network,
    read_site,
)
from pfedfair.engines.stacked import Fitted, flush_denormal
from pfedfair.errors import InputError
from pfedfair.federation import Federation
from pfedfair.files import write_parquet
from pfedfair.run import Run

log = logging.getLogger("flwr")
app = ClientApp()


def quietly(work: Callable[[Message, Context], Message]) -> Callable[[Message, Context], Message]:
    """Log an error here; tell the server no more than that there was one."""

    def careful(message: Message, context: Context) -> Message:
        torch.set_num_threads(int(context.node_config.get("threads", 1)))
        try:
            with flush_denormal():
                return work(message, context)
        except Exception as error:
            kind = str(error) if isinstance(error, InputError) else repr(error)
            log.error("pfedfair: %s", kind, exc_info=not isinstance(error, InputError))
            reason = f"{type(error).__name__} at the site; its own log says more."
            return Message(Error(code=FAILED, reason=reason), reply_to=message)

    return careful


@app.query("describe", mods=[audit_mod])
@quietly
def tell(message: Message, context: Context) -> Message:
    site = read_site(context.node_config, context.run_config)
    found = describe(site.data, site.train, site.name, site.place, site.client)
    return _answer(message, config=ConfigRecord({"description": found.to_json()}))


@app.train(mods=[audit_mod, privacy_mod])
@quietly
def train(message: Message, context: Context) -> Message:
    """Do one or several rounds; send the algorithm's message of the last."""
    work = _Work(message, context)
    own = work.own(work.t)
    sent, own, done = play(
        work.algorithm, work.server, own, work.clients, work.t, work.local_rounds
    )
    why = refusal(sent, work.server, float(str(work.config["max-change"])))
    if why is not None:
        raise InputError(f"This site's answer is not sent: {why}.")
    memory.remember(work.site.folder, context.state, work.key, work.t + done, own)
    numbers = MetricRecord({"num-examples": len(work.site.train), "rounds": done})
    return Message(RecordDict({"arrays": pack(sent), "metrics": numbers}), reply_to=message)


@app.train("finish", mods=[audit_mod])
@quietly
def finish(message: Message, context: Context) -> Message:
    """Make the personal model; keep and measure it at the site."""
    work = _Work(message, context)
    own = work.own(work.t)
    theta = work.algorithm.personalise(work.server, own, work.clients)
    if not bool(torch.isfinite(theta).all()):
        raise InputError("The personal model has weights that are not finite: use a smaller alpha.")
    kept = own if work.algorithm.keeps else {}
    fitted = Fitted(work.server["w"], theta, work.server, kept)
    run = Run(work.federation, work.algorithm, work.clients.network, fitted, work.seed, 0.0)
    name = str(context.run_config["name"])
    if not re.fullmatch(r"\w[\w.-]*", name):  # the server's word, in a path of ours
        raise InputError(f"The run's name '{name}' is not a plain word.")
    folder = work.site.folder / name
    run.save(folder)
    shared: dict[str, float] = {}
    if len(work.site.test):
        table = run.table("paper").drop(columns="role")
        write_parquet(folder / "clients.parquet", table)
        row = table.iloc[0]
        log.info("pfedfair: %s: accuracy %.3f, DDP %.3f on %d held-out rows; the model is in %s",
                 work.site.name, row["accuracy"], row["ddp"], row["n_test"], folder)  # fmt: skip
        if bool(context.node_config.get("share-metrics", False)):
            shared = {"accuracy": float(row["accuracy"]), "ddp": float(row["ddp"])}
    return Message(RecordDict({"metrics": MetricRecord({"done": 1, **shared})}), reply_to=message)


def play(
    algorithm: Algorithm, server: State, own: State, clients: Clients, t: int, rounds: int
) -> tuple[State, State, int]:
    """Play up to `rounds` rounds at this site alone; return its message, its state, and how many.

    From the second on, a round goes on from the site's own answer: the model that it would send
    takes the place of the server's. Rounds of another kind, with other messages (thresholds at the
    end), are never mixed with the ones before. A method that sends no model plays one round.
    """
    rounds = min(rounds, algorithm.rounds - t)
    sent, own = algorithm.client_round(server, own, clients, t)
    message, done = one_row(sent), 1
    carried = [name for name in models(server) if name in message]
    if rounds > 1 and not carried:
        return message, own, done
    while done < rounds:
        local = server | {name: message[name] for name in carried}
        sent, further = algorithm.client_round(local, own, clients, t + done)
        if set(sent) != set(message):
            break
        message, own, done = one_row(sent), further, done + 1
    return message, own, done


class _Work:
    """All that a site needs for a round, from the server's message and its own disk."""

    def __init__(self, message: Message, context: Context) -> None:
        self.config = message.content.config_records["config"]
        self.server = unpack(message.content.array_records["arrays"])
        self.t = int(str(self.config["round"]))
        self.local_rounds = int(str(self.config["local-rounds"]))
        self.key = str(self.config["key"])
        if not re.fullmatch(r"[0-9a-f-]+", self.key):  # the server's word, in a path of ours
            raise InputError(f"The run's key '{self.key}' is not a plain number.")
        self.seed = int(str(context.run_config["seed"]))
        self.context = context
        self.site: Site = read_site(context.node_config, context.run_config)
        self.algorithm = make_algorithm(context.run_config)
        if isinstance(self.algorithm, Transport) and self.algorithm.epsilon is not None:
            # The server knows the run's seed.
            self.seed = secret_seed(self.site.folder / self.key)
        schema = Schema.from_json(str(self.config["schema"]))
        self.federation: Federation = federate_site(self.site, schema)
        network = make_network(schema, self.algorithm)
        number = int(str(self.config["number"]))
        self.clients = make_clients(self.federation, network, number, self.seed)

    def own(self, t: int) -> State:
        """What the site kept of the rounds before t; what it starts with, if it has nothing."""
        found = memory.recall(self.site.folder, self.context.state, self.key, t)
        if found is None:
            if t:
                log.warning("pfedfair: no state of earlier rounds here, starting from the server's")
            return self.algorithm.start(self.server, self.clients)
        if found[1] < t:
            log.warning("pfedfair: this site missed rounds %d to %d", found[1] + 1, t)
        return found[0]


def _answer(message: Message, config: ConfigRecord) -> Message:
    return Message(RecordDict({"config": config}), reply_to=message)
