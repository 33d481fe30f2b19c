"""The kernel in C gives what PyTorch gives, where it can work, and nobody misses it elsewhere."""

import threading

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import one_hot

import pfedfair as pff
from pfedfair.engines import local
from pfedfair.models import MLP, kernel
from pfedfair.models.base import CrossEntropy
from pfedfair.models.desk import ByKernel, ByTorch, desk_for, new_desk

built = pytest.mark.skipif(
    kernel.LIBRARY is None, reason="the kernel was not built, is switched off, or is not for here"
)
task = pytest.mark.parametrize("kind", range(1, kernel.KIND + 1), ids=lambda k: kernel.KINDS[k])


def stack(network, models, n, seed=0, draw=torch.randn):
    """Models, people and slopes, of single precision."""
    random = torch.Generator().manual_seed(seed)
    w = draw(models, network.size, generator=random)
    x = draw(models, n, network.inputs, generator=random)
    s = torch.randint(max(1, network.groups), (models, n), generator=random)
    return w, x, s, draw(models, n, network.outputs, generator=random)


def signs(*shape, generator):
    """-1, 0 and 1: sums of their products are exact in single precision, in any order."""
    return torch.randint(-1, 2, shape, generator=generator).float()


def put_to_sleep(network, w, part, seed=0):
    """Let a part of the hidden units be 0 for almost everybody."""
    random = torch.Generator().manual_seed(seed)
    for start, fan_in, fan_out in network.layers[:-1]:
        bias = w[:, start + fan_in * fan_out :][:, :fan_out]
        bias[torch.rand(bias.shape, generator=random) < part] -= fan_in + 2
    return w


def at(desk, network, w, x, s, slope):
    """Logits and gradient at a desk of this class."""
    own = desk(network.layers, network.groups, w, x.shape[1])
    return own.logits(w, x, s).clone(), own.pull(slope)


def with_kind(kind, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KIND", kind)
        return at(ByKernel, *arguments)


def by_autograd(network, w, x, s, slope):
    """In double precision, from the definition."""
    leaf, out = w.double().requires_grad_(), x.double()
    if network.groups:
        group = s[..., None] if network.groups == 2 else one_hot(s, network.groups)
        out = torch.cat([out, group.double()], -1)
    for start, fan_in, fan_out in network.layers:
        end = start + fan_in * fan_out
        weight = leaf[:, start:end].view(-1, fan_out, fan_in)
        out = out @ weight.mT + leaf[:, None, end : end + fan_out]
        out = out if end + fan_out == network.size else out.relu()
    (grad,) = torch.autograd.grad((out * slope).sum(), leaf)
    return out.detach(), grad


def assert_exact(kind, network, models, n, asleep, seed):
    """With numbers -1, 0 and 1 all sums are exact: equal to autograd to the last bit."""
    w, *people = stack(network, models, n, seed, signs)
    put_to_sleep(network, w, asleep, seed)
    logits, grad = with_kind(kind, network, w, *people)
    right_logits, right_grad = by_autograd(network, w, *people)
    assert torch.equal(logits.double(), right_logits)
    assert torch.equal(grad.double(), right_grad)


@built
@task
@given(
    inputs=st.integers(1, 130),
    hidden=st.lists(st.integers(1, 130) | st.integers(128, 150), max_size=3),
    outputs=st.integers(1, 3) | st.integers(4, 20),
    groups=st.sampled_from([0, 2, 3]),
    models=st.integers(1, 7),
    n=st.integers(1, 200),
    asleep=st.sampled_from([0, 0.3, 0.9, 1]),
    seed=st.integers(0, 99),
)
@hypothesis.settings(max_examples=150)
def test_whole_numbers_of_any_shape_are_exact(
    kind, inputs, hidden, outputs, groups, models, n, asleep, seed
):
    """No number is left out, counted twice or put elsewhere: equal to autograd to the last bit."""
    network = MLP(inputs, hidden, outputs, groups)
    assert_exact(kind, network, models, n, asleep, seed)


@built
@task
@pytest.mark.parametrize("hidden", [(), (64,), (64, 64), (50, 30), (3, 70, 17)], ids=str)
@pytest.mark.parametrize("outputs", [1, 3, 26])
def test_real_numbers_to_rounding(kind, hidden, outputs):
    network = MLP(40, hidden, outputs, groups=2)
    w, *people = stack(network, 3, 65)
    for desk in (by_autograd, lambda *what: at(ByTorch, *what)):
        for ours, theirs in zip(
            with_kind(kind, network, w / 4, *people), desk(network, w / 4, *people), strict=True
        ):
            error = (ours.double() - theirs.double()).abs().max() / theirs.abs().max()
            assert error < 2e-6


@built
@task
def test_what_is_not_a_number_passes_through(kind):
    network = MLP(5, (20, 20), groups=2)
    for place in ("w", "x", "slope"):
        w, x, s, slope = stack(network, 3, 9)
        {"w": w, "x": x, "slope": slope}[place][1] = torch.nan
        logits, grad = with_kind(kind, network, w, x, s, slope)
        assert logits[1].isnan().all() == (place != "slope")
        assert grad[1].isnan().sum() > network.size / 2
        for ours, theirs in zip((logits, grad), at(ByTorch, network, w, x, s, slope), strict=True):
            assert torch.equal(ours.isnan(), theirs.isnan())
            assert not ours[::2].isnan().any()


@built
@task
@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, torch.inf, -torch.inf, 1e38, 1e-42])
def test_ill_numbers_as_pytorch_has_them(kind, value):
    network = MLP(5, (20,), outputs=2)
    w, x, s, slope = stack(network, 2, 9)
    w[0, 3], x[0, 2] = value, value
    ours, theirs = with_kind(kind, network, w, x, s, slope), at(ByTorch, network, w, x, s, slope)
    torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-4, equal_nan=True)
    known = ~theirs[1].isnan()  # 0 times infinity is none, but zeros are left out here
    torch.testing.assert_close(ours[1][known], theirs[1][known], rtol=1e-4, atol=1e-4)


