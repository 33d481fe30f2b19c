"""The conduct of a run with every fault that a site can have, all in this process."""

import json
import logging
import resource
import signal
import stat
import time
from contextlib import contextmanager, nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from flower_sites import Consortium, defaults, only
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from safetensors.torch import load_file

import pfedfair as pff
from made_people import people
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.engines.flower import server_app, sizes
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.site import checkpoint, memory
from pfedfair.engines.site.rounds import play_rounds
from pfedfair.engines.site.settings import Settings, make_algorithm
from pfedfair.methods import Clients
from pfedfair.methods.phases import total_rounds
from pfedfair.rules import Likeliest
from pfedfair.runs import choose_network
from pfedfair.runs.predictor import Predictor


@pytest.fixture
def consortium(table, tmp_path) -> Consortium:
    return Consortium(table.federate(pff.partition.by_column("site"), seed=3), tmp_path)


@pytest.fixture
def log(caplog):
    """Flower's logger passes nothing on by itself."""
    logger = logging.getLogger("flwr")
    before = logger.propagate
    logger.propagate = True
    caplog.set_level(logging.INFO, "flwr")
    yield caplog
    logger.propagate = before


def reference(federation, grid, at_once=10):
    algorithm = make_algorithm(grid.run_config)
    network = choose_network(federation, algorithm)
    return local.fit(federation, algorithm, network, grid.run_config["seed"], at_once)


def conduct(grid):
    return Conductor(grid, Settings.read(grid.run_config)).run()


def changed(answer: Message, name: str, change) -> Message:
    """The same answer with other numbers."""
    arrays = answer.content.array_records["arrays"]
    new = {k: Array(change(v.numpy()) if k == name else v.numpy()) for k, v in arrays.items()}
    answer.content["arrays"] = ArrayRecord(new)
    return answer


def spoiler(change, rounds=range(99)):
    def spoil(message, answer):
        kind, t = message.metadata.message_type, message.metadata.group_id
        if kind == "train" and int(t) - 1 in rounds:
            return change(answer)
        return answer

    return spoil


def test_what_needs_all_rows_in_one_place_is_refused(consortium):
    with pytest.raises(pff.InputError, match="Pooled needs all rows in one place: choose a fed"):
        conduct(consortium.grid("pooled"))


def test_a_target_in_the_place_of_eta(consortium):
    grid = consortium.grid("fedavg-kde", **{"target-ddp": 0.1})
    state = conduct(grid)
    fitted = reference(consortium.federation, grid)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)


@pytest.fixture
def partial(tmp_path) -> Consortium:
    """Three groups and three labels; site 1 lacks a group, site 2 has but one, and no "yes"."""
    rng = np.random.default_rng(5)
    n = 360
    site = np.arange(n) % 3
    sex = np.where(site == 2, "x", rng.choice(["f", "m", "x"], n))
    sex = np.where((site == 1) & (sex == "f"), "m", sex)
    a = rng.normal(size=n) + (sex == "m")
    hired = np.array(["maybe", "no", "yes"])[np.digitize(a + rng.normal(size=n), [-0.5, 0.8])]
    hired = np.where((site == 2) & (hired == "yes"), "no", hired)
    names = np.array(["site 0", "site 1", "site 2"])[site]
    frame = pd.DataFrame({"a": a, "b": rng.normal(size=n), "sex": sex, "hired": hired})
    data = pff.data.from_frame(frame.assign(site=names), "hired", "sex")
    return Consortium(data.federate(pff.partition.by_column("site"), seed=3), tmp_path)


@pytest.mark.parametrize("method", ["fedavg-kde", "pfedfair", "ditto-kde", "transport"])
@pytest.mark.parametrize("criterion", ["dp", "eo"])
def test_a_site_need_not_have_every_group_and_label(partial, method, criterion):
    grid = partial.grid(method, criterion=criterion)
    state = conduct(grid)
    assert state.schema.groups == ("f", "m", "x")
    assert state.schema.labels == ("maybe", "no", "yes")
    # One client at a time, as at a site: Adam makes much of how a stack's sums are rounded.
    fitted = reference(partial.federation, grid, at_once=1)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)
    for i, theta in enumerate(fitted.theta):
        torch.testing.assert_close(partial.theta(i), theta, atol=1e-5, rtol=0)


def test_a_group_that_nobody_else_has_is_refused_and_named(partial, log):
    table_of(partial, 2, lambda f: f.assign(sex="z"))
    conduct(partial.grid("fedavg", **{"min-sites": 2}))
    words = "the sensitive column 'sex' has the value z, it should have f, m and x"
    assert any(f"'site 2' is refused: {words}" in r.getMessage() for r in log.records)


def test_one_group_at_all_sites_is_refused(partial):
    for i in range(3):
        table_of(partial, i, lambda f: f.assign(sex="f"))
    with pytest.raises(pff.InputError, match="'sex' has one value at all sites, f"):
        conduct(partial.grid("fedavg"))


