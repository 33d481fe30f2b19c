"""Thresholds from a client's own held rows: what they keep, and whose scores they are on."""

import pytest
import torch
from play import clients, numbers

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.methods.clients import hold_out
from pfedfair.models import linear
from pfedfair.theory.cuts import fair_cuts

OPTIONS = {"rounds": 4, "batch": 120, "alpha": 0.02}


def trained(federation, algorithm):
    return pff.train(federation, algorithm, network=linear(federation.table.width, groups=2))


@pytest.fixture(scope="module")
def compas():
    return pff.load("compas").federate(pff.partition.fixed_shares(), 0)


@pytest.fixture(scope="module")
def run(compas):
    return pff.train(
        compas,
        pff.methods.ThresholdLocal(**OPTIONS, target_ddp=0.03),
        network=linear(compas.table.width, groups=2),
    )


def test_the_model_is_the_bases_on_the_rows_that_are_not_held(compas, run):
    """One round of one minibatch by hand: FedAvg's step on the rest of the rows."""
    algorithm = pff.methods.ThresholdLocal(rounds=1, batch=10_000, alpha=0.1, optimiser="sgd")
    network = linear(compas.encoder.width, groups=2)
    fitted = local.fit(compas, algorithm, network, seed=0)
    trained, _ = hold_out(clients(compas, network), 0.2)
    w = network.init(seeds.generator(0, seeds.INIT))
    steps = []
    for rows in trained.rows:
        x, y, s = (t[rows] for t in compas.table[:3])
        inputs = torch.cat([x, s[:, None], torch.ones(len(rows), 1)], dim=1)
        error = torch.sigmoid(inputs @ w) - y
        steps.append(w - 0.1 * (error @ inputs) / len(rows))
    torch.testing.assert_close(fitted.w, torch.stack(steps).mean(0), rtol=1e-4, atol=1e-6)
    assert (run.fitted.theta == run.fitted.w).all()


def test_rules_are_the_best_cuts_on_the_held_rows(compas, run):
    _, held = hold_out(clients(compas, run.network), 0.2)
    table = compas.table
    for rows, predictor in zip(held.rows, run.predictors, strict=True):
        s = table.s[rows]
        z = predictor.logits(table.inputs(rows), s)[:, 0]
        cuts = fair_cuts(z.numpy(), table.y[rows].numpy(), s.numpy(), 0.03)
        torch.testing.assert_close(predictor.rule.numbers, torch.from_numpy(cuts).float())
        chance = predictor.rule.chances(z[:, None], s)[:, 1]
        assert abs(float(chance[s == 1].mean() - chance[s == 0].mean())) <= 0.03 + 1e-6


def test_another_target_needs_no_training(compas, run):
    tight = run.retarget(target_ddp=0.0)
    again = pff.train(
        compas,
        pff.methods.ThresholdLocal(**OPTIONS, target_ddp=0.0),
        network=linear(compas.table.width, groups=2),
    )
    assert torch.equal(numbers(tight.fitted.rules), numbers(again.fitted.rules))
    with pytest.raises(pff.InputError, match="can change without training anew 'held'"):
        run.retarget(held=0.1)


def test_a_client_without_a_group_keeps_the_threshold_one_half(table):
    keep = (table.frame["site"] != "site 1").to_numpy() | (table.s == 1)
    data = pff.from_frame(table.frame[keep], "hired", "sex", drop=["site"])
    lone = data.federate(pff.partition.by_column("site", min_rows=1))
    network = linear(lone.encoder.width, groups=2)
    fitted = local.fit(lone, pff.methods.ThresholdLocal(rounds=2, batch=30), network, seed=0)
    assert (fitted.rules[1].numbers == 0).all()
    assert torch.isfinite(numbers(fitted.rules)).all()


@pytest.mark.parametrize(
    "kind", [pff.methods.ThresholdLocal, pff.methods.FedFACT, pff.methods.Duan]
)
def test_what_cannot_be_is_refused(federation, kind):
    name = kind.__name__
    with pytest.raises(pff.InputError, match=f"Local cannot be the base of {name}: take a fed"):
        kind(base=pff.methods.Local())
    with pytest.raises(pff.InputError, match="Transport cannot be the base of"):
        kind(base=pff.methods.Transport())
    with pytest.raises(pff.InputError, match=r"target_ddp must be in \[0, 1\]"):
        kind(target_ddp=-0.1)
    with pytest.raises(pff.InputError, match="held must be above 0"):
        kind(held=0.0)
    blind = federation.data.federate(pff.partition.by_column("site"), 0, sensitive_as_input=False)
    with pytest.raises(pff.InputError, match=f"{name} has a rule for each group: S must be"):
        pff.train(blind, kind(rounds=2))
    if kind.__name__ != "ThresholdLocal":
        with pytest.raises(pff.InputError, match="target_global must be in"):
            kind(target_global=3.0)
        with pytest.raises(pff.InputError, match="has to train again for another target"):
            kind().retarget(target_ddp=0.1)
