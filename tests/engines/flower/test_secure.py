"""Secure sums with real keys, shares and masks: what they give, who may be lost, what is seen."""

import itertools
import json
import logging
import secrets
from collections import Counter

import numpy as np
import pytest
import torch
from cryptography.fernet import InvalidToken
from flower_sites import Consortium, only
from flwr.app import ConfigRecord
from safetensors import safe_open
from scipy.stats import chisquare
from secure_sites import Cohort

import pfedfair as pff
from made_people import people
from pfedfair.engines.flower import keys
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.flower.participants import Participants
from pfedfair.engines.flower.partner import Partner, note_sum
from pfedfair.engines.flower.records import pack, unpack
from pfedfair.engines.site import checkpoint
from pfedfair.engines.site.masking import Scale, mask, pair_masks, quantise
from pfedfair.engines.site.policy import PolicyError
from pfedfair.engines.site.settings import Settings, make_algorithm

STAGES = ["query.keys", "query.shares", "train", "query.sign", "query.unmask"]
LATE = STAGES[3:]  # a site that is lost there is in the sum
SECURE = {"secure-sum": True, "round-timeout": 0.4}
SOME = {"session": "s", "sums": 1}
WIDE = "16,16"  # a network with some hundred weights


@pytest.fixture(scope="module")
def five() -> pff.Federation:
    table = pff.from_frame(
        people((90, 60, 130, 80, 70)), "hired", "sex", drop=["site"], encoding="standard"
    )
    return table.federate(pff.partition.by_column("site"), seed=3)


@pytest.fixture
def consortium(five, tmp_path) -> Consortium:
    return Consortium(five, tmp_path)


@pytest.fixture
def log(caplog):
    """Flower's logger passes nothing on by itself."""
    logger = logging.getLogger("flwr")
    before = logger.propagate
    logger.propagate = True
    caplog.set_level(logging.INFO, "flwr")
    yield caplog
    logger.propagate = before


@pytest.fixture
def same_chance(monkeypatch):
    """Keys and seeds that are the same in every run of a test."""
    draw = np.random.default_rng(7)
    monkeypatch.setattr(keys, "new_private_key", lambda: draw.bytes(31).rjust(32, b"\1"))
    monkeypatch.setattr(secrets, "token_bytes", draw.bytes)


class Rounds(Conductor):
    """All rounds, without personal models at the end."""

    def finish(self, state):
        pass


def conduct(grid, whole=False, participants=Participants):
    settings = Settings.read(grid.run_config)
    conductor = (Conductor if whole else Rounds)(grid, settings)
    conductor.participants = participants(grid, settings)
    return conductor.run()


def messages(log):
    return [record.getMessage() for record in log.records]


# --- what comes of it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "weighting"),
    [("pfedfair", "uniform"), ("fedavg", "size"), ("transport", "size"), ("newton", "size")],
)
def test_the_run_is_that_without_masks(consortium, method, weighting):
    states = []
    for secure in (False, True):
        out = str(consortium.folder / f"{secure}")
        options = {"weighting": weighting} if method != "transport" else {}
        grid = consortium.grid(method, rounds=2, options=options, out=out, **{"secure-sum": secure})
        states.append(conduct(grid).server)
    plain, summed = states
    assert set(plain) == set(summed)
    for name in plain:
        torch.testing.assert_close(summed[name], plain[name], atol=2e-6, rtol=1e-6)
    if method == "transport":  # counts are whole numbers: not a digit is lost
        assert torch.equal(plain["everybody"], summed["everybody"])
        assert torch.equal(plain["eta"], summed["eta"])


def test_a_round_is_three_messages_and_keys_are_made_once(consortium):
    """And sites vote after 1, 2, 4, ... rounds and after the last."""
    grid = consortium.grid("fedavg", rounds=6, **SECURE)
    conduct(grid)
    kinds = Counter(message.metadata.message_type for message in grid.sent)
    assert kinds == {"query.describe": 5, "query.keys": 5, "query.shares": 5, "train": 30,
                     "query.sign": 30, "query.unmask": 30, "query.vote": 20}  # fmt: skip
    votes = [message for message in grid.sent if message.metadata.message_type == "query.vote"]
    assert sorted({message.metadata.group_id for message in votes}) == ["1", "2", "4", "6"]


