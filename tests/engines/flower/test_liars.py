"""One site, or two of five, lie about models and sums: the others lose little, or learn who."""

import logging

import numpy as np
import pandas as pd
import pytest
import torch
from flower_sites import Consortium
from secure_sites import Cohort

import pfedfair as pff
from made_people import people
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.flower.partner import Partner
from pfedfair.engines.flower.secure import LiarError
from pfedfair.engines.site import sketches
from pfedfair.engines.site.checks import find_suspects
from pfedfair.engines.site.policy import PolicyError
from pfedfair.engines.site.settings import Settings
from pfedfair.engines.site.work import Work

ROWS = 700
TRAINED = {"alpha": 0.05, "batch": 60}


def consortium_of(folder, sites, change=lambda frame: frame):
    folder.mkdir()
    table = pff.from_frame(people((ROWS,) * sites), "hired", "sex", drop=["site"])
    made = Consortium(table.federate(pff.partition.by_column("site"), seed=3), folder)
    path = folder / "train0.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    return made


@pytest.fixture
def log(caplog):
    logger = logging.getLogger("flwr")
    before, logger.propagate = logger.propagate, True
    caplog.set_level(logging.INFO, "flwr")
    yield caplog
    logger.propagate = before


@pytest.fixture
def lying(monkeypatch):
    """Have some sites send something else, past their own checks: from message and server state."""

    def set_up(lie, *liars):
        train = Work.train

        def trained(self):
            sent, done = train(self)
            return (lie(sent, self.server) if self.order.number in liars else sent), done

        monkeypatch.setattr(Work, "train", trained)

    return set_up


def times(factor, *names):
    """Multiply a model's change by a factor, or the named sums."""

    def lie(sent, server):
        if "w" in sent:
            return {"w": server["w"] + factor * (sent["w"] - server["w"])}
        return {k: v * factor if not names or k in names else v for k, v in sent.items()}

    return lie


def run(made, method, liars=(0,), **more):
    """Conduct a run; return the other sites' accuracy and gap on their held-out rows."""
    rounds = {"rounds": 8} if method in ("newton", "transport") else {"rounds": 12}
    options = {} if method in ("newton", "transport") else TRAINED
    few = {"min-sites": min(3, len(made.federation) - 1)} if "secure-sum" not in more else {}
    grid = made.grid(method, options=options, **rounds | few | more)
    Conductor(grid, Settings.read(grid.run_config)).run()
    others = [i for i in range(len(made.federation)) if i not in liars]
    found = [pd.read_parquet(made.folder / f"state{i}" / "model" / "clients.parquet").iloc[0]
             for i in others]  # fmt: skip
    return np.array([[one["accuracy"], one["ddp"]] for one in found]).mean(0)


def named(log, *sites):
    return all(any(f"site 'site {i}'" in record.getMessage() and record.levelno >= logging.WARNING
                   for record in log.records) for i in sites)  # fmt: skip


def nothing_lost(honest, found):
    assert found[0] >= honest[0] - 0.015  # of some 300 held-out rows; benchmarks/liars.py has more
    assert found[1] <= honest[1] + 0.03


@pytest.mark.parametrize(
    ("method", "lie"),
    [
        ("newton", times(-100, "gradient")),
        ("newton", times(-1, "hessian")),
        ("newton", times(0, "outputs")),
        ("newton", lambda sent, server: sent | {"outputs": sent["outputs"] + 1e6}),
        ("newton", times(1000)),
        ("transport", lambda sent, server: (
            sent | {"held": 1000 * sent["held"].flip(2)} if "held" in sent else sent)),
        ("transport", lambda sent, server: (
            sent | {"held": torch.full_like(sent["held"], 1e308)} if "held" in sent else sent)),
        ("transport", lambda sent, server: (
            sent | {"alike": 1e6 * sent["alike"]} if "alike" in sent else sent)),
    ],
    ids=["gradient", "hessian", "no outputs", "outputs", "all", "counts", "huge counts", "alike"],
)  # fmt: skip
def test_a_lie_about_statistics_is_refused_by_name(tmp_path, log, lying, method, lie):
    honest = run(consortium_of(tmp_path / "a", 5), method)
    lying(lie, 0)
    found = run(consortium_of(tmp_path / "b", 5), method)
    assert named(log, 0)
    nothing_lost(honest, found)


