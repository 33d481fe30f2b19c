"""A client that was not there in training: its rule from unlabelled rows."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from threadpoolctl import threadpool_limits

import pfedfair as pff
from made_people import people
from pfedfair._util import seeds
from pfedfair.data.task import Task
from pfedfair.runs import newcomer

OPTIONS = {"rounds": 14, "batch": 30, "alpha": 0.02}


@pytest.fixture(autouse=True, scope="module")
def one_blas_thread():
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def run():
    """Three sites of 300 rows and more, so that there is something to pool."""
    frame = people((400, 300, 500), seed=1)
    data = pff.from_frame(frame, "hired", "sex", drop=["site"])
    federation = data.federate(pff.partition.by_column("site"))
    return pff.train(federation, pff.methods.Transport(**OPTIONS, target_ddp=0.1, confidence=0.0))


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    run.save(out)
    return out


@pytest.fixture(scope="module")
def site():
    """Rows without labels, of a site like the others but for its share of S."""
    return people((3000,), seed=2).drop(columns=["hired", "site"])


def rule_of(model):
    """Low, high, chance and below of both groups."""
    return model.predictor.rule.numbers


def gap(model, rows, random_state=0):
    s = model.codes(rows["sex"])
    positive = model.decide(rows, rows["sex"], random_state)
    return positive[s == 1].mean() - positive[s == 0].mean()


def test_target_is_met_on_its_rows_and_on_new_ones(folder, site):
    model = pff.personalise(folder, site)
    free = pff.personalise(folder, site, target_ddp=1.0)
    assert gap(free, site) > 0.25  # something to do
    assert gap(model, site) == pytest.approx(0.1, abs=0.02)
    fresh = people((6000,), seed=3)
    assert abs(gap(model, fresh)) < 0.1 + 0.05
    right = {m: (m.decide(fresh, fresh["sex"], 0) == fresh["hired"]).mean() for m in (model, free)}
    assert right[model] > right[free] - 0.05
    assert right[model] > max(fresh["hired"].mean(), 1 - fresh["hired"].mean())


@pytest.mark.parametrize("target", [0.0, 0.05, 0.2])
def test_another_target_needs_nothing_else(folder, site, target):
    assert gap(pff.personalise(folder, site, target_ddp=target), site) == pytest.approx(
        target, abs=0.02
    )


@pytest.mark.parametrize(
    "changes", [{}, {"target_ddp": 0.02}, {"confidence": 0.9}, {"criterion": "eo"}]
)
def test_its_rule_is_what_solve_gives(run, folder, site, changes):
    """Counted by hand: every row as a held one, all clients of the run as the pool."""
    model = pff.personalise(folder, site, **changes)
    s = (site["sex"] == "m").to_numpy().astype(int)
    x, groups = torch.from_numpy(run.federation.encoder.transform(site)), torch.from_numpy(s)
    logits = run.network.logits(run.fitted.w[None], x[None], groups[None])
    score = torch.sigmoid(logits.double())
    counts = np.zeros((2, 500))
    for z in (0, 1):
        counts[z] = np.histogram(score[0, s == z, 0], bins=500, range=(0, 1))[0]
    asked = {"target_ddp": 0.1, "confidence": 0.0} | changes
    algorithm = pff.methods.Transport(**OPTIONS, **asked)
    rng, shares = seeds.generator(0, seeds.GUARANTEE), np.array([1 - s.mean(), s.mean()])
    rule = algorithm.solve(run.fitted.server, counts, shares, rng, Task())
    torch.testing.assert_close(rule_of(model), rule.numbers)
    assert torch.equal(model.predictor.theta, run.fitted.w)


def test_confidence_leaves_more_room_to_the_target(folder, site):
    few = site.head(300)
    free, strict = (gap(pff.personalise(folder, few, confidence=c), site) for c in (None, 0.95))
    assert abs(strict) < free


def test_it_can_be_saved_read_and_personalised_again(folder, site, tmp_path):
    out = tmp_path / "new" / "site"
    model = pff.personalise(folder, site, name="harbour", out=out, target_ddp=0.03)
    assert sorted(p.name for p in out.iterdir()) == ["model.safetensors", "run.json"]
    for client in ("harbour", 0):
        again = pff.load_model(out, client)
        np.testing.assert_array_equal(
            again.decide(site, site["sex"], 5), model.decide(site, site["sex"], 5)
        )
        np.testing.assert_array_equal(
            again.predict_proba(site, site["sex"]), model.predict_proba(site, site["sex"])
        )
    about = json.loads((out / "run.json").read_text())
    assert about["clients"] == ["harbour"]
    assert about["algorithm"]["target_ddp"] == 0.03
    with pytest.raises(pff.InputError, match="There is no client 'site 0'"):
        pff.load_model(out, "site 0")
    assert torch.equal(rule_of(pff.personalise(out, site)), rule_of(model))  # with its own target
    other, first = (pff.personalise(where, site, target_ddp=0.2) for where in (out, folder))
    assert torch.equal(rule_of(other), rule_of(first))


def test_a_saved_run_and_its_clients_do_not_change(run, folder, site, tmp_path):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    pff.personalise(folder, site, out=tmp_path / "out", target_ddp=0.2)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    for client in range(3):
        loaded = pff.load_model(folder, client)
        assert torch.equal(loaded.predictor.theta, run.fitted.theta[client])
        assert torch.equal(rule_of(loaded), run.fitted.rules[client].numbers)
        np.testing.assert_array_equal(
            loaded.decide(site, site["sex"], random_state=0),
            run.personal_model(client).decide(site, site["sex"], random_state=0),
        )


def test_order_names_and_codes_of_rows_do_not_matter(folder, site):
    model = pff.personalise(folder, site)
    mixed = site.sample(frac=1, random_state=1)[["sex", "colour", "c", "b", "a"]]
    assert torch.equal(rule_of(pff.personalise(folder, mixed)), rule_of(model))
    more = site.assign(hired=0, note="x")  # labels are not looked at
    assert torch.equal(rule_of(pff.personalise(folder, more)), rule_of(model))
    coded = site.assign(sex=(site["sex"] == "m").astype(int))
    assert torch.equal(rule_of(pff.personalise(folder, coded)), rule_of(model))


@pytest.mark.parametrize("group", ["f", "m"])
def test_a_site_with_one_group_decides_by_eta(run, folder, site, group):
    model = pff.personalise(folder, site[site["sex"] == group], target_ddp=0.0)
    low, high, chance, _ = rule_of(model).T
    assert torch.equal(low, high)
    assert (chance == 0).all()
    eta = run.fitted.server["eta"][:, 1]
    assert low.sigmoid() * 500 == pytest.approx((eta <= 0.5).sum(1).float(), abs=1e-3)


def test_one_row_is_enough(folder, site):
    assert torch.isfinite(rule_of(pff.personalise(folder, site.head(1)))).all()


def test_rates_count_rows_and_positive_decisions(folder, site):
    model = pff.personalise(folder, site)
    table = newcomer.rates(model, site, "sex")
    assert table["rows"].tolist() == [(site["sex"] == z).sum() for z in ("f", "m")]
    assert list(table) == ["group", "rows", "0", "1"]  # and the rate of each decision
    assert table["group"].tolist() == ["f", "m"]
    assert table["1"][1] - table["1"][0] == pytest.approx(gap(model, site))
    np.testing.assert_allclose(table["0"] + table["1"], 1)
    of_men = newcomer.rates(model, site[site["sex"] == "m"], "sex")
    assert of_men["rows"].tolist()[0] == 0
    assert np.isnan(of_men["1"][0])
    assert np.isnan(of_men["0"][0])


def refused(folder, rows, message, **changes):
    with pytest.raises(pff.InputError, match=message) as error:
        pff.personalise(folder, rows, **changes)
    text = str(error.value)
    assert "\n" not in text
    assert text.endswith(".")


def test_bad_input_is_refused_in_a_sentence(folder, site, tmp_path):
    refused(folder, site.drop(columns="sex"), "lack the column 'sex', the sensitive attribute")
    refused(folder, site.drop(columns="b"), "lack the column 'b', an input of the model")
    refused(folder, site.assign(sex="x"), "must be f or m; found 'x'")
    refused(folder, site.assign(sex=site["sex"].where(site.index > 5)), "must be f or m; found")
    refused(folder, site.head(0), "There are no rows to make a model for")
    with pytest.warns(pff.UnseenWarning, match=r"3,000 cells with a missing value \(a 3,000\)"):
        pff.personalise(folder, site.assign(a=np.nan))
    refused(folder, site, r"target_ddp must be in \[0, 1\], got 7", target_ddp=7.0)
    refused(folder, site, "confidence must be in", confidence=2.0)
    refused(tmp_path / "nothing", site, "no run was saved there")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("algorithm", [pff.methods.FedAvg, pff.methods.LoGoFair])
def test_other_methods_take_in_no_new_clients(federation, site, tmp_path, algorithm):
    pff.train(federation, algorithm(**OPTIONS)).save(tmp_path)
    refused(tmp_path, site, f"{algorithm.__name__} cannot take in a client without training again")


def test_a_folder_may_be_a_string(folder, site):
    assert torch.equal(
        rule_of(pff.personalise(str(folder), site)), rule_of(pff.personalise(folder, site))
    )


@pytest.mark.parametrize("changes", [{"bins": 50}, {"nonsense": 1}])
def test_changes_that_make_no_sense_are_refused(folder, site, changes):
    with pytest.raises(pff.InputError):
        pff.personalise(folder, site, **changes)


def test_infinite_and_missing_settings_survive_the_file(run, folder, site, tmp_path):
    run.retarget(kappa=float("inf")).save(tmp_path)
    saved = json.loads((tmp_path / "run.json").read_text())["algorithm"]
    assert saved["kappa"] == float("inf")
    assert saved["confidence"] == 0
    assert saved["epsilon"] is None
    pool_only, anew, twice, own = (
        rule_of(pff.personalise(where, site_rows, **changes))
        for where, site_rows, changes in (
            (tmp_path, site, {}),
            (folder, site, {"kappa": float("inf")}),
            (tmp_path, pd.concat([site, site]), {}),  # the share of S is all that matters then
            (tmp_path, site, {"kappa": 0.0}),
        )
    )
    assert torch.equal(pool_only, anew)
    assert torch.equal(pool_only, twice)
    assert not torch.equal(pool_only, own)


def test_a_newcomer_with_a_clients_rows_gets_nearly_its_rule(run, folder):
    """But for the client's own rows, which are in the pool a second time."""
    part = run.federation.partition
    for client in range(3):
        rows = run.federation.data.frame.iloc[part.train[client]].drop(columns="hired")
        model = pff.personalise(folder, rows)
        own = run.personal_model(client)
        probe = pd.concat([rows, people((2000,), seed=5)])
        same = model.decide(probe, probe["sex"], 0) == own.decide(probe, probe["sex"], 0)
        assert same.mean() > 0.9


def test_bands_of_a_run_are_those_of_a_new_client_too(tmp_path):
    """Its saved model cuts new rows' numbers, with decimal commas as in training."""
    frame = people((300, 300), seed=1)
    frame["age"] = [f"{20 + k % 50},5" for k in range(len(frame))]
    data = pff.from_frame(frame, "hired", "age", drop=["site"], bands={"age": [40.0]})
    federation = data.federate(pff.partition.by_column("site"))
    pff.train(federation, pff.methods.Transport(**OPTIONS)).save(tmp_path / "run")
    made = newcomer.personalise(tmp_path / "run", frame, out=tmp_path / "new")
    read = pff.load_model(tmp_path / "new", "newcomer")
    assert (read.predict(frame) == made.predict(frame)).all()
    typed = frame.assign(age=frame["age"].str.replace(",", ".").astype(float))
    assert (read.predict(typed) == made.predict(frame)).all()
