"""A gradient in memory that is used again is the same as in new memory."""

import gc
import threading
import weakref

import pytest
import torch

from pfedfair.models import MLP, kernel
from pfedfair.models.desk import DESKS, KEPT


@pytest.fixture(autouse=True, params=["kernel", "PyTorch"])
def way(request, monkeypatch):
    """By the kernel where it was built, and without it."""
    if request.param == "PyTorch":
        monkeypatch.setattr(kernel, "LIBRARY", None)
    elif kernel.LIBRARY is None:
        pytest.skip("the kernel was not built, is switched off, or is not for here")


def people(rows=3, n=11, inputs=5, seed=0):
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, n, inputs, generator=random)
    return x, torch.randint(2, (rows, n), generator=random)


def weights(network, rows=3, seed=0):
    return torch.randn(rows, network.size, generator=torch.Generator().manual_seed(seed))


def anew(network, w, x, s):
    """By autograd."""
    leaf = w.clone().requires_grad_()
    (grad,) = torch.autograd.grad(network.logits(leaf, x, s).square().sum() / 2, leaf)
    return grad


def kept(network, w, x, s):
    return network.gradient(w, x, s, torch.clone)  # the slope of z^2 / 2 is z


@pytest.mark.parametrize("hidden", [(), (8,), (8, 6)], ids=str)
@pytest.mark.parametrize("groups", [0, 2, 3])
def test_steps_in_place_and_other_people(hidden, groups):
    network = MLP(5, hidden, outputs=2, groups=groups)
    w = weights(network)
    for seed in range(4):
        x, s = people(n=11 if seed < 3 else 7, seed=seed)
        for _ in range(2):  # on one minibatch
            grad = kept(network, w, x, s)
            torch.testing.assert_close(grad, anew(network, w, x, s), rtol=1e-4, atol=1e-4)
            w.add_(grad, alpha=-0.01)


def test_people_that_are_written_over():
    network = MLP(5, (8,), groups=2)
    w, (x, s) = weights(network), people()
    kept(network, w, x, s)
    x.mul_(2)
    s.copy_(1 - s)
    torch.testing.assert_close(kept(network, w, x, s), anew(network, w, x, s))


@pytest.mark.parametrize("held", ["tensor", "view", "array"])
def test_a_gradient_that_is_held_is_not_written_over(held):
    network = MLP(5, (8,), groups=2)
    w = weights(network)
    first, second = people(seed=1), people(seed=2)
    grad = kept(network, w, *first)
    ours = {"tensor": grad, "view": grad[:, 2:], "array": grad.numpy()}[held]
    before = ours.copy() if held == "array" else ours.clone()
    del grad
    kept(network, w, *second)
    kept(network, w, *second)
    assert (ours == before).all()


def test_a_gradient_that_nobody_holds_is_the_next_ones_memory():
    network = MLP(5, (8,))
    w, (x, s) = weights(network), people()
    places = {kept(network, w, x, s).data_ptr() for _ in range(3)}
    assert len(places) == 1


def test_two_pullbacks_of_one_pass_are_apart():
    network = MLP(5, (8,), groups=2)
    w, (x, s) = weights(network), people()
    logits, pullback = network.vjp(w, x, s)
    one, two = pullback(logits), pullback(2 * logits)
    torch.testing.assert_close(two, 2 * one)


def test_models_by_turns_and_no_more_desks_than_are_kept():
    network = MLP(5, (8,), groups=2)
    stacks = [(weights(network, seed=seed), *people(n=9 + seed)) for seed in range(4)]
    for _ in range(2):
        for some in stacks:
            torch.testing.assert_close(kept(network, *some), anew(network, *some))
    assert len(DESKS.kept) == KEPT


def test_models_by_turns_on_the_same_people():
    network = MLP(5, (8,), groups=2)
    stacks, (x, s) = [weights(network, seed=seed) for seed in range(4)], people()
    for _ in range(2):
        grads = [kept(network, w, x, s) for w in stacks]
        for w, grad in zip(stacks, grads, strict=True):
            torch.testing.assert_close(grad, anew(network, w, x, s))


def test_threads_have_desks_of_their_own():
    network, found = MLP(20, (64, 64)), {}
    w, (x, s) = weights(network, 4), people(4, 300, 20)
    expected = kept(network, w, x, s)

    def work(name):
        found[name] = all(torch.equal(kept(network, w, x, s), expected) for _ in range(50))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"a": True, "b": True}


def test_one_model_alone_moves_as_in_a_stack():
    network = MLP(63, (64, 64), groups=2)
    w, (x, s) = weights(network, 5) / 8, people(5, 65, 63)
    stacked = kept(network, w, x, s)
    for i in range(5):
        alone = kept(network, w[i : i + 1], x[i : i + 1], s[i : i + 1])
        torch.testing.assert_close(alone[0], stacked[i], rtol=1e-5, atol=1e-5)


def test_a_desk_that_is_not_kept_is_gone_at_once():
    """A circle would keep its memory until Python looks for circles, which is no matter of size."""
    network = MLP(5, (8,), groups=2)
    stacks = [(weights(network, seed=seed), *people(n=9 + seed)) for seed in range(KEPT + 3)]
    desks = []
    gc.disable()
    try:
        for some in stacks:
            kept(network, *some)
            desks.append(weakref.ref(DESKS.kept[-1][1]))
        alive = [desk() is not None for desk in desks]
        _, pullback = network.vjp(*some)
        other = weakref.ref(pullback.__self__)
        del pullback
        assert other() is None
    finally:
        gc.enable()
    assert alive == [False] * 3 + [True] * KEPT
