"""Transport on the model of another method: any federated one that ends with a model for all."""

import numpy as np
import pytest
import torch
from play import clients, numbers

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.methods.clients import hold_out
from pfedfair.methods.defaults import make
from pfedfair.methods.phases import keeps_clients
from pfedfair.methods.transport import counts
from pfedfair.models import MLP

ROUNDS = {"rounds": 9, "agree": 2}
TRAINING = {"batch": 30, "alpha": 0.02}
BASES = {
    "fedprox": pff.methods.FedProx(mu=0.5, **TRAINING),
    "mmpf": pff.methods.MMPF(groups="both", **TRAINING),
    "fedavg-kde": pff.methods.FedAvg(eta=0.5, **TRAINING),
}


def fit(federation, algorithm):
    network = MLP(federation.encoder.width, (5,), groups=2)
    network = algorithm.network(network, federation.table.task)
    return network, local.fit(federation, algorithm, network, seed=0)


@pytest.mark.parametrize("blind", [False, True])
def test_without_a_base_it_is_fedavg(table, federation, blind):
    """With the same settings, bit for bit."""
    if blind:
        plan = pff.partition.by_column("site", validation=0.2)
        federation = table.federate(plan, seed=3, sensitive_as_input=False)
    settings = TRAINING | {"epochs": 2, "weighting": "size", "optimiser": "sgd"}
    _, baseline = fit(federation, pff.methods.Transport(**ROUNDS, **settings, bins=50))
    _, based = fit(
        federation, pff.methods.Transport(**ROUNDS, base=pff.methods.FedAvg(**settings), bins=50)
    )
    assert torch.equal(baseline.w, based.w)
    assert torch.equal(numbers(baseline.rules), numbers(based.rules))
    assert all(torch.equal(baseline.server[name], based.server[name]) for name in baseline.server)
    other = pff.methods.FedAvg(**settings | {"epochs": 1})
    assert not torch.equal(
        fit(federation, pff.methods.Transport(**ROUNDS, base=other, bins=50))[1].w, baseline.w
    )


@pytest.mark.parametrize("name", BASES)
def test_the_model_is_the_bases_on_the_rows_that_are_not_held(federation, name):
    """Client after client: no chunk, no transport."""
    network, fitted = fit(federation, pff.methods.Transport(**ROUNDS, base=BASES[name]))
    base = BASES[name]
    sizes = torch.from_numpy(federation.sizes).float()
    server = base.start_server({"w": network.init(seeds.generator(0, seeds.INIT))}, sizes)
    for t in range(9):
        sent = []
        for i in range(3):
            trained, _ = hold_out(clients(federation, network, [i]), 0.2)
            sent.append(base.client_round(server, {}, trained, t)[0])
        whole = {key: torch.cat([each[key] for each in sent]) for key in sent[0]}
        server = base.server_round(server, whole, sizes)
    torch.testing.assert_close(fitted.w, server["w"], rtol=1e-4, atol=1e-5)
    assert torch.equal(fitted.theta, fitted.w.expand(3, -1))


@pytest.mark.parametrize("name", BASES)
def test_rules_come_from_the_scores_of_that_model(federation, name):
    """What a client keeps is counts of w's scores; its rule keeps the target on them."""
    algorithm = pff.methods.Transport(
        **ROUNDS, base=BASES[name], kappa=0.0, target_ddp=0.1, bins=100
    )
    network, fitted = fit(federation, algorithm)
    all_clients = clients(federation, network)
    parts = hold_out(all_clients, algorithm.held)
    cells = counts.cells_for(100, federation.table.task)
    expected = counts.count(fitted.w, *parts, cells, False)
    for key in expected:
        assert torch.equal(fitted.own[key], expected[key])
    found = algorithm.beliefs(fitted.server, fitted.own, all_clients)
    samples = torch.from_numpy(found.counts.copy())
    centres = torch.logit((torch.arange(100) + 0.5) / 100)[:, None]
    for rule, own in zip(fitted.rules, samples, strict=True):
        rates = [
            float(own[z] @ rule.chances(centres, torch.full((100,), z))[:, 1].double())
            / float(own[z].sum())
            for z in (0, 1)
        ]
        assert abs(rates[1] - rates[0]) <= 0.1 + 1e-5


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
@pytest.mark.parametrize("name", BASES)
def test_a_run_can_be_kept_retargeted_and_joined(federation, name, tmp_path):
    run = pff.train(federation, pff.methods.Transport(**ROUNDS, base=BASES[name]))
    run.save(tmp_path)
    anew = pff.train(federation, pff.methods.Transport(**ROUNDS, base=BASES[name], target_ddp=0.3))
    again = run.retarget(target_ddp=0.3)
    assert torch.equal(numbers(again.fitted.rules), numbers(anew.fitted.rules))
    assert again.algorithm == anew.algorithm
    rows = federation.data.frame
    trained, read = run.personal_model(1), pff.load_model(tmp_path, 1)
    decided = [model.decide(rows, rows["sex"], random_state=0) for model in (trained, read)]
    np.testing.assert_array_equal(*decided)
    joined = pff.personalise(tmp_path, rows.drop(columns="hired"), target_ddp=0.0, kappa=0.0)
    chances = joined.predict_proba(rows, rows["sex"])[:, 1]
    gap = chances[rows["sex"] == "m"].mean() - chances[rows["sex"] == "f"].mean()
    assert abs(gap) < 1e-3


def test_settings_are_the_bases_and_rounds_are_transports():
    made = pff.methods.Transport(rounds=20, base=pff.methods.FedProx(rounds=99, batch=7, mu=0.2))
    assert made.trainer == pff.methods.FedProx(rounds=20, batch=7, mu=0.2)
    assert made.batch == 7  # by which clients are put in one stack
    assert made.cost().per_round == made.trainer.cost().per_round
    assert not keeps_clients(made.phases)
    assert keeps_clients(pff.methods.Transport(base=pff.methods.FairFed()).phases)
    train, *_ = pff.methods.Transport(base=pff.methods.MMPF()).phases
    assert train.states.models == ("w", "v")


@pytest.mark.parametrize(
    "base",
    [pff.methods.Local(), pff.methods.Constant(), pff.methods.LoGoFair(), pff.methods.Transport()],
)
def test_what_cannot_be_a_base_is_refused(base):
    with pytest.raises(pff.InputError, match=f"{type(base).__name__} cannot be the base of Transp"):
        pff.methods.Transport(base=base)


def test_where_s_is_not_an_input_a_base_must_share_its_gradients(table):
    blind = table.federate(pff.partition.by_column("site"), sensitive_as_input=False)
    with pytest.raises(pff.InputError, match=r"MMPF makes its own gradients: .* S is not an input"):
        pff.train(blind, make("transport", {"base": "mmpf"}))
    frame = table.frame.assign(hired=np.arange(len(table)) % 3)
    three = pff.from_frame(frame, "hired", "sex").federate(pff.partition.by_column("site"))
    with pytest.raises(pff.InputError, match="FairFed is made for two classes, the data has 3"):
        pff.train(three, make("transport", {"base": "fairfed"}))


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_a_target_inside_a_base_trains(federation):
    settings = {"rounds": 2, "base": "fedavg-kde", "base.target_ddp": 0.1, "base.batch": 25}
    assert len(pff.train(federation, pff.make("transport", settings)).table()) == 3


def test_with_epsilon_a_base_sends_its_model_only():
    pff.make("transport", {"epsilon": 1, "base": "fedprox"})
    with pytest.raises(pff.InputError, match="must send its model only"):
        pff.make("transport", {"epsilon": 1, "base": "fa"})
