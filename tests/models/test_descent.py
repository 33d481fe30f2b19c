"""Many steps in one call give what a loop over gradients gives."""

import hypothesis
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_kernel import built, task

from pfedfair.models import MLP, descent, kernel
from pfedfair.models.base import CrossEntropy, Network, Rows
from pfedfair.models.optimisers import OPTIMISERS, Adam, Step


def lessons(network, models, n, batches, seed=0):
    """People of some minibatches, laid out together as those of an epoch."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(models, batches, n, network.inputs, generator=random)
    s = torch.randint(max(1, network.groups), (models, batches, n), generator=random)
    y, weight = (x[..., 0] > 0).float(), torch.rand(models, batches, n, generator=random) / n
    return [
        (x[:, k], s[:, k], CrossEntropy(y[:, k], weight[:, k])) for k in range(batches)
    ]  # fmt: skip


def step_by_step(network, w, people, step, gamma=0.0, centre=None):
    """Plain loops over gradients, from the definition."""
    Network.descend(network, w, people, step, gamma, centre)


@built
@task
@pytest.mark.parametrize("name", OPTIMISERS)
@given(
    inputs=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 70), max_size=2),
    models=st.integers(1, 3),
    n=st.integers(1, 90),
    batches=st.integers(1, 3),
    again=st.integers(1, 2),
    ridge=st.sampled_from([0.0, 0.1]),
    centred=st.sampled_from(["not", "one", "each"]),
)
@hypothesis.settings(max_examples=30)
def test_steps_in_one_call(kind, name, inputs, hidden, models, n, batches, again, ridge, centred):
    network = MLP(inputs, hidden, groups=2)
    people = [one for one in lessons(network, models, n, batches) for _ in range(again)]
    w = torch.randn(models, network.size, generator=torch.Generator().manual_seed(1)) / 4
    centre = {"not": None, "one": w[0] / 2, "each": w / 2}[centred]
    ours, theirs, makers = w.clone(), w.clone(), [OPTIMISERS[name](0.01, ridge) for _ in "ab"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KIND", kind)
        kernel.ROOMS.of.cache_clear()  # of another kind
        assert descent.able(w, people, len(network.layers), 1, centre)
        for _ in range(2):  # moments go on
            network.descend(ours, people, makers[0], 0.7, centre)
            step_by_step(network, theirs, people, makers[1], 0.7, centre)
    assert makers[0].made == makers[1].made
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)
    assert not torch.equal(ours, w)


@built
def test_a_step_goes_on_where_another_way_of_stepping_stopped():
    network = MLP(6, (8,), groups=2)
    people = lessons(network, 3, 10, 4)
    w = torch.randn(3, network.size, generator=torch.Generator().manual_seed(1))
    ours, theirs, step, rival = w.clone(), w.clone(), Adam(0.01), Adam(0.01)
    network.descend(ours, people[:2], step)
    step_by_step(network, ours, people[2:], step)
    step_by_step(network, theirs, people, rival)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@built
@pytest.mark.parametrize("threads", [1, 3])
def test_steps_of_large_models_go_apart_to_the_same_bits(threads, monkeypatch):
    network = MLP(12, (64, 40), groups=2)
    people, w = lessons(network, 5, 70, 3), torch.randn(5, network.size) / 4
    together, apart = w.clone(), w.clone()
    network.descend(together, people, Adam(0.01), 0.1, w)
    monkeypatch.setattr(kernel, "SMALL", 0)
    torch.set_num_threads(threads)
    network.descend(apart, people, Adam(0.01), 0.1, w)
    assert torch.equal(together, apart)
    alone = w[3:4].clone()
    own = [(x[3:4], s[3:4], CrossEntropy(loss.y[3:4], loss.weight[3:4])) for x, s, loss in people]
    network.descend(alone, own, Adam(0.01), 0.1, w[3:4])
    assert torch.equal(alone[0], together[3])


@built
def test_steps_that_the_library_cannot_take_are_taken_one_by_one():
    network = MLP(6, (8,), groups=2)
    people = lessons(network, 3, 10, 2)
    (x, s, loss), *_ = people
    w, plain = torch.randn(3, network.size), lambda logits: loss(logits)
    right = w.clone()
    step_by_step(network, right, people, Step(0.1))
    able = [len(network.layers), 1, None]
    assert descent.able(w, people, *able)
    other = lessons(network, 3, 11, 1)
    for unfit in ([(x, s, plain)], [people[0], (x, s, plain)], [*people, *other]):
        assert not descent.able(w, unfit, *able)
    assert not descent.able(w.t().contiguous().t(), people, *able)
    assert not descent.able(w, people, len(network.layers), 2, None)
    assert not descent.able(w, people, len(network.layers), 1, w.double())
    found = w.t().contiguous().t()
    network.descend(found, people, Step(0.1))
    torch.testing.assert_close(found, right)
    with pytest.raises(AssertionError):
        network.descend(w[:2].contiguous(), people, Step(0.1))


@built
def test_steps_on_images_that_lie_in_another_order():
    network = MLP(12, (8,), groups=2)
    (x, s, loss), *_ = lessons(network, 2, 5, 1)
    w = torch.randn(2, network.size)
    for image in (x.view(2, 5, 4, 3).mT, x[..., :4, None].expand(2, 5, 4, 3)):
        ours, theirs = w.clone(), w.clone()
        network.descend(ours, [(image, s, loss)] * 2, Step(0.5))
        step_by_step(network, theirs, [(image.reshape(2, 5, 12), s, loss)] * 2, Step(0.5))
        torch.testing.assert_close(ours, theirs)


@built
def test_steps_without_people_and_with_a_centre_of_another_shape():
    network = MLP(6, (8,), groups=2)
    w, people = torch.randn(3, network.size), lessons(network, 3, 10, 1)
    still = w.clone()
    network.descend(still, lessons(network, 3, 0, 1), Step(0.5))
    assert torch.equal(still, w)
    ours, theirs, centre = w.clone(), w.clone(), torch.zeros(1, network.size)
    network.descend(ours, people, Step(0.5), 0.3, centre)
    step_by_step(network, theirs, people, Step(0.5), 0.3, centre)
    torch.testing.assert_close(ours, theirs)


def rows_of(network, models, steps, n, seed=0):
    """A table, and row numbers and weights of some minibatches; the last ones are padding."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(50, network.inputs, generator=random)
    s = torch.randint(max(1, network.groups), (50,), generator=random)
    index = torch.randint(50, (models, steps, n), generator=random)
    weight = torch.rand(models, steps, n, generator=random) / n
    index[..., n - n // 4 :], weight[..., n - n // 4 :] = 0, 0
    return Rows(x, s, (x[:, 0] > 0).float(), index, weight)


def laid_out(rows):
    """The same people, each step's beside one another."""
    x, s, y, index, weight = rows
    return [
        (x[own], s[own], CrossEntropy(y[own], weight[:, k]))
        for k, own in enumerate(index.unbind(1))
    ]


@built
@task
@pytest.mark.parametrize("name", OPTIMISERS)
@given(
    inputs=st.integers(1, 70),
    hidden=st.lists(st.integers(1, 70), max_size=2),
    groups=st.sampled_from([0, 2, 3]),
    models=st.integers(1, 3),
    n=st.integers(1, 90),
    steps=st.integers(1, 3),
    centred=st.sampled_from(["not", "one", "each"]),
)
@hypothesis.settings(max_examples=30)
def test_rows_by_their_numbers(kind, name, inputs, hidden, groups, models, n, steps, centred):
    """To the last bit what the same rows give that are laid out."""
    network = MLP(inputs, hidden, groups=groups)
    rows = rows_of(network, models, steps, n)
    w = torch.randn(models, network.size, generator=torch.Generator().manual_seed(1)) / 4
    centre = {"not": None, "one": w[0] / 2, "each": w / 2}[centred]
    ours, theirs, makers = w.clone(), w.clone(), [OPTIMISERS[name](0.01) for _ in "ab"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "KIND", kind)
        kernel.ROOMS.of.cache_clear()  # of another kind
        for _ in range(2):
            assert network.descend_rows(ours, rows, makers[0], 0.7, centre)
            network.descend(theirs, laid_out(rows), makers[1], 0.7, centre)
    assert makers[0].made == makers[1].made == 2 * steps
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, w)


