"""A server that tells each site something else, to open one site's numbers in a secure sum.

First one attack with real keys, then a search among a server's strategies. The search runs the
sites' code on symbols: a mask is a column of its own, a share is the name of its secret, and what
the server can compute follows from linear algebra.
"""

import copy
import hashlib
import itertools
import json
from contextlib import nullcontext, suppress

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from secure_sites import Cohort, Site

from pfedfair.engines.flower import keys, partner
from pfedfair.engines.flower.partner import Partner, list_digest, survivors_text
from pfedfair.engines.site import masking
from pfedfair.engines.site.masking import Scale, mask, min_threshold, pair_masks, quantise
from pfedfair.engines.site.policy import PolicyError

STEP = 2.0**40  # of a model's difference, see `masking.BITS`


def lists_for(circle, askers, others, threshold):
    """Lists of survivors, by site, in which each of `circle` is lost at `threshold` sites."""
    needed = dict.fromkeys(circle, threshold)
    lists = {}
    for i in askers:
        order = sorted((j for j in needed if j != i and needed[j] > 0), key=lambda j: -needed[j])
        lost = order[: len(others) - threshold]
        for j in lost:
            needed[j] -= 1
        lists[i] = [j for j in others if j not in lost]
    return lists


# --- the attack, with real keys ----------------------------------------------------------------


def signed_nodes(n, folder):
    """Settings of sites that sign their keys, and know each other's public ones."""
    sites = {}
    for i in range(n):
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption()
        )
        public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
        (folder / f"{i}.key").write_bytes(private)
        sites[str(i)] = public.decode()
    peers = folder / "consortium.json"
    peers.write_text(json.dumps({"sites": sites}))
    return [{"key": str(folder / f"{i}.key"), "peers": str(peers)} for i in range(n)]


@pytest.mark.parametrize("n", [8, 10, 12, 20])
def test_a_server_that_tells_one_site_of_fewer_others_does_not_open_its_numbers(n, tmp_path):
    """Site 0 is told of `threshold` sites only, so that it has fewer masks to take off.

    Their keys are opened by lists of survivors in which others are missing for each site.
    """
    least, plain = min_threshold(n), torch.arange(5.0)
    cohort = Cohort([plain] * n, tmp_path, least, signed_nodes(n, tmp_path))
    few = range(least)
    found, opened = None, {}
    with suppress(PolicyError):
        shares = {str(j): cohort.dealt[j]["0"] for j in few if j}
        found = cohort.masked(0, shares=shares, people={str(j): 1 for j in few})
    for i in range(1, n):
        cohort.masked(i)
    for i, within in lists_for(few[1:], range(n - 1, 0, -1), range(n), least).items():
        with suppress(PolicyError):
            opened[i] = cohort.partners[i].unmask(cohort.order(within=within))
    if found is not None and len(opened) == n - 1:
        seed = keys.reconstruct({i: one["seeds"]["0"] for i, one in opened.items()}, least)
        found = found - mask(seed, len(found))
        pairs = {}
        for j in few[1:]:
            each = {i: one["keys"][str(j)] for i, one in opened.items() if str(j) in one["keys"]}
            public = cohort.offers[0]["masks"][0]
            pairs[j] = keys.mask_key(keys.reconstruct(each, least), public, "s", "order")
        found = found - pair_masks(0, pairs, len(found))
        own = quantise(
            {"w": plain}, {"w": torch.zeros(5)}, Scale({"w": "uniform"}, ("w",)), 1, least
        )
        assert not (found == own).all(), "the server has the numbers of site 0"
    assert found is None
    assert not opened


# --- every strategy, with symbols --------------------------------------------------------------


class Columns(dict):
    """The column of each mask; and of each shared mask, the public keys that it is made of."""

    def __init__(self):
        self.pairs = {}

    def new(self):
        self.clear()
        self.pairs.clear()


