"""Messages and models of chunks of clients: sums replace messages, a model is stored once."""

import errno
import os

import pytest
import torch

import pfedfair as pff
from pfedfair.engines import collection, local
from pfedfair.engines.collection import Messages, Models, ModelStack, is_shared
from pfedfair.models import MLP, linear

OPTIONS = {"batch": 40, "alpha": 0.02}
METHODS = {
    "fedavg": pff.methods.FedAvg(rounds=3, **OPTIONS),
    "by size": pff.methods.FedAvg(rounds=3, weighting="size", **OPTIONS),
    "pfedfair": pff.methods.PFedFair(rounds=2, prox_epochs=1, **OPTIONS),
    "pfedme": pff.make("pfedme", {"rounds": 2, "prox_epochs": 1, "beta": 0.7}),
    "newton": pff.make("newton", {"rounds": 8}),
    "own intercepts": pff.make("newton", {"rounds": 4, "intercepts": "personal"}),
    "logofair": pff.make("logofair", {"rounds": 4}),
    "fedfact": pff.make("fedfact", {"rounds": 4}),
    "fedfact-in": pff.make("fedfact-in", {"rounds": 2}),
    "transport": pff.methods.Transport(
        rounds=4, agree=2, bins=50, base=pff.methods.FedAvg(**OPTIONS)
    ),
}


@pytest.mark.parametrize("name", METHODS)
def test_sums_are_as_good_as_all_messages(federation, monkeypatch, name):
    method = METHODS[name]
    assert method.sums
    network = linear(federation.encoder.width, groups=2)
    whole = local.fit(federation, method, network, seed=0, at_once=2)
    monkeypatch.setattr(collection, "SUMMED", 0)
    summed = local.fit(federation, method, network, seed=0, at_once=2)
    assert summed.sent == whole.sent
    torch.testing.assert_close(summed.w, whole.w, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(summed.theta, whole.theta, atol=1e-6, rtol=1e-5)
    for one, other in zip(summed.rules, whole.rules, strict=True):
        torch.testing.assert_close(one.numbers, other.numbers, atol=1e-4, rtol=1e-4)


def test_a_method_that_looks_at_each_message_gets_them_all(federation, monkeypatch):
    method, network = pff.make("fairfed", {"rounds": 2}), linear(federation.encoder.width, groups=2)
    whole = local.fit(federation, method, network, seed=0)
    monkeypatch.setattr(collection, "SUMMED", 0)
    assert torch.equal(local.fit(federation, method, network, seed=0).w, whole.w)


@pytest.mark.parametrize("how", ["sum", "uniform", "size"])
def test_messages_by_hand(how):
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    sizes = torch.tensor([1.0, 1.0, 2.0])
    messages = Messages({"a": how}, sizes, limit=0)
    messages.add(torch.tensor([2]), {"a": rows[2:]})
    messages.add(torch.tensor([0, 1]), {"a": rows[:2]})
    found, of = messages.take()
    expected = {"sum": [9.0, 15.0], "uniform": [3.0, 5.0], "size": [3.5, 6.0]}[how]
    assert found["a"].tolist() == [expected]
    assert (found["a"].dtype, of.tolist()) == (torch.float32, [4.0])
    assert (messages.names, messages.bytes) == (("a",), 8)


def test_a_shared_model_is_stored_once(federation):
    network = MLP(federation.encoder.width, (5,), groups=2)
    one = local.fit(federation, METHODS["fedavg"], network, seed=0)
    assert is_shared(one.theta)
    assert one.theta.shape == (len(federation), network.size)
    assert one.theta.untyped_storage().nbytes() == 4 * network.size
    assert torch.equal(one.theta[2], one.w)
    own = local.fit(federation, METHODS["pfedfair"], network, seed=0)
    assert not is_shared(own.theta)
    assert own.theta.is_contiguous()


@pytest.mark.parametrize("limit", [2**20, 0])
@pytest.mark.parametrize("odd", [None, 0, 3, 4])
def test_models_of_chunks_in_any_order(limit, odd):
    expected = torch.ones(5, 3)
    if odd is not None:
        expected[odd, 1] = 7.0
    models = Models(5, limit)
    for ids in ([3, 1], [4], [0, 2]):
        models.add(torch.tensor(ids), expected[ids])
    found = models.take()
    assert torch.equal(found, expected)
    assert is_shared(found) == (odd is None)


def test_a_stack_on_disk_gives_memory_back_and_forgets_nothing(monkeypatch):
    monkeypatch.setattr(collection, "WRITTEN", 0)
    stack = ModelStack((4, 1000), torch.float32, limit=0)
    assert stack.mapped is not None
    for i in range(4):
        stack.write(torch.tensor([i]), torch.full((1, 1000), float(i)))
    assert stack.tensor.mean(1).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert ModelStack((4, 1000), torch.float32, limit=16_000).mapped is None


def test_a_full_disk_is_reported_before_anything_is_written(monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(pff.InputError, match=r"take 0\.0 GB.*No space left.*set TMPDIR") as found:
        ModelStack((4, 1000), torch.float32, limit=0)
    assert str(found.value).endswith(".")


def test_a_run_with_models_on_disk_is_the_same_run(federation, monkeypatch, tmp_path):
    before = pff.train(federation, METHODS["pfedfair"])
    monkeypatch.setattr(collection, "LIMIT", 0)
    run = pff.train(federation, METHODS["pfedfair"])
    assert torch.equal(run.fitted.theta, before.fitted.theta)
    run.save(tmp_path / "run")
    before.save(tmp_path / "before")
    name = "model.safetensors"
    assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "before" / name).read_bytes()