def test_a_site_can_load_its_model_and_its_table(consortium):
    conduct(consortium.grid("pfedfair"))
    folder = consortium.folder / "state1" / "model"
    name = consortium.federation.partition.names[1]
    model = pff.load_model(folder, name)
    rows = pd.read_parquet(consortium.folder / "test1.parquet")
    assert set(model.decide(rows, sensitive_features=rows["sex"])) <= {0, 1}
    assert pd.read_parquet(folder / "clients.parquet")["n_test"].item() == len(rows)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w * np.float32("nan"), "that cannot be"),
        (
            lambda w: np.where(np.arange(len(w)) == 3, np.inf, w).astype("f4"),
            "1 number that cannot be",
        ),
        (lambda w: w[:-1], "has shape"),
        (lambda w: w + 1e6 * np.abs(w), "moved by"),
        (lambda w: w + np.float32(8), "times as far as the others'"),
    ],
    ids=["nan", "inf", "shape", "scaled", "far"],
)
def test_the_server_refuses_a_bad_answer_and_goes_on(consortium, log, change, words):
    spoil = {1: spoiler(lambda answer: changed(answer, "w", change))}
    grid = consortium.grid("fedavg-kde", spoil, **{"min-sites": 2, "max-change": 10.0})
    state = conduct(grid)
    refused = [r.getMessage() for r in log.records if "is refused" in r.getMessage()]
    assert len(refused) == 2  # in both rounds
    assert all("'site 1'" in text and words in text for text in refused)
    assert bool(torch.isfinite(state.server["w"]).all())
    others = [0, 2]
    expected = only(consortium, grid.run_config, [others, others])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Four sites, of which the first may lie; what honest ones reach, and how it is measured."""
    data = pff.from_frame(people(sizes=(300,) * 4), "hired", "sex", drop=["site"])
    federation = data.federate(pff.partition.by_column("site"), seed=3)
    consortium = Consortium(federation, tmp_path_factory.mktemp("crowd"))
    table = consortium.federation.table

    def accuracy(spoil, name, **more):
        more = {"rounds": 6, "out": str(consortium.folder / name), **more}
        grid = consortium.grid("fedavg", spoil, **more)
        w = conduct(grid).server["w"]
        network = choose_network(consortium.federation, make_algorithm(grid.run_config))
        z = Predictor(network, w, Likeliest()).logits(table.x, table.s, table.encoder)[:, 0]
        held = np.concatenate(consortium.federation.partition.test)
        return float(((z > 0).float() == table.y)[held].float().mean())

    return accuracy


@pytest.fixture(scope="module")
def honest(crowd):
    """What four honest sites reach; no message is about their updates."""
    messages, logger = [], logging.getLogger("flwr")
    ear = logging.Handler()
    ear.emit = lambda record: messages.append(record.getMessage())
    logger.addHandler(ear)
    reached = crowd({}, "honest")
    logger.removeHandler(ear)
    assert any("round 6 of 6" in text for text in messages)  # the ear hears
    assert not any("the update of site" in text for text in messages)
    assert reached > 0.6
    return reached


def scaled(factor):
    """A site whose update is so many times what it found."""

    def spoil(message, answer):
        if message.metadata.message_type == "train":
            before = message.content.array_records["arrays"]["w"].numpy()
            way = np.float32(factor)
            return changed(answer, "w", lambda w: before + way * (w - before))
        return answer

    return spoil


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (-10, "is not used, as it points against the others'"),
        (-2.9, "as it points against the others'"),
        (10, "is shortened to theirs"),
    ],
    ids=["against", "a little against", "with"],
)
def test_an_update_that_is_too_long_costs_less_than_a_point(crowd, honest, log, factor, words):
    assert crowd({0: scaled(factor)}, f"times {factor}") > honest - 0.011  # three rows
    messages = [r.getMessage() for r in log.records if "the update of site" in r.getMessage()]
    assert len(messages) == 6  # in every round
    assert all(text.startswith("pfedfair: the update of site 'site 0': 'w'") for text in messages)
    assert all(words in text for text in messages)


def test_lying_about_rows_does_not_help_to_go_against_the_others(crowd, honest, log):
    def lies(message, answer):
        if message.metadata.message_type == "query.describe":
            config = answer.content.config_records["config"]
            found = json.loads(str(config["description"]))
            config["description"] = json.dumps(found | {"rows": 9000})
        return scaled(-10)(message, answer)

    assert crowd({0: lies}, "lies", options={"weighting": "size"}) >= honest - 0.01
    texts = [r.getMessage() for r in log.records]
    assert any("'site 0' says that it has more rows than all others combined" in t for t in texts)


@pytest.mark.parametrize("rows", [10**12, 10**7])
def test_a_lying_description_is_refused_and_the_run_goes_on(consortium, log, rows):
    def lies(message, answer):
        if message.metadata.message_type == "query.describe":
            config = answer.content.config_records["config"]
            found = json.loads(str(config["description"]))
            numbers = {c: [1e300, 1e308, n] for c, (_, _, n) in found["numbers"].items()}
            config["description"] = json.dumps(found | {"rows": rows, "numbers": numbers})
        return answer

    grid = consortium.grid("fedavg", {1: lies}, **{"min-sites": 2})
    state = conduct(grid)
    assert [place.name for place in state.sites] == ["site 0", "site 2"]
    assert any("site 'site 1' is refused: " in r.getMessage() for r in log.records)


def test_an_answer_that_is_too_large_is_refused_by_name(consortium, log, monkeypatch):
    monkeypatch.setattr(sizes, "MAX_BYTES", 4096)
    large = spoiler(lambda answer: changed(answer, "w", lambda w: np.zeros(10_000, "f4")))
    conduct(consortium.grid("fedavg", {1: large}, **{"min-sites": 2}))
    texts = [r.getMessage() for r in log.records]
    assert sum("'site 1' cannot be read" in t and "was not read" in t for t in texts) == 2


def test_other_names_than_the_others_are_refused(consortium, log):
    def renamed(answer):
        arrays = answer.content.array_records["arrays"]
        answer.content["arrays"] = ArrayRecord({"x": arrays["w"]})
        return answer

    conduct(consortium.grid("fedavg", {2: spoiler(renamed)}, **{"min-sites": 2}))
    assert any("'site 2' is refused: it has 'x'" in r.getMessage() for r in log.records)


@pytest.mark.parametrize("alpha", [float("1e30"), 1e5])
def test_a_site_does_not_send_what_it_can_see_is_bad(consortium, log, alpha):
    """A diverging step at one site; the error's text stays there."""
    grid = consortium.grid("fedavg", **{"min-sites": 2})
    bad = dict(grid.run_config, options=f'{{"batch": 30, "optimiser": "sgd", "alpha": {alpha}}}')
    grid.contexts[101].run_config = bad
    conduct(grid)
    texts = [r.getMessage() for r in log.records]
    assert any("This site's answer is not sent: 'w'" in text for text in texts)
    assert any("site 'site 1' failed: InputError at the site" in text for text in texts)


