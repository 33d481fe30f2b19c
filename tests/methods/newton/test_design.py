"""A design that is looked up is the one that is laid out."""

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
from pfedfair.methods.newton import curvature, lookup
from pfedfair.methods.newton.design import Dense, Looked, whole
from pfedfair.methods.newton.lookup import Compiled
from pfedfair.models import linear
from pfedfair.partition import by_column


def table(n: int, seed: int, groups: int) -> pff.Dataset:
    """Numbers with spikes, few values, one value and empty cells; levels, rare ones and none."""
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
    dense, looked = Dense(x.double()), Looked(federation.table.x, more, encoder.tables)
    rng = torch.Generator().manual_seed(seed)
    some = torch.randn(points, outputs, x.shape[1], generator=rng, dtype=torch.float64)
    slopes = torch.randn(points, n, outputs, generator=rng, dtype=torch.float64)
    weight = torch.rand(n, generator=rng, dtype=torch.float64)
    close = {"rtol": 1e-5, "atol": 1e-4}
    compiled = Compiled(federation.table.x, more, encoder.ranges) if lookup.LIBRARY else looked
    for found in (looked, compiled):
        for lines in (slice(n), slice(n // 3, n), slice(0, 0)):
            one, other = found.part(lines), dense.part(lines)
            slope, much = slopes[:, lines], weight[lines]
            torch.testing.assert_close(one.scores(some), other.scores(some), **close)
            torch.testing.assert_close(one.pull(slope), other.pull(slope), **close)
            squares = one.square(much).double(), other.square(much).double()
            torch.testing.assert_close(*squares, **close)
    plain = x.double().T @ (weight[:, None] * x.double())
    torch.testing.assert_close(whole(dense.square(weight)), plain, **close)


def test_in_c_looked_up_or_laid_out_newton_finds_the_same_model(monkeypatch):
    data = table(400, 0, 2)
    federation = data.federate(by_column("site"))
    method = pff.make("newton", {"rounds": 10})
    found = []
    ways = [(lookup.LIBRARY, 1, Compiled)] * bool(lookup.LIBRARY)
    for library, width, kind in (*ways, (None, 1, Looked), (None, 10**6, Dense)):
        monkeypatch.setattr(lookup, "LIBRARY", library)
        monkeypatch.setattr(curvature, "WIDE", width)
        clients = Clients(
            linear(federation.encoder.width, groups=2), federation.table,
            federation.partition.train, range(len(federation)), 0,
        )  # fmt: skip
        design = next(iter(curvature.pieces(clients, 5))).design
        assert type(design) is kind
        found.append(pff.train(federation, method).fitted.w.numpy())
    for other in found[1:]:
        assert other == pytest.approx(found[0], abs=2e-5)


def test_a_table_of_s_alone_has_the_rates_of_the_groups():
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
