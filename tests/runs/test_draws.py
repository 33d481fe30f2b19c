"""Random draws by a key: uniform, the same for the same id, unknown without the key."""

import hashlib

import numpy as np
import torch
from scipy.stats import kstest

from pfedfair.runs import draws

KEY = draws.of_client(draws.key_from_text("secret"), "north")


def test_draws_are_uniform():
    drawn = draws.draw(KEY, [str(k).encode() for k in range(20_000)])
    assert kstest(drawn, "uniform").pvalue > 0.01
    assert drawn.min() >= 0
    assert drawn.max() < 1


def test_a_draw_by_hand():
    client = hashlib.blake2b(b"north", key=draws.key_from_text("secret"), digest_size=32).digest()
    digest = hashlib.blake2b(b"anna", key=client, digest_size=8).digest()
    by_hand = (int.from_bytes(digest, "little") >> 11) / 2**53
    assert draws.draw(KEY, [b"anna"])[0] == by_hand


def test_a_draw_follows_from_id_client_and_key():
    ids = [str(k).encode() for k in range(100)]
    drawn = draws.draw(KEY, ids)
    order = np.random.default_rng(0).permutation(100)
    np.testing.assert_array_equal(draws.draw(KEY, [ids[k] for k in order]), drawn[order])
    for other in (draws.of_client(draws.key_from_text("secret"), "south"),
                  draws.of_client(draws.key_from_text("Secret"), "north")):  # fmt: skip
        assert abs(np.corrcoef(drawn, draws.draw(other, ids))[0, 1]) < 0.4
    assert len(draws.draw(KEY, [])) == 0


def test_a_runs_key_depends_on_its_model_and_seed():
    w = torch.arange(4.0)
    key = draws.key_of(0, w)
    assert key == draws.key_of(0, w.clone())
    assert key != draws.key_of(1, w)
    assert key != draws.key_of(0, w + 1)
    assert len(key) == draws.SIZE