@pytest.fixture
def columns(monkeypatch):
    """Cryptography that cannot be broken, as each thing is its own name."""
    found, count = Columns(), itertools.count(1)

    def digest(*words):
        return hashlib.sha256("|".join(words).encode()).hexdigest()

    def public(private):
        return digest("public", private.hex())

    def shared_key(private, other):
        return bytes.fromhex(digest(*sorted((public(private), other))))

    def mask_key(private, other, session, order):
        key = bytes.fromhex(digest(shared_key(private, other).hex(), session, order))
        found.pairs[key] = {public(private), other}
        return key

    def decrypt(private, other, sealed):
        key, text = json.loads(sealed)
        if key != shared_key(private, other).hex():
            raise ValueError("another's")
        return text

    def one_mask(key, length):
        vector = np.zeros(length, dtype=np.int64)
        vector[-1 - found.setdefault(key, len(found))] = 1
        return vector

    simple = {
        "new_private_key": lambda: next(count).to_bytes(32),
        "public": public,
        "shared_key": shared_key,
        "mask_key": mask_key,
        "encrypt": lambda own, other, text: json.dumps([shared_key(own, other).hex(), text]),
        "decrypt": decrypt,
        "make_shares": lambda secret, threshold, numbers: {
            i: f"{secret.hex()} {threshold} {i}" for i in numbers
        },
        "check_share": lambda *_: None,
        "sign_once": lambda private, text: digest("signed", public(private), text),
        "is_signed": lambda other, text, signature: signature == digest("signed", other, text),
    }
    for name, made in simple.items():
        monkeypatch.setattr(keys, name, made)
    monkeypatch.setattr(partner, "mask", one_mask)
    monkeypatch.setattr(masking, "mask", one_mask)
    monkeypatch.setattr(partner, "note_sum", lambda *_: None)  # the server may ask again
    monkeypatch.setattr(partner.Ledger, "adding_up", lambda *_: nullcontext())  # of others, too
    return found