def lost(stage, number=2):
    """A site whose answer to one kind of message does not arrive, in one round."""

    def spoil(message, answer):
        about = message.metadata
        return None if (about.message_type, about.group_id) == (stage, str(number)) else answer

    return spoil


@pytest.mark.parametrize("stage", STAGES)
def test_a_site_that_is_lost_is_left_out_of_the_sum(consortium, log, stage):
    """Before its keys, its shares, its numbers; after these it is in the sum. It may return."""
    grid = consortium.grid("fedavg", {2: lost(stage, 1)}, rounds=2, **SECURE, **{"min-sites": 3})
    state = conduct(grid)
    rest = [0, 1, 3, 4] if stage not in LATE else [0, 1, 2, 3, 4]
    rounds = [rest, list(range(5))]
    expected = only(consortium, grid.run_config, rounds)
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)
    everybody = only(consortium, grid.run_config, [list(range(5))] * 2)
    assert torch.equal(expected, everybody) == (stage in LATE)
    without = "pfedfair: the sum is without site 'site 2'" in messages(log)
    assert without == (stage not in LATE)
    again = "pfedfair: site 'site 2' dealt no shares: new keys without it" in messages(log)
    assert again == (stage == "query.shares")


def test_two_that_are_lost_at_once_are_left_out(consortium):
    """Before their keys are there; of five that have dealt shares, four must open the sum."""
    spoil = {0: lost("query.keys", 1), 3: lost("query.keys", 1)}
    grid = consortium.grid("fedavg", spoil, rounds=2, **SECURE, **{"min-sites": 3})
    state = conduct(grid)
    expected = only(consortium, grid.run_config, [[1, 2, 4], [0, 1, 2, 3, 4]])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)


def test_with_too_few_left_nothing_is_opened_and_the_round_comes_again(consortium, log):
    """Two of five are left out; three are needed for a sum, or four if so asked."""
    grid = consortium.grid("fedavg", {0: lost("train"), 3: lost("train")}, rounds=2, **SECURE,
                           **{"min-sites": 4})  # fmt: skip
    with pytest.raises(pff.InputError, match="Round 2 could not be added up twice"):
        conduct(grid)
    words = "pfedfair: round 2 could not be added up: 3 sites have sent numbers, 4 are needed"
    assert words in messages(log)
    asked = [m.metadata for m in grid.sent if m.metadata.message_type == "query.unmask"]
    assert {one.group_id for one in asked} == {"1"}
    grid.spoil.clear()
    state = conduct(grid)  # the same command goes on
    expected = only(consortium, grid.run_config, [list(range(5))] * 2)
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("all_back", [True, False])
def test_a_killed_server_goes_on_if_the_same_sites_are_there(
    consortium, log, monkeypatch, all_back
):
    """Killed after the sum was opened, before it was on disk: other sites would tell of some."""
    grid = consortium.grid("fedavg", rounds=3, **SECURE, **{"min-sites": 3})
    save = checkpoint.Checkpoint.save

    def dies(self, folder):
        if self.done == 2:
            raise KeyboardInterrupt
        save(self, folder)

    monkeypatch.setattr(checkpoint.Checkpoint, "save", dies)
    with pytest.raises(KeyboardInterrupt):
        conduct(grid)
    monkeypatch.setattr(checkpoint.Checkpoint, "save", save)
    for context in grid.contexts.values():
        for name in list(context.state):
            del context.state[name]
    if all_back:
        state = conduct(grid)
        fitted = only(consortium, grid.run_config, [list(range(5))] * 3)
        torch.testing.assert_close(state.server["w"], fitted, atol=1e-6, rtol=0)
        return
    grid.spoil[102] = lost("train")
    with pytest.raises(pff.InputError, match="could not be added up"):
        conduct(grid)
    assert any("added up before with other sites" in line for line in messages(log))


# --- what the server sees ----------------------------------------------------------------------


