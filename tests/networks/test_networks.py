"""`mlp` and `module` are the same function of the same weights, and so are their gradients."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import pfedfair as pff
from pfedfair.networks import MLP, Bias, Module, Thresholds, linear


def sequential(widths):
    layers = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@given(
    rows=st.integers(1, 5),
    n=st.integers(1, 9),
    widths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_mlp_equals_module_in_outputs_and_gradients(rows, n, widths, seed):
    torch.manual_seed(seed)
    mlp, module = MLP(widths[0], widths[1:]), Module(sequential([*widths, 1]))
    assert mlp.size == module.size
    w, x = torch.randn(rows, mlp.size), torch.randn(rows, n, widths[0])
    slope = torch.randn(rows, n, 1)
    ours, pull = mlp.vjp(w, x)
    theirs, pull_module = module.vjp(w, x)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mlp.logits(w, x), module.logits(w, x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(pull(slope), pull_module(slope), rtol=1e-4, atol=1e-4)


def test_gradient_is_autograds_in_double_precision():
    torch.manual_seed(0)
    network = MLP(5, (8, 6))
    w = torch.randn(3, network.size, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 11, 5, dtype=torch.float64)
    slope = torch.randn(3, 11, 1, dtype=torch.float64)
    (expected,) = torch.autograd.grad((network._forward(w, x)[-1] * slope).sum(), w)
    with torch.no_grad():
        _, pullback = network.vjp(w.detach(), x)
        torch.testing.assert_close(pullback(slope), expected)


def test_a_row_is_parameters_to_vector():
    model = sequential([4, 3, 1])
    w = nn.utils.parameters_to_vector(model.parameters()).detach()
    x = torch.randn(6, 4)
    torch.testing.assert_close(MLP(4, (3,)).logits(w[None], x[None])[0], model(x).detach())


def test_linear_by_hand():
    w = torch.tensor([[2.0, -1.0, 0.5]])
    x = torch.tensor([[[1.0, 1.0], [0.0, 3.0]]])
    logits, pullback = linear(2).vjp(w, x)
    torch.testing.assert_close(logits, torch.tensor([[[1.5], [-2.5]]]))
    grad = pullback(torch.tensor([[[1.0], [2.0]]]))
    torch.testing.assert_close(grad, torch.tensor([[1.0, 7.0, 3.0]]))


def test_bias_ignores_its_input():
    w = torch.tensor([[0.5], [-1.0]])
    logits, pullback = Bias().vjp(w, torch.randn(2, 3, 4))
    torch.testing.assert_close(logits[..., 0], w.expand(2, 3))
    torch.testing.assert_close(pullback(torch.ones(2, 3, 1)), torch.full((2, 1), 3.0))
    w = torch.tensor([[0.5, 1.0, -2.0], [-1.0, 0.0, 3.0]])  # of three classes
    logits, pullback = Bias(3).vjp(w, torch.randn(2, 5, 4))
    torch.testing.assert_close(logits, w[:, None].expand(2, 5, 3))
    torch.testing.assert_close(pullback(torch.ones(2, 5, 3)), torch.full((2, 3), 5.0))


@pytest.mark.parametrize("network", [MLP(5, (4,)), Module(sequential([5, 4, 1]))])
def test_init_depends_on_the_seed_alone(network):
    first = network.init(np.random.default_rng(1))
    torch.manual_seed(999)
    torch.testing.assert_close(network.init(np.random.default_rng(1)), first, rtol=0, atol=0)
    assert not torch.equal(network.init(np.random.default_rng(2)), first)
    assert first.abs().max() <= 0.5  # 1 / sqrt(4)


def test_batch_normalisation_is_refused():
    with pytest.raises(pff.InputError, match="running statistics"):
        Module(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 1)))


def test_thresholds_by_group_by_hand():
    torch.manual_seed(0)
    network = Thresholds(Module(sequential([4, 3, 1])))
    w = torch.randn(2, network.size)
    rules = torch.tensor(
        [
            [[-0.3, -0.1, 0.25, 0.0], [0.1, 0.1, 0.0, 0.125]],
            [[0.0, 0.2, 1.0, 0.5], [-9, 9, 0.5, 0.0]],
        ]
    )
    w[:, -8:] = rules.flatten(1)
    x = torch.cat([torch.randn(2, 50, 3), torch.randint(2, (2, 50, 1))], dim=2)
    z, inner = network.network.vjp(w[:, :-8], x)
    logits, pullback = network.vjp(w, x)
    torch.testing.assert_close(network.logits(w, x), logits)
    chances = network.chances(w, x)
    assert chances.shape == (2, 50, 2)
    assert network.rule_size == 8
    assert torch.equal(network.rule(w), rules)
    for row in range(2):
        for person in range(50):
            low, high, part, below = rules[row, int(x[row, person, -1])]
            score = z[row, person, 0]
            expected = 1 if score >= high else below if score < low else part
            assert chances[row, person, 1] == expected
            assert chances[row, person, 0] == 1 - expected
            threshold = high - part * (high - low)
            torch.testing.assert_close(logits[row, person, 0], score - threshold)
    slope = torch.randn(2, 50, 1)
    torch.testing.assert_close(pullback(slope)[:, :-8], inner(slope))
    assert (pullback(slope)[:, -8:] == 0).all()  # training leaves the rule alone
    assert network.init(np.random.default_rng(0))[-8:].tolist() == [0] * 8