class Server:
    """A server that asks what it likes, remembers all answers, and knows what some sites know."""

    def __init__(self, columns, n, colluding=()):
        self.columns, self.n, self.colluding = columns, n, set(colluding)
        self.honest = [i for i in range(n) if i not in self.colluding]
        self.memory = [{} for _ in range(n)]
        self.vectors, self.lists, self.private = [], {}, {}
        self.shares, self.known, self.signed = {}, set(), {}
        columns.new()

    def copy(self):
        """The same, to go on in another way."""
        other = copy.copy(self)
        other.memory = [dict(one) for one in self.memory]
        other.vectors, other.signed = list(self.vectors), dict(self.signed)
        other.shares = {name: set(who) for name, who in self.shares.items()}
        return other

    def ask(self, i, kind, *site, **order):
        try:
            return getattr(Partner(self.memory[i], {}), kind)({"session": "s", **order}, *site)
        except PolicyError:
            return None

    def learn(self, share):
        secret, threshold, index = share.split()
        self.shares.setdefault((secret, int(threshold)), set()).add(index)

    def deal(self, lists, sums=1):
        """Tell each site its list and threshold; `lists` are of honest sites.

        A colluding site has no list of its own: it deals to every site under that one's.
        """
        self.lists = lists
        self.offers = {i: self.ask(i, "keys", number=i, sums=sums) for i in range(self.n)}
        fresh = [dict(one) for one in self.memory]
        for i in self.colluding:
            self.private[i] = json.loads(fresh[i]["sum"])
            self.known |= set(self.private[i]["masks"])
        self.dealt = {i: {} for i in range(self.n)}  # by receiver and sender
        for i, (members, threshold) in lists.items():
            about = {"members": {j: self.offers[j] for j in members}, "threshold": threshold}
            for to, sealed in (self.ask(i, "shares", **about) or {}).items():
                self.dealt[int(to)][i] = sealed
                if int(to) in self.colluding:
                    seal = bytes.fromhex(self.private[int(to)]["seal"])
                    text = keys.decrypt(seal, self.offers[i]["seal"], sealed)
                    for pair in json.loads(text)[2]:
                        list(map(self.learn, pair))
            for j in self.colluding & set(members):
                self.memory[j] = dict(fresh[j])
                self.dealt[i][j] = self.ask(j, "shares", **about)[str(i)]

    def mask(self, i, senders, at=0):
        """Ask a site for its numbers, with the shares of some; return whether it sends them."""
        shares = {str(j): self.dealt[i][j] for j in senders if j in self.dealt[i] and j != i}
        x = torch.zeros(self.n + 4 * self.n * (self.n + 1)).double()
        x[i] = 1
        site = Site(x, None)
        site.source.folder = str(i)
        people = dict.fromkeys([*shares, str(i)], 1)
        found = self.ask(i, "train_masked", site, shares=shares, people=people, sum=at)
        if found is not None:
            self.vectors.append((i, at, found[0].numpy()[1:]))
        return found is not None

    def open(self, survivors, at=0, last=None):
        """Ask for signatures on lists of survivors by site, pass on all that fit, ask for shares.

        A colluding site signs any list. Sites are asked twice, also with another's list. Only the
        sites in `last` are asked for shares.
        """
        answers = {}
        for i, within in survivors.items():
            first = self.ask(i, "sign", within=list(within))
            for other in {tuple(one) for one in survivors.values()} - {tuple(within)}:
                assert first is None or self.ask(i, "sign", within=list(other)) is None
            if first is not None:
                self.signed[i, self.text(i, within, at)] = first["signature"]
        for i, within in survivors.items():
            if last is not None and i not in last:
                continue
            text = self.text(i, within, at)
            signed = {str(j): one for (j, about), one in self.signed.items() if about == text}
            for j in self.colluding & set(within):
                key = bytes.fromhex(self.private[j]["sign"])
                signed[str(j)] = keys.sign_once(key, text)
            for _ in (1, 2):
                answer = self.ask(i, "unmask", signatures=signed)
                answers.setdefault(i, answer)
                for kind in ("seeds", "keys"):
                    for share in (answer or {kind: {}})[kind].values():
                        self.learn(share)
        return answers

    def text(self, i, within, at):
        members, threshold = self.lists[i]
        offers = {j: self.offers[j] for j in members}
        return survivors_text(list_digest("s", threshold, offers), at, within)

    def told(self):
        """Return what the server knows of the honest sites' numbers: an orthonormal basis."""
        secrets = self.known | {one for (one, t), who in self.shares.items() if len(who) >= t}
        public = {keys.public(bytes.fromhex(one)) for one in secrets}
        hidden = [
            -1 - at
            for key, at in self.columns.items()
            if key.hex() not in secrets and not self.columns.pairs.get(key, set()) & public
        ]
        if not self.vectors:
            return np.zeros((0, self.n))
        rows = np.array([one for _, _, one in self.vectors], dtype=np.float64)
        masks = rows[:, hidden]
        free = null_space(masks.T) if hidden else np.eye(len(rows))
        return row_space(free.T @ rows[:, : self.n] / STEP)


def null_space(a):
    _, s, v = np.linalg.svd(a)
    return v[int((s > 1e-9).sum()) :].T


def row_space(a):
    if not len(a):
        return a
    _, s, v = np.linalg.svd(a, full_matrices=False)
    return v[s > 1e-9]


def fewest(basis):
    """Return of how few sites a sum can be computed (3 is three or more; 0 is none)."""
    if not len(basis):
        return 0
    p = basis.T @ basis  # a vector on some sites is known if its projection is itself
    d = np.diag(p)
    if d.max() > 1 - 1e-6:
        return 1
    mean, half = (d[:, None] + d) / 2, (d[:, None] - d) / 2
    largest = mean + np.sqrt(half**2 + p**2)
    np.fill_diagonal(largest, 0)
    return 2 if largest.max() > 1 - 1e-6 else 3


def subsets(n, least, i):
    """All lists of at least so many sites that have site i in them."""
    sizes = range(least, n + 1)
    return [c for size in sizes for c in itertools.combinations(range(n), size) if i in c]


def everybody(n, threshold=None):
    return {i: (tuple(range(n)), threshold or min_threshold(n)) for i in range(n)}


def one_list(server, threshold=None):
    """All are honest with each other up to the numbers."""
    everyone = everybody(server.n, threshold)
    server.deal({i: everyone[i] for i in server.honest})
    assert all(server.mask(i, range(server.n)) for i in server.honest)
    return server


