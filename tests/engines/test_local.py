"""The stacked engine does what the plain loop over clients says, whatever the chunks."""

import dataclasses

import pytest
import reference
import torch

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.federation import steps
from pfedfair.models import MLP

SHORT = {"rounds": 3, "batch": 25}
TIED = {**SHORT, "gamma": 0.3, "K": 3, "prox_epochs": 2}
CASES = {
    "erm-local": pff.methods.Local(**SHORT),
    "kde-local": pff.methods.Local(**SHORT, eta=0.9),
    "fedavg": pff.methods.FedAvg(**SHORT),
    "fedavg sgd": pff.methods.FedAvg(**SHORT, optimiser="sgd", alpha=0.1),
    "fedavg-kde": pff.methods.FedAvg(**SHORT, eta=0.9),
    "two epochs": pff.methods.FedAvg(**SHORT, epochs=2),
    "ditto two epochs": pff.methods.Ditto(**TIED, epochs=2, eta=0.5),
    "pfedfair two epochs": pff.methods.PFedFair(**TIED, epochs=2),
    "kde-local two epochs": pff.methods.Local(**SHORT, epochs=2, eta=0.9),
    "fedprox": pff.methods.FedProx(**SHORT, mu=0.5),
    "fedprox-kde": pff.methods.FedProx(**SHORT, mu=2.0, eta=0.9, optimiser="sgd", alpha=0.1),
    "perfedavg": pff.methods.PerFedAvg(**SHORT, adapt_epochs=2),
    "perfedavg-kde": pff.methods.PerFedAvg(**SHORT, eta=0.9, alpha_inner=0.05),
    "pfedme": pff.methods.PFedMe(**TIED, beta=0.7),
    "pfedme-kde sgd": pff.methods.PFedMe(
        **TIED, eta=0.5, inner="sgd", optimiser="sgd", alpha=0.5, alpha_inner=0.1
    ),
    "ditto": pff.methods.Ditto(**TIED),
    "ditto-kde": pff.methods.Ditto(**TIED, eta=0.9),
    "pfedfair": pff.methods.PFedFair(**TIED),
    "pfedfair prox": pff.methods.PFedFair(**TIED, envelope_gradient="prox"),
    "pfedfair sgd": pff.methods.PFedFair(
        **TIED, inner="sgd", optimiser="sgd", alpha=0.1, alpha_inner=0.05, eta=0.7
    ),
}


class DoubleMLP(MLP):
    def init(self, rng):
        return super().init(rng).double()


def network(federation):
    return DoubleMLP(federation.encoder.width, (8, 6), groups=2)


@pytest.fixture(scope="module")
def federation(federation):
    """In double precision: Adam turns a rounding error in a vanishing gradient into a step."""
    table = federation.table
    double = table._replace(x=table.x.double(), y=table.y.double())
    return dataclasses.replace(federation, table=double)


@pytest.fixture(scope="module")
def specification(federation):
    """Each case by the plain loop, done once."""
    done = {}

    def get(name):
        if name not in done:
            done[name] = reference.fit(federation, CASES[name], network(federation), seed=5)
        return done[name]

    return get


@pytest.mark.parametrize("at_once", [1, 2, 10])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_plain_loop_whatever_the_chunk(federation, specification, name, at_once):
    found = local.fit(federation, CASES[name], network(federation), seed=5, at_once=at_once)
    expected = specification(name)
    torch.testing.assert_close(found.w, expected.w, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.theta, expected.theta, rtol=1e-5, atol=1e-6)
    start = network(federation).init(seeds.generator(5, seeds.INIT))
    assert (found.theta - start).abs().max() > 0.002  # something was learned


def test_clients_of_unequal_size_share_no_step_count(federation):
    """The fixture is a real test of padding: sizes and numbers of steps differ."""
    sizes = federation.sizes
    assert len(set(sizes)) == 3
    assert len({steps(n, SHORT["batch"]) for n in sizes}) > 1


@pytest.mark.parametrize("name", ["pfedfair", "ditto-kde"])
def test_same_seed_same_bits(federation, name):
    runs = [local.fit(federation, CASES[name], network(federation), seed=1) for _ in range(2)]
    assert torch.equal(runs[0].theta, runs[1].theta)
    other = local.fit(federation, CASES[name], network(federation), seed=2)
    assert not torch.equal(runs[0].theta, other.theta)


def test_size_weighted_average(federation):
    """One SGD step per round: w moves by the size-weighted mean of the clients' gradients."""
    base = pff.methods.FedAvg(rounds=1, batch=10_000, optimiser="sgd", alpha=1.0)
    net = network(federation)
    each = reference.fit(
        federation, pff.methods.Local(**dataclasses.asdict(base)), net, seed=0
    ).theta
    found = local.fit(federation, dataclasses.replace(base, weighting="size"), net, seed=0).w
    n = torch.tensor(federation.sizes, dtype=torch.float64)
    torch.testing.assert_close(found, (n[:, None] * each).sum(0) / n.sum(), rtol=1e-4, atol=1e-6)


def test_work_adds_up_to_one(federation):
    for name in ("kde-local", "fedavg", "pfedfair", "ditto"):
        parts: list[float] = []
        local.fit(federation, CASES[name], network(federation), 0, at_once=1, on_work=parts.append)
        assert sum(parts) == pytest.approx(1)


@pytest.mark.parametrize("before", [False, True])
def test_the_processor_is_left_as_it_was(federation, before):
    torch.set_flush_denormal(before)
    try:
        local.fit(federation, pff.methods.Constant(), pff.models.Bias(), 0)
        assert (torch.tensor([1e-40]).mul(1.0).item() == 0.0) == before
    finally:
        torch.set_flush_denormal(False)
