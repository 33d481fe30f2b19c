"""Networks on pixels against simple torch modules with the same weights."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.data.tables.arrays import Pixels as Images
from pfedfair.data.task import Task
from pfedfair.engines import local
from pfedfair.federation import Federation, Table
from pfedfair.methods import Clients
from pfedfair.models import PIXELS, Both, Pixels, architectures, from_dict
from pfedfair.penalties.objective import loss

SMALL = ["cnn", "mlp", "resnet18", "vit-tiny"]


@pytest.fixture(autouse=True)
def vit_tiny(monkeypatch):
    """A vision transformer for tests: vit-b16 but for its widths and its one layer."""
    from transformers import ViTConfig, ViTForImageClassification

    def make(size, outputs):
        config = ViTConfig(
            image_size=size, num_labels=outputs, num_hidden_layers=1, hidden_size=48,
            num_attention_heads=3, intermediate_size=96,
        )  # fmt: skip
        return architectures.Scores(ViTForImageClassification(config))

    monkeypatch.setitem(PIXELS, "vit-tiny", replace(PIXELS["vit-b16"], make=make))


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def pictures(*shape, size=32, seed=0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, (*shape, 3, size, size), dtype=np.uint8))


def module_of(network, row):
    """A module of everyday torch with the numbers of one row."""
    module = PIXELS[network.name].make(network.pixels, network.outputs).eval()
    vector_to_parameters(row[: network.parameters].clone(), module.parameters())
    rest = row[network.parameters :]
    for buffer in module.buffers():
        buffer.copy_(rest[: buffer.numel()].view(buffer.shape))
        rest = rest[buffer.numel() :]
    assert len(rest) == 0
    return module


def prepared(x):
    """Pixels as pictures are given to networks that are trained on ImageNet."""
    mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    return (x.float() / 255 - mean.view(3, 1, 1)) / std.view(3, 1, 1)


def normalisations(module):
    return [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]


def rows_of(network, number):
    """Some models, drawn."""
    return torch.stack([network.init(np.random.default_rng(k)) for k in range(number)])


def settled(network, w, *batches):
    return network.settle(w, lambda: iter(batches))


@pytest.mark.parametrize(("name", "number"), [
    ("cnn", 3_217_682), ("mlp", 1_665_270), ("resnet18", 11_177_538), ("vit-b16", 85_800_194),
])  # fmt: skip
def test_numbers_of_parameters(name, number):
    network = Pixels(name, 224, outputs=2)
    assert network.parameters == number
    # Of each of 20 normalisations: means and variances of its channels, and a number of batches.
    channels = 64 * 5 + (128 + 256 + 512) * 5
    assert network.measured == (2 * channels + 20 if name == "resnet18" else 0)
    assert network.size == number + network.measured
    assert network.words == f"{name} at 224 px"


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_and_gradients_are_the_modules(name, outputs):
    """While it trains: each row as a module only, normalised by its own batch."""
    network = Pixels(name, 32, outputs)
    w, x = rows_of(network, 2), pictures(2, 6)
    before = w.clone()
    slope = torch.randn(2, 6, outputs, generator=torch.Generator().manual_seed(1))
    scores, pull = network.vjp(w, x, torch.zeros(2, 6))
    grads = pull(slope)
    assert torch.equal(pull(slope), grads)  # some methods ask twice
    assert torch.equal(network.vjp(w, x.float(), torch.zeros(2, 6))[0], scores)
    assert grads.shape == w.shape
    assert not grads[:, network.parameters :].any()
    for i in range(2):
        module = module_of(network, w[i]).train()
        reference = module(prepared(x[i]))
        torch.testing.assert_close(scores[i], reference.detach(), rtol=1e-4, atol=1e-5)
        each = torch.autograd.grad((reference * slope[i]).sum(), list(module.parameters()))
        expected = torch.cat([g.flatten() for g in each])
        ours = grads[i, : network.parameters]
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
    assert torch.equal(w, before)


def test_settling_measures_what_a_module_with_cumulative_means_does():
    network = Pixels("resnet18", 32)
    w = rows_of(network, 2)
    batches = [pictures(2, n, seed=n) for n in (9, 5, 12)]
    found = settled(network, w, *batches)
    assert torch.equal(found[:, : network.parameters], w[:, : network.parameters])
    x = pictures(2, 7, seed=99)
    scores = network.logits(found, x, torch.zeros(2, 7))
    for i in range(2):
        module = module_of(network, w[i]).train()
        for layer in normalisations(module):
            layer.momentum = None
        for batch in batches:
            module(prepared(batch[i]))
        layers = zip(
            normalisations(module), normalisations(module_of(network, found[i])), strict=True
        )
        for reference, ours in layers:
            torch.testing.assert_close(ours.running_mean, reference.running_mean)
            torch.testing.assert_close(ours.running_var, reference.running_var)
            assert ours.num_batches_tracked == reference.num_batches_tracked == 3
        expected = module.eval()(prepared(x[i])).detach()
        torch.testing.assert_close(scores[i], expected, rtol=1e-4, atol=1e-5)
    again = settled(network, found, *batches)  # what it knew before does not matter
    assert torch.equal(again, found)


def test_first_statistics_by_hand():
    """Of the first normalisation: means over batches of the means over images and places."""
    network = Pixels("resnet18", 32)
    w = rows_of(network, 1)
    batches = [pictures(1, n, seed=n) for n in (4, 8)]
    first = module_of(network, w[0]).body.resnet.embedder.embedder.convolution
    maps = [first(prepared(batch[0])).detach() for batch in batches]
    found = normalisations(module_of(network, settled(network, w, *batches)[0]))[0]
    mean = sum(m.mean((0, 2, 3)) for m in maps) / 2
    variance = sum(m.var((0, 2, 3)) for m in maps) / 2
    torch.testing.assert_close(found.running_mean, mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.running_var, variance, rtol=1e-4, atol=1e-5)


def test_scores_before_settling_are_by_the_batch():
    """Never by a mean of 0 and a variance of 1 that no row has measured."""
    network = Pixels("resnet18", 32)
    w, x = rows_of(network, 1), pictures(1, 8)
    s = torch.zeros(1, 8)
    scores = network.logits(w, x, s)
    torch.testing.assert_close(scores, network.vjp(w, x, s)[0])
    module = module_of(network, w[0])
    assert not torch.allclose(module(prepared(x[0])), scores[0], atol=0.01)
    torch.testing.assert_close(module.train()(prepared(x[0])), scores[0], rtol=1e-4, atol=1e-5)
    assert all(not layer.training for layer in normalisations(network.module))
    known = settled(network, w, x)
    each = [network.logits(known, x[:, k : k + 1], s[:, :1]) for k in range(8)]
    whole = network.logits(known, x, s)  # one by one or together
    torch.testing.assert_close(torch.cat(each, dim=1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_steps_do_not_move_buffers(optimiser):
    network = Pixels("resnet18", 32)
    x = pictures(1, 6)
    w = settled(network, rows_of(network, 1), x)
    start = w.clone()
    step = pff.models.optimisers.OPTIMISERS[optimiser](0.01)
    for _ in range(3):
        scores, pull = network.vjp(w, x, torch.zeros(1, 6))
        step(w, pull(scores))
    end = network.parameters
    assert torch.equal(w[:, end:], start[:, end:])
    assert not torch.equal(w[:, :end], start[:, :end])


@pytest.mark.parametrize("name", ["cnn", "mlp", "vit-tiny"])
def test_slices_of_a_batch_change_nothing(name):
    network = Pixels(name, 32)
    w, x, slope = rows_of(network, 1), pictures(1, 11), torch.randn(1, 11, 1)
    whole, pull = network.vjp(w, x, torch.zeros(1, 11))
    network.slice = 4
    parts, pull_parts = network.vjp(w, x, torch.zeros(1, 11))
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(pull_parts(slope), pull(slope), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(network.logits(w, x, torch.zeros(1, 11)), whole)


def test_batch_statistics_are_never_sliced():
    network = Pixels("resnet18", 32)
    w, x, s = rows_of(network, 1), pictures(1, 11), torch.zeros(1, 11)
    whole = network.logits(w, x, s)
    network.slice = 4
    assert torch.equal(network.logits(w, x, s), whole)
    assert torch.equal(network.vjp(w, x, s)[0], whole)
    known = settled(network, w, x)
    network.slice = 99
    torch.testing.assert_close(network.logits(known, x, s),
                               Pixels("resnet18", 32).logits(known, x, s))  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_initial_values_depend_on_the_seed_only(name):
    network = Pixels(name, 32)
    first = network.init(np.random.default_rng(1))
    torch.manual_seed(999)
    state = torch.get_rng_state()
    assert torch.equal(network.init(np.random.default_rng(1)), first)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(network.init(np.random.default_rng(2)), first)
    torch.manual_seed(int(np.random.default_rng(1).integers(2**63)))
    fresh = parameters_to_vector(PIXELS[name].make(32, 1).parameters()).detach()
    assert torch.equal(first[: network.parameters], fresh)


@pytest.mark.parametrize("name", SMALL)
def test_what_a_network_says_of_itself_makes_it_again(name):
    network = Pixels(name, 48, 2)
    again = from_dict(json.loads(json.dumps(network.to_dict())))
    assert type(again) is Pixels
    assert (again.size, again.words, again.outputs) == (network.size, network.words, 2)
    w, x = rows_of(network, 1), pictures(1, 3, size=48)
    assert torch.equal(again.logits(w, x, None), network.logits(w, x, None))
    assert network.like(5).to_dict() == network.to_dict() | {"outputs": 5}
    assert network.like(5).parameters > network.parameters


def test_both_settle():
    network = Pixels("resnet18", 32)
    both = Both(network, network.like(2))
    assert both.unbatched
    assert both.measured == 2 * network.measured
    w = both.init(np.random.default_rng(0))[None]
    x = pictures(1, 5)
    found, end = settled(both, w, x), network.size
    assert torch.equal(found[:, :end], settled(network, w[:, :end], x))
    assert torch.equal(found[:, end:], settled(both.head, w[:, end:], x))
    assert not torch.equal(found, w)


def test_bad_input_is_reported():
    with pytest.raises(pff.InputError, match=r"Unknown pixel network 'resnet50': did you mean"):
        Pixels("resnet50", 64)
    with pytest.raises(pff.InputError, match=r"cnn takes .* at least 16 x 16 pixels; got 8\.$"):
        Pixels("cnn", 8)
    with pytest.raises(pff.InputError, match=r"vit-b16 takes .*, a multiple of 16; got 40\.$"):
        Pixels("vit-b16", 40)
    network = Pixels("cnn", 32)
    with pytest.raises(pff.InputError, match=r"cnn at 32 px takes .* these are 3 x 16 x 16: .*"):
        network.logits(rows_of(network, 1), pictures(1, 2, size=16), None)
    network = Pixels("resnet18", 32)
    with pytest.raises(pff.InputError, match="there is only one: give every client at least two"):
        network.vjp(rows_of(network, 1), pictures(1, 1), None)


@pytest.mark.parametrize("name", ["resnet18", "vit-b16"])
def test_without_transformers_it_the_message_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(pff.InputError, match=rf"^{name} needs .*: pip install 'pfedfair\[images\]"):
        Pixels(name, 32)
    Pixels("cnn", 32)  # which does not need it


# --- training ---------------------------------------------------------------------------------


def bright(sizes=(40,), seed=0):
    """A federation of made-up pictures: the bright ones have the label 1."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    y, s = rng.integers(0, 2, n), np.arange(n) % 2
    x = rng.integers(0, 150, (n, 3, 32, 32)) + 80 * y[:, None, None, None]
    frame = pd.DataFrame({"label": y, "S": s})
    data = pff.Dataset(
        "bright", frame, y, s, (), {}, ("dark", "bright"), ("a", "b"), "label", "S",
        array=x.astype(np.uint8), inputs="pixels 32x32", aware=False,
    )  # fmt: skip
    rows = tuple(np.split(np.arange(n), np.cumsum(sizes)[:-1]))
    names = tuple(f"client {k}" for k in range(len(sizes)))
    part = pff.partition.Partition(data, rows, rows, rows, np.arange(n), names, False)
    images = torch.from_numpy(x.astype(np.uint8))
    table = Table(images, torch.from_numpy(y).float(), torch.from_numpy(s), Task(aware=False))
    return Federation(data, part, Images(tuple(images.shape[1:])), table, seed)