@pytest.mark.parametrize("n", [3, 4])
def test_no_lists_of_members_or_survivors_open_a_sum_of_two(n, columns):
    """All lists of members and thresholds, all lists of shares, all lists of survivors."""
    options = [
        [(c, t) for c in subsets(n, 3, i) for t in range(min_threshold(len(c)), len(c) + 1)]
        for i in range(n)
    ]
    opened = masked = 0
    for lists in itertools.product(*options):
        server = Server(columns, n)
        server.deal(dict(enumerate(lists)))
        for i in range(n):
            senders = [c for c in subsets(n, 1, i) if set(c) <= {i, *server.dealt[i]}]
            assert sum(server.copy().mask(i, some) for some in senders) <= 1
            for some in senders:
                if server.mask(i, some):
                    masked += 1
                    assert some == lists[i][0] == tuple(j for j in range(n) if lists[j] == lists[i])
        present = sorted({i for i, *_ in server.vectors})
        each = [subsets(n, lists[i][1], i) for i in present]
        for survivors in itertools.product(*each):
            other = server.copy()
            other.open(dict(zip(present, survivors, strict=True)))
            found = fewest(other.told())
            assert found in (0, 3)
            opened += found == 3
    assert masked
    assert opened


def test_no_lists_of_survivors_of_five_open_more_than_one_sum(columns):
    server = one_list(Server(columns, 5))
    opened = 0
    for survivors in itertools.product(*(subsets(5, 4, i) for i in range(5))):
        other = server.copy()
        answers = other.open(dict(enumerate(survivors)))
        basis = other.told()
        assert fewest(basis) in (0, 3)
        assert len(basis) <= 1
        within = {survivors[i] for i, answer in answers.items() if answer}
        assert len(within) <= 1
        if len(basis):
            assert set(np.flatnonzero(np.abs(basis[0]) > 1e-6)) == set(*within)
        opened += len(basis)
    assert opened


def survivor_lists(rng, server):
    """Lists of survivors by site: for one victim, for two halves, and any."""
    n, honest, least = server.n, server.honest, min_threshold(server.n)
    victim, *rest = rng.permutation(honest).tolist()
    yield dict.fromkeys(honest, range(n))
    yield {victim: range(n)} | lists_for(rest, rest, range(n), least - len(server.colluding))
    without = [j for j in range(n) if j != victim]
    half = rest[: least - len(server.colluding)]
    yield dict.fromkeys(half, without) | dict.fromkeys(set(honest) - set(half), range(n))
    pool = [rng.permutation(n)[: rng.integers(least, n + 1)] for _ in range(rng.integers(1, 4))]
    some = [i for i in honest if rng.random() < 0.9]
    yield {i: sorted({i, *pool[rng.integers(len(pool))].tolist()}) for i in some}


def member_lists(rng, server):
    """Lists of members by site: a few lists, most sites are told one that they are in."""
    n = server.n
    sizes = rng.integers(3, n + 1, size=2)
    pool = [tuple(range(n)), *(tuple(sorted(rng.permutation(n)[:k].tolist())) for k in sizes)]
    pool.append(tuple(j for j in range(n) if j not in pool[1]))  # a second group
    fits = [one for one in pool if len(one) >= 3]
    for one in server.honest:
        mine = [c for c in fits if one in c]
        members = mine[rng.integers(len(mine))] if rng.random() < 0.9 else mine[-1]
        yield one, (members, int(rng.integers(min_threshold(len(members)), len(members) + 1)))


