"""Files that were cut, swapped or changed: one sentence each, never a traceback."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import pfedfair as pff
from made_bits import flips


@pytest.fixture(scope="module")
def whole(federation, tmp_path_factory):
    out = tmp_path_factory.mktemp("damage") / "run"
    settings = {"rounds": 4, "agree": 1, "batch": 40, "base": pff.methods.FedAvg(alpha=0.1)}
    pff.train(federation, pff.methods.Transport(**settings)).save(out)
    return out


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def refused(folder, message):
    for read in (lambda: pff.load_model(folder, 0), lambda: pff.load_run(folder)):
        with pytest.raises(pff.InputError, match=message) as found:
            read()
        assert "\n" not in str(found.value)
        assert str(found.value).endswith(".")


WEIGHTS = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-40]), "is damaged, or no file of"),
    "empty": (lambda path: path.write_bytes(b""), "is damaged, or no file of models"),
    "text": (lambda path: path.write_text("hello, this is no model"), "is damaged, or no file of"),
    "gone": (lambda path: path.unlink(), r"has no model\.safetensors: copy the whole folder"),
}


@pytest.mark.parametrize("how", WEIGHTS)
def test_a_file_of_weights_that_is_none(folder, how):
    damage, message = WEIGHTS[how]
    damage(folder / "model.safetensors")
    refused(folder, message)


def with_nan(tensor):
    tensor = tensor.clone()
    tensor[0, 0] = float("nan")
    return tensor


TENSORS = {
    "another model": (lambda t: {"weight": torch.zeros(3)}, "lacks"),
    "no theta": (lambda t: {k: v for k, v in t.items() if k != "theta"}, "lacks 'theta'"),
    "no rules": (lambda t: {k: v for k, v in t.items() if k != "rule"}, "lacks 'rule'"),
    "another size": (lambda t: t | {"theta": t["theta"][:, :-1].clone()}, "'theta' has the shape"),
    "other clients": (lambda t: t | {"theta": t["theta"].repeat(2, 1)}, "'theta' has the shape"),
    "fewer rules": (lambda t: t | {"rule": t["rule"][:1].clone()}, "1 rules for 3 clients"),
    "not numbers": (lambda t: t | {"theta": with_nan(t["theta"])}, "no finite numbers"),
    "infinite": (lambda t: t | {"w": t["w"] / 0}, "no finite numbers"),
    "rule of none": (lambda t: t | {"rule": t["rule"] * float("nan")}, "no numbers"),
}


@pytest.mark.parametrize("how", TENSORS)
def test_weights_that_are_others(folder, how):
    change, message = TENSORS[how]
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path)
    refused(folder, message)


def test_numbers_that_were_changed_or_added_do_not_load_in_silence(folder):
    """Each is a file of models that could be read: it is not the one that was written."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    changes = {name: {name: t + 1} for name, t in tensors.items()}
    changes["more"] = {"more": torch.ones(3)}
    for change in changes.values():
        save_file(tensors | change, path)
        refused(folder, "its checksum is not the one in run.json")


def test_one_lost_bit_is_noticed(folder):
    path = folder / "model.safetensors"
    for flipped in flips(path, tries=25):
        path.write_bytes(flipped)
        refused(folder, r"model\.safetensors is damaged")


def test_an_older_folder_has_no_checksum_and_is_read(folder):
    card = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(drop(card, "sha256")))
    pff.load_run(folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    wide = torch.cat([tensors["rule"]] * 2, -1)
    save_file(tensors | {"rule": wide}, path)  # a surplus of numbers
    refused(folder, "is damaged")


CARDS = {
    "a list": (lambda card: [1, 2], "is damaged"),
    "a number": (lambda card: 3, "is damaged"),
    "no encoder": (lambda card: drop(card, "encoder"), "lacks 'encoder'"),
    "no clients": (lambda card: drop(card, "clients"), "lacks 'clients'"),
    "no kinds": (lambda card: drop(card, "kinds"), "lacks 'kinds'"),
    "an unknown network": (lambda card: card | {"network": {"kind": "brain"}}, "Unknown saved"),
    "another network": (
        lambda card: card | {"network": card["network"] | {"inputs": 3}}, "has the shape"),
    "another encoder": (
        lambda card: card | {"encoder": card["encoder"] | {"categories": {}}}, "is damaged"),
    "a network of words": (
        lambda card: card | {"network": card["network"] | {"inputs": "x"}}, "is damaged"),
    "a layer too many": (
        lambda card: card | {"network": card["network"] | {"layers": 3}}, "is damaged"),
    "names of numbers": (lambda card: card | {"clients": [1, 2, 3]}, "clients must be a list of"),
    "one name": (lambda card: card | {"group_names": ["f"]}, "group_names has 1 names for 2"),
    "a name": (lambda card: card | {"label_names": "ab"}, "label_names must be a list of names"),
    "kinds of kinds": (lambda card: card | {"kinds": {"sorts": 2}}, "is damaged"),
}  # fmt: skip


def drop(card, key):
    return {name: value for name, value in card.items() if name != key}


@pytest.mark.parametrize("how", CARDS)
def test_cards_that_are_wrong(folder, how):
    change, message = CARDS[how]
    path = folder / "run.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    refused(folder, message)


ODD = [None, -1, 2.5, "x", [], [None], {}, {"kind": 1}, [["a"]], True]


def test_any_key_of_a_card_may_be_anything(folder):
    """No traceback, whatever stands where: it is refused, or does no harm."""
    path = folder / "run.json"
    card = json.loads(path.read_text())
    before = pff.load_run(folder).table()
    for key in card:
        for odd in ODD:
            path.write_text(json.dumps(card | {key: odd}))
            try:
                run = pff.load_run(folder)
                table = run.table()
                run.personal_model(0).words()
                run.retarget(target_ddp=0.3)
            except pff.InputError as error:
                assert str(error).endswith(".")  # noqa: PT017
                continue
            assert key not in ("clients", "seed", "kinds", "rule", "network"), (key, odd)
            assert list(table["accuracy"]) == list(before["accuracy"]), (key, odd)


def test_files_have_the_mode_of_all_others(whole):
    modes = {path.stat().st_mode & 0o777 for path in whole.iterdir()}
    assert modes == {(whole / "run.json").stat().st_mode & 0o777}


def test_names_are_names_and_positions_are_positions(tmp_path):
    """Clients are called 2, 11 and 7: a text is a name, a number is a position."""
    rng = np.random.default_rng(0)
    frame = pff.load("compas").frame.head(90)[["age", "sex", "two_year_recid"]]
    frame = frame.assign(site=np.tile(["2", "11", "7"], 30), x=rng.normal(size=90))
    data = pff.from_frame(frame, "two_year_recid", "sex")
    run = pff.train(data.federate(pff.partition.by_column("site")), pff.make("erm-local"))
    run.save(tmp_path)
    names = run.federation.partition.names
    for position, name in enumerate(names):
        theta = run.fitted.theta[position]
        for client in (name, np.str_(name), position, np.int64(position), np.uint8(position)):
            assert run.personal_model(client).name == name
            assert torch.equal(pff.load_model(tmp_path, client).predictor.theta, theta)
    for client, message in (
        (3, "no client 3: positions go from 0 to 2"),
        (11, "no client 11: positions go from 0 to 2"),
        (-1, "no client -1"),
        ("3", "no client '3': the names are"),
        (True, "by its name, a text, or its position; got True"),
        (2.0, "by its name, a text, or its position; got 2.0"),
        (None, "by its name"),
    ):
        with pytest.raises(pff.InputError, match=message):
            run.personal_model(client)