def pieces(*vectors, length=16):
    """All runs of 16 bytes of some numbers, at the numbers' own places."""
    found = set()
    for vector in vectors:
        data, step = vector.tobytes(), vector.itemsize
        found |= {data[at : at + length] for at in range(0, len(data) - length + 1, step)}
    return {piece for piece in found if len(set(piece)) > 2}  # not those of zeros


def wire(answers):
    """Every byte that the server gets."""
    parts = []
    for answer in answers:
        for record in answer.content.array_records.values():
            parts += [array.numpy().tobytes() for array in record.values()]
        for texts in (answer.content.config_records, answer.content.metric_records):
            parts += [json.dumps(dict(one)).encode() for one in texts.values()]
    return b"|".join(parts)


def own_numbers(grid, consortium, i, server):
    """What site i sends in round 1 in the clear: by a run without masks, in every form."""
    algorithm = make_algorithm(grid.run_config)
    out = str(consortium.folder / f"plain{i}")
    plain = consortium.grid("fedavg", rounds=1, out=out, hidden=WIDE)
    sent = []
    plain.spoil[100 + i] = lambda message, answer: sent.append((message, answer)) or answer
    conduct(plain)
    message, answer = next(one for one in sent if one[0].metadata.message_type == "train")
    w = unpack(answer.content.array_records["arrays"])["w"]
    before = unpack(message.content.array_records["arrays"])["w"]
    scale = Scale(algorithm.sums, algorithm.states.models)
    steps = [quantise({"w": w}, {"w": before}, scale, 1, 5)[1:]]
    way = w.double().numpy() - before.double().numpy()
    forms = [w.numpy(), w.double().numpy(), way, way.astype(np.float32), *steps]
    return pieces(*forms), wire([answer])


@pytest.fixture
def overheard(consortium):
    """A run of one round, and everything that each site sends in it."""
    grid = consortium.grid("fedavg", rounds=1, hidden=WIDE, **SECURE, **{"min-sites": 3})
    sent = {number: [] for number in range(5)}

    def record(message, answer):
        sent[message.metadata.dst_node_id - 100].append((message.metadata.message_type, answer))
        return answer

    grid.spoil = dict.fromkeys(grid.contexts, record)
    state = conduct(grid, whole=True)
    return grid, sent, state


def test_nothing_that_a_site_sends_has_its_numbers_in_it(consortium, overheard):
    grid, sent, state = overheard
    for i in (0, 2):
        own, clear = own_numbers(grid, consortium, i, state.server)
        heard = wire([answer for kind, answer in sent[i] if kind != "query.describe"])
        assert len(own) > 500
        assert any(piece in clear for piece in own)  # the search finds them where they are
        assert not any(piece in heard for piece in own)


def test_a_site_sends_what_it_should_and_no_more(overheard):
    _, sent, _ = overheard
    for answers in sent.values():
        kinds = [kind for kind, _ in answers]
        assert kinds == ["query.describe", *STAGES, "query.vote", "train.finish"]
        by_kind = dict(answers)
        assert set(by_kind["train"].content.array_records["arrays"]) == {"masked"}
        secure = json.loads(by_kind["train"].content.config_records["config"]["secure"])
        assert set(secure) == {"forms"}
        voted = by_kind["query.vote"].content
        assert dict(voted.config_records["config"]) in ({"best": 0}, {"best": 1})
        assert not [*voted.array_records, *voted.metric_records]
        opened = json.loads(by_kind["query.unmask"].content.config_records["config"]["secure"])
        assert len(opened["seeds"]) == 5
        assert opened["keys"] == {}


def looks_like_chance(vector):
    """Bytes are evenly spread, at each of the eight places of a number."""
    columns = vector.view(np.uint8).reshape(-1, 8)
    return all(chisquare(np.bincount(c, minlength=256)).pvalue > 1e-4 for c in columns.T)


UPDATES = {
    "nothing": torch.zeros(20_000),
    "large": torch.linspace(-900, 900, 20_000),
    "one number": torch.full((20_000,), 0.25),
}