@built
def test_nobody_without_people_or_hidden_units_is_in_the_way():
    network = MLP(0, (4,), groups=2)
    people = stack(network, 2, 7, draw=signs)
    assert torch.equal(at(ByKernel, network, *people)[1].double(), by_autograd(network, *people)[1])
    nobody = stack(network, 2, 0)
    assert at(ByKernel, network, *nobody)[1].eq(0).all()


@built
@pytest.mark.parametrize("asleep", [0, 0.5])
def test_a_model_moves_alike_alone_in_a_stack_and_with_padding(asleep):
    network = MLP(12, (64, 64), groups=2)
    w, x, s, slope = stack(network, 6, 70)
    put_to_sleep(network, w, asleep)
    x[:, 61:] *= 9  # they wake units that the others do not
    slope[:, 61:] = 0  # padding: of no weight
    logits, grad = at(ByKernel, network, w, x, s, slope)
    for i in range(6):
        own = w[i : i + 1], x[i : i + 1, :61], s[i : i + 1, :61], slope[i : i + 1, :61]
        alone_logits, alone = at(ByKernel, network, *own)
        assert torch.equal(alone_logits[0], logits[i, :61])
        assert torch.equal(alone[0], grad[i])


@built
def test_views_of_larger_tensors_are_read_where_they_are():
    network = MLP(5, (8,), groups=3)
    w, x, s, slope = stack(network, 3, 4, draw=signs)
    parts = (torch.stack([part, part + 7], 1)[:, 0] for part in (w, x, s, slope))
    for ours, theirs in zip(
        at(ByKernel, network, *parts), by_autograd(network, w, x, s, slope), strict=True
    ):
        assert torch.equal(ours.double(), theirs)


def desk_of(network, w, x, s):
    return type(new_desk(network.layers, network.groups, w, x, s))


@built
def test_what_it_cannot_read_takes_pytorchs_way():
    network = MLP(6, (8,), groups=2)
    w, x, s, _ = stack(network, 3, 4)
    assert desk_of(network, w, x, s) is ByKernel
    assert desk_of(network, w, x.reshape(3, 4, 2, 3), s) is ByKernel  # images
    unfit = [
        (w.double(), x.double(), s),
        (w, x.double(), s),
        (w, x, s.int()),
        (w.t().contiguous().t(), x, s),
        (w, x.mT.contiguous().mT, s),
        (w, x, s.t().contiguous().t()),
        (w.clone().requires_grad_(), x, s),
    ]
    assert [desk_of(network, *each) for each in unfit] == [ByTorch] * len(unfit)
    grad = network.gradient(*unfit[4], torch.clone)
    torch.testing.assert_close(grad, network.gradient(w, x, s, torch.clone))
    deep = MLP(2, (2,) * kernel.MOST_LAYERS)
    assert desk_of(deep, *stack(deep, 2, 3)[:3]) is ByTorch


