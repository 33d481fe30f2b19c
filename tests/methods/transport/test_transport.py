"""Transport as an algorithm: its messages, whole runs, and clients at the edge."""

import re
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from play import clients, numbers, rounds, start
from scipy.special import expit
from threadpoolctl import threadpool_limits

import pfedfair as pff
from made_people import people
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.methods.clients import hold_out
from pfedfair.methods.transport import Transport, counts
from pfedfair.metrics import measure
from pfedfair.models import MLP, Module, linear
from pfedfair.rules import Likeliest, Lookup
from pfedfair.runs.predictor import count
from pfedfair.theory import effects, tilts
from pfedfair.theory.effects import unknown
from pfedfair.theory.shrinkage import FLAT, KAPPAS, kappa_posterior, own_weight, spread
from rules import centres, chances, solve
from rules import rows as rows_of

OPTIONS = {"batch": 30, "alpha": 0.02}
PAGE = Path(__file__).parents[3] / "docs" / "methods" / "transport.md"


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with threadpool_limits(1):
        yield


@cache
def fit(federation, seed=0, at_once=10, **options):
    algorithm = Transport(**{"rounds": 6, **OPTIONS, **options})
    network = algorithm.network(
        MLP(federation.encoder.width, (5,), groups=2), federation.table.task
    )
    return network, local.fit(federation, algorithm, network, seed, at_once=at_once)


# --- what leaves a client ----------------------------------------------------------------------


def listen(federation, **options):
    """Train in four rounds, count in one, agree in three; keep every round."""
    algorithm = Transport(**{"rounds": 4, "agree": 3, **OPTIONS, "batch": 10_000, **options})
    network = algorithm.network(
        MLP(federation.encoder.width, (5,), groups=2), federation.table.task
    )
    w = network.init(seeds.generator(0, seeds.INIT))
    played = list(rounds(algorithm, clients(federation, network), w))
    fitted = local.fit(federation, algorithm, network, seed=0)
    return network, fitted, played


def test_a_client_sends_models_then_counts_then_how_alike_it_is(federation):
    network, _, played = listen(federation)
    assert [one.phase.name for one in played] == ["train"] * 4 + ["count"] + ["agree"] * 3
    for one in played[:4]:
        assert {name: tensor.shape for name, tensor in one.sent.items()} == {"w": (3, network.size)}
    for one in played[5:]:
        sent = one.sent
        shapes = {name: tensor.shape for name, tensor in sent.items()}
        assert shapes == {"alike": (3, 49), "effects": (3, 32)}
        assert (sent["effects"][:, 0] == 1).all()
        assert (sent["alike"] >= 0).all()
        total = sent["alike"].sum(1)  # a distribution for each group
        torch.testing.assert_close(total, torch.full_like(total, 2.0))
    counted = played[4].sent
    shapes = {name: tensor.shape for name, tensor in counted.items()}
    of_rows = {"held": (3, 2, 2, 2, 500), "trained": (3, 2, 500)}  # half, S, Y, bin
    assert shapes == of_rows | {"clients": (3, 1)}
    each_client = zip(counted["held"], counted["trained"], strict=True)
    for client, (held, trained) in enumerate(each_client):
        for each in (held, trained):
            assert (each >= 0).all()
            assert (each == each.round()).all()
        assert held.sum() + trained.sum() == federation.sizes[client]
        rows = federation.partition.train[client]
        s, y = federation.data.s[rows], federation.data.y[rows]
        in_group = held.sum((0, 2, 3)) + trained.sum(1)
        assert in_group.tolist() == np.bincount(s, minlength=2).tolist()
        assert (held.sum((0, 1, 3)).numpy() <= np.bincount(y, minlength=2)).all()
        expected = [round(0.2 * n) for n in np.bincount(s, minlength=2)]
        assert held.sum((0, 2, 3)).tolist() == expected
        halves = held.sum((1, 2, 3))
        assert 0 <= halves[0] - halves[1] <= 1