@pytest.mark.parametrize("name", UPDATES)
def test_masked_numbers_look_like_chance_whatever_they_hide(name, same_chance, tmp_path):
    plain = UPDATES[name]
    cohort = Cohort([plain] * 4, tmp_path, 3)
    vector = cohort.masked(0)
    scale = Scale({"w": "uniform"}, ("w",))
    steps = quantise({"w": plain}, {"w": torch.zeros(20_000)}, scale, 1, 4)
    assert looks_like_chance(vector)
    assert not looks_like_chance(steps)  # the test can tell
    if name == "large":
        assert abs(np.corrcoef(vector, steps)[0, 1]) < 0.03
    assert (vector != steps).all()


def test_late_numbers_of_a_site_that_was_given_up_stay_hidden(same_chance, tmp_path):
    """The others' shares make its key again, so the shared masks can be taken off: not its own."""
    n, plain = 5, UPDATES["large"]
    cohort = Cohort([plain] * n, tmp_path, 4)
    vectors = [cohort.masked(i) for i in range(n)]
    rest = [0, 1, 2, 3]
    opened = cohort.opened(rest)
    assert all(set(one["seeds"]) == set("0123") and set(one["keys"]) == {"4"}
               for one in opened.values())  # fmt: skip
    private = keys.reconstruct({i: one["keys"]["4"] for i, one in opened.items()}, 4)
    assert keys.public(private) == cohort.offers[4]["masks"][0]
    pairs = {i: keys.mask_key(private, cohort.offers[i]["masks"][0], "s", "order") for i in rest}
    late = vectors[4] - pair_masks(4, pairs, len(vectors[4]))  # all that a server can do
    assert looks_like_chance(late)
    total = sum(vectors[i] for i in rest) + pair_masks(4, pairs, len(late))
    for i in rest:
        seed = keys.reconstruct({k: one["seeds"][str(i)] for k, one in opened.items()}, 4)
        total = total - mask(seed, len(total))
    scale = Scale({"w": "uniform"}, ("w",))
    assert (total == 4 * quantise({"w": plain}, {"w": torch.zeros(20_000)}, scale, 1, n)).all()


def test_fewer_shares_than_needed_tell_nothing():
    secret = bytes(range(32))
    shares = keys.make_shares(secret, 3, [4, 5, 6, 7, 8])
    for some in itertools.combinations(shares, 3):
        assert keys.reconstruct({n: shares[n] for n in some}, 3) == secret
    for some in itertools.combinations(shares, 2):
        with pytest.raises(ValueError, match="shares"):  # what comes out is not even padded
            keys.reconstruct({n: shares[n] for n in some}, 2)


@pytest.mark.parametrize(
    "change", [str.upper, lambda key: {"2": "03", "3": "02"}[key[1]] + key[2:]]
)
def test_a_site_that_copies_anothers_public_key_has_other_masks(change):
    """Equal masks with two sites, one added and one subtracted, would not hide anything."""
    private, other = keys.new_private_key(), keys.public(keys.new_private_key())
    copied = change(other)
    assert copied != other
    assert keys.shared_key(private, copied) == keys.shared_key(private, other)
    masks = {keys.mask_key(private, key, "s", "order") for key in (copied, other)}
    assert len(masks) == 2


def test_a_share_is_for_one_site_only(tmp_path):
    cohort = Cohort([torch.zeros(3)] * 3, tmp_path, 3)
    other = bytes.fromhex(cohort.partners[2].known["seal"])
    with pytest.raises(InvalidToken):
        keys.decrypt(other, cohort.offers[0]["seal"], cohort.dealt[0]["1"])


# --- what a site does not do -------------------------------------------------------------------


