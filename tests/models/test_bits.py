"""Networks of one output and narrow layers: slopes are bits, their products sums from tables."""

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_kernel import (
    assert_exact,
    at,
    built,
    by_autograd,
    put_to_sleep,
    signs,
    stack,
    task,
    with_kind,
)

from pfedfair.models import MLP
from pfedfair.models.desk import ByKernel

widths = st.integers(1, 64) | st.sampled_from([15, 16, 17, 63, 64])
shapes = given(
    inputs=st.integers(1, 150),
    hidden=st.lists(widths, min_size=1, max_size=4),
    groups=st.sampled_from([0, 2, 3]),
    n=st.integers(1, 20) | st.sampled_from([63, 64, 65, 127, 128, 129, 135, 300]),
    asleep=st.sampled_from([0, 0.3, 0.9, 1]),
    seed=st.integers(0, 99),
)


@built
@task
@shapes
@hypothesis.settings(max_examples=100)
def test_whole_numbers_of_any_shape_are_exact(kind, inputs, hidden, groups, n, asleep, seed):
    assert_exact(kind, MLP(inputs, hidden, groups=groups), 2, n, asleep, seed)


@built
@task
@shapes
@hypothesis.settings(max_examples=60)
def test_real_numbers_to_rounding(kind, inputs, hidden, groups, n, asleep, seed):
    """Sums are in another order than autograd's, and in single precision."""
    network = MLP(inputs, hidden, groups=groups)
    w, x, s, slope = stack(network, 2, n, seed)
    for start, fan_in, fan_out in network.layers:
        w[:, start : start + fan_in * fan_out] /= fan_in**0.5
    put_to_sleep(network, w, asleep, seed)
    for ours, right in zip(
        with_kind(kind, network, w, x, s, slope), by_autograd(network, w, x, s, slope), strict=True
    ):
        assert (ours - right).abs().max() <= 2e-6 * right.abs().max()


@built
@task
@shapes
@hypothesis.settings(max_examples=60)
def test_padding_changes_no_bit_whatever_is_in_it(kind, inputs, hidden, groups, n, asleep, seed):
    """Nobody's slope is 0; what they would say may even be no number."""
    network = MLP(inputs, hidden, groups=groups)
    w, x, s, slope = stack(network, 2, n + 7, seed)
    put_to_sleep(network, w, asleep, seed)
    slope[:, n:] = 0
    x[0, n:] *= 9
    x[1, n:] = torch.nan
    _, padded = with_kind(kind, network, w, x, s, slope)
    _, alone = with_kind(kind, network, w, x[:, :n], s[:, :n], slope[:, :n])
    assert torch.equal(padded.view(torch.int32), alone.view(torch.int32))


@built
def test_a_pass_back_may_be_asked_for_twice():
    """What a pass forth left is not written over."""
    network = MLP(9, (20, 30), groups=2)
    w, x, s, slope = stack(network, 2, 11, draw=signs)
    own = ByKernel(network.layers, 2, w, 11)
    own.logits(w, x, s)
    own.pull(torch.zeros_like(slope))
    assert torch.equal(own.pull(slope), at(ByKernel, network, w, x, s, slope)[1])


@built
@task
@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_ill_weights_of_a_unit_that_says_nothing_are_no_slope(kind, value):
    network = MLP(5, (20, 20))
    w, x, s, slope = stack(network, 1, 9)
    start, fan_in, fan_out = network.layers[1]
    w[0, start + fan_in * fan_out + 3] = -1e6  # the bias of unit 3 of the last hidden layer
    start = network.layers[2][0]
    w[0, start + 3] = value
    _, grad = with_kind(kind, network, w, x, s, slope)
    assert grad[0, :start].isfinite().all()
