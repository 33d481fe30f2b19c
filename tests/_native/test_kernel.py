"""The passes in C against PyTorch's in double precision, which the same network does without it."""

import numpy as np
import pytest
import torch

from pfedfair._native import kernel
from pfedfair.models import MLP

pytestmark = pytest.mark.skipif(kernel.LIBRARY is None, reason="the library is not built, or off")


def example(hidden, outputs=1, groups=2, models=3, n=50, inputs=10, seed=0):
    """A network, models, inputs, groups and a slope."""
    torch.manual_seed(seed)
    network = MLP(inputs, hidden, outputs, groups)
    w = torch.stack([network.init(np.random.default_rng(i)) for i in range(models)])
    x, s = torch.randn(models, n, inputs), torch.randint(max(groups, 2), (models, n))
    return network, w, x, s, torch.randn(models, n, outputs)


@pytest.mark.parametrize("hidden", [(8,), (64, 64), (256, 130, 17), (1, 5)], ids=str)
@pytest.mark.parametrize(("outputs", "groups"), [(1, 2), (3, 4), (1, 0)])
@pytest.mark.parametrize("n", [1, 5, 600])
def test_both_passes_are_pytorchs(hidden, outputs, groups, n):
    network, w, x, s, slope = example(hidden, outputs, groups, n=n)
    logits, pullback = network.vjp(w.double(), x.double(), s)
    forward = kernel.Forward(network.widths, groups, w, x, s)
    right = pullback(slope.double())
    torch.testing.assert_close(forward.logits.double(), logits, rtol=1e-5, atol=1e-5)
    size = right.abs().max().item()
    torch.testing.assert_close(forward.backward(slope).double(), right, rtol=0, atol=1e-5 * size)


def test_inactive_units_change_nothing():
    """Large negative biases silence most units, and all of a layer of one model."""
    network, w, x, s, slope = example((40, 40))
    first = w[:, network.layers[0][1] * 40 :][:, :40]
    first[:, ::3] -= 100.0
    first[1] -= 100.0
    logits, pullback = network.vjp(w.double(), x.double(), s)
    forward = kernel.Forward(network.widths, 2, w, x, s)
    torch.testing.assert_close(forward.logits.double(), logits, rtol=1e-5, atol=1e-5)
    right = pullback(slope.double())
    torch.testing.assert_close(forward.backward(slope).double(), right, rtol=1e-4, atol=1e-4)


def test_a_model_is_the_same_wherever_it_stands_and_in_used_memory():
    network, w, x, s, slope = example((33, 20), models=4)
    whole = kernel.Forward(network.widths, 2, w, x, s)
    grads, buffers = whole.backward(slope), {}
    for i in (2, 0, 3):
        one = slice(i, i + 1)
        own = kernel.Forward(network.widths, 2, w[one], x[one], s[one], buffers)
        assert torch.equal(own.logits, whole.logits[one])
        assert torch.equal(own.backward(slope[one]), grads[one])


def test_tensors_may_lie_in_memory_in_any_way():
    network, w, x, s, slope = example((12,))
    forward = kernel.Forward(network.widths, 2, w, x, s)
    turned = [one.transpose(0, 1).contiguous().transpose(0, 1) for one in (w, x, s, slope)]
    other = kernel.Forward(network.widths, 2, *turned[:3])
    assert torch.equal(other.logits, forward.logits)
    assert torch.equal(other.backward(turned[3]), forward.backward(slope))
    shared = kernel.Forward(network.widths, 2, w[:1].expand(3, -1), x, s)
    assert torch.equal(shared.logits[0], forward.logits[0])


def test_groups_that_are_no_input_may_have_any_shape():
    network, w, x, s, _ = example((12,), groups=0)
    forward = kernel.Forward(network.widths, 0, w, x, s)
    assert torch.equal(network.vjp(w, x, s[:, :7])[0], forward.logits)
    assert torch.equal(network.logits(w, x, s[:, :7]), forward.logits)


def test_what_is_not_a_number_stays_so():
    network, w, x, s, slope = example((12, 6))
    x[1, 3, 0] = torch.nan
    forward = kernel.Forward(network.widths, 2, w, x, s)
    assert forward.logits[1, 3].isnan().all()
    assert forward.logits[0].isfinite().all()
    grad = forward.backward(slope)
    assert grad[1].isnan().any()
    assert grad[0].isfinite().all()


def test_logits_are_worked_out_piece_by_piece(monkeypatch):
    network, w, x, s, _ = example((12, 6))
    whole = network.logits(w, x, s)
    monkeypatch.setattr(kernel, "PIECE", 7)
    assert torch.equal(network.logits(w, x, s), whole)


def test_arguments_that_do_not_fit_are_refused():
    """Exceptions, no assertions: a short message from a server must not end the process."""
    network, w, x, s, slope = example((12,))
    widths = network.widths
    wrong = [(w[:, :-1], x, s), (w[:2], x, s), (w, x[:, :, 1:], s), (w, x, s[:, 1:]), (w, x[:2], s)]
    for arguments in wrong:
        with pytest.raises(ValueError, match="do not fit a perceptron"):
            kernel.Forward(widths, 2, *arguments)
    with pytest.raises(ValueError, match="needs rows"):
        kernel.Forward(widths, 2, w, x[:, :0], s[:, :0])
    with pytest.raises(TypeError, match="single precision"):
        kernel.Forward(widths, 2, w.double(), x, s)
    with pytest.raises(ValueError, match="the slope has the shape"):
        kernel.Forward(widths, 2, w, x, s).backward(slope[:, 1:])
