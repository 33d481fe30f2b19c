"""Bounds on the sums of Newton's method: honest messages keep them, lies do not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from made_people import people
from pfedfair.methods import Clients
from pfedfair.runs import choose_network


def play(federation, method, rounds):
    """Every client's message of each round, with the server's state before it."""
    network = choose_network(federation, method, "linear")
    clients = Clients(network, federation.table, federation.partition.train,
                      list(range(len(federation))), 0)  # fmt: skip
    sizes = torch.from_numpy(federation.sizes).float()
    server = method.start_server({"w": network.init(np.random.default_rng(0))}, sizes)
    for t in range(rounds):
        sent, _ = method.client_round(server, {}, clients, t)
        yield server, {name: tensor.clone() for name, tensor in sent.items()}
        server = method.server_round(server, sent, sizes)


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(25, 80), min_size=2, max_size=4),
    encoding=st.sampled_from(["piecewise", "standard"]),
    intercepts=st.sampled_from(["shared", "personal"]),
    seed=st.integers(0, 99),
)
def test_honest_messages_and_their_sums_are_possible(sizes, encoding, intercepts, seed):
    table = pff.from_frame(people(sizes, seed), "hired", "sex", drop=["site"], encoding=encoding)
    federation = table.federate(pff.partition.by_column("site"), seed=seed)
    method = pff.methods.Newton(rounds=10, intercepts=intercepts)
    rows = [len(one) for one in federation.partition.train]
    for server, sent in play(federation, method, 10):
        for i, n in enumerate(rows):
            assert method.impossible({k: v[i] for k, v in sent.items()}, server, [n]) == ""
        total = {k: v.mean(0) if k == "outputs" else v.sum(0) for k, v in sent.items()}
        assert method.impossible(total, server, rows) == ""


@pytest.mark.parametrize(
    ("name", "lie", "words"),
    [
        ("rows", lambda x: 2 * x, "counts"),
        ("rows", lambda x: -x, "counts"),
        ("outputs", lambda x: 0 * x, "'outputs' are [0.0]"),
        ("outputs", lambda x: 1e6 + x, "'outputs' are"),
        ("outputs", lambda x: x + 0.5, "'outputs' are"),
        ("loss", lambda x: 2 * x, "'loss' of a model of zeros is"),
        ("gradient", lambda x: -100 * x, "slope of more than 1 for each of"),
        ("gradient", lambda x: x[:, :-1], "'gradient' has shape"),
        ("hessian", lambda x: -x, "'hessian' is not positive semidefinite"),
        ("hessian", lambda x: 1.1 * x, "curvature of more than 1/4"),
        ("hessian", lambda x: torch.randn_like(x), "'hessian' is not positive semidefinite"),
    ],
)
def test_a_lie_is_impossible(federation, name, lie, words):
    method = pff.methods.Newton(rounds=3, ridge=0.01)
    server, sent = next(play(federation, method, 1))
    message = {k: v[0] for k, v in sent.items()}
    rows = [len(federation.partition.train[0])]
    assert method.impossible(message, server, rows) == ""
    assert words in method.impossible(message | {name: lie(message[name])}, server, rows)
    missing = {k: v for k, v in message.items() if k != "hessian"}
    assert method.impossible(missing, server, rows) == "'hessian' is missing"