@pytest.mark.parametrize(("sites", "liars"), [(3, (0,)), (5, (0, 1))])
def test_updates_against_the_others_are_voted_on(tmp_path, log, lying, sites, liars):
    """Of the honest ones' length, about: no bound on it helps. Three of five were at 61 %."""
    honest = run(consortium_of(tmp_path / "a", sites), "fedavg", liars)
    assert not named(log, *liars)
    lying(times(-1.4), *liars)
    found = run(consortium_of(tmp_path / "b", sites), "fedavg", liars)
    assert named(log, *liars)
    assert found[0] >= honest[0] - 0.03  # with fewer rows to learn from


@pytest.mark.parametrize("how", ["trimmed-mean", "krum"])
def test_a_robust_mean_has_no_votes(tmp_path, log, lying, how):
    """It needs all answers: a proposal without one would end the run."""
    lying(times(-1.4), 0)
    made = consortium_of(tmp_path / "a", 5)
    grid = made.grid("fedavg", rounds=2, options=TRAINED, aggregate=how, malicious=1)
    assert Conductor(grid, Settings.read(grid.run_config)).run().done == 2
    assert "query.vote" not in {message.metadata.message_type for message in grid.sent}


def by_group(frame):
    """Say that one group has the label always, and the other never."""
    return frame.assign(hired=(frame["sex"] == "m").astype(int))


@pytest.mark.parametrize("method", ["newton", "transport"])
def test_labels_that_are_made_up_to_make_others_unfair(tmp_path, log, method):
    honest = run(consortium_of(tmp_path / "a", 5), method)
    found = run(consortium_of(tmp_path / "b", 5, by_group), method)
    nothing_lost(honest, found)


def test_who_is_unlike_equal_answers_is_voted_on():
    """Their distance from the median is 0, of which three times is 0 as well."""
    equal, other = {"sums": torch.ones(64)}, {"sums": 9 * torch.ones(64)}
    rows = dict.fromkeys(range(5), 1)
    assert not find_suspects(dict.fromkeys(rows, equal), {}, (), ("sums",), rows)
    messages = dict.fromkeys(rows, equal) | {3: other}
    assert list(find_suspects(messages, {}, (), ("sums",), rows)) == [3]


def test_honest_sites_that_are_alike_do_not_vote(tmp_path, log):
    made = consortium_of(tmp_path / "a", 5)
    grid = made.grid("fedavg", rounds=3, options=TRAINED)
    Conductor(grid, Settings.read(grid.run_config)).run()
    assert "query.vote" not in {message.metadata.message_type for message in grid.sent}


def test_where_answers_have_noise_nobody_votes(tmp_path, log, lying):
    lying(times(-1.4), 0)
    made = consortium_of(tmp_path / "a", 5)
    grid = made.grid("fedavg", rounds=2, options=TRAINED, clip=1.0, epsilon=1.0,
                     **{"min-sites": 3})  # fmt: skip
    Conductor(grid, Settings.read(grid.run_config)).run()
    assert "query.vote" not in {message.metadata.message_type for message in grid.sent}


