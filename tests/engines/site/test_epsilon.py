"""The privacy that is claimed for counts is there, at a site that holds rows out by itself."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

import pfedfair as pff
from made_people import people
from pfedfair._util import seeds
from pfedfair.engines.site.rounds import make_network
from pfedfair.engines.site.rows import _hold_out, federate_site, read_site
from pfedfair.engines.site.schema import agree, describe
from pfedfair.engines.site.work import accept
from pfedfair.methods import Clients
from pfedfair.methods.transport.counts import cells_for

METHOD = pff.methods.Transport(rounds=1, agree=1, epsilon=1.0, bins=50, batch=40)
COUNT = METHOD.phases[1]  # the phase in which rows are counted
RUN = {"seed": 0, "name": "model", "algorithm": json.dumps(METHOD.to_dict())}


@pytest.fixture
def node(tmp_path):
    """One site's settings; no file says which rows are for the test."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "secret").write_text("5a" * 32)
    return {"data": str(tmp_path / "p.csv"), "label": "hired", "sensitive": "sex", "drop": "site",
            "state-dir": str(tmp_path / "state")}  # fmt: skip


def set_up(node, frame):
    """What a run agrees on, and a model that spreads the scores."""
    frame.to_csv(node["data"], index=False)
    site = read_site(node, RUN)
    schema, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    w = make_network(schema, METHOD).init(seeds.generator(0, seeds.INIT))
    return schema, 4 * w


def test_one_row_less_moves_one_count(node):
    """All the way from the file to the counts; whichever row it is, rare as it may be."""
    frame = people((90,))
    frame.loc[range(10), "colour"] = "violet"  # rare, but it must not change other rows
    schema, w = set_up(node, frame)

    def counts(frame):
        frame.to_csv(node["data"], index=False)
        order = {"round": METHOD.rounds, "phase": COUNT.name, "number": 0, "key": "ab"}
        order |= {"local-rounds": 1, "max-change": 1.0, "schema": schema.to_json()}
        work = accept(order, {"w": w}, node, RUN, {})
        own = work.phase.client_round(work.server, {}, work.clients, work.t)[1]
        return {name: own[name] for name in ("held", "trained")}  # without noise

    whole = counts(frame)
    for row in (0, 3, 41, 89):
        fewer = counts(frame.drop(index=row))
        moved = sum(float((whole[name] - fewer[name]).abs().sum()) for name in whole)
        assert moved <= 1  # none, if it is a row of the test


def test_the_claimed_epsilon_is_not_exceeded(node, record_property):
    """Neighbouring tables, a thousand draws each: the lower bound of the empirical epsilon.

    One row is the only one in a cell of the scores, the best case for an attacker.
    """
    frame = people((80,))
    schema, w = set_up(node, frame)
    rng = np.random.default_rng(0)

    def drawn(frame, draws=1000):
        frame.to_csv(node["data"], index=False)
        site = read_site(node, RUN)
        made = federate_site(site, schema)
        network, sent = make_network(schema, METHOD), []
        for _ in range(draws):
            fresh, seed = replace(site), int(rng.integers(2**62))  # as if with another secret
            fresh.__dict__["row_keys"] = rng.integers(2**64, size=len(frame), dtype=np.uint64)
            train = _hold_out(fresh, {"test-part": 0.1}).train
            one = Clients(network, made.table, [train], [0], seed, marks=fresh.row_keys)
            message, _ = COUNT.client_round({"w": w}, {}, one, 0)
            sent.append(message["trained"][0].numpy())
        return np.stack(sent)

    network, made = make_network(schema, METHOD), federate_site(read_site(node, RUN), schema).table
    scores = network.logits(w[None], made.inputs(slice(None))[None], made.s[None])[0]
    cells = METHOD.bins * made.s + cells_for(METHOD.bins, schema.task).locate(scores)
    her = next(i for i, cell in enumerate(cells) if (cells == cell).sum() == 1)
    both = (drawn(table) for table in (frame, frame.drop(index=her)))
    with_her, without = (counts.reshape(len(counts), -1)[:, cells[her]] for counts in both)
    bounds = []
    for edge in np.linspace(with_her.min(), with_her.max(), 25):
        for a, b in ((with_her, without), (without, with_her)):
            bounds += [lower_bound(a > edge, b > edge), lower_bound(a < edge, b < edge)]
    record_property("default", f"at least {max(bounds):.2f}, claimed {METHOD.epsilon:g}")
    assert 0.3 < max(bounds) <= METHOD.epsilon  # the test would see it, were it much larger


def lower_bound(of_one, of_other, confidence=0.999):
    """Of the epsilon that two tables' chances of an event tell (Clopper and Pearson's bounds)."""
    n, m, k, j = len(of_one), len(of_other), of_one.sum(), of_other.sum()
    low = beta.ppf(1 - confidence, k, n - k + 1) if k else 0.0
    high = beta.ppf(confidence, j + 1, m - j) if j < m else 1.0
    return np.log(max(low, 1e-12) / high)
