"""What methods hold out, and their folds, are whole persons."""

import numpy as np
import pandas as pd
import pytest
import torch

import pfedfair as pff
from pfedfair.methods import pooled
from pfedfair.methods.clients import Clients, hold_out, persons_of
from pfedfair.methods.newton.sums import fold_rows
from pfedfair.methods.transport import counts
from pfedfair.models import linear
from pfedfair.models.cells import Cells
from pfedfair.partition.persons import Persons


def frame_of(seed=0, persons=300, wander=0.15):
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rng.geometric(0.3, persons))
    n = len(person)
    y, s = rng.integers(0, 2, (2, persons))
    site = np.where(rng.random(n) < wander, rng.integers(0, 3, n), person % 3)
    frame = pd.DataFrame({"x": rng.normal(size=n) + y[person], "y": y[person], "s": s[person]})
    frame = frame.assign(person=person, site=np.array(["a", "b", "c"])[site])
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


@pytest.fixture(params=range(3))
def federation(request):
    data = pff.from_frame(frame_of(request.param), "y", "s", person="person")
    return data.federate(pff.partition.by_column("site"), request.param)


def clients_of(federation, **more):
    rows = federation.partition.train
    network = linear(federation.encoder.width, groups=2)
    return Clients(network, federation.table, rows, range(len(rows)), 0, **more)


def assert_apart(federation, *parts):
    """No person has rows in two parts, each of which are rows of several clients."""
    person = federation.data.persons
    found = [set(person[np.concatenate(list(part))].tolist()) for part in parts]
    assert all(found)
    assert sum(map(len, found)) == len(set.union(*found))


def test_some_persons_are_at_several_clients(federation):
    assert (federation.table.person < 0).any()
    assert (federation.table.person >= 0).any()


def test_held_out_rows_are_whole_persons(federation):
    clients = clients_of(federation)
    trained, held = hold_out(clients, 0.2)
    assert_apart(federation, trained.rows, held.rows)
    for every, own in zip(clients.rows, held.rows, strict=True):
        assert len(own) / len(every) == pytest.approx(0.2, abs=0.05)


def test_folds_are_whole_persons_of_nearly_equal_size(federation):
    clients = clients_of(federation)
    folds = [fold_rows(clients, i, 5) for i in range(3)]
    assert_apart(federation, *zip(*folds, strict=True))
    for own, every in zip(folds, clients.rows, strict=True):
        np.testing.assert_array_equal(np.sort(np.concatenate(own)), every)
        assert max(map(len, own)) - min(map(len, own)) <= 25


@pytest.mark.parametrize("private", [False, True])
def test_transport_counts_whole_persons_on_each_side(federation, private, monkeypatch):
    clients, halves = clients_of(federation), []
    trained, held = counts.split(clients, 0.3, private)
    assert_apart(federation, trained.rows, held.rows)
    if private:
        halves = [(counts._draws(held, i, 1) < 0.5).astype(int) for i in range(3)]
    else:
        persons, found = persons_of(held, 5), Persons.halves
        monkeypatch.setattr(
            Persons, "halves", lambda self, rows: halves.append(found(self, rows)) or halves[-1]
        )
        cells = Cells(2, 10)
        w = torch.zeros(clients.network.init(np.random.default_rng(0)).shape)
        counted = counts.count(w, trained, held, cells, private)
        assert counted["held"].sum() == sum(map(len, held.rows))
        assert persons is not None
    first = [rows[half == 0] for rows, half in zip(held.rows, halves, strict=True)]
    second = [rows[half == 1] for rows, half in zip(held.rows, halves, strict=True)]
    assert_apart(federation, first, second)


def test_early_stopping_looks_at_whole_persons(federation):
    clients = clients_of(federation)
    every = np.concatenate(list(clients.rows))
    held = pooled._early_stopping_rows(clients)
    assert_apart(federation, [every[held]], [every[~held]])
    assert held.mean() == pytest.approx(0.1, abs=0.03)


def test_clients_of_few_persons_hold_out_the_smallest():
    frame = frame_of(persons=40, wander=0)
    frame["person"] = np.where(np.arange(len(frame)) < 5, "first", "other")
    data = pff.from_frame(frame, "y", "s", person="person")
    federation = data.federate(pff.partition.together(test=0.0))
    trained, held = hold_out(clients_of(federation), 0.2)
    assert set(frame["person"].iloc[held.rows[0]]) == {"first"}
    assert set(frame["person"].iloc[trained.rows[0]]) == {"other"}
    one = pff.from_frame(frame.assign(person="one"), "y", "s", person="person")
    _, none = hold_out(clients_of(one.federate(pff.partition.together(test=0.0))), 0.2)
    assert len(none.rows[0]) == 0


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
@pytest.mark.parametrize(
    "name", ["transport", "logofair", "newton", "fedavg-kde", "fairfed", "pooled", "fedfact"]
)
def test_every_kind_of_method_trains_and_is_loaded_again(federation, name, tmp_path):
    rounds = {"rounds": 2} if name in ("fedavg-kde", "fairfed") else {}
    run = pff.train(federation, pff.make(name, rounds))
    run.save(tmp_path / "run")
    again = pff.load_run(tmp_path / "run")
    if name == "transport":  # from its saved counts
        run, again = (one.retarget(target_ddp=0.2) for one in (run, again))
    pd.testing.assert_frame_equal(run.table(), again.table())


@pytest.mark.filterwarnings("ignore::pfedfair.CollapseWarning")
def test_accuracy_is_no_better_than_it_is():
    """An input that tells persons apart, and labels by chance: one half is right of new ones."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(150), 30)
    y, s, place = rng.integers(0, 2, 150), rng.integers(0, 2, 150), rng.permutation(150)
    frame = pd.DataFrame(
        {"y": y[person], "s": s[person], "place": [f"t{k}" for k in place[person]], "id": person}
    )
    found = {}
    for column in (None, "id"):
        data = pff.from_frame(frame.drop(columns=[] if column else "id"), "y", "s", person=column)
        run = pff.train(data.federate(pff.partition.together()), pff.make("newton"))
        found[column] = run.table()["accuracy"].item()
    assert found[None] > 0.9
    assert found["id"] == pytest.approx(0.5, abs=0.15)
