"""Modules of one's own: images, groups, buffers; trained, written and read."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.models import MLP, Module


class Towards(nn.Module):
    """Looks at groups, and at a constant that is no row's to train."""

    def __init__(self, inputs, groups=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.out, self.of_group = nn.Linear(6, 1), nn.Embedding(groups, 1)
        self.register_buffer("scale", torch.tensor([0.5]))

    def forward(self, x, s):
        return self.scale * (self.out(self.body(x)) + self.of_group(s))


def seasoned(inputs):
    """A module whose batch normalisation has seen rows."""
    torch.manual_seed(1)
    module = Towards(inputs)
    for _ in range(5):
        module(2 * torch.randn(50, inputs) + 1, torch.randint(2, (50,)))
    return module


def buffers(module):
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def same(ours, reference):
    return ours.keys() == reference.keys() and all(torch.equal(ours[k], reference[k]) for k in ours)


def test_a_second_argument_is_the_group():
    module = seasoned(3).eval()
    network = Module(module)
    w = nn.utils.parameters_to_vector(module.parameters()).detach()
    x, s = torch.randn(1, 9, 3), torch.randint(2, (1, 9))
    logits = network.logits(w[None], x, s)[0]
    torch.testing.assert_close(logits, module(x[0], s[0]).detach())
    assert not torch.allclose(logits, network.logits(w[None], x, 1 - s)[0])


def test_a_second_argument_with_a_default_is_not_the_group():
    class Damped(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(3, 1)

        def forward(self, x, factor=2.0):
            return factor * self.line(x)

    network, x = Module(Damped()), torch.randn(1, 4, 3)
    w = torch.randn(1, network.size)
    a, b = (network.logits(w, x, torch.full((1, 4), z)) for z in (0, 1))
    assert torch.equal(a, b)


def test_images_keep_their_shape():
    """Through a convolution; and flattened, through an MLP."""
    module = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 4 * 2, 1))
    network = Module(module)
    torch.manual_seed(0)
    w, x = torch.randn(2, network.size), torch.randn(2, 5, 3, 6, 4)
    s = torch.zeros(2, 5, dtype=torch.long)
    logits, pull = network.vjp(w, x, s)
    assert pull(torch.ones_like(logits)).shape == w.shape
    for i in range(2):
        nn.utils.vector_to_parameters(w[i], module.parameters())
        torch.testing.assert_close(logits[i], module(x[i]).detach(), rtol=1e-4, atol=1e-5)
    mlp = MLP(3 * 6 * 4, (5,), groups=2)
    w = torch.randn(2, mlp.size)
    torch.testing.assert_close(mlp.logits(w, x, s), mlp.logits(w, x.flatten(2), s))


def test_rows_in_any_shape_are_trained_on(federation):
    """The same numbers as pictures of two rows: the same model."""
    network = Module(nn.Sequential(nn.Flatten(), nn.Linear(6, 1)))
    flat = federation.table.x
    algorithm = pff.methods.FedAvg(rounds=3, batch=30, alpha=0.02)
    runs = []
    for x in (flat, flat.view(-1, 2, 3), flat.view(-1, 1, 3, 2)):
        table = federation.table._replace(x=x)
        pictures = dataclasses.replace(federation, table=table)
        runs.append(local.fit(pictures, algorithm, network, seed=0))
    for fitted in runs[1:]:
        assert torch.equal(fitted.w, runs[0].w)


@pytest.fixture(scope="module")
def trained(federation):
    module = seasoned(federation.encoder.width).train()
    algorithm = pff.methods.FedAvg(rounds=15, batch=30, alpha=0.02)
    return module, pff.train(federation, algorithm, network=Module(module))


def test_buffers_stay_as_they_are_and_yours_too(federation, trained):
    module, run = trained
    fresh = seasoned(federation.encoder.width)
    assert same(buffers(module), buffers(fresh))
    assert same(run.network.buffers(), buffers(fresh))
    assert all(torch.equal(a, b) for a, b in
               zip(module.parameters(), fresh.parameters(), strict=True))  # fmt: skip
    assert module.training
    assert fresh.body[1].running_mean.abs().min() > 0.01  # something to forget
    constant = max(run.federation.data.y.mean(), 1 - run.federation.data.y.mean())
    assert run.table()["accuracy"].mean() > constant


def test_a_module_is_written_and_read(federation, trained, tmp_path):
    module, run = trained
    run.save(tmp_path)
    rows = federation.data.frame
    # The file has the buffers: a module that has seen other rows will do.
    for other in (module, Towards(federation.encoder.width)):
        before = buffers(other)
        for client in range(3):
            again = pff.load_model(tmp_path, client, module=other)
            trained = run.personal_model(client)
            np.testing.assert_array_equal(
                again.predict_proba(rows, rows["sex"]), trained.predict_proba(rows, rows["sex"])
            )
        assert same(again.predictor.network.buffers(), run.network.buffers())
        assert same(buffers(other), before)


def test_a_module_cannot_be_read_without_itself(federation, trained, tmp_path):
    trained[1].save(tmp_path)
    with pytest.raises(pff.InputError, match=r"a module Towards: give the same module, .*\)\.$"):
        pff.load_model(tmp_path, 0)
    other = nn.Linear(federation.encoder.width, 1)
    with pytest.raises(pff.InputError, match="module Linear has other parameters than the saved"):
        pff.load_model(tmp_path, 0, module=other)


def test_fresh_values_are_drawn_and_statistics_kept():
    module = seasoned(4)
    network = Module(module)
    first, second = (network.init(np.random.default_rng(k)) for k in (0, 1))
    assert not torch.equal(first, second)
    assert torch.equal(network.init(np.random.default_rng(0)), first)
    assert same(network.buffers(), buffers(module))


class Hidden(nn.Module):
    """A linear layer and a buffer that its state does not show."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1)
        self.register_buffer("bias", torch.randn(1), persistent=False)

    def forward(self, x, s=None):
        return self.layer(x) + self.bias + (0 if s is None else s[:, None])


def test_hidden_buffers_are_kept_and_a_second_argument_is_s(federation, tmp_path):
    width = federation.encoder.width
    network = pff.Module(Hidden(width))
    assert network.takes_s
    run = pff.train(federation, pff.methods.FedAvg(rounds=1), network=network)
    run.save(tmp_path)
    samples = federation.data.frame.head(20)
    given = {"sensitive_features": samples["sex"]}
    again = pff.load_model(tmp_path, 0, module=Hidden(width))
    expected = run.personal_model(0).predict_proba(samples, **given)
    np.testing.assert_array_equal(again.predict_proba(samples, **given), expected)
