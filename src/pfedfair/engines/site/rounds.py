"""A method's rounds at one site: the network that all sites train, and the rounds themselves."""

from pfedfair.engines.site.schema import Schema
from pfedfair.methods import Clients, Method, State
from pfedfair.models import Network
from pfedfair.runs.training import usual_network


def make_network(schema: Schema, algorithm: Method) -> Network:
    """Return the network that all sites train, whatever rows they have."""
    algorithm.check(schema.task)
    hidden = () if algorithm.linear else schema.hidden
    usual = usual_network(schema.encoder.width, hidden, schema.task)
    return algorithm.network(usual, schema.task)


def same_kind(message: State, other: State) -> bool:
    """Whether two messages of a method come from rounds of the same kind, judged by their names.

    Rounds of another kind, such as those that agree on thresholds at the end, send other tensors.
    """
    return set(message) == set(other)


def in_closing_rounds(algorithm: Method, t: int) -> bool:
    """Whether round `t` is one of those after training, in which a method counts and agrees."""
    return t >= algorithm.rounds - algorithm.closing


def play_rounds(
    algorithm: Method, server: State, own: State, clients: Clients, t: int, rounds: int
) -> tuple[State, State, int]:
    """Play up to `rounds` rounds at one site; return its message, its state, and how many.

    From the second on, a round continues from the site's own answer: the model that it would send
    replaces the server's. Rounds of different kinds are never mixed. A method that sends no model
    plays one round.
    """
    sent, own = algorithm.client_round(server, own, clients, t)
    done = 1
    while done < min(rounds, algorithm.rounds - t):
        models = {name: sent[name][0] for name in algorithm.models if name in sent}
        if not models:
            break
        further, next_own = algorithm.client_round(server | models, own, clients, t + done)
        if not same_kind(further, sent):
            break
        sent, own, done = further, next_own, done + 1
    return {name: rows[0].clone() for name, rows in sent.items()}, own, done