def test_a_site_that_raises_is_left_out(consortium, log):
    grid = consortium.grid("fedavg", **{"min-sites": 2})
    broken = consortium.folder / "train1.parquet"
    kept = broken.read_bytes()

    def breaks(message, answer):
        broken.write_bytes(b"nothing" if message.metadata.message_type != "train" else kept)
        return answer

    grid.spoil[101] = breaks
    state = conduct(grid)
    assert any("'site 1' failed" in r.getMessage() for r in log.records)
    assert bool(torch.isfinite(state.server["w"]).all())


def test_a_silent_site_costs_one_wait_and_may_return(consortium, log):
    spoil = {1: spoiler(lambda answer: None, rounds=[1])}
    grid = consortium.grid("fedavg", spoil, rounds=4, **{"min-sites": 2, "round-timeout": 0.5})
    state = conduct(grid)
    expected = only(consortium, grid.run_config, [[0, 1, 2], [0, 2], [0, 1, 2], [0, 1, 2]])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)
    silent = [r.getMessage() for r in log.records if "did not answer" in r.getMessage()]
    assert silent == ["pfedfair: site 'site 1' did not answer (limit 0.5 s)"]


def test_a_site_that_comes_back_at_another_node_has_its_old_number(consortium, log):
    grid = consortium.grid("ditto", rounds=3, **{"min-sites": 2})

    def moves(message, answer):
        if message.metadata.group_id == "1":
            grid.add(200, dict(grid.contexts.pop(101).node_config))
        return answer

    grid.spoil[102] = moves  # the last to be asked
    state = conduct(grid)
    fitted = reference(consortium.federation, grid)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)
    torch.testing.assert_close(consortium.theta(1), fitted.theta[1], atol=1e-5, rtol=0)
    assert any("'site 1' is now node 200" in r.getMessage() for r in log.records)


def test_a_site_that_joins_late(consortium, log):
    grid = consortium.grid("fedavg", rounds=3, sites=2)
    late = dict(grid.contexts.pop(102).node_config)

    def joins(message, answer):
        if message.metadata.group_id == "1":
            grid.add(102, late)
        return answer

    grid.spoil[101] = joins
    state = conduct(grid)
    assert [place.name for place in state.sites] == ["site 0", "site 1", "site 2"]
    assert any("'site 2' joins as number 2" in r.getMessage() for r in log.records)
    assert (consortium.folder / "state2" / "model" / "run.json").exists()


