"""More than two groups and classes, and S that is not known: whole runs on small tables."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from threadpoolctl import threadpool_limits

import pfedfair as pff
from pfedfair import metrics
from pfedfair.data.task import outputs
from pfedfair.methods.target import targeted
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.models import MLP
from pfedfair.rules import Likeliest, Lookup, Thresholds
from pfedfair.runs.predictor import count

pytestmark = pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with threadpool_limits(1):
        yield


def crowd(n, groups, classes, seed=0, sites=3):
    """People whose label depends on x, and x on the group."""
    rng = np.random.default_rng(seed)
    s = np.concatenate([np.arange(groups), rng.integers(groups, size=n - groups)])
    x = rng.normal(size=(n, 3)) + 1.2 * s[:, None] * [1.0, -0.5, 0.3]
    scores = x @ np.random.default_rng(7).normal(size=(3, classes)) + rng.gumbel(size=(n, classes))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    group, label = [f"g{z}" for z in s], [f"y{c}" for c in scores.argmax(1)]
    return frame.assign(site=rng.integers(sites, size=n).astype(str), group=group, label=label)


def federate(frame, aware=True):
    data = pff.from_frame(frame, "label", "group", drop=["site"], encoding="standard")
    return data.federate(pff.partition.by_column("site"), 0, aware)


OPTIONS = {
    "rounds": 2,
    "agree": 1,
    "bins": 30,
    "batch": 60,
    "alpha": 0.02,
    "confidence": 0.0,
    "max_randomised": 1.0,
}


def transport(**options):
    return pff.methods.Transport(**OPTIONS | options)


def rules_of(run):
    """All clients' rules, a row for each."""
    return torch.stack([rule.numbers for rule in run.fitted.rules])


@pytest.mark.parametrize("method", pff.methods.METHODS)
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_every_method_trains_or_says_why_not(method, criterion):
    federation = federate(crowd(300, 3, 3))
    options = {"batch": 60, "criterion": criterion}
    options |= OPTIONS if method == "transport" else {"rounds": 2}
    options |= {"eta": 0.5} if pff.methods.METHODS[method].fair else {}
    try:
        algorithm = pff.make(method, options)
        hidden = () if algorithm.supports.linear_only else (8,)
        network = MLP(federation.encoder.width, hidden, 3, groups=3)
        run = pff.train(federation, algorithm, network=network)
    except pff.InputError as error:
        two = {"fa", "fcfl", "fairfed", "logofair", "gaussian-swap"}
        two |= {"pooled", "threshold-local", "fedfact", "fedfact-in", "duan"}
        assert method in two
        assert "made for two groups" in str(error) or "(dp) only" in str(error)  # noqa: PT017
        assert str(error).endswith(".")  # noqa: PT017
        return
    table = run.table()
    assert table["accuracy"].between(0, 1).all()
    for criterion in CRITERIA.values():
        gap = criterion.measure
        assert table[gap].dropna().between(0, 1).all()  # few rows have the last label
    assert table["ddp"].notna().all()
    assert {"share_s1", "share_s2", "npr_s2", "npr_s2_low"} <= set(table.columns)
    rows = crowd(60, 3, 3, seed=4)
    model = run.personal_model(0)
    chances = model.predict_proba(rows, rows["group"])
    assert chances.shape == (60, 3)
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-5)
    decided = model.decide(rows, rows["group"], random_state=0)
    assert set(decided) <= {0, 1, 2}
    if isinstance(run.fitted.rules[0], Likeliest):
        np.testing.assert_array_equal(decided, chances.argmax(1))
    assert table["accuracy"].mean() > 0.2  # better than at random on classes of unequal size


@pytest.mark.parametrize(
    ("method", "penalty"),
    [("fedavg-kde", "kde"), ("kde-local", "mi"), ("fedavg-kde", "ermi")],
)
def test_penalties_bring_the_gap_of_their_criterion_down(method, penalty):
    """Three groups, three classes, on the rows that were trained on."""
    federation = federate(crowd(900, 3, 3, sites=2))
    network = MLP(federation.encoder.width, (8,), 3, groups=3)
    gaps = {}
    for eta in (0.0, 0.95):
        settings = {"eta": eta, "penalty": penalty, "criterion": "eo", "rounds": 12, "batch": 100}
        algorithm = pff.make(method, settings | {"alpha": 0.02})
        run = pff.train(federation, algorithm, network=network)
        counts = count(run.predictors, federation.table, federation.partition.train)
        gaps[eta] = metrics.measure(counts)["eo"].mean()
    assert gaps[0.95] < gaps[0.0] - 0.05