def test_a_site_answers_once_and_in_turn(tmp_path):
    cohort = Cohort([torch.zeros(3)] * 4, tmp_path, 3)
    with pytest.raises(PolicyError, match="does not know of this sum"):
        cohort.partners[0].unmask(cohort.order(signatures={}))
    with pytest.raises(PolicyError, match="does not know of this sum"):
        cohort.partners[0].sign(cohort.order(within=[0, 1, 2, 3]))
    with pytest.raises(PolicyError, match="does not know of this sum"):
        cohort.masked(0, session="another")
    for i in range(4):
        cohort.masked(i)
    with pytest.raises(PolicyError, match="already answered"):  # not before it has signed
        cohort.partners[0].unmask(cohort.order(signatures={}))
    with pytest.raises(PolicyError, match="already answered"):  # the same masks on other numbers
        cohort.masked(0)
    opened = cohort.opened([0, 1, 2, 3])
    with pytest.raises(PolicyError, match="already answered"):  # seeds, then keys
        cohort.partners[0].sign(cohort.order(within=[0, 1, 2]))
    with pytest.raises(PolicyError, match="already answered"):
        cohort.partners[0].unmask(cohort.order(signatures={}))
    assert all(set(one["seeds"]) == set("0123") and not one["keys"] for one in opened.values())
    known = json.loads(cohort.partners[0].memory["sum"])
    assert known["seeds"][0] is known["masks"][0] is known["held"]["1"][0] is None
    assert all([known["seeds"][1], known["masks"][1], known["held"]["1"][1]])
    for i in range(4):
        cohort.masked(i, sum=1)
    with pytest.raises(PolicyError, match="already answered"):
        cohort.masked(0, sum=0)
    cohort.opened([0, 1, 2, 3])
    with pytest.raises(PolicyError, match="used the masks of this sum already, or has none"):
        cohort.masked(0, sum=2)


@pytest.mark.parametrize(
    ("within", "words"),
    [
        ([0, 1], "at least 3 sites"),
        ([0, 0, 0], "at least 3 sites"),  # a site is one, however often it is named
        ([0, 1, 1, 1], "at least 3 sites"),
        ([1, 2, 3], "not in"),
        ([0, 1, 2, 9], "not in"),
    ],
)
def test_a_site_opens_no_sum_of_few_nor_of_strangers(tmp_path, within, words):
    cohort = Cohort([torch.zeros(3)] * 4, tmp_path, 3)
    cohort.masked(0)
    with pytest.raises(PolicyError, match=words):
        cohort.partners[0].sign(cohort.order(within=within))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: ({i: m[i] for i in (0, 1)}, 2), "at least 3 sites"),
        (lambda m: (m, 2), "at least 3 of 4 sites"),
        (lambda m: (m, 5), "at least 3 of 4 sites"),
        (lambda m: ({i: m[i] for i in (1, 2, 3)}, 2), "keys are not among"),
        (lambda m: (m | {3: m[2]}, 3), "where two have one key"),
    ],
)
def test_a_site_deals_no_shares_to_a_circle_that_is_not_one(change, words):
    partners = [Partner(ConfigRecord(), {}) for _ in range(4)]
    offers = {i: one.keys(SOME | {"number": i}) for i, one in enumerate(partners)}
    members, threshold = change(offers)
    with pytest.raises(PolicyError, match=words):
        partners[0].shares({"session": "s", "members": members, "threshold": threshold})


def test_the_same_is_not_added_up_again_with_others(tmp_path):
    folder = str(tmp_path)
    note_sum(folder, "one", ["a", "b", "c", "d"])
    note_sum(folder, "one", ["a", "b", "c", "d"])
    note_sum(folder, "two", ["a", "b", "c"])
    with pytest.raises(PolicyError, match="The same was added up before with other sites"):
        note_sum(folder, "one", ["a", "b", "c"])


@pytest.mark.parametrize(
    "more", [{}, {"rounds": 3}, {"seed": 1}], ids=["the same", "another method", "another seed"]
)
def test_another_run_that_asks_the_same_of_others_is_refused(consortium, log, more):
    """Training is the same if it is done again: two sums would differ by one site's numbers."""
    few = SECURE | {"min-sites": 3}
    conduct(consortium.grid("fedavg", **{"rounds": 1, **few, **more}))
    again = consortium.grid("fedavg", {2: lost("train", 1)}, rounds=2, **few,
                            out=str(consortium.folder / "again"))  # fmt: skip
    if "seed" in more:
        assert conduct(again).done == 2
        return
    with pytest.raises(pff.InputError, match="Round 1 could not be added up"):
        conduct(again)
    assert any("The same was added up before with other sites" in line for line in messages(log))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([11, 11, 11], "more rows than it has"),
        ([9, 4, 4], "more than all others combined"),  # of whose numbers there is next to nothing
        ([9, 9], "not know what each site"),
        ([9, 9, 9, 9], "not know what each site"),
        ([9, 9, 0], "not know what each site"),
    ],
)
def test_a_site_counts_for_no_more_than_it_should(tmp_path, weights, words):
    cohort = Cohort([torch.zeros(3)] * 3, tmp_path, 3)
    with pytest.raises(PolicyError, match=words):
        cohort.masked(0, people={str(i): n for i, n in enumerate(weights)})