def test_methods_with_a_weight_for_every_client_use_a_missing_sites_last_answer(consortium, log):
    spoil = {1: spoiler(lambda answer: None, rounds=[1])}
    grid = consortium.grid("fairfed", spoil, rounds=3, **{"min-sites": 2, "round-timeout": 0.5})
    state = conduct(grid)
    assert state.server["weights"].shape == (3,)
    assert bool(torch.isfinite(state.server["w"]).all())


@pytest.mark.parametrize("missed", [1, 2, 3], ids=["training", "counting", "agreeing"])
def test_a_base_with_weights_may_miss_a_site_in_any_round(consortium, log, missed):
    """The last answer of a round of another kind does not stand in for one."""
    spoil = {1: spoiler(lambda answer: None, rounds=[missed])}
    more = {"options": {"base": "fairfed", "bins": 20}, "min-sites": 2, "round-timeout": 0.5}
    state = conduct(consortium.grid("transport", spoil, **more))
    assert state.done == 4  # two to train, one to count, one to agree
    assert "prior" in state.server


def test_they_need_everybodys_first_answer_and_refuse_late_ones(consortium, log):
    spoil = {1: spoiler(lambda answer: None, rounds=[0])}
    grid = consortium.grid("fairfed", spoil, **{"min-sites": 2, "round-timeout": 0.2})
    with pytest.raises(pff.InputError, match="needs every site's first answer; site 1 did not"):
        conduct(grid)
    del grid.spoil[101]
    state = Conductor(grid, Settings.read(grid.run_config)).run()  # the same command tries again
    assert state.done == 2


def test_too_few_sites_is_an_error_with_an_end(consortium):
    grid = consortium.grid("fedavg", sites=4, wait=0.3)
    with pytest.raises(
        pff.InputError, match=r"After 0.3 seconds 3 of at least 4 sites are here \(site 0, site 1"
    ):
        conduct(grid)


def test_nobody_is_waited_for_if_all_sites_refuse(consortium):
    grid = consortium.grid("fedavg", wait=60.0)
    for context in grid.contexts.values():
        context.node_config["data"] = "gone.parquet"
    began = time.monotonic()
    with pytest.raises(pff.InputError, match=r"All 3 sites .* none can take part: InputError at"):
        conduct(grid)
    assert time.monotonic() - began < 30


def test_fewer_sites_will_do_if_asked(consortium, log):
    conduct(consortium.grid("fedavg", sites=4, wait=0.2, **{"min-sites": 3}))
    assert any("going on with 3 of 4 sites" in r.getMessage() for r in log.records)


def test_too_few_good_answers_twice_is_an_error(consortium):
    spoil = {1: spoiler(lambda answer: changed(answer, "w", lambda w: w * np.float32("nan")))}
    with pytest.raises(pff.InputError, match="Round 1 had 2 good answers twice, 3 are needed"):
        conduct(consortium.grid("fedavg", spoil))


def table_of(consortium, i, change):
    for kind in ("train", "test"):
        path = consortium.folder / f"{kind}{i}.parquet"
        change(pd.read_parquet(path)).to_parquet(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.rename(columns={"b": "bb"}), "column 'b' is missing"),
        (lambda f: f.assign(c=f["c"].round().map("c {}".format)), "column 'c' has words in it"),
        (lambda f: f.assign(colour=1.0), "column 'colour' has numbers in it"),
        (lambda f: f.assign(more=1.0), "column 'more' is not one of the agreed"),
        (lambda f: f.assign(sex=f["sex"].str.upper()), "'sex' has the values F and M"),
        (lambda f: f.assign(hired=f["hired"].map(str) + "!"), "the label column 'hired'"),
    ],
    ids=["name", "words", "numbers", "more", "groups", "labels"],
)
def test_a_site_with_another_table_is_refused_by_column(consortium, log, change, words):
    table_of(consortium, 1, change)
    grid = consortium.grid("fedavg", **{"min-sites": 2})
    state = conduct(grid)
    assert [place.name for place in state.sites] == ["site 0", "site 2"]
    texts = [r.getMessage().replace("the sensitive column ", "") for r in log.records]
    assert any(f"'site 1' is refused: {words}" in text for text in texts)
    other = {"out": str(consortium.folder / "strict"), "min-sites": 3}
    grid.run_config.update(other)
    with pytest.raises(pff.InputError, match=f"2 sites have the same table, 3 are needed.*{words}"):
        conduct(grid)


def test_a_late_site_with_another_table_is_refused(consortium, log):
    table_of(consortium, 2, lambda f: f.rename(columns={"a": "alpha"}))
    grid = consortium.grid("fedavg", rounds=2, sites=2)
    late = dict(grid.contexts.pop(102).node_config)
    grid.spoil[101] = spoiler(lambda answer: grid.add(102, late) or answer, rounds=[0])
    state = conduct(grid)
    assert len(state.sites) == 2
    assert any("'site 2' is refused: column 'a' is missing" in r.getMessage() for r in log.records)