def test_a_target_for_a_penalty_looks_at_its_criterion():
    """The excess of a client is its largest gap by hand, less the target."""
    federation = federate(crowd(300, 3, 3))
    for criterion in CRITERIA:
        settings = {"eta": 0.5, "criterion": criterion, "rounds": 2, "batch": 60}
        method = pff.make("fedavg-kde", settings)
        wrapped = targeted(method, target_ddp=0.1, confidence=0.0)
        assert torch.isfinite(pff.train(federation, wrapped).fitted.theta).all()
        rng = np.random.default_rng(0)
        y, s = rng.integers(3, size=(2, 80))
        logits = torch.from_numpy(rng.normal(size=(1, 80, 3)))
        held = pff.federation.Batch(
            None, torch.from_numpy(y)[None], torch.from_numpy(s)[None], torch.ones(1, 80) / 80
        )
        counts = metrics.counts_of(y, logits[0].argmax(1).numpy(), sensitive_features=s)
        expected = metrics.measure(counts)[CRITERIA[criterion].measure] - 0.1
        assert wrapped.excess(logits, held).item() == pytest.approx(expected, abs=1e-6)


KINDS = [(3, 2, True), (2, 3, True), (3, 3, True), (2, 2, False), (3, 3, False)]
KINDS_NAMES = ["3 groups", "3 classes", "3 of both", "blind", "blind, 3 of both"]
tasks = pytest.mark.parametrize(("groups", "classes", "aware"), KINDS, ids=KINDS_NAMES)


@cache
def trained(groups, classes, aware):
    return pff.train(federate(crowd(600, groups, classes), aware), transport())


@tasks
@pytest.mark.parametrize("criterion", CRITERIA)
def test_another_criterion_needs_no_training(groups, classes, aware, criterion):
    run = trained(groups, classes, aware).retarget(criterion=criterion, target_ddp=0.2)
    anew = pff.train(run.federation, transport(criterion=criterion, target_ddp=0.2))
    assert torch.equal(run.fitted.theta, anew.fitted.theta)
    assert torch.equal(rules_of(run), rules_of(anew))
    expected = Thresholds if aware and classes == 2 else Lookup
    assert all(isinstance(rule, expected) for rule in run.fitted.rules)
    rules = run.rules()
    assert {CRITERIA[criterion].measure, "cost"} <= set(rules.columns)
    assert len(rules) == 3


@tasks
def test_cost_is_against_the_likeliest_label(groups, classes, aware):
    """By the scores only, whatever a head guesses of S."""
    run = trained(groups, classes, aware)
    federation = run.federation
    hidden, aware_groups = federation.data.hidden, groups if aware else 0
    scorer = MLP(federation.encoder.width, hidden, outputs(classes), aware_groups)
    right = []
    for theta, rows in zip(run.fitted.theta, federation.partition.test, strict=True):
        x, y, s = (tensor[rows] for tensor in federation.table[:3])
        logits = scorer.logits(theta[None, : scorer.size], x[None], s[None])[0]
        decided = logits[:, 0] > 0 if classes == 2 else logits.argmax(1)
        right.append((decided == y).double().mean().item())
    rules = run.rules()
    np.testing.assert_allclose(rules["cost"] + rules["accuracy"], right)


@tasks
def test_a_saved_run_decides_the_same(groups, classes, aware, tmp_path):
    run = trained(groups, classes, aware)
    run.save(tmp_path)
    rows = crowd(300, groups, classes, seed=3)
    features = {"sensitive_features": rows["group"]} if aware else {}
    for client in ("0", "2"):
        both = run.personal_model(client), pff.load_model(tmp_path, client)
        decided = [model.decide(rows, **features, random_state=5) for model in both]
        np.testing.assert_array_equal(*decided)
        np.testing.assert_array_equal(*(model.predict_proba(rows, **features) for model in both))
        assert both[1].label_names == tuple(f"y{c}" for c in range(classes))
    if aware:
        with pytest.raises(pff.InputError, match="give sensitive_features"):
            both[1].decide(rows.drop(columns="group"))


def expected_gap(model, rows):
    """The largest difference of the groups' rates of any decision, over the random draws."""
    chances = model.predict_proba(rows, rows["group"])
    rates = np.stack([chances[rows["group"] == z].mean(0) for z in sorted(set(rows["group"]))])
    return np.ptp(rates, axis=0).max()


