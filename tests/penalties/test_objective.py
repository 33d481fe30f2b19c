import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import pfedfair as pff
from pfedfair.federation import Batch
from pfedfair.penalties import kde
from pfedfair.penalties.objective import Objective


def batch(rows=3, n=12, padding=2):
    torch.manual_seed(0)
    weight = torch.full((rows, n), 1 / (n - padding), dtype=torch.float64)
    weight[:, n - padding :] = 0
    y = torch.randint(2, (rows, n)).double()
    return Batch(torch.empty(0), y, torch.randint(2, (rows, n)), weight)


LOGITS = torch.randn(3, 12, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_loss_is_the_mean_cross_entropy_of_own_rows():
    b = batch()
    expected = [
        binary_cross_entropy_with_logits(LOGITS[i, :10, 0], b.y[i, :10]).item() for i in range(3)
    ]
    torch.testing.assert_close(
        Objective().value(LOGITS, b), torch.tensor(expected, dtype=torch.float64)
    )


def test_mixes():
    b = batch()
    loss, penalty = Objective().value(LOGITS, b), kde(LOGITS, b.y, b.s, b.weight)
    convex = Objective(0.3).value(LOGITS, b)
    torch.testing.assert_close(convex, 0.7 * loss + 0.3 * penalty)
    additive = Objective(2.0, mix="additive").value(LOGITS, b)
    torch.testing.assert_close(additive, loss + 2 * penalty)


def test_bandwidth_and_delta_reach_the_penalty():
    b = batch()
    objective = Objective(0.5, penalty_options=(("bandwidth", 0.3), ("delta", 0.01)))
    penalty = kde(LOGITS, b.y, b.s, b.weight, bandwidth=0.3, delta=0.01)
    expected = 0.5 * Objective().value(LOGITS, b) + 0.5 * penalty
    torch.testing.assert_close(objective.value(LOGITS, b), expected)


@pytest.mark.parametrize(
    "objective", [Objective(), Objective(0.9), Objective(0.4, mix="additive")], ids=str
)
def test_slope_is_autograds(objective):
    b = batch()
    leaf = LOGITS.clone().requires_grad_()
    (expected,) = torch.autograd.grad(objective.value(leaf, b).sum(), leaf)
    torch.testing.assert_close(objective.slope(LOGITS, b), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eta": 1.0}, r"eta must be in \[0, 1\), got 1"),
        ({"eta": -0.1}, r"eta must be in \[0, 1\), got -0.1"),
        ({"eta": float("nan")}, r"eta must be in \[0, 1\), got nan"),
        ({"eta": -1, "mix": "additive"}, "eta must be a number >= 0"),
        ({"penalty": "luck"}, "Unknown penalty 'luck': choose one of kde"),
        ({"mix": "cocktail"}, "Unknown mix 'cocktail'"),
        ({"criterion": "luck"}, "Unknown criterion 'luck': choose one of dp, eo, eopp"),
        ({"penalty_options": (("h", 1.0),)}, "Unknown option of kde 'h': choose one of bandwidth"),
    ],
)
def test_bad_objectives_are_refused(arguments, message):
    with pytest.raises(pff.InputError, match=message):
        Objective(**arguments)


@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
@pytest.mark.parametrize("name", ["bandwidth", "delta"])
def test_options_of_a_penalty_are_above_zero(name, value):
    with pytest.raises(pff.InputError, match=f"{name} of kde must be a number above 0, got"):
        Objective(0.5, penalty_options=((name, value),))
