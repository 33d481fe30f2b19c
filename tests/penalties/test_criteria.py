"""Criteria and penalties for any number of groups and classes, against loops over rows."""

import math

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import softmax

import pfedfair as pff
from pfedfair.data.task import Task
from pfedfair.federation import Batch
from pfedfair.penalties import CLASSES, GROUPS, PENALTIES
from pfedfair.penalties.objective import loss

double = {"dtype": torch.float64}


def batch(rows, n, groups, classes, seed, padding=0):
    """Random rows of some clients, and logits; the last `padding` of each weigh nothing."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (rows, n + padding), generator=g).double()
    s = torch.randint(groups, (rows, n + padding), generator=g)
    weight = torch.full((rows, n + padding), 1 / n, **double)
    weight[:, n:] = 0
    width = 1 if classes == 2 else classes
    logits = 1.5 * torch.randn(rows, n + padding, width, generator=g).double()
    return logits, Batch(torch.zeros(rows, n + padding, 1, **double), y, s, weight)


def single(logits, samples, i, chosen):
    """Some rows of client i on their own, each of the same weight."""
    weight = torch.full((1, int(chosen.sum())), 1 / int(chosen.sum()), **double)
    return (*(t[i : i + 1, chosen] for t in (logits, samples.y, samples.s)), weight)


# --- criteria ----------------------------------------------------------------------------------


def by_hand(objective, logits, samples):
    """The fair loss of each client; the penalty among rows of each label in turn."""
    last = max(1, logits.shape[-1] - 1)
    labels = range(last + 1) if objective.criterion == "eo" else [last]
    values = []
    for i in range(len(logits)):
        real = samples.weight[i] > 0
        penalties = []
        for label in labels:
            chosen = real & (samples.y[i] == label)
            part = 0.0
            if chosen.any():
                part = PENALTIES[objective.penalty](*single(logits, samples, i, chosen)).item()
            penalties.append(part)
        own, y, _, weight = single(logits, samples, i, real)
        baseline = loss(own, Batch(None, y, None, weight)).item()
        values.append((1 - objective.eta) * baseline + objective.eta * np.mean(penalties))
    return values


task = st.sampled_from(
    [(p, g, c) for p in PENALTIES for g in (2, 3) for c in (2, 3)
     if (g == 2 or p in GROUPS) and (c == 2 or p in CLASSES)]
)  # fmt: skip


@given(task, st.sampled_from(["eo", "eopp"]), st.integers(1, 30), st.integers(0, 999))
@example(("mi-adversarial", 2, 2), "eo", 14, 14)
@settings(deadline=None, max_examples=120)
def test_penalty_is_taken_among_rows_of_each_label(kind, criterion, n, seed):
    penalty, groups, classes = kind
    logits, samples = batch(3, n, groups, classes, seed, padding=2)
    objective = pff.Objective(0.4, penalty, criterion=criterion)
    found = objective.value(logits, samples)
    assert torch.isfinite(found).all()  # though labels may be missing
    assert found.tolist() == pytest.approx(by_hand(objective, logits, samples), abs=1e-9)


@pytest.mark.parametrize("criterion", ["dp", "eo", "eopp"])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("classes", [2, 3])
def test_slope_is_the_finite_difference(penalty, classes, criterion):
    if classes > 2 and penalty not in CLASSES:
        classes = 2
    logits, samples = batch(2, 9, 3 if penalty in GROUPS else 2, classes, seed=5, padding=1)
    objective = pff.Objective(0.6, penalty, criterion=criterion)
    slope = objective.slope(logits, samples)
    assert slope.shape == logits.shape
    assert (slope[:, -1] == 0).all()  # padding
    for place in np.ndindex(*logits.shape):
        step = torch.zeros_like(logits)
        step[place] = 1e-5
        ends = [objective.value(logits + k * step, samples).sum() for k in (1, -1)]
        numeric = ((ends[0] - ends[1]) / 2e-5).item()
        assert slope[place].item() == pytest.approx(numeric, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("criterion", ["eo", "eopp"])
@pytest.mark.parametrize("present", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_without_one_label(penalty, criterion, present, dtype):
    logits, samples = batch(2, 20, 2, 2, seed=1)
    logits = logits.to(dtype)
    samples = samples._replace(
        y=torch.full_like(samples.y, present).to(dtype), weight=samples.weight.to(dtype)
    )
    objective = pff.Objective(0.5, penalty, criterion=criterion)
    value, slope = objective.value(logits, samples), objective.slope(logits, samples)
    assert torch.isfinite(value).all()
    assert torch.isfinite(slope).all()
    whole = pff.Objective(0.5, penalty).value(logits, samples)
    baseline = 0.5 * loss(logits, samples)
    part = {("eo", 0): 0.5, ("eo", 1): 0.5, ("eopp", 0): 0.0, ("eopp", 1): 1.0}
    expected = baseline + part[criterion, present] * (whole - baseline)
    torch.testing.assert_close(value, expected)


def test_equal_odds_are_free_where_rates_differ():
    """Labels differ by group, scores by label only: DP is violated, EO and EOPP are not."""
    y = torch.tensor([[0.0] * 30 + [1.0] * 10 + [0.0] * 10 + [1.0] * 30], **double)
    s = torch.tensor([[0] * 40 + [1] * 40])
    samples = Batch(None, y, s, torch.full((1, 80), 1 / 80, **double))
    logits = (4 * y - 2)[..., None]
    for penalty in PENALTIES:
        values = {
            criterion: pff.Objective(0.5, penalty, criterion=criterion)
            .value(logits, samples)
            .item()
            - 0.5 * loss(logits, samples).item()
            for criterion in ("dp", "eo", "eopp")
        }
        assert values["dp"] > 0.01
        assert abs(values["eo"]) < 1e-4  # the adversary has a ridge
        assert abs(values["eopp"]) < 1e-4


# --- several groups and classes ----------------------------------------------------------------


def huber(gap, delta=1.0):
    return gap**2 / 2 if abs(gap) <= delta else delta * (abs(gap) - delta / 2)


def phi(v):
    return 0.5 * (1 + math.erf(v / math.sqrt(2)))


def kde_by_hand(p, s, bandwidth=0.1):
    """Person by row: how far each class is ahead of the best other."""
    n, classes = p.shape
    soft = np.zeros((n, classes))
    for i in range(n):
        for c in range(classes):
            rival = max(p[i, k] for k in range(classes) if k != c)
            soft[i, c] = phi((p[i, c] - rival) / 2 / bandwidth)
    total = 0.0
    for c in range(classes):
        for z in set(s):
            group = [soft[i, c] for i in range(n) if s[i] == z]
            total += huber(sum(group) / len(group) - soft[:, c].mean())
    return total


def joint_by_hand(p, s, groups):
    joint = np.zeros((groups, p.shape[1]))
    for i in range(len(p)):
        joint[s[i]] += p[i] / len(p)
    return joint


def mi_by_hand(p, s, groups):
    joint, total = joint_by_hand(p, s, groups), 0.0
    for z in range(groups):
        for c in range(p.shape[1]):
            if joint[z, c] > 0:
                total += joint[z, c] * math.log(joint[z, c] / joint[z].sum() / joint[:, c].sum())
    return total


def ermi_by_hand(p, s, groups):
    joint, total = joint_by_hand(p, s, groups), -1.0
    for z in range(groups):
        for c in range(p.shape[1]):
            if joint[z, c] > 0:
                total += joint[z, c] ** 2 / joint[z].sum() / joint[:, c].sum()
    return total


@given(st.integers(2, 5), st.integers(3, 5), st.integers(1, 40), st.integers(0, 999))
@settings(deadline=None, max_examples=80)
def test_many_groups_and_classes_by_hand(groups, classes, n, seed):
    logits, samples = batch(2, n, groups, classes, seed, padding=1)
    given_ = (logits, samples.y, samples.s, samples.weight)
    found = {name: PENALTIES[name](*given_).tolist() for name in CLASSES}
    for i in range(2):
        p, s = softmax(logits[i, :n].numpy(), axis=1), samples.s[i, :n].numpy()
        assert found["kde"][i] == pytest.approx(kde_by_hand(p, s), abs=1e-9)
        assert found["mi"][i] == pytest.approx(mi_by_hand(p, s, groups), abs=1e-9)
        assert found["ermi"][i] == pytest.approx(ermi_by_hand(p, s, groups), abs=1e-9)


@given(st.integers(3, 5), st.integers(2, 40), st.integers(0, 999))
@settings(deadline=None, max_examples=40)
def test_hgr_of_several_groups_bounds_hgr(groups, n, seed):
    """The chi-square of the score's smoothed distribution and S, bin by bin."""
    logits, samples = batch(1, n, groups, 2, seed)
    found = PENALTIES["hgr"](logits, samples.y, samples.s, samples.weight).item()
    score, places = 1 / (1 + np.exp(-logits[0, :, 0].numpy())), np.linspace(0, 1, 21)
    joint = np.zeros((groups, 21))
    for i in range(n):
        kernel = np.exp(-(((score[i] - places) / 0.1) ** 2) / 2)
        joint[samples.s[0, i]] += kernel / kernel.sum() / n
    here = joint[joint.sum(1) > 0]
    expected = (here**2 / np.outer(here.sum(1), here.sum(0))).sum() - 1
    assert found == pytest.approx(expected, abs=1e-9)


