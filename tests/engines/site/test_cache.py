"""A site's encoded rows are kept from message to message, and never those of something else."""

import json
import logging
import multiprocessing
import os
import stat
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.data.tables.reading import ReadingWarning
from pfedfair.engines.site import cache, checksums, rows
from pfedfair.engines.site.cache import NAME, EncodedRows, RowCache
from pfedfair.engines.site.rounds import make_network
from pfedfair.engines.site.rows import read_site
from pfedfair.engines.site.schema import agree, describe
from pfedfair.engines.site.work import accept
from pfedfair.federation import Table
from pfedfair.methods.phases import phase_at
from read_only import read_only

ALGORITHM = pff.methods.FedAvg(rounds=3, batch=30)


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "c": rng.choice(["u", "v", "w"], n)})
    frame["a"] = frame["a"].where(rng.random(n) < 0.9)
    frame = frame.assign(y=rng.integers(0, 2, n), s=rng.choice(["f", "m"], n))
    return frame.assign(patient=rng.integers(0, n // 3, n))


class Deployment:
    """One site, and the messages of a server."""

    def __init__(self, folder, algorithm=ALGORITHM, **more):
        self.table, self.algorithm = folder / "people.csv", algorithm
        table().to_csv(self.table, index=False)
        self.node = {"site": "north", "data": str(self.table), "label": "y", "sensitive": "s"}
        self.node |= {"state-dir": str(folder / "state")} | more
        self.run = {"seed": 0, "name": "model", "algorithm": json.dumps(algorithm.to_dict())}
        site = read_site(self.node, self.run)
        self.schema, _ = agree([describe(site.data, site.train, "north", 0, "")])
        self.kept = folder / "state" / NAME

    def work(self, t=0, schema=None):
        schema = schema or self.schema
        w = make_network(schema, self.algorithm).init(seeds.generator(0, seeds.INIT))
        phase, _ = phase_at(self.algorithm.phases, t)
        order = {
            "round": t,
            "phase": phase.name if phase else "",
            "key": "ab",
            "number": 0,
            "local-rounds": 1,
            "max-change": 10.0,
            "schema": schema.to_json(),
        }
        return accept(order, {"w": w}, self.node, self.run, {})


@pytest.fixture
def site(tmp_path):
    return Deployment(tmp_path)


@pytest.fixture
def reads(monkeypatch):
    """How often the table was read."""
    found = []

    def counted(*given):
        found.append(given)
        return read_site(*given)

    monkeypatch.setattr(cache, "read_site", counted)
    return found


def same(one, other):
    for a, b in zip(one.clients.table[:3], other.clients.table[:3], strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    np.testing.assert_array_equal(one.clients.rows[0], other.clients.rows[0])
    assert one.n_rows == other.n_rows
    return True


def test_the_table_is_read_once_and_the_answer_is_the_same(site, reads):
    first, second = site.work(), site.work()
    assert len(reads) == 1
    assert same(first, second)
    assert second.clients.table.task == first.clients.table.task
    assert second.clients.table.encoder == first.clients.table.encoder
    (a, _), (b, _) = first.train(), second.train()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert len(reads) == 1
    assert stat.S_IMODE(site.kept.stat().st_mode) == 0o600
    assert sorted(p.name for p in site.kept.parent.glob("*encoded*")) == [NAME]


def test_at_the_end_the_table_itself_is_read(site, reads):
    first = site.work(t=3)
    second = site.work(t=3)
    assert len(reads) == 1
    assert first.finish() == second.finish()
    assert len(reads) == 2
    assert (site.kept.parent / "model" / "run.json").exists()


def test_secret_numbers_of_rows_are_kept_too(tmp_path, reads):
    site = Deployment(
        tmp_path, pff.methods.Transport(rounds=3, agree=1, epsilon=1.0, bins=20, batch=40)
    )
    first, second = site.work(), site.work()
    assert len(reads) == 1
    np.testing.assert_array_equal(first.clients.marks, second.clients.marks)
    assert second.clients.marks.dtype == np.uint64
    assert second.clients.seed == first.clients.seed != 0
    last = site.work(t=3)  # each row is taken as it is: others are encoded
    assert last.source.independent != first.source.independent
    assert len(reads) == 2
    assert same(last, site.work(t=3))
    assert len(reads) == 2


def test_persons_are_kept_and_stay_on_one_side(tmp_path, reads):
    method = pff.methods.Transport(rounds=3, agree=1, epsilon=1.0, bins=20, batch=40)
    site = Deployment(tmp_path, method, person="patient")
    first, second = (site.work().clients for _ in range(2))
    assert len(reads) == 1
    assert torch.equal(first.table.person, second.table.person)
    assert (first.table.person >= 0).all()  # nobody is known to be at another site
    trained, held = method.split(second)
    person = second.table.person.numpy()
    sides = set(person[trained.rows[0]]), set(person[held.rows[0]])
    assert all(sides)
    assert not sides[0] & sides[1]


def another_cell(site):
    frame = pd.read_csv(site.table)
    frame.loc[0, "a"] = -frame.loc[0, "a"]
    frame.to_csv(site.table, index=False)


def another_cell_at_the_same_time(site):
    """As a program leaves it that sets a file's times, with as many bytes."""
    before, text = site.table.stat(), site.table.read_text()
    site.table.write_text(text.replace(",u,", ",v,", 1))
    os.utime(site.table, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert site.table.stat().st_size == before.st_size


def another_setting(site):
    site.node["test-part"] = 0.5


def another_policy(site):
    policy = site.table.parent / "policy.toml"
    policy.write_text("least-people = 20\n")
    site.node["policy"] = str(policy)


def another_line_of_the_policy(site):
    (site.table.parent / "policy.toml").write_text("least-people = 30\n")


def another_secret(site):
    (site.kept.parent / "secret").write_text("ab" * 32)


@pytest.mark.parametrize("change", [
    another_cell, another_cell_at_the_same_time, another_setting, another_policy, another_secret,
])  # fmt: skip
def test_what_has_changed_is_made_anew(site, reads, change):
    site.work()
    change(site)
    made = site.work()
    assert len(reads) == 2
    assert same(made, site.work())
    assert len(reads) == 2
    site.kept.unlink()
    assert same(made, site.work())  # as without what was kept


def test_another_line_of_the_same_policy_is_another_policy(site, reads):
    another_policy(site)
    site.work()
    another_line_of_the_policy(site)
    site.work()
    assert len(reads) == 2


def test_another_schema_and_another_version_are_something_else(site, reads, monkeypatch):
    site.work()
    knots = dict(site.schema.encoder.numbers)
    more = table(seed=1)
    other = agree([describe(pff.from_frame(more, "y", "s"), np.arange(300), "x", 0, "")])[0]
    assert other.encoder.numbers != knots
    site.work(schema=other)
    assert len(reads) == 2
    monkeypatch.setattr(cache, "__version__", "another")
    site.work(schema=other)
    assert len(reads) == 3
    site.work()
    assert len(reads) == 4
    assert len([*site.kept.parent.glob("*.safetensors")]) == 1  # only the last one


@pytest.mark.parametrize("how", ["a bit", "cut off", "empty", "no such file", "others' numbers"])
def test_a_damaged_file_is_reported_and_not_used(site, reads, how, caplog):
    first = site.work()
    content = bytearray(site.kept.read_bytes())
    if how == "a bit":
        content[-5] ^= 4
    elif how == "no such file":
        content = bytearray(b"PK\x03\x04 something else")
    elif how == "others' numbers":
        tensors, about = checksums.read(site.kept)
        checksums.write(site.kept, {"x": tensors["x"]}, about)
        content = bytearray(site.kept.read_bytes())
    site.kept.write_bytes(content[: {"cut off": 2000, "empty": 0}.get(how)])
    with caplog.at_level(logging.WARNING, "pfedfair"):
        assert same(first, site.work())
    assert f"{NAME} cannot be read, and is made anew" in caplog.text
    assert len(reads) == 2
    assert same(first, site.work())
    assert len(reads) == 2


def test_on_a_read_only_disk_it_is_reported(tmp_path, caplog):
    folder = tmp_path / "state"
    folder.mkdir()
    x = torch.zeros(3)
    made = EncodedRows(Table(x, x, x), np.arange(3), 3)
    kept = RowCache(folder, "key", (), ())
    with read_only(folder), caplog.at_level(logging.WARNING, "pfedfair"):
        kept.write(made, [])
        assert kept.read() is None
    assert caplog.text.count("cannot be cached in") == 1
    kept.write(made, [])
    assert kept.read().n_train == 3


def test_a_table_that_changes_while_it_is_read_is_not_kept(site, reads, monkeypatch):
    encode = rows.federate_site

    def slowly(*given):
        os.utime(site.table)
        return encode(*given)

    monkeypatch.setattr(cache, "federate_site", slowly)
    site.work()
    assert not site.kept.exists()


def test_warnings_about_the_reading_are_repeated(site, reads):
    text = site.table.read_text().replace(",u,", ",é,")
    site.table.write_bytes(text.encode("latin-1"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = read_site(site.node, site.run)
    site.schema, _ = agree([describe(own.data, own.train, "north", 0, "")])
    heard = []
    for _ in range(2):
        with pytest.warns(ReadingWarning) as found:
            site.work()
        heard.append([str(one.message) for one in found])
    assert heard[0] == heard[1] != []
    assert len(reads) == 1


def test_a_client_for_trying_out_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    node = {"partition-id": 0, "num-partitions": 4, "data": "compas"}
    assert RowCache.of(node, []) is None
    assert RowCache.of({"data": "missing.csv"}, []) is None
    assert RowCache.of({}, []) is None


def _answer(site, results):
    found = site.work().train()[0]
    results.put(float(found["w"].double().sum()))


def test_two_processes_at_once(site):
    single = float(site.work().train()[0]["w"].double().sum())
    site.kept.unlink()
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    both = [context.Process(target=_answer, args=(site, results)) for _ in range(2)]
    for one in both:
        one.start()
    found = [results.get(timeout=120) for _ in both]
    for one in both:
        one.join()
    assert found == [single, single]
    assert set(load_file(site.kept)) == {"x", "y", "s", "rows"}
    assert sorted(p.name for p in site.kept.parent.glob("*encoded*")) == [NAME]


def test_what_killed_processes_left_is_taken_away(site):
    site.kept.parent.mkdir(exist_ok=True)
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    left, new = (
        site.kept.with_name(f".encoded.{int(pid)}.partial.safetensors")
        for pid in (dead.stdout, os.getppid())
    )
    for path in (left, new):
        path.write_text("half")
    site.work()
    assert not left.exists()
    assert new.exists()