@built
def test_very_much_work_takes_pytorchs_way():
    network = MLP(64, (256,) * 4, groups=2)
    assert desk_of(network, *stack(network, 1, 600)[:3]) is ByKernel
    assert desk_of(network, *stack(network, 1, 1300)[:3]) is ByTorch


@built
@pytest.mark.parametrize("threads", [1, 3])
def test_models_with_much_work_go_apart_to_the_same_bits(threads, monkeypatch):
    network = MLP(12, (64, 40), groups=2)
    w, x, s, slope = stack(network, 5, 70)
    w[0], x[0] = w[0] * 1e-3, x[0] * 1e-38  # too small for whole numbers of single precision
    y, weight = (slope[..., 0] > 0).float(), torch.full((5, 70), 1 / 70)
    loss = CrossEntropy(y, weight)
    with local.flush_denormal():
        together = at(ByKernel, network, w, x, s, slope)
        own = ByKernel(network.layers, 2, w, 70).gradient(w, x, s, loss)
        monkeypatch.setattr(kernel, "SMALL", 0)
        torch.set_num_threads(threads)
        apart = ByKernel(network.layers, 2, w, 70)
        assert isinstance(apart.passes, kernel.Apart)
        for _ in range(5):
            assert torch.equal(apart.logits(w, x, s), together[0])
            assert torch.equal(apart.pull(slope), together[1])
            assert torch.equal(apart.gradient(w, x, s, loss), own)
    for each in ((w[:4], x, s), (w, x[:4], s), (w, x, s[:4]), (w[:, 1:], x, s)):
        with pytest.raises(AssertionError):
            apart.logits(*each)
    with pytest.raises(AssertionError):
        apart.pull(slope[:4])


@built
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [1, 30, 31, 95])
def test_logits_some_people_at_a_time_to_the_same_bits(n, threads, monkeypatch):
    monkeypatch.setattr(kernel, "PIECE", 30)
    torch.set_num_threads(threads)
    network = MLP(12, (64, 40), outputs=2, groups=3)
    w, x, s, slope = stack(network, 4, n)
    put_to_sleep(network, w, 0.5)
    right = at(ByKernel, network, w, x, s, slope)[0]
    assert torch.equal(network.logits(w, x, s), right)
    assert torch.equal(network.logits(w, x.reshape(4, n, 3, 4), s), right)  # images
    one = network.logits(w[:1].expand(4, -1), x, s)  # all have one model
    for i in range(4):
        assert torch.equal(one[i], network.logits(w[:1], x[i : i + 1], s[i : i + 1])[0])
    exact = network.logits(w.double(), x.double(), s).float()
    torch.testing.assert_close(right, exact, rtol=1e-5, atol=1e-4)


@built
def test_people_or_slopes_of_another_shape_are_refused():
    """In C nobody else would notice."""
    network = MLP(6, (8,), groups=2)
    w, x, s, slope = stack(network, 3, 4)
    own = ByKernel(network.layers, 2, w, 4)
    wrong = [(w, x[:2], s), (w, x[..., :5], s), (w, x, s[:2]), (w[:2], x, s), (w[:, 1:], x, s)]
    for each in wrong:
        with pytest.raises(AssertionError):
            own.logits(*each)
    own.logits(w, x, s)
    for each in (slope[:2], slope[..., 0], slope[:, :3]):
        with pytest.raises(AssertionError):
            own.pull(each)
    assert own.pull(slope.double().expand(3, 4, 1).mT.mT).equal(own.pull(slope))


