import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfedfair.federation import Table, chunks, epoch_of, minibatches, pad, stack, steps


@given(
    st.lists(st.integers(1, 3000), min_size=1, max_size=40), st.integers(1, 700), st.integers(1, 12)
)
def test_chunks_hold_every_client_once_with_equal_steps(sizes, batch, at_once):
    sizes = np.array(sizes)
    parts = chunks(sizes, batch, at_once)
    assert sorted(np.concatenate(parts)) == list(range(len(sizes)))
    for part in parts:
        assert 1 <= len(part) <= at_once
        assert len({steps(n, batch) for n in sizes[part]}) == 1


def test_chunks_keep_to_the_memory_unless_one_client_is_too_large():
    sizes = np.array([10, 10, 10, 10, 900])
    parts = chunks(sizes, batch=1000, memory=1000, client_bytes=300, row_bytes=1)
    assert [len(p) for p in parts] == [1, 1, 1, 1, 1]  # as large as the largest of the group
    parts = chunks(sizes[:4], batch=1000, memory=1000, client_bytes=300, row_bytes=1)
    assert [len(p) for p in parts] == [2, 2]


@given(st.integers(1, 3000), st.integers(1, 700), st.integers(0, 5))
def test_minibatches_hold_every_row_once_and_are_large_enough(n, batch, seed):
    parts = minibatches(np.arange(n), batch, np.random.default_rng(seed))
    assert sorted(np.concatenate(parts)) == list(range(n))
    assert min(map(len, parts)) >= min(batch, n)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
@settings(deadline=None)  # torch is slow the first time
def test_stack_pads_with_weight_zero(sizes):
    n = sum(sizes)
    table = Table(torch.randn(n, 3), torch.rand(n).round(), torch.randint(2, (n,)))
    rows = np.split(np.arange(n), np.cumsum(sizes)[:-1])
    batch = stack(table, rows)
    assert batch.x.shape == (len(sizes), max(sizes), 3)
    torch.testing.assert_close(batch.weight.sum(1), torch.ones(len(sizes)))
    for i, own in enumerate(rows):
        assert (batch.weight[i] > 0).sum() == len(own)
        torch.testing.assert_close(batch.x[i, : len(own)], table.x[own])
        mean = (batch.weight[i] * batch.y[i]).sum()
        torch.testing.assert_close(mean, table.y[own].mean())


def test_encoder_is_fitted_on_training_rows_only(federation):
    train = np.concatenate(federation.partition.train)
    numeric = federation.table.x[train][:, :3]
    torch.testing.assert_close(numeric.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    overall = federation.table.x[:, :3].mean(0).abs().max()
    assert overall > 1e-3  # validation and test rows did not take part


@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    n_steps=st.integers(1, 7),
    seed=st.integers(0, 99),
)
@settings(deadline=None)
def test_all_clients_cut_at_once_are_as_each_is_on_its_own(sizes, n_steps, seed):
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(size) + 1000 * i for i, size in enumerate(sizes)]
    parts = [part for order in orders for part in np.array_split(order, n_steps)]
    for found, expected in zip(epoch_of(orders, n_steps), pad(parts), strict=True):
        np.testing.assert_array_equal(found.reshape(expected.shape), expected)
        assert found.dtype == expected.dtype
