"""A design that is looked up is the one that is laid out."""

from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pfedfair as pff
from pfedfair.data.tables import encoder as inputs
from pfedfair.federation import encoded
from pfedfair.methods.clients import Clients
from pfedfair.methods.newton import lookup, sums
from pfedfair.methods.newton.design import Dense, LookedUp, symmetric, triangle
from pfedfair.models import linear
from pfedfair.partition import by_column


def table(n: int, seed: int, groups: int) -> pff.Dataset:
    """Numbers with spikes, few values, one value, missing ones; categories, rare, missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(40, 12, n), "hours": rng.choice([0, 0, 0, 20, 40], n)})
    frame["gap"] = np.where(rng.random(n) < 0.3, np.nan, rng.lognormal(0, 2, n))
    frame["same"] = 7
    frame["job"] = rng.choice([*(f"job {k}" for k in range(20)), None], n)
    frame["town"] = rng.zipf(1.5, n).clip(max=99).astype(str)
    frame["site"], frame["sex"] = rng.choice(["a", "b"], n), np.arange(n) % groups
    frame["hired"] = (frame["age"] + rng.normal(0, 8, n) > 40).astype(int)
    return pff.from_frame(frame, "hired", "sex", categorical=["town"], keep=["same"])


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(130, 400),
    seed=st.integers(0, 99),
    groups=st.sampled_from([2, 3]),
    points=st.integers(1, 3),
    outputs=st.integers(1, 3),
)
def test_products_are_those_of_the_laid_out_design(n, seed, groups, points, outputs):
    data = table(n, seed, groups)
    plan = by_column("site").split(data, 0)
    encoder = inputs.fit(data, plan.train, "site")
    federation = encoded(data, plan, encoder, True)
    network, rows = linear(encoder.width, groups=groups), torch.arange(n)
    x = network.design(federation.table.inputs(rows)[None], federation.table.s[None])[0]
    more = network.design(torch.zeros(1, n, 0), federation.table.s[None])[0]
    dense, looked_up = Dense(x.double()), LookedUp(federation.table.x, more, encoder.basis)
    rng = torch.Generator().manual_seed(seed)
    some = torch.randn(points, outputs, x.shape[1], generator=rng, dtype=torch.float64)
    slopes = torch.randn(points, n, outputs, generator=rng, dtype=torch.float64)
    weight, ends = torch.rand(n, generator=rng, dtype=torch.float64), [0, n // 3, n // 3, n]
    close = {"rtol": 1e-5, "atol": 1e-4}
    torch.testing.assert_close(looked_up.scores(some), dense.scores(some), **close)
    pulled = looked_up.pull(slopes, ends), dense.pull(slopes, ends)
    torch.testing.assert_close(*pulled, **close)
    squares = symmetric(dense.squares(weight, ends))
    for library in {lookup.LIBRARY, None}:
        with patch.object(lookup, "LIBRARY", library):
            found = symmetric(looked_up.squares(weight, ends))
            torch.testing.assert_close(found, squares.float(), **close)
    own, much = x.double()[n // 3 :], weight[n // 3 :, None]
    torch.testing.assert_close(squares[2].double(), own.T @ (much * own), **close)
    torch.testing.assert_close(pulled[1][2], slopes[:, n // 3 :].mT @ own, **close)
    torch.testing.assert_close(symmetric(triangle(squares)), squares)


def test_in_c_looked_up_or_laid_out_newton_finds_the_same_model(monkeypatch):
    data = table(400, 0, 2)
    federation = data.federate(by_column("site"))
    method = pff.make("newton", {"rounds": 10})
    found = []
    ways = [(lookup.LIBRARY, 1, LookedUp)] * bool(lookup.LIBRARY)
    for library, width, kind in (*ways, (None, 1, LookedUp), (None, 10**6, Dense)):
        monkeypatch.setattr(lookup, "LIBRARY", library)
        monkeypatch.setattr(sums, "WIDE", width)
        clients = Clients(
            linear(federation.encoder.width, groups=2), federation.table,
            federation.partition.train, range(len(federation)), 0,
        )  # fmt: skip
        design = next(iter(sums.pieces(clients, 5))).design
        assert type(design) is kind
        found.append(pff.train(federation, method).fitted.w.numpy())
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=2e-5)


def test_a_table_of_s_only_has_the_rates_of_the_groups():
    frame = pd.DataFrame({"sex": np.arange(400) % 2, "site": np.repeat(["a", "b"], 200)})
    frame["hired"] = (np.arange(400) % 8 < 2 + 4 * frame["sex"]).astype(int)
    data = pff.from_frame(frame, "hired", "sex")
    federation = data.federate(by_column("site"), 0)
    run = pff.train(federation, pff.make("newton", data=data), 0)
    rows = np.concatenate(federation.partition.train)
    scores = torch.sigmoid(run.network.logits(run.fitted.theta[:1], torch.zeros(1, 2, 0),
                                              torch.tensor([[0, 1]])))  # fmt: skip
    for group, score in enumerate(scores.ravel().tolist()):
        rate = data.y[rows][data.s[rows] == group].mean()
        assert score == pytest.approx(rate, abs=0.02)  # but for the ridge