@built
@task
@pytest.mark.parametrize("hidden", [(), (64, 64), (30,)], ids=str)
def test_the_plain_loss_in_one_call(kind, hidden, monkeypatch):
    monkeypatch.setattr(kernel, "KIND", kind)
    network = MLP(12, hidden, groups=2)
    w, x, s, _ = stack(network, 3, 65)
    w[0] *= 30  # chances of 0 and 1
    y = (x[..., 0] > 0).float()
    weight = torch.rand(3, 2, 65)[:, 0] / 65
    weight[2, 40:] = 0
    loss = CrossEntropy(y, weight)
    right = network.gradient(w.double(), x.double(), s, CrossEntropy(y.double(), weight.double()))
    whole = network.gradient(w, x, s, loss)
    parts = network.gradient(w, x, s, lambda logits: loss(logits))
    for i in range(3):
        for ours in (whole, parts):
            assert (ours[i] - right[i]).abs().max() < 3e-6 * right[i].abs().max()
    assert torch.equal(
        whole[2:], network.gradient(w[2:], x[2:], s[2:], CrossEntropy(y[2:], weight[2:]))
    )


@built
def test_the_plain_loss_of_other_numbers_is_pytorchs():
    network = MLP(6, (8,), groups=2)
    w, x, s, _ = stack(network, 3, 4)
    y, weight = (x[..., 0] > 0).float(), torch.full((3, 4), 0.25)
    right = network.gradient(w, x, s, CrossEntropy(y, weight))
    turned = CrossEntropy(y.t().contiguous().t(), weight[:1, :1].expand(3, 4))
    assert not kernel.knows(turned)
    torch.testing.assert_close(network.gradient(w, x, s, turned), right)
    torch.testing.assert_close(
        network.gradient(w, x, s, CrossEntropy(y.bool().float(), weight)), right
    )
    weight[1, 2] = torch.nan
    assert network.gradient(w, x, s, CrossEntropy(y, weight))[1].isnan().any()
    for wrong in (CrossEntropy(y[:2], weight[:2]), CrossEntropy(y[:, :3], weight[:, :3])):
        with pytest.raises(AssertionError):
            network.gradient(w, x, s, wrong)


@built
def test_one_desk_is_for_all_models_of_a_form():
    network = MLP(6, (8,), groups=2)
    w, x, s, _ = stack(network, 3, 4)
    desks = {id(desk_for(network.layers, 2, some, x, s)) for some in (w, w.clone(), w + 1)}
    assert len(desks) == 1


@built
def test_several_threads_at_once():
    network, found = MLP(20, (64, 64), groups=2), []
    people = stack(network, 4, 100)
    right = at(ByKernel, network, *people)[1]

    def work():
        found.append(all(at(ByKernel, network, *people)[1].equal(right) for _ in range(20)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 3


@built
@pytest.mark.parametrize("method", ["fedavg", "pfedfair"])
def test_training_is_the_same_without_it(method, federation, monkeypatch):
    settings = {"rounds": 3, "batch": 20, "optimiser": "sgd", "alpha": 0.05}
    personal = {"prox_epochs": 2, "inner": "sgd"} if pff.make(method).personal else {}
    algorithm = pff.make(method, settings | personal)
    network = MLP(federation.encoder.width, (16, 8), groups=2)
    ours = local.fit(federation, algorithm, network, seed=0)
    again = local.fit(federation, algorithm, network, seed=0)
    monkeypatch.setattr(kernel, "LIBRARY", None)
    theirs = local.fit(federation, algorithm, network, seed=0)
    assert torch.equal(ours.theta, again.theta)
    torch.testing.assert_close(ours.theta, theirs.theta, rtol=1e-5, atol=1e-5)


def test_without_it_pytorch_does_the_work(monkeypatch):
    monkeypatch.setattr(kernel, "LIBRARY", None)
    network = MLP(6, (8,), groups=2)
    w, x, s, _ = stack(network, 3, 4)
    assert desk_of(network, w, x, s) is ByTorch
    assert kernel.words() == "PyTorch alone"


@built
def test_single_precision_whatever_is_the_usual_one():
    network = MLP(6, (8,), groups=2)
    w, x, s, slope = stack(network, 3, 40)
    right = network.logits(w, x, s), at(ByKernel, network, w, x, s, slope)[1]
    before = torch.get_default_dtype()
    kernel.ROOMS.of.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        found = network.logits(w, x, s), at(ByKernel, network, w, x, s, slope)[1]
    finally:
        torch.set_default_dtype(before)
        kernel.ROOMS.of.cache_clear()
    assert all(map(torch.equal, found, right))
