"""Clipping and noise."""

import numpy as np
import pytest
import torch

import pfedfair as pff
from pfedfair.engines.site.privacy import add_noise, clip_update, limit_change, noise_deviation


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
    state = {"w": torch.zeros(20_000)}
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    first = add_noise(state, noise_deviation(1.0, 0.5, 1e-5))["w"]
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    assert not torch.equal(first, add_noise(state, 1.0)["w"])
    expected = 2 * np.sqrt(2 * np.log(1.25 / 1e-5)) / 0.5
    assert float(first.std()) == pytest.approx(expected, rel=0.04)  # eight standard errors


def test_models_that_went_too_far_are_shortened_in_a_secure_sum():
    server = {"w": torch.ones(4), "v": torch.zeros(2)}
    sent = {"w": torch.ones(4) + 3.0, "v": torch.tensor([0.1, 0.1]), "counts": torch.tensor([9.0])}
    found, short = limit_change(sent, server, ("w", "v"), 0.5)
    assert short == ["w"]
    torch.testing.assert_close(found["w"], torch.full((4,), 1.5))
    assert found["v"] is sent["v"]
    assert found["counts"] is sent["counts"]