def losses(federation, network, w):
    clients = Clients(network, federation.table, federation.partition.train, [0], 0)
    (batch,) = clients.epoch(0, 10_000)
    return loss(network.logits(w, batch.x, batch.s), batch)


@pytest.mark.parametrize(
    ("name", "alpha"), [("cnn", 3e-3), ("mlp", 1e-3), ("resnet18", 1e-3), ("vit-tiny", 3e-3)]
)
def test_training_lowers_the_loss_and_is_kept(name, alpha, tmp_path):
    federation, network = bright(), Pixels(name, 32)
    algorithm = pff.methods.Local(rounds=6, batch=20, alpha=alpha, eta=0.3)
    run = pff.train(federation, algorithm, network=network)
    start = network.init(seeds.generator(0, seeds.INIT))[None]
    known = settled(network, start, federation.table.x[None])
    after = losses(federation, network, run.fitted.theta)
    assert after < 0.7 * losses(federation, network, known)
    assert run.table("own")["accuracy"].item() >= 0.9
    run.save(tmp_path)
    again, x, s = pff.load_model(tmp_path, 0).predictor, federation.table.x, federation.table.s
    assert again.network.words == network.words
    assert torch.equal(again.logits(x, s), run.predictors[0].logits(x, s))


def test_from_images_to_decisions(tmp_path):
    """All rows together, through the whole program; the test rows were not trained on."""
    data = bright((48,)).data
    federation = data.federate(pff.partition.together(), sensitive_as_input=False)
    run = pff.train(federation, pff.methods.Local(rounds=6, batch=20, eta=0.3), network="resnet18")
    assert run.network.words == "resnet18 at 32 px"
    assert run.table()["accuracy"].item() >= 0.9
    run.save(tmp_path)
    model, again = run.personal_model(0), pff.load_model(tmp_path, 0)
    decided = again.decide(data.array)
    np.testing.assert_array_equal(decided, model.decide(data.array))
    single = np.concatenate([again.decide(data.array[k : k + 1]) for k in range(5)])
    np.testing.assert_array_equal(single, decided[:5])  # whoever else is there


