"""Random draws by a key: uniform, the same for the same id, unknown without the key."""

import hashlib
from collections import Counter

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
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


@given(n=st.integers(1, 40), width=st.integers(0, 4), values=st.integers(1, 5))
def test_the_draw_of_inputs_belongs_to_the_row(n, width, values):
    rng = np.random.default_rng(0)
    x, s = rng.integers(0, values, (n, width)).astype(np.float32), rng.integers(0, 2, n)
    found = draws.draw(b"key", draws.row_ids(x, s))
    assert ((found >= 0) & (found < 1)).all()
    assert len(np.unique(found)) == n  # equal rows have draws of their own
    order = rng.permutation(n)
    mixed = draws.draw(b"key", draws.row_ids(x[order], s[order]))
    np.testing.assert_array_equal(np.sort(mixed), np.sort(found))
    single = [draws.draw(b"key", draws.row_ids(x[i : i + 1], s[i : i + 1]))[0] for i in range(n)]
    first = [next(i for i in range(n) if (x[i] == row).all() and s[i] == z)
             for row, z in zip(x, s, strict=True)]  # fmt: skip
    np.testing.assert_array_equal(single, found[first])
    seen = Counter()
    parts = [draws.row_ids(x[at], s[at], seen) for at in (slice(0, n // 2), slice(n // 2, n))]
    np.testing.assert_array_equal(draws.draw(b"key", [*parts[0], *parts[1]]), found)
    minus = draws.row_ids(np.where(x == 0, -x, x), s)
    np.testing.assert_array_equal(draws.draw(b"key", minus), found)


def test_draws_of_inputs_are_uniform_and_depend_on_the_key():
    x, s = np.arange(20_000, dtype=np.float32)[:, None], np.zeros(20_000, int)
    one, two = (draws.draw(key, draws.row_ids(x, s)) for key in (b"one", b"two"))
    assert kstest(one, "uniform").pvalue > 0.001
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.03
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.03