def other_model(content, secure):
    content["arrays"] = pack({"w": unpack(content["arrays"])["w"] * 0})


def no_way(content, secure):
    content["config"]["max-change"] = 1e-9


def more_rounds(content, secure):
    content["config"]["local-rounds"] = 2


def other_weights(content, secure):
    secure["people"] |= dict.fromkeys("0134", 20)


@pytest.mark.parametrize("lie", [other_model, no_way, more_rounds, other_weights])
def test_a_server_that_asks_the_others_something_else_sees_nothing(consortium, log, lie):
    """If their way were nothing, the sum would be the numbers of the one that is left."""

    class Lying(Participants):
        def ask(self, state, kind, contents):
            for number, content in contents.items():
                if kind == "train" and number != 2:
                    secure = json.loads(content["config"]["secure"])
                    lie(content, secure)
                    content["config"]["secure"] = json.dumps(secure)
            return super().ask(state, kind, contents)

    options = {"weighting": "size", "rounds": 2}
    grid = consortium.grid("fedavg", rounds=1, options=options, **SECURE)
    with pytest.raises(pff.InputError, match="Round 1 was spoilt"):
        conduct(grid, participants=Lying)
    assert any("The sum cannot be" in line for line in messages(log))


def test_the_same_is_not_added_up_again_by_other_weights(consortium, log):
    """Twice the same, and one site counts for one row more: the difference is its numbers."""

    class Lying(Participants):
        def ask(self, state, kind, contents):
            for content in contents.values() if kind == "train" else ():
                secure = json.loads(content["config"]["secure"])
                secure["people"]["2"] -= 1
                content["config"]["secure"] = json.dumps(secure)
            return super().ask(state, kind, contents)

    conduct(consortium.grid("fedavg", rounds=1, options={"weighting": "size"}, **SECURE))
    out = str(consortium.folder / "again")
    grid = consortium.grid("fedavg", rounds=1, options={"weighting": "size"}, out=out, **SECURE)
    with pytest.raises(pff.InputError, match="Round 1 could not be added up"):
        conduct(grid, participants=Lying)
    assert any("added up before with other sites or weights" in line for line in messages(log))


def test_a_policy_can_ask_for_secure_sums(consortium, log):
    text = (consortium.folder / "policy.toml").read_text()
    (consortium.folder / "policy.toml").write_text(text + "secure-sum = true\n")
    sent = []
    grid = consortium.grid("fedavg", rounds=1, wait=0.1)
    grid.spoil = dict.fromkeys(grid.contexts, lambda m, answer: sent.append(answer) or answer)
    with pytest.raises(pff.InputError, match="policy has secure-sum = true; the run asks for this"):
        conduct(grid)
    assert all(answer.has_error() for answer in sent)  # not even a description left
    assert conduct(consortium.grid("fedavg", rounds=1, out=str(consortium.folder / "o"), **SECURE))


def test_a_server_that_says_secure_and_asks_in_the_clear_gets_nothing(consortium):
    grid = consortium.grid("fedavg", rounds=1, **SECURE)
    conductor = Conductor(grid, Settings.read(grid.run_config))
    state = conductor.begin()
    for answer in conductor.participants.order(state, "train").values():
        assert "only in secure sums" in answer.error.reason


# --- lies --------------------------------------------------------------------------------------