def test_vit_trains():
    """One step of the full network, in slices."""
    federation, network = bright((6,)), Pixels("vit-b16", 32)
    network.slice = 4
    algorithm = pff.methods.Local(rounds=1, alpha=1e-4, eta=0.3)
    fitted = local.fit(federation, algorithm, network, seed=0)
    assert fitted.theta.shape == (1, network.parameters)
    before = losses(federation, network, fitted.w[None])  # no row trained it
    assert losses(federation, network, fitted.theta) < before


def test_a_single_client_has_no_padding():
    """41 rows in two minibatches: 21 and 20, and no row else's picture among them."""
    federation, network = bright((41,)), Pixels("cnn", 32)
    clients = Clients(network, federation.table, federation.partition.train, [0], 0)
    batches = list(clients.epoch(0, 20))
    assert [batch.x.shape[1] for batch in batches] == [21, 20]
    assert all((batch.weight > 0).all() for batch in batches)
    usual = pff.models.MLP(3 * 32 * 32, ())
    padded = list(Clients(usual, *list(vars(clients).values())[1:]).epoch(0, 20))
    for ours, reference in zip(batches, padded, strict=True):  # otherwise the same
        n = ours.x.shape[1]
        assert all(torch.equal(a, b[:, :n]) for a, b in zip(ours, reference, strict=True))