@pytest.mark.parametrize("method", ["ditto-kde", "fairfed", "transport"])
def test_a_killed_server_goes_on_to_the_same_weights(consortium, method, monkeypatch):
    """It dies after the sites have done round 3 and before that is on disk."""
    grid = consortium.grid(method, rounds=4)
    save = checkpoint.Checkpoint.save

    def dies(self, folder):
        if self.done == 3:
            raise KeyboardInterrupt
        save(self, folder)

    monkeypatch.setattr(checkpoint.Checkpoint, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        conduct(grid)
    monkeypatch.setattr(checkpoint.Checkpoint, "save", save)
    for context in grid.contexts.values():  # the sites were restarted as well
        for name in list(context.state):
            del context.state[name]
    state = conduct(grid)
    fitted = reference(consortium.federation, grid)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)
    for i, theta in enumerate(fitted.theta):
        torch.testing.assert_close(consortium.theta(i), theta, atol=1e-5, rtol=0)


@contextmanager
def full_disk():
    """Nothing of more than 100 bytes can be written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, kept)


def test_a_server_whose_disk_is_full_goes_on_to_the_same_weights(consortium, monkeypatch):
    grid = consortium.grid("ditto-kde", rounds=3)
    save = checkpoint.Checkpoint.save

    def fails(self, folder):
        with full_disk() if self.done == 2 else nullcontext():
            save(self, folder)

    monkeypatch.setattr(checkpoint.Checkpoint, "save", fails)
    with pytest.raises(Exception, match="File too large"):
        conduct(grid)
    monkeypatch.setattr(checkpoint.Checkpoint, "save", save)
    out = consortium.folder / "out-ditto-kde"
    assert checkpoint.Checkpoint.load(out).done == 1
    assert not list(out.glob(".*"))  # nothing half-written
    state = conduct(grid)
    fitted = reference(consortium.federation, grid)
    torch.testing.assert_close(state.server["w"], fitted.w, atol=1e-5, rtol=0)


def test_a_site_whose_disk_is_full_is_left_out_and_comes_back(consortium, log, monkeypatch):
    remember = memory.remember

    def fails(folder, held, key, done, own):
        with full_disk() if folder.name == "state1" and done == 2 else nullcontext():
            remember(folder, held, key, done, own)

    monkeypatch.setattr(memory, "remember", fails)
    grid = consortium.grid("fedavg", rounds=3, **{"min-sites": 2})
    state = conduct(grid)
    assert any("'site 1' failed: " in r.getMessage() for r in log.records)
    expected = only(consortium, grid.run_config, [[0, 1, 2], [0, 2], [0, 1, 2]])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)


def test_another_run_in_the_same_folder_is_refused(consortium):
    grid = consortium.grid("fedavg")
    conduct(grid)
    grid.run_config["seed"] = 1
    with pytest.raises(pff.InputError, match="holds another run"):
        conduct(grid)


def leaves(grid, node, looks):
    """A node that goes after the first round, and is back after so many looks for it."""
    away, seen = [], []

    def goes(message, answer):
        if message.metadata.message_type == "train":
            away.append(grid.contexts.pop(node))
        return answer

    def look():
        seen.extend(away)
        if away and len(seen) == looks:
            grid.contexts[node] = away[0]
        return list(grid.contexts)

    grid.spoil[node], grid.get_node_ids = goes, look


def test_a_site_that_returns_before_the_end_of_the_wait_gets_its_model(consortium, log):
    grid = consortium.grid("ditto", rounds=1, **{"min-sites": 2})
    leaves(grid, 102, looks=20)
    conductor = Conductor(grid, Settings.read(grid.run_config))
    conductor.run()
    assert conductor.without_model == {}
    assert (consortium.folder / "state2" / "model" / "run.json").exists()
    asked = [m.metadata.dst_node_id for m in grid.sent if m.metadata.message_type[6:] == "finish"]
    assert asked == [100, 101, 102]  # no site makes a model twice
    texts = [r.getMessage() for r in log.records]
    assert any("'site 2' has no personal model: it is not here." in text for text in texts)


@pytest.mark.parametrize("how", ["away", "fails"])
def test_the_status_names_a_site_without_its_model(consortium, log, how):
    grid = consortium.grid("ditto", rounds=1, wait=0.2, **{"min-sites": 2})
    if how == "away":
        leaves(grid, 102, looks=10**9)
    out = consortium.folder / "out-ditto"
    out.mkdir()
    if how == "fails":  # from the second message on
        broken = consortium.folder / "train2.parquet"
        whole = broken.read_bytes()
        kinds = {"query.describe": whole, "train": b"", "train.finish": b""}

        def breaks(message, answer):
            broken.write_bytes(kinds[message.metadata.message_type])
            return answer

        grid.spoil[102] = breaks
    context = Context(1, 1, {}, RecordDict(), grid.run_config)
    server_app.conduct(grid, context, out)
    report = json.loads((out / "status.json").read_text())
    assert report["done"] is False
    assert list(report["lacking"]) == ["site 2"]
    why = "it is not here." if how == "away" else "at the site; its own log says more."
    assert report["lacking"]["site 2"].endswith(why)
    assert report["error"].startswith("Site 'site 2' has no model: ")
    assert (out / "model.safetensors").exists()
    assert (consortium.folder / "state0" / "model" / "run.json").exists()


def test_a_site_cannot_take_the_name_of_anothers_key(consortium, log):
    grid = consortium.grid("fedavg", rounds=1, wait=0.2, **{"min-sites": 2})
    names = {100: "site 0", 101: "site 1", 102: ""}  # whose keys are registered by a name
    grid.get_nodes = lambda: [NodeInfo(node_id=k, name=v) for k, v in names.items()]
    grid.contexts[101].node_config["site"] = "site 0"
    state = conduct(grid)
    assert [place.name for place in state.sites] == ["site 0", "site 2"]
    words = "its key is registered as 'site 1', it calls itself 'site 0'"
    assert any(words in r.getMessage() for r in log.records)


def test_a_name_cannot_write_in_the_log_of_others(consortium, log):
    """Codes and line ends in what a site says stay within its line."""

    def shouts(message, answer):
        if message.metadata.message_type == "query.describe":
            config = answer.content.config_records["config"]
            name = "x\x1b[2J\npfedfair: the run is done"
            config["description"] = json.dumps(json.loads(config["description"]) | {"site": name})
        return answer

    conduct(consortium.grid("fedavg", {1: shouts}, rounds=1, wait=0.2, **{"min-sites": 2}))
    texts = [r.getMessage() for r in log.records]
    assert all("\x1b" not in text and "\n" not in text for text in texts)
    assert any("is refused: its name has characters that cannot be shown" in t for t in texts)


def test_a_finished_run_only_asks_for_the_models_again(consortium):
    grid = consortium.grid("pfedfair")
    conduct(grid)
    before = len(grid.sent)
    conduct(grid)
    kinds = [message.metadata.message_type for message in grid.sent[before:]]
    assert set(kinds) == {"query.describe", "train.finish"}


def test_local_rounds_are_the_sites_own_rounds(consortium):
    """Three rounds at a site in one message: one server round of three local ones."""
    grid = consortium.grid("fedavg-kde", rounds=6, **{"local-rounds": 3})
    state = conduct(grid)
    federation = consortium.federation
    algorithm = make_algorithm(grid.run_config)
    network = choose_network(federation, algorithm)
    server = {"w": network.init(seeds.generator(0, seeds.INIT))}
    for t in (0, 3):
        sent = []
        for i, rows in enumerate(federation.partition.train):
            one = Clients(network, federation.table, [rows], [i], 0)
            local = server["w"]
            for k in range(3):
                local = algorithm.client_round({"w": local}, {}, one, t + k)[0]["w"][0]
            sent.append(local)
        server = algorithm.server_round(server, {"w": torch.stack(sent)}, torch.ones(3))
    torch.testing.assert_close(state.server["w"], server["w"], atol=1e-6, rtol=0)
    assert sum(m.metadata.message_type == "train" for m in grid.sent) == 3 * 2


@pytest.mark.parametrize("method", ["transport", "logofair", "fairfed", "mmpf", "fa", "fcfl"])
def test_local_rounds_with_methods_that_send_more(consortium, method):
    grid = consortium.grid(method, rounds=5, **{"local-rounds": 3})
    state = conduct(grid)
    assert state.done == total_rounds(make_algorithm(grid.run_config).phases)
    assert bool(torch.isfinite(state.server["w"]).all())


def test_local_rounds_end_with_their_phase(consortium):
    federation = consortium.federation
    algorithm = pff.make("logofair", {"rounds": 3, "batch": 30})
    network = choose_network(federation, algorithm)
    w = network.init(seeds.generator(0, seeds.INIT))
    rows = [federation.partition.train[0]]
    one, phase = Clients(network, federation.table, rows, [0], 0), algorithm.phases[0]
    message, _, done = play_rounds(
        phase, phase.start_server({"w": w}, torch.ones(3)), {}, one, 0, 9
    )
    assert (set(message), done) == ({"w"}, 3)


@pytest.mark.parametrize(("how", "sites"), [("trimmed-mean", 3), ("krum", 5)])
def test_robust_averages_are_flowers_own(how, sites, tmp_path):
    frame = people(sizes=(60,) * sites)
    data = pff.from_frame(frame, "hired", "sex", drop=["site"], encoding="standard")
    consortium = Consortium(data.federate(pff.partition.by_column("site")), tmp_path)
    little = spoiler(lambda answer: changed(answer, "w", lambda w: w + np.float32(0.1)))
    grid = consortium.grid("fedavg", {1: little}, aggregate=how)
    state = conduct(grid)
    honest = only(consortium, grid.run_config, [[i for i in range(sites) if i != 1]] * 2)
    assert float((state.server["w"] - honest).abs().mean()) < 0.01  # a mean: 0.02 or more


def test_robust_averages_and_privacy_are_for_methods_that_send_their_model_only(consortium):
    for more in ({"aggregate": "krum"}, {"clip": 1.0}):
        out = str(consortium.folder / f"out-{next(iter(more))}")
        with pytest.raises(pff.InputError, match="Transport sends more"):
            conduct(consortium.grid("transport", out=out, **more))


def test_clipping_bounds_every_sites_update(consortium):
    grid = consortium.grid("fedavg", rounds=1, clip=1e-3)
    norms = []

    def look(message, answer):
        if message.metadata.message_type == "train":
            before = message.content.array_records["arrays"]["w"].numpy()
            after = answer.content.array_records["arrays"]["w"].numpy()
            norms.append(float(np.linalg.norm(after - before)))
        return answer

    grid.spoil = dict.fromkeys(grid.contexts, look)
    conduct(grid)
    assert norms == pytest.approx([1e-3] * 3, rel=1e-2)


def test_noise_has_the_size_that_epsilon_asks_for(consortium, log):
    more = {"clip": 1e-3, "epsilon": 0.5, "delta": 1e-5, "hidden": "128,64"}  # many draws
    grid = consortium.grid("fedavg", rounds=1, **more)
    seen = []

    def look(message, answer):
        if message.metadata.message_type == "train":
            before = message.content.array_records["arrays"]["w"].numpy()
            seen.append(answer.content.array_records["arrays"]["w"].numpy() - before)
        return answer

    grid.spoil = dict.fromkeys(grid.contexts, look)
    conduct(grid)
    expected = 2e-3 * 7.66716
    draws = np.concatenate(seen)
    assert len(draws) > 5000  # so that 0.07 is seven standard errors: the noise has no seed
    assert np.std(draws) == pytest.approx(expected, rel=0.07)
    assert any("for all 1 epsilon 0.5 and delta 1e-05" in r.getMessage() for r in log.records)
    cost = "answers with noise so far: 1; in total they cost epsilon 0.500 of 1000 (delta 1e-05)"
    assert sum(cost in r.getMessage() for r in log.records) == 3  # in each site's own log


def test_twenty_answers_of_a_half_are_not_ten():
    given = {"method": "fedavg", "clip": 1.0, "epsilon": 0.5, "delta": 1e-5}
    spent = Settings.read(defaults() | given).spent(20)
    assert spent["epsilon"] == pytest.approx(2.131, abs=1e-3)
    assert spent["delta"] == pytest.approx(2e-4)


def test_the_sites_own_privacy_settings_win(consortium):
    grid = consortium.grid("fedavg", rounds=1)
    grid.contexts[100].node_config["clip"] = 1e-4
    moved = {}

    def look(message, answer):
        if message.metadata.message_type == "train":
            before = message.content.array_records["arrays"]["w"].numpy()
            after = answer.content.array_records["arrays"]["w"].numpy()
            moved[message.metadata.dst_node_id] = float(np.linalg.norm(after - before))
        return answer

    grid.spoil = dict.fromkeys(grid.contexts, look)
    conduct(grid)
    assert moved[100] == pytest.approx(1e-4, rel=1e-2)
    assert moved[101] > 1e-3


def test_transports_noise_cannot_be_guessed_from_the_runs_seed(consortium):
    counts = []

    def look(message, answer):
        if message.metadata.group_id == "3" and message.metadata.message_type == "train":
            counts.append(answer.content.array_records["arrays"]["trained"].numpy())
        return answer

    for more in ({}, {"epsilon": 1.0}):
        grid = consortium.grid("transport", options={"bins": 20, **more}, out=str(
            consortium.folder / f"out{len(more)}"
        ))  # fmt: skip
        grid.spoil = {100: look}
        conduct(grid)
        for i in range(3):  # the same run, at a site with another secret
            (consortium.folder / f"state{i}" / "secret").unlink(missing_ok=True)
        again = dict(grid.run_config, out=str(consortium.folder / f"again{len(more)}"))
        for context in grid.contexts.values():
            context.run_config = again
        grid.run_config = again
        conduct(grid)
    plain, plain_again, noisy, noisy_again = counts
    np.testing.assert_array_equal(plain, plain_again)
    assert np.abs(noisy - noisy_again).max() >= 1
    secret = consortium.folder / "state0" / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600


def test_transports_noise_does_not_cancel_between_runs(consortium):
    """The same settings again, with another model: the difference tells no counts."""
    sent = []

    def look(message, answer):
        if message.metadata.group_id == "3" and message.metadata.message_type == "train":
            sent.append(answer.content.array_records["arrays"]["trained"].numpy())
        return answer

    missing = spoiler(lambda answer: None, rounds=[0])
    for name, spoil in (("one", {}), ("two", {2: missing})):
        grid = consortium.grid(
            "transport", spoil, options={"bins": 20, "epsilon": 0.1},
            out=str(consortium.folder / name), **{"min-sites": 2, "round-timeout": 0.2},
        )  # fmt: skip
        grid.spoil[100] = look
        conduct(grid)
    assert np.std(sent[1] - sent[0]) > 10  # counts are below 10; two noises have 20


def test_epsilon_without_clip_is_refused_at_the_site(consortium, log):
    grid = consortium.grid("fedavg", rounds=1, **{"min-sites": 2})
    grid.contexts[100].node_config["epsilon"] = 0.5
    conduct(grid)
    texts = [r.getMessage() for r in log.records]
    assert any("epsilon needs clip" in text for text in texts)  # in its own log
    assert any("site 'site 0' failed: InputError at the site" in text for text in texts)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"epsilon": 0.5}, "epsilon needs clip"),
        ({"clip": 1.0, "epsilon": 1e-4}, "at least 0.001, got 0.0001"),
        ({"clip": 1.0, "epsilon": 0.5, "delta": 2.0}, "delta must be between 0 and 1"),
        ({"clip": -1.0}, "0 .none. or positive"),
    ],
)
def test_privacy_that_cannot_be_had_is_refused(consortium, more, words):
    with pytest.raises(pff.InputError, match=words):
        conduct(consortium.grid("fedavg", **more))


def test_the_docs_noise_is_not_refused(consortium, log):
    """Large noise moves a model far."""
    conduct(consortium.grid("fedavg", rounds=1, clip=1.0, epsilon=0.5))
    assert not any("is refused" in r.getMessage() for r in log.records)


def test_another_question_to_a_finished_run_is_refused(consortium):
    for more in ({"blind": True}, {"hidden": "8"}):
        grid = consortium.grid("fedavg", rounds=1)
        conduct(grid)
        grid.run_config.update(more)
        with pytest.raises(pff.InputError, match="holds another run"):
            conduct(grid)


def test_the_same_settings_again_are_another_run(consortium):
    """What a site kept of the first is not taken for the second's."""
    grid = consortium.grid("ditto-kde", rounds=2)
    first = conduct(grid)
    grid.run_config["out"] = str(consortium.folder / "again")
    second = conduct(grid)
    assert first.key == second.key
    assert first.name != second.name
    torch.testing.assert_close(first.server["w"], second.server["w"])
    kept = sorted(path.parent.name for path in (consortium.folder / "state0").glob("*/own-*"))
    assert kept == sorted([first.name, second.name] * 2)