# --- in secure sums -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "lie"),
    [
        ("fedavg", times(-10)),
        ("fedavg", times(1000)),
        ("fedavg", lambda sent, server: {"w": server["w"] + 5 * torch.randn(len(sent["w"]))}),
        ("newton", times(-100, "gradient")),
        ("newton", times(10)),
        ("transport", lambda sent, server: (
            sent | {"held": 1000 * sent["held"].flip(2)} if "held" in sent else sent)),
    ],
    ids=["against", "long", "random", "gradient", "all", "counts"],
)  # fmt: skip
def test_in_a_secure_sum_a_long_lie_ends_the_run_and_is_named(tmp_path, log, lying, method, lie):
    lying(lie, 2)
    made = consortium_of(tmp_path / "a", 5)
    with pytest.raises(LiarError, match="as it seems by site 'site 2': see the log"):
        run(made, method, **{"secure-sum": True, "hidden": "16"})


@pytest.mark.parametrize("number", [0.0, 1e6, 0.5])
def test_in_a_secure_sum_a_lie_in_few_numbers_is_a_sentence(tmp_path, log, lying, number):
    """Nobody is named: no sketch is made of so few."""
    lying(lambda sent, server: sent | {"outputs": 0 * sent["outputs"] + number}, 2)
    with pytest.raises(pff.InputError, match="could not be added up twice"):
        run(consortium_of(tmp_path / "a", 5), "newton", **{"secure-sum": True})
    assert any("the sum cannot be: 'outputs' are" in r.getMessage() for r in log.records)


@pytest.mark.parametrize("method", ["fedavg", "pfedfair", "newton", "transport"])
def test_honest_sites_make_no_sketch(tmp_path, log, method):
    made = consortium_of(tmp_path / "a", 5)
    grid = made.grid(method, rounds=8, options=TRAINED if "f" in method else {},
                     **{"secure-sum": True})  # fmt: skip
    Conductor(grid, Settings.read(grid.run_config)).run()
    kinds = [message.metadata.message_type for message in grid.sent]
    assert "query.sketch" not in kinds
    assert "query.vote" in kinds


def nonces_of(made, at=0):
    """What the server learns when a sum is opened, and only then."""
    each = [bytes.fromhex(one.known["seeds"][at]) for one in made.partners]
    return {str(i): sketches.nonce_of(seed) for i, seed in enumerate(each)}


def cohort(tmp_path, policy="sketches-per-month = 2"):
    path = tmp_path / "policy.toml"
    path.write_text(policy)
    rng = torch.Generator().manual_seed(0)
    each = [torch.randn(640, generator=rng) for _ in range(5)]
    made = Cohort(each, tmp_path, 4, [{"policy": str(path)}] * 5)
    for i in range(5):
        made.masked(i)
    return made, nonces_of(made)


def test_a_sketch_needs_the_numbers_that_all_sites_were_committed_to(tmp_path):
    """Otherwise a server could choose signs that tell single numbers."""
    made, nonces = cohort(tmp_path)
    made.opened(range(5))
    forged = nonces | {"3": "0" * 32}
    with pytest.raises(PolicyError, match="are not those of the sites"):
        made.partners[0].sketch(made.order(nonces=forged))
    with pytest.raises(KeyError):
        made.partners[0].sketch(made.order(nonces={"0": nonces["0"]}))
    found = made.partners[0].sketch(made.order(nonces=nonces))
    assert set(found) == {"1", "2", "3", "4"}
    assert all(len(one["w"]) == sketches.MOST for one in found.values())


def test_a_sketch_is_of_an_opened_sum_once_and_rarely(tmp_path):
    made, nonces = cohort(tmp_path, "sketches-per-month = 1")
    with pytest.raises(PolicyError, match="already answered"):
        made.partners[0].sketch(made.order(nonces=nonces))
    made.opened(range(5))
    made.partners[0].sketch(made.order(nonces=nonces))
    with pytest.raises(PolicyError, match="already answered"):
        made.partners[0].sketch(made.order(nonces=nonces))
    for i in range(5):
        made.masked(i, sum=1)
    nonces = nonces_of(made, 1)
    made.opened(range(5))
    with pytest.raises(PolicyError, match="sketches-per-month = 1"):
        made.partners[0].sketch(made.order(nonces=nonces))