@pytest.mark.parametrize(("name", "rounds"), [("cnn", 2), ("resnet18", 1)])
def test_clients_of_unequal_size_train_as_if_single(name, rounds):
    """A client's model and statistics are its own, whoever is there apart from."""
    federation, network = bright((16, 15)), Pixels(name, 32)
    algorithm = pff.methods.Local(rounds=rounds, batch=5)
    fitted = local.fit(federation, algorithm, network, seed=0)
    for k, rows in enumerate(federation.partition.train):
        clients = Clients(network, federation.table, [rows], [k], 0)
        w = network.init(seeds.generator(0, seeds.INIT))
        theta = algorithm.personalise({"w": w}, {}, clients)
        with local.flush_denormal():
            assert torch.equal(fitted.theta[k], clients.settle(theta, 5)[0])
        if network.measured:  # the last is the number of batches; no row trained w
            assert (fitted.theta[k, -1], fitted.w[-1]) == (3, 0)


def test_the_global_model_has_the_mean_of_the_clients_statistics():
    federation, network = bright((9, 8)), Pixels("resnet18", 32)
    fitted = local.fit(federation, pff.methods.FedAvg(rounds=2, batch=4), network, seed=0)
    end = network.parameters
    for theta in fitted.theta:  # one model, but each client has statistics of its own
        assert torch.equal(theta[:end], fitted.w[:end])
    mean = fitted.theta[:, end:].mean(0)
    torch.testing.assert_close(fitted.w[end:], mean, rtol=1e-4, atol=1e-5)
    assert not torch.equal(fitted.theta[0, end:], fitted.theta[1, end:])
    assert torch.equal(fitted.server["w"], fitted.w)


def test_a_module_of_shapes_takes_no_memory():
    module = architectures.layout("resnet18", 32, 1)
    assert {tensor.device.type for tensor in module.state_dict().values()} == {"meta"}
