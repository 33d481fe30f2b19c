import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_central import same_in_a_stack_and_single, some, table, trained
from scipy.optimize import minimize

import pfedfair as pff
from pfedfair.methods.dro import DRO, RISKS, chi2, cvar
from pfedfair.penalties.objective import loss, losses, slope_of

SHARE = st.sampled_from([0.05, 0.3, 0.5, 0.77, 1.0])


def drawn(n, seed, ties=False):
    values = np.random.default_rng(seed).gamma(2.0, size=n)
    return torch.from_numpy(np.round(values) if ties else values)[None]


def even(n, padding=0):
    return torch.cat([torch.full((1, n), 1 / n), torch.zeros(1, padding)], 1)


@given(n=st.integers(1, 40), seed=st.integers(0, 999), tail=SHARE, ties=st.booleans())
def test_cvar_is_the_mean_of_the_worst_share(n, seed, tail, ties):
    """Closed form for equal weights: whole rows, and a part of the next one."""
    values = drawn(n, seed, ties)
    q = cvar(values, even(n), tail)
    worst, budget, total = np.sort(values[0].numpy())[::-1], tail * n, 0.0
    for value in worst:
        total += min(1.0, max(budget, 0.0)) * value
        budget -= 1
    assert (q * values).sum().item() == pytest.approx(total / (tail * n), rel=1e-5)
    assert q.sum().item() == pytest.approx(1, abs=1e-5)
    assert q.max().item() <= 1 / (tail * n) * (1 + 1e-5) or n * tail < 1
    assert q.min() >= 0


@given(n=st.integers(2, 9), seed=st.integers(0, 99), tail=st.sampled_from([0.2, 0.5, 0.9]),
       weighted=st.booleans())  # fmt: skip
def test_chi_square_is_the_best_that_a_search_over_the_simplex_finds(n, seed, tail, weighted):
    rng = np.random.default_rng(seed)
    value = rng.gamma(2.0, size=n)
    p = rng.dirichlet(np.ones(n) * 3) if weighted else np.full(n, 1 / n)
    radius = (1 / tail - 1) / 2

    def distance(q):
        return (p * (q / p - 1) ** 2).sum() / 2

    q = chi2(torch.from_numpy(value)[None], torch.from_numpy(p)[None], tail)[0].numpy()
    assert q.sum() == pytest.approx(1)
    assert q.min() >= 0
    assert distance(q) <= radius * (1 + 1e-6)
    found = minimize(
        lambda q: -(q * value).sum(), p, jac=lambda q: -value, bounds=[(0, 1)] * n,
        method="SLSQP", options={"maxiter": 500, "ftol": 1e-12},
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1},
            {"type": "ineq", "fun": lambda q: radius - distance(q)},
        ],
    )  # fmt: skip
    assert (q * value).sum() == pytest.approx(-found.fun, rel=1e-4)


@given(n=st.integers(1, 30), seed=st.integers(0, 999), tail=SHARE)
def test_chi_square_is_never_below_cvar_nor_above_the_worst(n, seed, tail):
    values = drawn(n, seed)
    low, high = ((RISKS[r](values, even(n), tail) * values).sum().item() for r in ("cvar", "chi2"))
    assert values.mean().item() <= low * (1 + 1e-5)
    assert low <= high * (1 + 1e-5)
    assert high <= values.max().item() * (1 + 1e-5)


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("tail", [0.1, 0.5, 1.0])
def test_equal_losses_leave_the_weights_as_they_are(risk, tail):
    """A model at zero has such losses, and must not stand still."""
    q = RISKS[risk](torch.full((1, 6), 0.6931), even(4, 2), tail)
    torch.testing.assert_close(q, even(4, 2))


@pytest.mark.parametrize("risk", RISKS)
def test_padding_and_empty_clients_weigh_nothing(risk):
    values = torch.tensor([[1.0, 3.0, 2.0, 99.0, 99.0]])
    q = RISKS[risk](values, even(3, 2), 0.4)
    torch.testing.assert_close(q[:, :3], RISKS[risk](values[:, :3], even(3), 0.4))
    assert (q[:, 3:] == 0).all()
    assert (RISKS[risk](values, torch.zeros(1, 5), 0.4) == 0).all()