def test_a_site_that_tells_other_masks_is_named(tmp_path, log, lying, monkeypatch):
    """To hide that its numbers are long, it would have to change what others tell as well."""
    lying(times(-10), 2)
    sketch = Partner.sketch

    def other(self, order):
        found = sketch(self, order)
        if self.known["number"] == 2:
            for one in found.values():
                one["w"] = [number + 10**9 for number in one["w"]]
        return found

    monkeypatch.setattr(Partner, "sketch", other)
    with pytest.raises(LiarError, match="as it seems by site 'site 2': see the log"):
        run(consortium_of(tmp_path / "a", 5), "fedavg", **{"secure-sum": True, "hidden": "16"})
    assert any("it shares other masks than 4 of the sites say" in r.getMessage()
               for r in log.records)  # fmt: skip


def tell(monkeypatch, kind, change):
    """Have a site's answers in a secure sum changed, by its number and the answer."""
    honest = getattr(Partner, kind)

    def other(self, *order):
        return change(self.known["number"], honest(self, *order))

    monkeypatch.setattr(Partner, kind, other)


SECURE = {"secure-sum": True, "hidden": "16"}


@pytest.mark.parametrize("stands", [True, False])
def test_a_wrong_share_makes_nobody_a_liar(tmp_path, log, monkeypatch, stands):
    """It made the numbers of the honest site 3 noise, for which that one was named."""

    def change(number, told):
        if number == 0:
            share = told["seeds"]["3"]
            told["seeds"]["3"] = f"{share[:12]}{int(share[12:14], 16) ^ 1:02x}{share[14:]}"
        if number == 4 and not stands:
            raise pff.InputError("one site less: four must open the sum")
        return told

    tell(monkeypatch, "unmask", change)
    made = consortium_of(tmp_path / "a", 5)
    if stands:
        run(made, "fedavg", **SECURE)
        assert named(log, 0)
        return
    with pytest.raises(pff.InputError, match="could not be added up twice"):
        run(made, "fedavg", **SECURE)
    assert any("or one of site 'site 0', site 'site 1', site 'site 2', site 'site 3' has sent a "
               "wrong one" in r.getMessage() for r in log.records)  # fmt: skip


def test_who_counts_for_two_is_named(tmp_path, log, monkeypatch):
    """The sum is refused for it; a sketch tells each site's count, which should be 1."""

    def change(number, found):
        found[0][0] += number == 1
        return found

    tell(monkeypatch, "train_masked", change)
    with pytest.raises(LiarError, match="as it seems by site 'site 1': see the log"):
        run(consortium_of(tmp_path / "a", 5), "fedavg", **SECURE)
    assert any("it counts for 2 sites" in r.getMessage() for r in log.records)


@pytest.mark.parametrize("liars", [(2,), (0, 2)])
def test_conflicts_do_not_name_an_honest_site_alone(tmp_path, log, lying, monkeypatch, liars):
    """Two that contradicted the honest site 3 had it named, and only it."""
    lying(times(-10), 2)

    def change(number, told):
        if number in liars:
            told["3"]["w"] = [one + 10**9 for one in told["3"]["w"]]
        return told

    tell(monkeypatch, "sketch", change)
    names = ", ".join(f"site 'site {number}'" for number in (*liars, 3))
    with pytest.raises(LiarError, match=f"as it seems by {names}: see the log"):
        run(consortium_of(tmp_path / "a", 5), "fedavg", **SECURE)
    assert any("one reports a false mask" in r.getMessage() for r in log.records)


@pytest.mark.parametrize("number", [10**30, -(2**63), 0.5, float("nan"), "x", [1], None, True])
def test_a_sketch_that_is_no_numbers_is_no_crash(tmp_path, log, lying, monkeypatch, number):
    lying(times(-10), 2)

    def change(site, told):
        if site == 2:
            told["3"]["w"] = [number] * len(told["3"]["w"])
        return told

    tell(monkeypatch, "sketch", change)
    with pytest.raises(LiarError, match="as it seems by site 'site 2': see the log"):
        run(consortium_of(tmp_path / "a", 5), "fedavg", **SECURE)
    assert any("by the others' sketches: it sent none" in r.getMessage() for r in log.records)