@pytest.mark.parametrize("n", range(3, 31))
def test_no_strategy_of_a_server_opens_the_sum_of_one_or_two_sites(n, columns):
    """With one list of members, any shares; with any lists; also if a site colludes."""
    rng = np.random.default_rng(n)
    for colluding in ((), (int(rng.integers(n)),)):
        server, found = one_list(Server(columns, n, colluding)), []
        for _ in range(4):
            for survivors in survivor_lists(rng, server):
                other = server.copy()
                other.open(survivors)
                basis = other.told()
                assert len(basis) <= 1
                found.append(fewest(basis))
        assert found[0]  # the honest one
        assert set(found) <= {0, min(3, min_threshold(n) - len(colluding)), 3}
        for _ in range(10):
            server = Server(columns, n, colluding)
            if rng.random() < 0.5:
                server.deal({i: everybody(n)[i] for i in server.honest})
            else:
                server.deal(dict(member_lists(rng, server)))
            for i in server.honest:
                few = rng.permutation(n)[: rng.integers(min_threshold(n), n + 1)].tolist()
                assert not server.mask(i, few) or set(server.lists[i][0]) <= {i, *few}
                if rng.random() < 0.9:
                    server.mask(i, server.lists[i][0])  # as the site wants it
            for survivors in survivor_lists(rng, server):
                other = server.copy()
                other.open(survivors)
                assert fewest(other.told()) in ((0, 2, 3) if colluding else (0, 3))


@pytest.mark.parametrize("n", range(4, 16))
def test_the_same_numbers_in_many_sums_tell_of_no_site(n, columns, monkeypatch):
    """Sums with one set of keys, and with new ones; some sites never get the last question."""
    noted = {}

    def note(folder, digest, cohort):
        if noted.setdefault((folder, digest), cohort) != cohort:
            raise PolicyError("with others")

    monkeypatch.setattr(partner, "note_sum", note)
    rng, sums = np.random.default_rng(n), 0
    for _ in range(5):
        noted.clear()
        server = Server(columns, n)
        for _ in range(4):
            members = tuple(sorted(rng.permutation(n)[: rng.integers(3, n + 1)].tolist()))
            least = min_threshold(len(members))
            server.deal(dict.fromkeys(members, (members, least)), sums=2)
            for at in (0, 1):
                there = [i for i in members if server.mask(i, members, at)]
                within = sorted(rng.permutation(there)[: rng.integers(least, n + 1)].tolist())
                last = rng.permutation(within)[: rng.integers(least, n + 1)].tolist()
                server.open(dict.fromkeys(within, within), at, last)
                assert fewest(server.told()) in (0, 3)
        sums += len(server.told())
    assert sums >= 5


# --- the search finds what there is to find ----------------------------------------------------


@pytest.mark.parametrize("n", [8, 10, 12, 20])
def test_without_the_two_checks_the_search_finds_the_attack(n, columns, monkeypatch):
    def take_fewer(self, sealed):
        self.known["held"] |= {j: self._shares_from(int(j), one) for j, one in sealed.items()}
        for j in set(self.known["members"]) - set(self.known["held"]):
            del self.known["members"][j]

    def found():
        server = Server(columns, n)
        server.deal(everybody(n))
        few = range(min_threshold(n))
        server.mask(0, few)
        for i in range(1, n):
            server.mask(i, range(n))
        rest = range(n - 1, 0, -1)
        server.open(lists_for(few[1:], rest, range(n), min_threshold(n)))
        return fewest(server.told())

    assert found() == 0
    with monkeypatch.context() as each:
        each.setattr(Partner, "_check_signatures", lambda *_: None)
        assert found() == 0
        each.setattr(Partner, "_decrypt_shares", take_fewer)
        assert found() == 1
    monkeypatch.setattr(Partner, "_decrypt_shares", take_fewer)
    assert found() == 0  # signatures of one list are enough, too


@pytest.mark.parametrize("n", range(5, 31))
def test_the_threshold_holds_against_so_many_colluding_sites_and_no_more(n, columns):
    """Two lists with signatures of all that collude: with one site, and without it."""
    for threshold in range(min_threshold(n), n):
        most = min(2 * threshold - n - 1, threshold - 2)
        for k in (most, most + 1):
            server = one_list(Server(columns, n, range(1, 1 + k)), threshold)
            half = server.honest[1:][: threshold - k]
            lists = dict.fromkeys(server.honest, range(n))
            without = [j for j in range(n) if j]
            server.open(lists | dict.fromkeys(half, without))
            assert (fewest(server.told()) == 1) == (k > most)
        if n > 12:
            break