def test_a_lie_in_masked_numbers_is_seen_in_the_sum_and_the_run_ends(consortium, log):
    def lies(message, answer):
        if message.metadata.message_type == "train":
            vector = unpack(answer.content.array_records["arrays"])["masked"]
            vector[1:] += 2**55  # as if every weight had moved by 2^15
            answer.content["arrays"] = pack({"masked": vector})
        return answer

    grid = consortium.grid("fedavg", {1: lies}, rounds=2, **SECURE)
    with pytest.raises(pff.InputError, match="Round 1 could not be added up twice"):
        conduct(grid)  # a few weights: no sketch is made of them, and nobody is named
    assert any(
        "more than 1 (max-change): a site sent other numbers" in line for line in messages(log)
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda v: torch.cat([v, v]),
        lambda v: v.double(),
    ],
    ids=["longer", "not whole"],
)
def test_numbers_of_another_form_are_left_out(consortium, log, change):
    def lies(message, answer):
        if message.metadata.message_type == "train":
            vector = unpack(answer.content.array_records["arrays"])["masked"]
            answer.content["arrays"] = pack({"masked": change(vector)})
        return answer

    grid = consortium.grid("fedavg", {1: lies}, rounds=1, **SECURE, **{"min-sites": 3})
    state = conduct(grid)
    expected = only(consortium, grid.run_config, [[0, 2, 3, 4]])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)
    assert any("the answer of site 'site 1' cannot be read" in line for line in messages(log))


def short(content):
    content["masks"] = content["masks"][:-1]


def no_key(content):
    content["seal"] = "02" + "ff" * 32


def nobody(content):
    content.clear()


def no_name(content):
    content["signature"] = "00" * 70


def a_list(content):
    content["seeds"] = [1, 2, 3]


def anothers(content):
    content["seeds"]["0"] = "01000000" + content["seeds"]["0"][8:]


@pytest.mark.parametrize(
    ("stage", "lie"),
    [("query.keys", short), ("query.keys", no_key), ("query.keys", nobody),
     ("query.shares", nobody), ("query.sign", nobody), ("query.sign", no_name),
     ("query.unmask", nobody), ("query.unmask", a_list),
     ("query.unmask", anothers)],
)  # fmt: skip
def test_keys_and_shares_that_cannot_be_are_left_out_by_name(consortium, log, stage, lie):
    def lies(message, answer):
        if message.metadata.message_type == stage:
            content = json.loads(answer.content["config"]["secure"])
            lie(content)
            answer.content["config"]["secure"] = json.dumps(content)
        return answer

    grid = consortium.grid("fedavg", {1: lies}, rounds=1, **SECURE, **{"min-sites": 3})
    state = conduct(grid)
    rest = [0, 2, 3, 4] if stage not in LATE else [0, 1, 2, 3, 4]
    expected = only(consortium, grid.run_config, [rest])
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)
    words = f"pfedfair: {stage}: the answer of site 'site 1' cannot be read"
    assert any(line.startswith(words) for line in messages(log))


def test_shares_that_cannot_be_read_are_named_by_their_owner(tmp_path):
    cohort = Cohort([torch.zeros(3)] * 3, tmp_path, 3)
    partner, encrypt = cohort.partners[2], cohort.offers[0]["seal"]
    digest = partner.known["list"]
    bad = json.dumps([digest, 2, [["00", "00"]] * 2])
    other = json.dumps(["s", 2, partner.known["held"]["2"]])  # under another list
    seal = bytes.fromhex(partner.known["seal"])
    for sealed in ("no", keys.encrypt(seal, encrypt, bad), keys.encrypt(seal, encrypt, other)):
        cohort.dealt[2]["0"] = sealed
        with pytest.raises(PolicyError, match="The shares of site number 2 cannot be read"):
            cohort.masked(0)


def test_with_more_sites_than_expected_more_than_half_are_needed(consortium):
    more = {"sites": 3, "min-sites": 3, "secure-threshold": 3}
    grid = consortium.grid("fedavg", rounds=1, **SECURE, **more)
    state = conduct(grid)
    expected = only(consortium, grid.run_config, [list(range(len(state.sites)))])
    assert len(state.sites) == 5
    torch.testing.assert_close(state.server["w"], expected, atol=1e-6, rtol=0)