@pytest.mark.parametrize("risk", RISKS)
def test_the_largest_loss_takes_all_where_it_may(risk):
    values = torch.tensor([[1.0, 5.0, 2.0, 4.0]])
    torch.testing.assert_close(RISKS[risk](values, even(4), 0.25), torch.tensor([[0, 1.0, 0, 0]]))
    tied = torch.tensor([[5.0, 5.0, 2.0, 4.0]])
    half = torch.tensor([[0.5, 0.5, 0, 0]])
    torch.testing.assert_close(RISKS[risk](tied, even(4), 0.25), half)


def test_the_slope_is_that_of_the_sorted_losses():
    """6.6 of 20 rows: six whole ones and a part of the seventh, with autograd."""
    logits, batch = some(1, 20, padded=False)
    q = cvar(losses(logits, batch), batch.weight, 0.33)
    found = slope_of(lambda z: loss(z, batch._replace(weight=q)), logits)

    def written(z):
        worst = losses(z, batch).sort(descending=True).values
        return (worst[:, :6].sum(1) + 0.6 * worst[:, 6]) / 6.6

    torch.testing.assert_close(found, slope_of(written, logits), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("risk", RISKS)
def test_weights_are_the_derivatives_of_the_risk(risk):
    """By finite differences: the worst weights do not have to be differentiated."""
    values, p, h = drawn(9, 5), torch.full((1, 9), 1 / 9, dtype=torch.float64), 1e-5
    q = RISKS[risk](values, p, 0.4)
    for j in range(9):
        ends = [values.clone(), values.clone()]
        ends[0][0, j] -= h
        ends[1][0, j] += h
        low, high = ((RISKS[risk](v, p, 0.4) * v).sum() for v in ends)
        assert ((high - low) / (2 * h)).item() == pytest.approx(q[0, j].item(), abs=1e-4)


@pytest.mark.parametrize("risk", RISKS)
def test_a_tail_of_one_is_standard_training(federation, risk):
    rng = np.random.default_rng(1)
    rows = table(rng.normal(size=(60, 3)), rng.integers(2, size=60), rng.integers(2, size=60))
    options = {"rounds": 5, "batch": 20, "alpha": 0.05}
    baseline, _ = trained(pff.methods.Local(**options), rows)
    found, _ = trained(DRO(risk=risk, tail=1.0, **options), rows)
    torch.testing.assert_close(found, baseline, rtol=0, atol=1e-5)


@pytest.mark.parametrize("risk", RISKS)
def test_a_small_group_that_is_not_named_is_better_off(risk):
    """A tenth of the rows has the opposite label; S does not tell which, and is not looked at."""
    rng = np.random.default_rng(0)
    n = 2000
    odd = rng.random(n) < 0.1
    x = rng.normal(size=(n, 2))
    y = (x[:, 0] > 0) ^ odd
    rows = table(x, y, rng.integers(2, size=n))
    options = {"rounds": 150, "batch": n, "alpha": 0.05}

    def worst(theta, network):
        z = network.logits(theta, rows.x[None], rows.s[None])[0, :, 0]
        each = torch.nn.functional.softplus(z) - rows.y * z
        return each[torch.from_numpy(odd)].mean().item()

    baseline, robust = (
        trained(pff.methods.Local(**options), rows),
        trained(DRO(risk=risk, **options), rows),
    )
    assert worst(*robust) < 0.8 * worst(*baseline)
    other = rows._replace(s=1 - rows.s)
    assert torch.equal(trained(DRO(risk=risk, **options), other)[0], robust[0])


@pytest.mark.parametrize("risk", RISKS)
def test_a_stack_is_as_each_client_by_one(federation, risk):
    same_in_a_stack_and_single(federation, DRO(risk=risk, rounds=6, batch=20, alpha=0.01))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"risk": "kl"}, "Unknown risk 'kl'"),
        ({"tail": 0.0}, "tail must be above 0 and at most 1, got 0"),
        ({"tail": 1.1}, "tail must be above 0 and at most 1"),
        ({"eta": 0.5}, "DRO has its own objective"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        DRO(**options)