def test_a_malformed_answer_is_not_preferred_to_a_model(consortium, log):
    def renamed(answer):
        arrays = answer.content.array_records["arrays"]
        answer.content["arrays"] = ArrayRecord({"x": arrays["w"]})
        return answer

    grid = consortium.grid("fedavg", {0: spoiler(renamed)}, sites=2, **{"min-sites": 1})
    del grid.contexts[102]
    state = conduct(grid)
    assert "w" in state.server
    assert any("'site 0' is refused: it has 'x'" in r.getMessage() for r in log.records)


def test_a_model_of_another_kind_is_refused(consortium, log):
    spoil = {1: spoiler(lambda answer: changed(answer, "w", lambda w: w.astype("f8")))}
    conduct(consortium.grid("fedavg", spoil, **{"min-sites": 2}))
    assert any("'w' has numbers of kind torch.float64" in r.getMessage() for r in log.records)


def test_a_resumed_run_waits_for_everybody(consortium, log):
    grid = consortium.grid("fedavg", rounds=2, wait=0.3, **{"min-sites": 2})
    conduct(grid)
    grid.run_config["wait"] = 0.3
    late = grid.contexts.pop(102)
    conduct(grid)
    assert any("going on with 2 of 3 sites" in r.getMessage() for r in log.records)
    grid.contexts[102] = late
    conduct(grid)


def test_names_of_people_are_no_categories(consortium, log):
    table_of(consortium, 1, lambda f: f.assign(colour=[f"person {i}" for i in range(len(f))]))
    state = conduct(consortium.grid("fedavg"))
    assert [place.name for place in state.sites] == ["site 0", "site 1", "site 2"]
    assert "person" not in state.schema.to_json()  # they are others there, all of them


def test_a_new_client_gets_its_rule_from_the_servers_folder(consortium):
    from pfedfair.engines.flower.server_app import save

    grid = consortium.grid("transport", rounds=3)
    settings = Settings.read(grid.run_config)
    save(settings, conduct(grid))
    rows = pd.read_parquet(consortium.folder / "test0.parquet")
    model = pff.personalise(settings.out, rows)
    assert len(model.decide(rows, sensitive_features=rows["sex"])) == len(rows)
    assert "theta" not in load_file(settings.out / "model.safetensors")