def test_an_honest_site_shortens_its_own_update(consortium, log):
    more = {"max-change": 0.001}
    grid = consortium.grid("fedavg", rounds=1, **SECURE, **more)
    state = conduct(grid)
    before = conduct(consortium.grid("fedavg", rounds=1, out=str(consortium.folder / "p"))).server
    assert any("moved too far here and is shortened" in line for line in messages(log))
    start = only(consortium, grid.run_config, [])
    way = (state.server["w"] - start).square().mean().sqrt()
    assert 0 < float(way) <= 0.001 < float((before["w"] - start).square().mean().sqrt())


# --- what is kept ------------------------------------------------------------------------------


def test_the_copy_of_what_left_has_masked_numbers_and_the_ledger_counts(consortium, tmp_path):
    more = {"clip": 1.0, "epsilon": 0.5, "max-change": 100.0}
    grid = consortium.grid("fedavg", rounds=2, **SECURE, **more)
    grid.contexts[101].node_config["audit-dir"] = str(tmp_path / "sent")
    conduct(grid)
    names = sorted(path.name.partition("-")[2] for path in (tmp_path / "sent").iterdir())
    assert names.count("train.safetensors") == names.count("query-unmask.safetensors") == 2
    for path in (tmp_path / "sent").glob("*-train.safetensors"):
        with safe_open(path, framework="pt") as file:
            assert list(file.keys()) == ["arrays.masked"]
            assert file.get_tensor("arrays.masked").dtype == torch.int64
            assert json.loads(file.metadata()["sent"])["metrics"] == {"rounds": 1}
    ledger = json.loads((consortium.folder / "state1" / "ledger.json").read_text())
    assert list(ledger["gaussian"].values()) == [2]  # two answers with noise, masked or not


def test_no_key_or_seed_is_on_a_sites_disk(consortium, same_chance):
    grid = consortium.grid("fedavg", rounds=1, **SECURE)
    secret = []

    def look(message, answer):
        memory = grid.contexts[100].state.config_records.get("sum")
        if memory:
            known = json.loads(memory["sum"])
            secret.extend([known["seal"], known["sign"]])
            secret.extend([*known["masks"], *known.get("seeds", [])])
        return answer

    grid.spoil[100] = look
    conduct(grid)
    found = {one for one in secret if one}
    assert len(found) == 4
    for path in consortium.folder.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(one.encode() in data or bytes.fromhex(one) in data for one in found)


# --- names bound to keys -----------------------------------------------------------------------


def test_with_the_others_public_keys_a_site_takes_no_unsigned_ones(tmp_path):
    from pfedfair.engines.flower import trial

    trial.set_up(tmp_path / "all", {f"site-{i + 1}": 9094 for i in range(3)})
    folders = [tmp_path / "all" / f"site-{i + 1}" for i in range(3)]
    nodes = [{"key": str(f / "site.key"), "peers": str(f / "consortium.json")} for f in folders]
    partners = [Partner(ConfigRecord(), node) for node in nodes]
    offers = {i: one.keys(SOME | {"number": i}) for i, one in enumerate(partners)}
    order = {"session": "s", "threshold": 3}
    assert len(partners[0].shares(order | {"members": offers})) == 2
    made_up = Partner(ConfigRecord(), {}).keys(SOME | {"number": 2})
    for forged in (
        made_up,  # the server's own keys
        made_up | {"signature": offers[2]["signature"]},
        made_up | {"signature": offers[1]["signature"]},
        offers[2] | {"masks": made_up["masks"]},
        offers[2] | {"sign": made_up["sign"]},
        offers[2] | {"site": "another"},
    ):
        now = {**offers, 2: forged}
        with pytest.raises(PolicyError, match="The keys of site number 2 are not signed by a site"):
            partners[1].shares(order | {"members": now})
    assert len(partners[1].shares(order | {"members": offers})) == 2
    (folders[2] / "consortium.json").write_text('{"sites": {"site-1": "no key"}}')
    with pytest.raises(pff.InputError, match=r"consortium.json has no readable public keys"):
        partners[2].shares(order | {"members": offers})
