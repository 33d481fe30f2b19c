"""`mlp` and `module` are the same function of the same weights, and so are their gradients."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import one_hot

import pfedfair as pff
from pfedfair.models import MLP, NETWORKS, Bias, Both, Module, from_dict, linear


def sequential(widths):
    layers = []
    for fan_in, fan_out in pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def group_zero(x):
    """Groups, for a network that does not look at them."""
    return torch.zeros(x.shape[:2], dtype=torch.long)


@given(
    rows=st.integers(1, 5),
    n=st.integers(1, 9),
    widths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    outputs=st.integers(1, 3),
    groups=st.sampled_from([0, 2, 3, 5]),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_mlp_is_a_sequential_on_x_with_s_appended(rows, n, widths, outputs, groups, seed):
    """In outputs and gradients: S as one more number for two groups, one-hot for more."""
    torch.manual_seed(seed)
    behind = {0: 0, 2: 1}.get(groups, groups)
    mlp = MLP(widths[0], widths[1:], outputs, groups)
    module = sequential([widths[0] + behind, *widths[1:], outputs])
    assert mlp.size == sum(p.numel() for p in module.parameters())
    w, x = torch.randn(rows, mlp.size), torch.randn(rows, n, widths[0])
    s, slope = torch.randint(max(1, groups), (rows, n)), torch.randn(rows, n, outputs)
    ours, pull = mlp.vjp(w, x, s)
    torch.testing.assert_close(mlp.logits(w, x, s), ours)
    wrapped, pull_wrapped = Module(module, groups).vjp(w, x, s)
    for i in range(rows):
        nn.utils.vector_to_parameters(w[i], module.parameters())
        extra = {0: s[i, :, None][:, :0], 2: s[i, :, None]}.get(groups)
        extra = one_hot(s[i], groups) if extra is None else extra
        reference = module(torch.cat([x[i], extra.float()], dim=1))
        torch.testing.assert_close(ours[i], reference.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(wrapped[i], reference.detach(), rtol=1e-4, atol=1e-5)
        grads = torch.autograd.grad((reference * slope[i]).sum(), list(module.parameters()))
        flat = torch.cat([g.flatten() for g in grads])
        torch.testing.assert_close(pull(slope)[i], flat, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(pull_wrapped(slope)[i], flat, rtol=1e-4, atol=1e-4)


def test_gradient_is_autograds_in_double_precision():
    torch.manual_seed(0)
    network = MLP(5, (8, 6), groups=2)
    w = torch.randn(3, network.size, dtype=torch.float64, requires_grad=True)
    x, s = torch.randn(3, 11, 5, dtype=torch.float64), torch.randint(2, (3, 11))
    slope = torch.randn(3, 11, 1, dtype=torch.float64)
    (expected,) = torch.autograd.grad((network.logits(w, x, s) * slope).sum(), w)
    with torch.no_grad():
        _, pullback = network.vjp(w.detach(), x, s)
        torch.testing.assert_close(pullback(slope), expected)


def test_a_row_is_parameters_to_vector():
    model = sequential([4, 3, 1])
    w = nn.utils.parameters_to_vector(model.parameters()).detach()
    x = torch.randn(1, 6, 4)
    torch.testing.assert_close(
        MLP(4, (3,)).logits(w[None], x, group_zero(x))[0], model(x[0]).detach()
    )


def test_linear_by_hand():
    w = torch.tensor([[2.0, -1.0, 0.5]])
    x = torch.tensor([[[1.0, 1.0], [0.0, 3.0]]])
    logits, pullback = linear(2).vjp(w, x, group_zero(x))
    torch.testing.assert_close(logits, torch.tensor([[[1.5], [-2.5]]]))
    grad = pullback(torch.tensor([[[1.0], [2.0]]]))
    torch.testing.assert_close(grad, torch.tensor([[1.0, 7.0, 3.0]]))
    s = torch.tensor([[0, 1]])  # S has the weight -1 now
    logits, _ = linear(1, groups=2).vjp(w, x[..., 1:], s)
    torch.testing.assert_close(logits, torch.tensor([[[2.5], [5.5]]]))


def test_bias_ignores_its_input():
    w = torch.tensor([[0.5], [-1.0]])
    x = torch.randn(2, 3, 4)
    logits, pullback = Bias().vjp(w, x, group_zero(x))
    torch.testing.assert_close(logits[..., 0], w.expand(2, 3))
    torch.testing.assert_close(pullback(torch.ones(2, 3, 1)), torch.full((2, 1), 3.0))
    w = torch.tensor([[0.5, 1.0, -2.0], [-1.0, 0.0, 3.0]])  # of three classes
    x = torch.randn(2, 5, 4)
    logits, pullback = Bias(3).vjp(w, x, group_zero(x))
    torch.testing.assert_close(logits, w[:, None].expand(2, 5, 3))
    torch.testing.assert_close(pullback(torch.ones(2, 5, 3)), torch.full((2, 3), 5.0))


@pytest.mark.parametrize("network", [MLP(5, (4,)), Module(sequential([5, 4, 1]))])
def test_init_depends_on_the_seed_only(network):
    first = network.init(np.random.default_rng(1))
    torch.manual_seed(999)
    torch.testing.assert_close(network.init(np.random.default_rng(1)), first, rtol=0, atol=0)
    assert not torch.equal(network.init(np.random.default_rng(2)), first)
    assert first.abs().max() <= 0.5  # 1 / sqrt(4)


@given(
    st.lists(st.integers(1, 5), max_size=2), st.integers(1, 3), st.sampled_from([0, 2, 3]),
    st.integers(1, 4), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_both_are_two_networks_side_by_side(hidden, outputs, groups, guessed, seed):
    """The logits are the network's, then the head's; so is a row, and its gradient."""
    network, head = MLP(4, hidden, outputs, groups), MLP(4, (3,), guessed)
    both = Both(network, head)
    rng = np.random.default_rng(seed)
    first = both.init(np.random.default_rng(1))
    again = np.random.default_rng(1)
    assert torch.equal(first, torch.cat([network.init(again), head.init(again)]))
    torch.manual_seed(seed)
    w, x = torch.randn(3, both.size), torch.randn(3, 7, 4)
    s = torch.from_numpy(rng.integers(max(1, groups), size=(3, 7)))
    logits, pull = both.vjp(w, x, s)
    torch.testing.assert_close(logits, both.logits(w, x, s))
    slope = torch.randn(logits.shape)
    end = network.size
    one, pull_one = network.vjp(w[:, :end].contiguous(), x, s)
    two, pull_two = head.vjp(w[:, end:].contiguous(), x, s)
    torch.testing.assert_close(logits, torch.cat([one, two], dim=-1))
    parts = pull_one(slope[..., :outputs].contiguous()), pull_two(slope[..., outputs:].contiguous())
    torch.testing.assert_close(pull(slope), torch.cat(parts, dim=1))
    assert both.words == f"{network.words} and a guess of S"


def test_likeness_is_all_but_the_outputs():
    made = MLP(4, (5, 3), 1, groups=3).like(7)
    assert made.to_dict() == MLP(4, (5, 3), 7, groups=3).to_dict()
    with pytest.raises(pff.InputError, match=r"module Linear cannot guess S, .* an MLP\."):
        Module(nn.Linear(2, 1)).like(2)


MADE = {
    "mlp": MLP(4, (5, 3), 2, groups=3),
    "linear": linear(4, groups=2),
    "bias": Bias(3),
    "both": Both(MLP(4, (5,), groups=2), linear(4, 2)),
    "module": Module(sequential([5, 3, 1]), groups=2),
    "both of a module": Both(Module(sequential([5, 3, 1]), groups=2), linear(4)),
}


@pytest.mark.parametrize("name", MADE)
def test_what_a_network_says_of_itself_makes_it_again(name):
    network = MADE[name]
    about = json.loads(json.dumps(network.to_dict()))
    again = from_dict(about, network.buffers(), sequential([5, 3, 1]))
    assert type(again) is type(network)
    assert (again.size, again.words, again.to_dict()) == (network.size, network.words, about)
    torch.manual_seed(0)
    w, x = torch.randn(2, network.size), torch.randn(2, 6, 4)
    s = torch.randint(2, (2, 6))
    assert torch.equal(again.logits(w, x, s), network.logits(w, x, s))


def test_every_kind_of_network_was_made_again():
    made = {network.to_dict()["kind"] for network in MADE.values()}
    assert made | {"pixels", "trees"} == set(NETWORKS)  # which have tests of their own
    with pytest.raises(pff.InputError, match="Unknown saved network 'forest'"):
        from_dict({"kind": "forest"})


def test_words_are_short():
    assert [MADE[name].words for name in ("mlp", "linear", "bias", "module")] == [
        "mlp 5-3", "linear", "constant", "module Sequential",
    ]  # fmt: skip


@pytest.mark.parametrize("groups", [0, 2, 3])
@pytest.mark.parametrize("hidden", [(), (5,)])
@pytest.mark.parametrize("encoding", ["piecewise", "standard"])
def test_scores_of_a_tables_rows_are_logits_of_their_inputs(groups, hidden, encoding):
    rng = np.random.default_rng(groups)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.choice(["u", "v", None], 90)})
    frame["y"], frame["s"] = rng.integers(0, 2, 90), np.arange(90) % max(groups, 2)
    data = pff.from_frame(frame, "y", "s", encoding=encoding)
    table = data.federate(pff.partition.together()).table
    one, other = MLP(table.width, hidden, 2, groups), linear(table.width, 1, groups)
    for network in (one, Both(one, other)):
        w, rows = network.init(rng), torch.from_numpy(rng.permutation(90)[:70])
        baseline = network.logits(w[None], table.inputs(rows)[None], table.s[rows][None])[0]
        torch.testing.assert_close(
            network.scores(w, table.x[rows], table.s[rows], table.encoder),
            baseline,
            rtol=1e-5,
            atol=1e-5,
        )