@pytest.mark.parametrize(
    ("groups", "classes", "aware"),
    [*KINDS, (3, 2, False), (2, 3, False)],
    ids=[*KINDS_NAMES, "blind, 3 groups", "blind, 3 classes"],
)
def test_a_newcomer_keeps_the_target_on_its_own_rows(groups, classes, aware, tmp_path):
    """With kappa = 0 its own counts are all that matters, and they are known exactly."""
    trained(groups, classes, aware).save(tmp_path)
    rows = crowd(800, groups, classes, seed=9).drop(columns="label")
    free = pff.personalise(tmp_path, rows, kappa=0.0, target_ddp=1.0)
    assert expected_gap(free, rows) > 0.07  # something to do
    for target in (0.0, 0.06) if aware else (0.06,):  # blind: the guess of S is not exact
        out = tmp_path / f"{target}"
        model = pff.personalise(tmp_path, rows, kappa=0.0, target_ddp=target, out=out)
        assert expected_gap(model, rows) <= target + 2e-3
        again = pff.load_model(out, "newcomer")
        both = (m.predict_proba(rows, rows["group"]) for m in (model, again))
        np.testing.assert_array_equal(*both)


@tasks
@pytest.mark.parametrize("criterion", ["eo", "eopp"])
def test_a_newcomer_with_another_criterion(groups, classes, aware, criterion, tmp_path):
    trained(groups, classes, aware).save(tmp_path)
    rows = crowd(300, groups, classes, seed=9).drop(columns="label")
    model = pff.personalise(tmp_path, rows, criterion=criterion, target_ddp=0.05)
    assert torch.isfinite(model.predictor.rule.numbers).all()
    one = pff.personalise(tmp_path, rows.head(1), criterion=criterion)
    assert torch.isfinite(one.predictor.rule.numbers).all()
    with pytest.raises(pff.InputError, match="Unknown criterion 'luck'"):
        pff.personalise(tmp_path, rows, criterion="luck")


@tasks
@pytest.mark.parametrize(
    "options",
    [{"confidence": 0.9}, {"max_randomised": 0.0}, {"epsilon": 1.0}, {"kappa": 0.0}],
    ids=str,
)
def test_transports_other_settings(groups, classes, aware, options):
    run = pff.train(federate(crowd(500, groups, classes), aware), transport(**options))
    rule = rules_of(run)
    assert torch.isfinite(rule).all()
    if isinstance(run.fitted.rules[0], Lookup):
        torch.testing.assert_close(rule.sum(-1), torch.ones(rule.shape[:-1]))
        if "ties" in options:
            assert ((rule == 0) | (rule == 1)).all()


# --- federations that are not like the others --------------------------------------------------


@pytest.mark.parametrize("aware", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_client_alone(classes, aware):
    run = pff.train(federate(crowd(300, 3, classes, sites=1), aware), transport())
    assert torch.isfinite(rules_of(run)).all()


@pytest.mark.parametrize("aware", [True, False])
def test_a_group_that_one_client_has_alone(aware):
    frame = crowd(600, 3, 2)
    frame.loc[frame["group"] == "g2", "site"] = "1"
    run = pff.train(federate(frame, aware), transport())
    assert torch.isfinite(rules_of(run)).all()


@pytest.mark.parametrize("aware", [True, False])
def test_a_client_with_one_group_decides_by_its_scores(aware):
    frame = crowd(600, 3, 3)
    frame.loc[frame["site"] == "1", "group"] = "g0"
    run = pff.train(federate(frame, aware), transport(target_ddp=0.0))
    rows = frame[frame["site"] == "1"]
    chances = run.personal_model("1").predict_proba(rows, rows["group"])
    assert ((chances == 0) | (chances == 1)).all()  # no other group: no random draws


@pytest.mark.parametrize(("groups", "classes", "bins"), [(7, 5, 40), (3, 8, 300)])
def test_blind_with_any_number_of_groups_and_classes(groups, classes, bins):
    """Or a sentence, where there are as many cells as there would be if S were known."""
    federation = federate(crowd(900, groups, classes), aware=False)
    try:
        run = pff.train(federation, transport(bins=bins, target_ddp=0.5))
    except pff.InputError as error:
        assert "bins" in str(error)  # noqa: PT017
        return
    assert run.table()["accuracy"].between(0, 1).all()