def test_a_liar_between_votes_loses_its_effect_at_the_end(tmp_path, log, lying):
    """It is never in a sum that is sketched: nobody is named, and the better model is taken."""
    honest = run(consortium_of(tmp_path / "a", 5), "fedavg", (2,), **SECURE)
    rounds = iter(range(1, 13))

    def lie(sent, server):
        return times(-10)(sent, server) if next(rounds) in (6, 7, 10, 11) else sent

    lying(lie, 2)
    found = run(consortium_of(tmp_path / "b", 5), "fedavg", (2,), **SECURE)
    assert any(
        "with the best of the models that they found no worse" in r.getMessage()
        for r in log.records
    )
    assert found[0] >= honest[0] - 0.03  # of fewer rounds


@pytest.mark.parametrize(("states", "secure"), [(1, False), (17, False), (5, True)])
def test_a_site_votes_on_no_more_states_than_a_vote_needs(tmp_path, states, secure):
    """Each tells the server a little of the site's rows, and costs the site time."""
    made = consortium_of(tmp_path / "a", 3)
    grid = made.grid("fedavg", options=TRAINED, rounds=2, **{"secure-sum": secure})
    state = Conductor(grid, Settings.read(grid.run_config))
    checkpoint = state.begin()
    assert sum(state.poll(checkpoint, [checkpoint.server] * states)) == 3
    answers = [
        grid.app(message, grid.contexts[message.metadata.dst_node_id])
        for message in grid.sent
        if message.metadata.message_type == "query.vote"
    ]
    assert {one.error.reason for one in answers} == {
        f"This site votes on 2 to {4 if secure else 16} states, not on {states}."
    }


def test_who_does_not_vote_is_for_all_answers(tmp_path):
    """So a liar's own vote leaves out nobody, where others cannot answer."""
    made = consortium_of(tmp_path / "a", 3)

    def spoil(message, answer):
        return None if message.metadata.message_type == "query.vote" else answer

    grid = made.grid("fedavg", {101: spoil, 102: spoil}, options=TRAINED, rounds=2,
                     **{"round-timeout": 0.4})  # fmt: skip
    conductor = Conductor(grid, Settings.read(grid.run_config))
    state = conductor.begin()
    assert conductor.poll(state, [state.server] * 2) == [3, 0]


@pytest.mark.parametrize("name", ["rows", "outputs", "loss", "gradient", "hessian"])
@pytest.mark.parametrize(
    "wrong",
    [torch.tensor(1.0), torch.zeros(0), torch.ones(5, dtype=torch.bool), torch.ones(5).int(),
     torch.full((5, 1), 1e300, dtype=torch.float64)],
    ids=["scalar", "empty", "bool", "int", "huge"],
)  # fmt: skip
def test_statistics_of_another_form_are_refused_by_name(tmp_path, log, lying, name, wrong):
    lying(lambda sent, server: sent | {name: wrong}, 0)
    made = consortium_of(tmp_path / "a", 3)
    grid = made.grid("newton", rounds=1, **{"min-sites": 2})
    Conductor(grid, Settings.read(grid.run_config)).run()
    assert any("the answer of site 'site 0' is refused" in r.getMessage() for r in log.records)


def test_a_sum_that_is_no_number_at_all_is_voted_out(tmp_path, log, lying):
    """One number in one column, which no bound holds: the model was NaN, and the run ended."""

    def lie(sent, server):
        if "gradient" not in sent:
            return sent
        gradient = sent["gradient"].clone()
        gradient[0, 1] = 1e300
        return sent | {"gradient": gradient}

    lying(lie, 0)
    run(consortium_of(tmp_path / "a", 5), "newton")
    assert named(log, 0)
