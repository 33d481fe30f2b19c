"""A method's rounds at one site: the network that all sites train, and the rounds."""

from pfedfair.engines.site.schema import Schema
from pfedfair.methods import Clients, Method, State
from pfedfair.methods.phases import Phase
from pfedfair.models import Network
from pfedfair.runs.training import default_network


def make_network(schema: Schema, algorithm: Method) -> Network:
    """Return the network that all sites train, whatever rows they have."""
    algorithm.check(schema.task)
    hidden = () if algorithm.supports.linear_only else schema.hidden
    usual = default_network(schema.encoder.width, hidden, schema.task)
    return algorithm.network(usual, schema.task)


def play_rounds(
    phase: Phase, server: State, own: State, clients: Clients, t: int, rounds: int
) -> tuple[State, State, int]:
    """Play up to `rounds` rounds of a phase at one site, from its round `t` on.

    Return the site's message, its state, and how many rounds were played. From the second on, a
    round continues from the site's answer: the model that it would send replaces the server's.
    In a phase that sends no model it is one round.
    """
    sent, own = phase.client_round(server, own, clients, t)
    models, done = [name for name in phase.states.models if name in sent], 1
    while models and done < min(rounds, phase.rounds - t):
        local = server | {name: sent[name][0] for name in models}
        sent, own = phase.client_round(local, own, clients, t + done)
        done += 1
    return {name: rows[0].clone() for name, rows in sent.items()}, own, done
