"""Clipping and noise."""

import time

import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair._util import noise
from pfedfair.engines.site.privacy import (
    add_noise,
    clip_update,
    limit_change,
    max_steps,
    noise_deviation,
)


def test_a_way_is_shortened_to_the_norm_and_no_further():
    server = {"w": torch.ones(4), "v": torch.zeros(2)}
    sent = {"w": torch.ones(4) + torch.tensor([3.0, 0, 0, 0]), "v": torch.tensor([0.0, 4.0])}
    found = clip_update(sent, server, 1.0)
    torch.testing.assert_close(found["w"], torch.tensor([1.6, 1.0, 1.0, 1.0]))
    torch.testing.assert_close(found["v"], torch.tensor([0.0, 0.8]))
    assert clip_update(sent, server, 6.0)["v"].tolist() == [0.0, 4.0]
    assert found["w"].dtype == torch.float32


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_a_way_that_cannot_be_is_none(bad):
    """Whether training failed must not be seen from outside."""
    server = {"w": torch.zeros(9)}
    found = clip_update({"w": torch.full((9,), bad)}, server, 1.0)["w"]
    assert torch.isfinite(found).all()
    assert float(found.norm()) <= 1 + 1e-6


def test_more_than_models_cannot_be_clipped():
    for sent in ({"w": torch.ones(3), "counts": torch.ones(2)}, {"w": torch.ones(4)}):
        with pytest.raises(pff.InputError, match="send their model and nothing else"):
            clip_update(sent, {"w": torch.ones(3)}, 1.0)


def test_noise_has_its_size_and_no_seed():
    state, most = {"w": torch.zeros(20_000)}, max_steps(0.5, 1e-5)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    first = add_noise(state, state, 1.0, most)["w"]
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    assert not torch.equal(first, add_noise(state, state, 1.0, most)["w"])
    expected = 2 * 7.66716
    assert noise_deviation(1.0, 0.5, 1e-5) == pytest.approx(expected, rel=1e-4)
    assert float(first.std()) == pytest.approx(expected, rel=0.04)  # eight standard errors


def test_noise_and_what_it_hides_are_whole_steps_of_a_grid():
    """The last digits of floating-point noise tell what it was added to."""
    most = max_steps(0.5, 1e-5)
    server = {"w": torch.zeros(500, dtype=torch.float64)}
    for sent in (0.0, 1e-3, 0.04):
        state = {"w": torch.full((500,), sent, dtype=torch.float64)}
        steps = add_noise(state, server, 1.0, most)["w"] * most
        torch.testing.assert_close(steps, steps.round(), rtol=0, atol=1e-6)
        assert float((steps.round() % 2).mean()) == pytest.approx(0.5, abs=0.2)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 20.0, 1e9])
def test_the_norm_is_within_its_limit_exactly(monkeypatch, epsilon):
    """In whole numbers, whatever rounding does to models, also to very large ones."""
    monkeypatch.setattr(noise, "gaussian", lambda n: np.zeros(n, dtype=np.int64))
    most = max_steps(epsilon, 1e-5)
    rng = torch.Generator().manual_seed(0)
    for scale in (1e-3, 1.0, 1e10, 1e30):
        server = {"w": scale * torch.randn(999, generator=rng), "v": torch.ones(1)}
        sent = {
            name: w + 3 * scale * torch.randn(len(w), generator=rng) for name, w in server.items()
        }
        zero = {name: torch.zeros_like(w, dtype=torch.float64) for name, w in server.items()}
        way = {name: sent[name].double() - server[name].double() for name in sent}
        found = add_noise(way, zero, 0.7, most)
        steps = [int(step) for w in found.values() for step in (w * most / 0.7).round()]
        assert 0 < sum(step**2 for step in steps) <= most**2


def test_noise_of_a_perceptron_takes_less_than_a_second():
    state = {"w": torch.zeros(10_000)}
    began = time.perf_counter()
    add_noise(state, state, 1.0, max_steps(0.5, 1e-5))
    assert time.perf_counter() - began < 1


def test_models_that_went_too_far_are_shortened_in_a_secure_sum():
    server = {"w": torch.ones(4), "v": torch.zeros(2)}
    sent = {"w": torch.ones(4) + 3.0, "v": torch.tensor([0.1, 0.1]), "counts": torch.tensor([9.0])}
    found, short = limit_change(sent, server, ("w", "v"), 0.5)
    assert short == ["w"]
    torch.testing.assert_close(found["w"], torch.full((4,), 1.5))
    assert found["v"] is sent["v"]
    assert found["counts"] is sent["counts"]