def test_no_threshold_leaves_a_client(federation):
    """All clients have the same model and rules of their own; what the server knows is for all."""
    network, fitted, _ = listen(federation)
    assert len(torch.unique(numbers(fitted.rules), dim=0)) == 3
    assert torch.equal(fitted.theta, fitted.w.expand(3, -1))
    shapes = {name: tuple(tensor.shape) for name, tensor in fitted.server.items()}
    assert shapes == {
        "w": (network.size,),
        "counts": (2, 500),
        "clients": (1,),
        "eta": (2, 2, 500),
        "eta_error": (2, 3, 3),
        "trust": (2,),
        "prior": (49,),
        "population": (31,),
        "everybody": (2, 500),
    }


@pytest.mark.parametrize("number", [0.0, 2.0, float("nan")])
def test_a_client_counts_as_one(federation, number):
    """More would make the level of a joint promise stricter, fewer would make it looser."""
    *_, played = listen(federation)
    one = played[4]
    message = {name: rows[0] for name, rows in one.sent.items()}
    n = int(federation.sizes[0])
    assert one.phase.impossible(message, one.server, [n]) == ""
    lie = message | {"clients": torch.full((1,), number, dtype=torch.float64)}
    assert "clients, not 1" in one.phase.impossible(lie, one.server, [n])


