import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_central import accuracy, ddp, same_in_a_stack_and_single, table, trained, unfair

import pfedfair as pff
from pfedfair.methods import Clients
from pfedfair.methods.reweigh import Reweigh, weights
from pfedfair.models import linear


def test_weights_by_hand():
    """Of 10 rows 4 have label 0: 3 of group 0, 1 of group 1; of the 6 others 1 and 5."""
    found = weights(torch.tensor([[[3.0, 1.0], [1.0, 5.0]]]))[0]
    expected = [[0.4 * 0.4 / 0.3, 0.4 * 0.6 / 0.1], [0.6 * 0.4 / 0.1, 0.6 * 0.6 / 0.5]]
    torch.testing.assert_close(found, torch.tensor(expected))


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 99))
def test_weighted_label_and_group_are_independent(classes, groups, seed):
    counts = np.random.default_rng(seed).integers(1, 50, size=(classes, groups))
    found = weights(torch.from_numpy(counts).float()[None])[0].numpy()
    joint = counts / counts.sum() * found
    np.testing.assert_allclose(joint.sum(), 1, rtol=1e-5)
    np.testing.assert_allclose(joint, np.outer(joint.sum(1), joint.sum(0)), rtol=1e-4)
    np.testing.assert_allclose(joint.sum(1), counts.sum(1) / counts.sum(), rtol=1e-5)


def test_a_cell_without_rows_has_no_weight():
    found = weights(torch.tensor([[[3.0, 0.0], [1.0, 5.0]], [[0.0, 0.0], [0.0, 0.0]]]))
    assert torch.isfinite(found).all()
    assert found[0, 0, 1] == 0
    assert (found[1] == 0).all()


def test_cells_are_counted():
    rows = table(np.zeros((6, 1)), [0, 1, 2, 2, 1, 1], [0, 1, 1, 1, 0, 1], classes=3)
    own = [np.array([0, 1, 2, 3]), np.array([4, 5])]
    found = Clients(linear(1), rows, own, [0, 1], seed=0).cells()
    expected = [[[1, 0], [0, 1], [0, 2]], [[0, 0], [1, 1], [0, 0]]]
    assert found.tolist() == expected


@pytest.mark.parametrize("classes", [2, 3])
def test_a_step_is_that_of_pytorchs_weighted_loss(classes):
    rng = np.random.default_rng(3)
    n = 50
    s, y = rng.integers(3, size=n), rng.integers(classes, size=n)
    rows = table(rng.normal(size=(n, 2)), y, s, groups=3, classes=classes)
    network = linear(2, 1 if classes == 2 else classes)
    algorithm = Reweigh(rounds=1, batch=n, optimiser="sgd", alpha=1.0)
    theta, _ = trained(algorithm, rows, network)
    weight = [(y == a).mean() * (s == b).mean() / ((y == a) & (s == b)).mean()
              for a, b in zip(y, s, strict=True)]  # fmt: skip
    out = torch.nn.Linear(2, 1 if classes == 2 else classes)
    torch.nn.init.zeros_(out.weight)
    torch.nn.init.zeros_(out.bias)
    if classes == 2:
        each = torch.nn.functional.binary_cross_entropy_with_logits(
            out(rows.x)[:, 0], rows.y, reduction="none"
        )
    else:
        each = torch.nn.functional.cross_entropy(out(rows.x), rows.y.long(), reduction="none")
    (each * torch.tensor(weight)).mean().backward()
    grad = torch.cat([out.weight.grad.flatten(), out.bias.grad])
    torch.testing.assert_close(theta[0], -grad, rtol=1e-4, atol=1e-6)


def test_ddp_falls_where_label_and_group_are_correlated():
    rows, new = unfair(), unfair(seed=1)
    options = {"rounds": 60, "batch": 1000, "alpha": 0.02}
    baseline, fair = trained(pff.methods.Local(**options), rows), trained(Reweigh(**options), rows)
    assert ddp(*baseline, new) > 0.5
    assert ddp(*fair, new) < 0.37  # 0.31 by the first input only, as labels differ
    assert accuracy(*fair, new) > 0.74  # 0.76 by that input only


def test_independent_already_is_standard_training():
    rng = np.random.default_rng(4)
    y, s = np.repeat([0, 1], 40), np.tile([0, 1], 40)
    rows = table(rng.normal(size=(80, 3)) + y[:, None], y, s)
    options = {"rounds": 5, "batch": 20, "alpha": 0.05}
    assert torch.equal(
        trained(Reweigh(**options), rows)[0], trained(pff.methods.Local(**options), rows)[0]
    )


def test_a_stack_is_as_each_client_by_one(federation):
    same_in_a_stack_and_single(federation, Reweigh(rounds=6, batch=20, alpha=0.01))


def test_it_has_no_level_and_no_eta():
    assert Reweigh().level == ""
    with pytest.raises(pff.InputError, match="Reweigh has its own objective"):
        Reweigh(eta=0.1)