@given(st.integers(2, 4), st.integers(1, 40), st.integers(0, 999))
@settings(deadline=None, max_examples=60)
def test_log_odds_and_two_logits_are_the_same(groups, n, seed):
    """KDE adds up over the classes, and the two of them have the same gaps."""
    logits, samples = batch(2, n, groups, 2, seed)
    rest = (samples.y, samples.s, samples.weight)
    two = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    for name, times in (("mi", 1), ("ermi", 1), ("kde", 2)):
        one = PENALTIES[name](logits, *rest)
        torch.testing.assert_close(PENALTIES[name](two, *rest), times * one, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(loss(two, samples), loss(logits, samples))


@pytest.mark.parametrize("name", CLASSES)
def test_names_of_groups_and_classes_do_not_matter(name):
    logits, samples = batch(1, 50, 3, 4, seed=2)
    groups, classes = torch.tensor([2, 0, 1]), torch.tensor([3, 1, 0, 2])
    one = PENALTIES[name](logits, samples.y, samples.s, samples.weight)
    other = PENALTIES[name](logits[..., classes], samples.y, groups[samples.s], samples.weight)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", CLASSES)
def test_zero_when_all_are_alike_and_more_when_not(name):
    s = torch.arange(90)[None] % 3
    weight = torch.full((1, 90), 1 / 90, **double)
    same = torch.randn(1, 30, 3, generator=torch.Generator().manual_seed(0)).double()
    same = same.repeat_interleave(3, dim=1)  # every score once in every group
    assert PENALTIES[name](same, weight, s, weight).item() == pytest.approx(0, abs=1e-9)
    apart = same + 2 * torch.eye(3, **double)[s]
    assert PENALTIES[name](apart, weight, s, weight).item() > 0.01


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("criterion", ["dp", "eo", "eopp"])
def test_refusals_name_what_can_be_done(penalty, criterion):
    objective = pff.Objective(0.5, penalty, criterion=criterion)
    objective.check(Task())
    for asked, what, able in ((Task(3, 2), "groups", GROUPS), (Task(2, 3), "classes", CLASSES)):
        if penalty in able:
            objective.check(asked)
            continue
        message = f"{penalty} is made for two {what}, the data has 3: choose one of "
        with pytest.raises(pff.InputError, match=message + ", ".join(able)) as error:
            objective.check(asked)
        assert str(error.value).endswith(".")
        pff.Objective(0.0, penalty, criterion=criterion).check(asked)  # no penalty, no trouble


def test_which_can():
    assert "pearson" not in GROUPS
    assert "hgr" not in CLASSES
    for name in CLASSES:  # those that take logits of all classes take groups too
        assert name in GROUPS


def test_unknown_criterion():
    with pytest.raises(pff.InputError, match="Unknown criterion 'luck': choose one of dp, eo"):
        pff.Objective(0.5, criterion="luck")