@built
@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_large_models_go_apart_to_the_same_bits(threads, monkeypatch):
    network = MLP(12, (64, 40), groups=2)
    rows, w = rows_of(network, 5, 3, 70), torch.randn(5, network.size) / 4
    together, apart = w.clone(), w.clone()
    assert network.descend_rows(together, rows, Adam(0.01), 0.1, w)
    monkeypatch.setattr(kernel, "SMALL", 0)
    torch.set_num_threads(threads)
    assert network.descend_rows(apart, rows, Adam(0.01), 0.1, w)
    assert torch.equal(together, apart)


@built
def test_rows_that_the_library_cannot_read_are_refused():
    network = MLP(6, (8,), groups=2)
    rows, w = rows_of(network, 3, 2, 10), torch.randn(3, network.size)
    still = w.clone()
    for unfit in (
        rows._replace(x=rows.x.double()),
        rows._replace(x=rows.x.t().contiguous().t()),
        rows._replace(y=rows.y.double()),
        rows._replace(s=rows.s.int()),
        rows._replace(numbers=rows.numbers.int()),
        rows._replace(weight=rows.weight[:1].expand(3, 2, 10)),
    ):
        assert not network.descend_rows(still, unfit, Step(0.1))
    assert not MLP(6, (8,), 2, groups=2).descend_rows(still, rows, Step(0.1))
    assert not network.descend_rows(still, rows, Step(0.1), 0.1, w.double())
    for wrong in (
        rows._replace(numbers=rows.numbers + 50),
        rows._replace(numbers=rows.numbers - 1),
        rows._replace(y=rows.y[1:]),
        rows._replace(x=rows.x[:, 1:].contiguous()),
        rows._replace(weight=rows.weight[:, 1:].contiguous()),
    ):
        with pytest.raises(AssertionError):
            network.descend_rows(still, wrong, Step(0.1))
    assert torch.equal(still, w)


@built
def test_rows_that_are_images():
    network = MLP(12, (8,), groups=2)
    rows, w = rows_of(network, 2, 3, 10), torch.randn(2, network.size)
    ours, theirs = w.clone(), w.clone()
    images = rows._replace(x=rows.x.view(50, 3, 2, 2))
    assert network.descend_rows(ours, images, Step(0.5))
    network.descend_rows(theirs, rows, Step(0.5))
    assert torch.equal(ours, theirs)
