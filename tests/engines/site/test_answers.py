"""Answers with noise: no two questions get related noise, and the same one gets the same answer."""

import json
from pathlib import Path

import pytest
import torch
from test_epsilon import METHOD, RUN, node, set_up  # noqa: F401

import pfedfair as pff
from made_people import people
from pfedfair.engines.site.ledger import NAME
from pfedfair.engines.site.policy import PolicyError
from pfedfair.engines.site.work import accept


@pytest.fixture
def ask(node):  # noqa: F811
    """Ask a site of the default policy for its counts, or for its model."""
    schema, w = set_up(node, people((300,)))

    def ask(method=METHOD, phase=1, held=None, seed=0, clip=0.0, epsilon=0.0, **order):
        order = {"round": 0, "number": 0, "key": "ab", "local-rounds": 1, "max-change": 1e9} | order
        order |= {"phase": method.phases[phase].name, "schema": schema.to_json()}
        order["round"] += method.phases[0].rounds if phase else 0
        run = {**RUN, "seed": seed, "algorithm": json.dumps(method.to_dict())}
        run |= {"clip": clip, "epsilon": epsilon, "delta": 1e-5}
        return accept(order, {"w": w}, node, run, held if held is not None else {}).train()[0]

    ask.folder = node["state-dir"]
    return ask


def spent(folder, kind="laplace"):
    return json.loads(Path(folder, NAME).read_text())[kind]


def counting(epsilon):
    return pff.methods.Transport(rounds=1, agree=1, epsilon=epsilon, bins=50, batch=40)


@pytest.mark.parametrize("epsilons", [(0.01, 0.005), (0.02, 0.01), (0.5, 0.25)])
def test_no_combination_of_two_answers_gives_the_counts(ask, epsilons):
    """Noise of one seed and another scale: 2 * first - second were the counts."""
    first, second = (ask(counting(epsilon)) for epsilon in epsilons)
    many = torch.cat([(2 * first[name] - second[name]).flatten() for name in first])
    a, b = (torch.cat([one[name].flatten() for name in one]) for one in (first, second))
    assert float(torch.corrcoef(torch.stack([a, b]))[0, 1]) < 0.5
    assert float(many.std()) > 1 / epsilons[0]  # by less than 15 counts
    assert spent(ask.folder) == {repr(epsilon): 1 for epsilon in epsilons}


def test_the_same_question_gets_the_same_answer_and_costs_nothing(ask):
    """A server that was killed goes on; and so does a site, from its disk alone."""
    held = {}
    first = ask(held=held)
    for memory in (held, {}):
        again = ask(held=memory)
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert first.keys() == again.keys()
    assert spent(ask.folder) == {"1.0": 1}


@pytest.mark.parametrize(
    "changes",
    [{"key": "cd"}, {"number": 1}, {"max-change": 1e8}, {"seed": 1}, {"method": counting(0.9)}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_question_costs_and_has_other_noise(ask, changes):
    first, second = ask(), ask(**changes)
    assert sum(spent(ask.folder).values()) == 2
    noises = [(first[name] - second[name]).flatten() for name in first]
    assert float((torch.cat(noises) != 0).float().mean()) > 0.5


def test_an_answer_that_is_damaged_or_gone_costs_again(ask, tmp_path):
    ask()
    (path,) = tmp_path.rglob("answer-*")
    path.write_bytes(path.read_bytes()[:-1])
    ask()
    path.unlink()
    ask()
    assert spent(ask.folder) == {"1.0": 3}


def test_a_spent_budget_repeats_what_was_told(ask):
    told = [ask(number=number) for number in range(4)]
    with pytest.raises(PolicyError, match="budget is spent"):
        ask(number=4)
    assert torch.equal(ask(number=3)["held"], told[3]["held"])


def test_a_model_with_noise_is_an_answer_too(ask):
    method = pff.methods.FedAvg(rounds=2, batch=40)
    first, again = (ask(method, 0, clip=1.0, epsilon=0.5) for _ in range(2))
    assert torch.equal(first["w"], again["w"])
    other = ask(method, 0, clip=1.0, epsilon=0.4)
    assert not torch.equal(first["w"], other["w"])
    assert sum(spent(ask.folder, "gaussian").values()) == 2
    free = ask(method, 0)
    assert not torch.equal(free["w"], first["w"])