def test_a_sum_is_all_that_the_server_needs(federation):
    _, fitted, played = listen(federation)
    sizes = torch.from_numpy(federation.sizes).float()
    for one in played[4:]:
        lumped = {name: torch.zeros_like(v) for name, v in one.sent.items()}
        for name, v in one.sent.items():
            lumped[name][1] = v.sum(0)
        mean = {name: v.mean(0, keepdim=True).expand_as(v) for name, v in one.sent.items()}
        for others in ({name: v[[2, 0, 1]] for name, v in one.sent.items()}, lumped, mean):
            again = one.phase.server_round(one.server, others, sizes)
            assert set(again) == set(one.after)
            for name in again:
                torch.testing.assert_close(again[name], one.after[name], rtol=1e-9, atol=1e-9)
    assert set(played[-1].after) == set(fitted.server)
    for name, tensor in fitted.server.items():
        torch.testing.assert_close(played[-1].after[name], tensor, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("data", ["adult", "compas"])
def test_bytes_on_the_page_are_those_of_the_messages(compas, data):
    """Every size in the page's table is that of a tensor, and the page knows no other."""
    federation = compas
    if data == "adult":
        federation = pff.load("adult").federate(pff.partition.fixed_shares())
    algorithm = Transport(rounds=1, agree=1)
    network = MLP(federation.encoder.width, federation.data.hidden, groups=2)
    network = algorithm.network(network, federation.table.task)
    model = network.init(np.random.default_rng(0))
    section = PAGE.read_text().split("## What leaves a client, byte by byte")[1].split("\n## ")[0]
    numbers_shown = {int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", section)}
    train, count, agree = rounds(algorithm, clients(federation, network, [0]), model)
    assert train.sent["w"][0].nbytes in numbers_shown
    counts, alike, server = count.sent, agree.sent, count.after
    rows = {
        name: [int(n.replace(",", "")) for n in cells]
        for name, *cells in re.findall(
            r"^\| `?(\w+)`? \|.* ([\d,]+) \| ([\d,]+) \|$", section, re.M
        )
    }
    assert alike["alike"][0].nbytes == 392
    assert rows == {
        name: [tensor[0].numel(), tensor[0].nbytes] for name, tensor in (counts | alike).items()
    } | {"three": [5_001, sum(tensor[0].nbytes for tensor in counts.values())]}
    down = [tensor.nbytes for name, tensor in server.items() if name != "w"]
    assert {*down, sum(down)} <= numbers_shown


def test_rules_count_again_what_a_client_has_lost(federation):
    algorithm = Transport(rounds=1, agree=2, batch=10_000)
    network = algorithm.network(
        MLP(federation.encoder.width, (5,), groups=2), federation.table.task
    )
    all_clients = clients(federation, network)
    *_, last = rounds(algorithm, all_clients)
    rules = numbers(algorithm.rules(last.after, last.kept, all_clients))
    assert torch.equal(numbers(algorithm.rules(last.after, {}, all_clients)), rules)


def test_training_is_fedavgs_on_the_rows_that_are_not_held(federation):
    network, fitted = fit(federation, batch=10_000)
    algorithm = Transport(rounds=6, batch=10_000, alpha=0.02)
    all_clients = clients(federation, network)
    trained, held = hold_out(all_clients, algorithm.held)
    for i, rows in enumerate(all_clients.rows):
        assert sorted([*trained.rows[i], *held.rows[i]]) == sorted(rows)
        assert not set(trained.rows[i]) & set(held.rows[i])
    assert trained.sizes == [len(rows) for rows in all_clients.rows]
    w = network.init(seeds.generator(0, seeds.INIT))
    for t in range(6):
        rows = trained.replicate(w)
        step = algorithm.step()
        for batch in algorithm.minibatches(trained, t):
            step(rows, trained.gradient(algorithm.objective, rows, batch))
        w = rows.mean(0)
    torch.testing.assert_close(fitted.w, w, rtol=1e-4, atol=1e-5)
    assert torch.equal(fitted.theta, fitted.w.expand(3, -1))


def test_chunks_do_not_matter(federation):
    network, one = fit(federation, at_once=1)
    _, ten = fit(federation, at_once=10)
    torch.testing.assert_close(one.w, ten.w, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.server["prior"], ten.server["prior"], rtol=0.05, atol=1e-3)
    algorithm, all_clients = Transport(rounds=6, **OPTIONS), clients(federation, network)
    for i in range(3):
        (rule,) = algorithm.rules(ten.server, {}, clients(federation, network, [i]))
        assert torch.equal(rule.numbers, ten.rules[i].numbers)
    assert torch.equal(numbers(algorithm.rules(ten.server, {}, all_clients)), numbers(ten.rules))


def counts_of(algorithm, w, all_clients):
    """What clients count, before any noise."""
    parts = counts.split(all_clients, algorithm.held, algorithm.private)
    cells = counts.cells_for(algorithm.bins, all_clients.table.task)
    return counts.count(w, *parts, cells, algorithm.private)


# --- how alike clients are ---------------------------------------------------------------------


def test_agreeing_is_em_by_hand(federation):
    """Each client's posterior, their mean with a flat one, once more; training is left only."""
    network, none = fit(federation, rounds=6, agree=0)
    _, some = fit(federation, rounds=6, agree=2)
    assert torch.equal(some.w, none.w)
    for name in ("eta", "trust", "counts"):
        assert torch.equal(some.server[name], none.server[name])
    assert torch.equal(none.server["prior"], torch.from_numpy(FLAT))
    algorithm, all_clients = Transport(rounds=6, agree=0, **OPTIONS), clients(federation, network)
    own = rows_of(none.server, counts_of(algorithm, none.w, all_clients)).numpy()
    population = unknown(2)
    counted = counts_of(algorithm, none.w, all_clients)
    all_rows = (counted["held"].sum((1, 3)) + counted["trained"]).numpy()
    assert torch.equal(none.server["population"], torch.from_numpy(population.vector))
    belief = FLAT
    for _ in range(2):
        statistics, votes = [], [FLAT]
        for i in range(3):
            shapes = np.stack([spread(own[:, z].sum(0) - own[i, z]) for z in (0, 1)])
            others = np.stack([spread(n) for n in all_rows.sum(0) - all_rows[i]])
            drawn = tilts.likelihood(all_rows[i], others)
            of_client = effects.around_likelihood(drawn, all_rows[i], others, population, belief)
            statistics.append(effects.statistics(of_client, population))
            if population.none < 0.999:
                shapes = effects.centres(shapes, effects.mixture(of_client, population))
            votes += [kappa_posterior(own[i, z], shapes[z], belief) for z in (0, 1)]
        population = effects.learn(np.sum(statistics, axis=0), population)
        belief = np.mean(votes, axis=0)
    np.testing.assert_allclose(some.server["prior"], belief, rtol=1e-4)
    np.testing.assert_allclose(some.server["population"], population.vector, rtol=1e-6, atol=1e-9)


def test_clients_that_are_alike_come_to_trust_each_other():
    """Twelve sites with the same rows, and twelve whose rows differ."""
    frame = people((150,) * 12, seed=6)
    away = np.repeat(np.random.default_rng(0).normal(0, 2, 12), 150)
    middles, weights, populations = [], [], []
    for shift in (0.0, away):
        moved = frame.assign(a=frame["a"] + shift, b=frame["b"] + shift)
        federation = federate(moved)
        network, fitted = fit(federation)
        prior = fitted.server["prior"].numpy()
        assert prior.sum() == pytest.approx(1)
        middles.append(prior @ np.log10(KAPPAS))
        populations.append(effects.from_vector(fitted.server["population"].numpy(), 2))
        algorithm, all_clients = Transport(rounds=6, **OPTIONS), clients(federation, network)
        first = algorithm.beliefs(fitted.server, {}, all_clients)[0]
        q = spread(first.pooled[0])
        weights.append([own_weight(first.counts[0], q, belief) for belief in (FLAT, prior)])
    assert middles[0] > 3.5  # where none knew, it was 3: kappa is from 1 to a million
    assert weights[0][1] < weights[0][0]
    alike, unlike = populations
    assert alike.none > 0.9
    assert unlike.none < 0.01  # what differs is where their scores lie, in both groups alike
    location = unlike.covariance[np.ix_([0, 2], [0, 2])]
    assert np.sqrt(location.diagonal()).min() > 0.3
    assert location[0, 1] > 0.8 * np.sqrt(location.diagonal().prod())


# --- whole runs --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(compas):
    return pff.train(compas, Transport(rounds=10, alpha=0.01, target_ddp=0.02))


def test_clients_meet_their_target_on_new_rows(run):
    """Up to what 3,000 training rows can tell of 3,172 others: gaps to about 0.025."""
    table, free = run.table(), run.retarget(target_ddp=1.0).table()
    assert free["ddp"].min() > 0.2
    assert table["ddp"].max() < 0.02 + 0.06
    assert (table["accuracy"] > free["accuracy"] - 0.04).all()


def train(federation, seed=0, **options):
    """Train; clients so small that all get one decision are no surprise here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pff.CollapseWarning)
        return pff.train(federation, Transport(**{"rounds": 5, **OPTIONS, **options}), seed)


@pytest.mark.parametrize(
    "changes",
    [
        {"target_ddp": 0.2},
        {"target_ddp": 0.2, "confidence": 0.9},
        {"max_randomised": 0.0},
        {"jointly": True, "target_ddp": 0.2},
        {"prefer": "up"},
        {"kappa": 0.0},
        {"criterion": "eo"},
        {"criterion": "eopp", "target_ddp": 0.2},
    ],
)
@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_another_target_is_as_if_trained_with_it(federation, changes, epsilon, monkeypatch):
    fixed = lambda epsilon, n: np.random.default_rng(n).integers(-3, 4, n)  # noqa: E731
    monkeypatch.setattr(counts.noise, "laplace", fixed)  # the noise has no seed
    first = train(federation, seed=4, epsilon=epsilon)
    anew = train(federation, seed=4, epsilon=epsilon, **changes)
    again = first.retarget(**changes)
    rules = [numbers(each.fitted.rules) for each in (first, anew, again)]
    assert torch.equal(rules[2], rules[1])
    assert not torch.equal(rules[2], rules[0])
    for each in (anew, again):
        assert torch.equal(each.fitted.w, first.fitted.w)
        assert torch.equal(each.fitted.theta, first.fitted.theta)
    assert again.algorithm == anew.algorithm
    back = {name: getattr(first.algorithm, name) for name in Transport.dial.retargets}
    assert torch.equal(numbers(again.retarget(**back).fitted.rules), rules[0])


def test_another_target_is_refused_in_a_sentence(federation, run):
    with pytest.raises(pff.InputError, match=r"target_ddp must be in \[0, 1\], got 2"):
        run.retarget(target_ddp=2.0)
    baseline = pff.train(federation, pff.methods.FedAvg(rounds=4, **OPTIONS))
    with pytest.raises(pff.InputError, match="FedAvg has to train again for another target"):
        baseline.retarget(target_ddp=0.1)


def test_without_rules_of_its_own_a_method_costs_nothing(federation):
    rules = pff.train(federation, pff.methods.FedAvg(rounds=4, **OPTIONS)).rules()
    gap = ["ddp", "ddp_low", "ddp_high", "ddp_people"]
    assert list(rules) == ["client", "accuracy", *gap, "cost", "constant"]
    assert (rules["cost"] == 0).all()


@pytest.mark.parametrize("changes", [{"bins": 100}, {"epsilon": 1.0}, {"rounds": 30}, {"agree": 0}])
def test_settings_that_need_training_cannot_be_changed_after_it(run, changes):
    with pytest.raises(pff.InputError):
        run.retarget(**changes)


def test_rules_say_what_was_decided(run):
    rules = run.rules()
    table = run.table()
    np.testing.assert_array_equal(rules["ddp"], table["ddp"])
    low, high, chance, below = numbers(run.fitted.rules).double().numpy().transpose(2, 1, 0)
    assert (below == 0).all()
    for z in (0, 1):
        np.testing.assert_allclose(rules[f"low_s{z}"], expit(low[z]), rtol=1e-5)
        np.testing.assert_allclose(rules[f"high_s{z}"], expit(high[z]), rtol=1e-5)
        np.testing.assert_array_equal(rules[f"chance_s{z}"], chance[z])
        assert (rules[f"high_s{z}"] - rules[f"low_s{z}"] < 1 / 500 + 1e-6).all()
    half = [replace(predictor, rule=Likeliest()) for predictor in run.predictors]
    rows = [run.federation.partition.pool] * len(rules)
    counts = count(half, run.federation.table, rows)
    right = measure(counts, run.federation.partition.shares)["accuracy"]
    np.testing.assert_allclose(rules["cost"], right - table["accuracy"], atol=1e-12)


def test_a_row_at_a_threshold_is_decided_by_random_state(compas):
    run = train(
        compas, rounds=10, batch=600, alpha=0.01, bins=10, target_ddp=0.02, max_randomised=1.0
    )
    X, s = compas.data.frame, compas.data.s
    fixed = run.retarget(max_randomised=0.0)
    chance = numbers(run.fitted.rules)[:, :, 2]
    client = int(torch.argmax((chance * (1 - chance)).sum(1)))
    model, certain = run.personal_model(client), fixed.personal_model(client)
    first, second = (model.decide(X, s, random_state=k) for k in (1, 2))
    assert 0 < (first != second).mean() < 0.3
    np.testing.assert_array_equal(first, model.decide(X, s, random_state=1))
    np.testing.assert_array_equal(model.decide(X, s), model.decide(X, s))  # by the rows' inputs
    assert 0 < (first != model.decide(X, s)).mean() < 0.3
    for z in (0, 1):
        assert first[s == z].mean() == pytest.approx(second[s == z].mean(), abs=0.02)
    assert (numbers(fixed.fitted.rules)[:, :, 2] == 0).all()
    same = certain.decide(X, s, random_state=1)
    np.testing.assert_array_equal(same, certain.decide(X, s, random_state=2))
    np.testing.assert_array_equal(same, certain.predict_proba(X, s)[:, 1] >= 0.5)
    draws = [run.table()["ddp"], fixed.table()["ddp"]]  # rates agree but for where in a bin
    assert np.abs(draws[0] - draws[1]).max() < 0.1


def test_thresholds_need_s_as_an_input_and_transport_does_not(table):
    plan = pff.partition.by_column("site")
    blind = table.federate(plan, sensitive_as_input=False)
    with pytest.raises(pff.InputError, match="LoGoFair has a rule for each group"):
        pff.train(blind, pff.methods.LoGoFair(rounds=1))
    run = train(blind, bins=50)
    assert all(isinstance(rule, Lookup) for rule in run.fitted.rules)
    assert run.fitted.rules[0].numbers.shape == (1, 200, 2)  # one table, whatever the group
    model, X = run.personal_model(0), table.frame
    decided = model.decide(X, random_state=0)
    for s in (table.s, 1 - table.s):  # given or not, right or wrong: S is not looked at
        np.testing.assert_array_equal(model.decide(X, s, random_state=0), decided)
    assert 0 < decided.mean() < 1
    own = Module(torch.nn.Linear(blind.encoder.width, 1))
    with pytest.raises(pff.InputError, match=r"cannot guess S, .* take linear or an MLP\."):
        pff.train(blind, Transport(rounds=1), network=own)


# --- edges -------------------------------------------------------------------------------------


def federate(frame, **options):
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    return data.federate(pff.partition.by_column("site", **options))


def test_a_client_with_one_group_decides_by_eta(table):
    frame = table.frame[(table.frame["site"] != "site 1") | (table.frame["sex"] == "m")]
    run = train(federate(frame, min_rows=1), target_ddp=0.0)
    eta = run.fitted.server["eta"][:, 1].numpy()
    rule = run.fitted.rules[1].numbers.double().numpy()
    np.testing.assert_array_equal(chances(rule, centres(500)), eta > 0.5)
    assert not torch.equal(run.fitted.rules[0].numbers, run.fitted.rules[1].numbers)
    assert np.isnan(run.table()["ddp"][1])
    assert np.isfinite(run.rules()["accuracy"]).all()


@pytest.mark.parametrize("label", [0, 1])
def test_a_client_with_one_class(table, label):
    frame = table.frame[(table.frame["site"] != "site 1") | (table.frame["hired"] == label)]
    for confidence in (None, 0.9):
        run = train(federate(frame, min_rows=1), confidence=confidence)
        assert torch.isfinite(numbers(run.fitted.rules)).all()
        assert np.isfinite(run.table()["accuracy"]).all()


def test_labels_of_one_kind_everywhere_but_once(table):
    """A group whose held-out rows all have one label still gets an eta."""
    frame = table.frame.assign(hired=np.arange(len(table)) == 0)
    run = train(federate(frame), target_ddp=0.0)
    assert torch.isfinite(run.fitted.server["eta"]).all()
    assert run.collapsed.all()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("confidence", [None, 0.95])
def test_tiny_clients_live_on_the_others(table, rows, confidence):
    """Of so few rows none may be held: no count of its own has a label."""
    parts = [table.frame.assign(site="all")]
    parts += [table.frame[table.frame["site"] == f"site {i}"].head(rows) for i in range(3)]
    federation = federate(pd.concat(parts), test=0.0, min_rows=1)
    run = train(federation, confidence=confidence)
    assert torch.isfinite(numbers(run.fitted.rules)).all()
    assert np.isfinite(run.fitted.server["eta"].numpy()).all()
    algorithm = run.algorithm
    _, held = hold_out(clients(federation, run.network), algorithm.held)
    assert min(map(len, held.rows)) == (0 if rows == 1 else 1)


def test_clients_of_one_row(table):
    frame = pd.concat([table.frame.assign(site="all"), table.frame.groupby("site").head(1)])
    federation = federate(frame, test=0.0, min_rows=1)
    assert torch.isfinite(numbers(train(federation, held=0.5).fitted.rules)).all()


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
def test_noise_is_whole_new_every_time_and_leaves_everything_finite(federation, epsilon):
    network, fitted, played = listen(federation, epsilon=epsilon)
    _, _, more = listen(federation, epsilon=epsilon)
    with_noise = ("held", "trained")
    for name in with_noise:
        sent = played[4].sent[name]
        assert torch.equal(sent, sent.round())
        assert (sent != more[4].sent[name]).any()
    for tensor in (numbers(fitted.rules), *fitted.server.values()):
        assert torch.isfinite(tensor).all()
    algorithm = Transport(rounds=4, agree=3, **OPTIONS, epsilon=epsilon)
    all_clients = clients(federation, network)
    baseline = counts_of(algorithm, fitted.w, all_clients)
    for one in played[5:]:  # nothing is sent of how alike clients are
        assert all((tensor == 0).all() for tensor in one.sent.values())
    assert (played[4].sent["clients"] == 1).all()
    for name in with_noise:
        tensor = played[4].sent[name]
        noise = (tensor - baseline[name]).flatten()
        q = np.exp(-epsilon)  # discrete Laplace's
        for found, mean in (
            (noise.abs(), 2 * q / (1 - q**2)),
            (noise**2, 2 * q / (1 - q) ** 2),
        ):
            error = float(found.std()) / np.sqrt(len(found))
            assert float(found.mean()) == pytest.approx(mean, abs=7 * error)
        each = noise.reshape(len(tensor), -1)  # clients do not share their noise
        assert len(torch.unique(each, dim=0)) == len(tensor)
    torch.testing.assert_close(fitted.server["prior"], torch.from_numpy(FLAT))


def test_a_client_decides_by_its_own_counts_without_the_noise(federation):
    """Noise is for the server. With kappa 0 a rule depends on own counts, eta and trust only."""
    options = {"epsilon": 0.5, "kappa": 0.0, "confidence": 0.0}
    network, fitted, _ = listen(federation, **options)
    algorithm = Transport(rounds=4, agree=3, **OPTIONS, **options)
    all_clients = clients(federation, network)
    exact = rows_of(fitted.server, counts_of(algorithm, fitted.w, all_clients))
    for i, rows in enumerate(all_clients.rows):
        share = federation.data.s[rows].mean()
        nothing = fitted.server | {"counts": torch.zeros(2, 500, dtype=torch.float64)}
        rule = solve(algorithm, nothing, exact[i].numpy(), share)
        found = fitted.rules[i].numbers.flatten()
        torch.testing.assert_close(found, torch.from_numpy(rule).float(), rtol=0, atol=0)


def test_with_epsilon_one_row_moves_one_count(federation):
    """The rest of the rows are held, and halved, by random draws of their own."""
    algorithm = Transport(rounds=4, agree=3, **OPTIONS, epsilon=0.5)
    network = algorithm.network(linear(federation.encoder.width, groups=2), federation.table.task)
    all_clients = clients(federation, network)
    w = network.init(np.random.default_rng(0))
    fewer = replace(all_clients, rows=[rows[:-1] for rows in all_clients.rows])
    before, after = (counts_of(algorithm, w, each) for each in (all_clients, fewer))
    moved = sum((before[name] - after[name]).abs().flatten(1).sum(1) for name in before)
    assert moved.tolist() == [1.0] * 3
    held = [len(rows) for rows in counts.split(all_clients, algorithm.held, True)[1].rows]
    assert min(held) > 0


@pytest.mark.parametrize("scale", [0.0, 1e4])
def test_scores_that_are_all_alike_or_extreme(federation, scale):
    algorithm = Transport(rounds=1, agree=1, target_ddp=0.0)
    network = algorithm.network(linear(federation.encoder.width, groups=2), federation.table.task)
    all_clients, sizes = clients(federation, network), torch.ones(3)
    w = network.init(np.random.default_rng(0)) * scale
    server, own = {"w": w}, {}
    for phase in algorithm.phases[1:]:
        server, own = start(phase, server, own, all_clients, sizes)
        sent, own = phase.client_round(server, own, all_clients, 0)
        server = phase.server_round(server, sent, sizes)
    rules = numbers(algorithm.rules(server, own, all_clients))
    for tensor in (*sent.values(), *server.values(), rules):
        assert torch.isfinite(tensor).all()
    if scale == 0:  # all rows has the score 1/2
        in_the_middle = own["held"][..., 250].sum() + own["trained"][..., 250].sum()
        assert in_the_middle == sum(map(len, all_clients.rows))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"agree": -1}, "agree must be at least 0, got -1"),
        ({"criterion": "luck"}, "Unknown criterion 'luck': choose one of dp, eo, eopp"),
        ({"target_ddp": -0.1}, r"target_ddp must be in \[0, 1\], got -0.1"),
        ({"target_ddp": 1.5}, r"target_ddp must be in \[0, 1\], got 1.5"),
        ({"target_ddp": float("nan")}, "target_ddp must be in"),
        (
            {"confidence": 0.3},
            r"confidence must be in \[0.5, 1\), or 0 for a target on average; got 0.3",
        ),
        (
            {"confidence": 1.0},
            r"confidence must be in \[0.5, 1\), or 0 for a target on average; got 1",
        ),
        ({"held": 0.0}, "held must be above 0 and at most 0.5, got 0"),
        ({"held": 1.0}, "held must be above 0 and at most 0.5, got 1"),
        ({"bins": 9}, "bins must be at least 10, got 9"),
        ({"kappa": -1.0}, "kappa must be a number >= 0 or infinity, got -1"),
        ({"kappa": float("nan")}, "kappa must be a number >= 0"),
        ({"epsilon": 0.0}, "epsilon must be a positive number, got 0"),
        ({"epsilon": float("nan")}, "epsilon must be a positive number"),
        ({"prefer": "down"}, "Unknown prefer 'down': choose one of any, up"),
        ({"jointly": True, "confidence": 0.0}, "jointly needs a confidence level"),
        ({"max_randomised": 1.5}, r"max_randomised must be in \[0, 1\], got 1.5"),
    ],
)
def test_bad_hyper_parameters_are_refused(options, message):
    with pytest.raises(pff.InputError, match=message):
        Transport(**options)
