"""A site's part in secure sums: six kinds of messages, each answered once and in turn.

1. ``query.keys``: the site makes keys, one for each of the next sums, and sends the public ones.
2. ``query.shares``: the site gets the list of all members and their keys. For each sum it makes the
   seed of its private mask, and sends shares of it and of its private key, each encrypted for one
   other member, with a digest of the list. The server passes them on.
3. ``train``: the round itself; the answer is masked with the keys of one sum. A site masks with all
   members of the list, after each has dealt shares under the same list; otherwise it refuses.
4. ``query.sign``: the site signs the list of the survivors, whose numbers have arrived: one list
   for each sum.
5. ``query.unmask``: if as many survivors as the threshold have signed its list, the site sends its
   share of the seed of each survivor, and its share of the key of each other member. Never both of
   one site: with both, and late numbers, the server could read them.

The consistency round (4) is that of Bonawitz and others against servers that tell sites different
lists; docs/decisions/0027-consistency.md has the argument.

6. ``query.sketch``, only if a sum cannot be right: see `sketches`.

The first two are needed again when a site is lost, or the keys are used up. Private keys and seeds
are in the memory of the site's SuperNode, never on disk, and deleted when their sum is unmasked;
the keys of its shared masks stay until its sketch or the next sum. On disk is the cohort of each
sum: the same sum again with other sites, in whatever run, would reveal the numbers of those that
differ.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, MutableMapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfedfair._util.files import atomic, read_json
from pfedfair.engines.flower import keys
from pfedfair.engines.site import sketches
from pfedfair.engines.site.ledger import Ledger
from pfedfair.engines.site.masking import (
    MIN_SITES,
    Scale,
    Shapes,
    length_of,
    mask,
    min_threshold,
    pair_masks,
    quantise,
    shapes_of,
)
from pfedfair.engines.site.policy import Policy, PolicyError
from pfedfair.engines.site.work import Work

Order = Mapping[str, Any]
NAME = "added-up.json"
MAX_NOTED = 5000  # sums
MAX_SUMS = 20  # that keys are made for at once


class Partner:
    """A site in the sums that are being made; `memory` persists between messages."""

    def __init__(self, memory: MutableMapping[str, Any], node: Order) -> None:
        self.memory, self.node = memory, node
        self.known: dict[str, Any] = json.loads(str(memory.get("sum", "{}")))

    def keys(self, order: Order) -> dict[str, Any]:
        """Make keys for some sums; return the public ones, signed if the site has a key."""
        number, sums = int(order["number"]), int(order["sums"])
        if not 1 <= sums <= MAX_SUMS:
            raise PolicyError(f"This site makes keys for up to {MAX_SUMS} sums, not for {sums}.")
        seal, sign = keys.new_private_key(), keys.new_private_key()
        masks = [keys.new_private_key() for _ in range(sums)]
        offer: dict[str, Any] = {"seal": keys.public(seal), "sign": keys.public(sign)}
        offer["masks"] = [*map(keys.public, masks)]
        seeds = [secrets.token_bytes(keys.LENGTH) for _ in masks]
        offer["nonces"] = [sketches.commitment(sketches.nonce_of(seed)) for seed in seeds]
        offer["site"] = str(self.node.get("site") or f"number {number}")
        self.known = {"session": str(order["session"]), "stage": "keys", "number": number}
        self.known |= {"seal": seal.hex(), "sign": sign.hex()}
        self.known["masks"] = [one.hex() for one in masks]
        self.known["seeds"] = [seed.hex() for seed in seeds]
        if self.node.get("key"):
            text = signed_text(self.known["session"], number, offer)
            offer["signature"] = keys.sign(Path(str(self.node["key"])), text)
        self.known["own"] = offer
        self._save()
        return offer

    def shares(self, order: Order) -> dict[str, str]:
        """Return shares of the private keys and of new seeds, encrypted, by receiver."""
        self._check_turn(order, "keys")
        members = {int(number): dict(one) for number, one in order["members"].items()}
        threshold, own = int(order["threshold"]), self.known["number"]
        self._check_members(members, threshold)
        masks = [bytes.fromhex(one) for one in self.known["masks"]]
        seeds = [bytes.fromhex(one) for one in self.known["seeds"]]
        numbers = sorted(members)
        shares = [[keys.make_shares(secret, threshold, numbers) for secret in pair]
                  for pair in zip(seeds, masks, strict=True)]  # fmt: skip
        self.known |= {"members": members, "threshold": threshold, "stage": "shares", "at": -1}
        self.known["list"] = list_digest(self.known["session"], threshold, members)
        self.known["held"] = {own: [[seed[own], key[own]] for seed, key in shares]}
        sealed = {}
        for number in numbers:
            if number != own:
                each = [[seed[number], key[number]] for seed, key in shares]
                text = json.dumps([self.known["list"], own, each])
                sealed[str(number)] = keys.encrypt(
                    bytes.fromhex(self.known["seal"]), members[number]["seal"], text
                )
        self._save()
        return sealed

    def train_masked(self, order: Order, work: Work) -> tuple[Tensor, Shapes, int]:
        """Train and mask the message; return its numbers and shapes, and the number of rounds."""
        self._check_turn(order, "shares", "opened", "sketched")
        at, own, members = int(order["sum"]), self.known["number"], self.known["members"]
        if not self.known["at"] < at < len(self.known["seeds"]):
            raise PolicyError("This site has used the masks of this sum already, or has none.")
        if self.known["stage"] == "shares":
            self._decrypt_shares(order["shares"])
        rows = {int(number): int(n) for number, n in order["people"].items()}
        self._check_weights(rows, work.n_rows)
        if work.phase is None:
            raise PolicyError("The server asks for a sum after the last round.")
        sums, digest = work.phase.sums, work.order_digest(rows)
        weights = rows if "size" in sums.values() else dict.fromkeys(rows, 1)
        # From here on these masks are used up, whatever happens.
        about = str(work.source.folder), work.state_digest, weights
        self.known |= {"at": at, "stage": "masked", "about": about}
        self._save()
        sent, done = work.train()
        scale = Scale(sums, work.phase.states.models)
        numbers = quantise(sent, work.server, scale, rows[own], len(members))
        private, session = bytes.fromhex(self.known["masks"][at]), self.known["session"]
        pairs = {
            int(number): keys.mask_key(private, members[number]["masks"][at], session, digest)
            for number in members
            if int(number) != own
        }
        numbers += mask(bytes.fromhex(self.known["seeds"][at]), len(numbers))
        numbers += pair_masks(own, pairs, len(numbers))
        shared = {str(number): key.hex() for number, key in pairs.items()}
        self.known["shared"] = {"shapes": shapes_of(sent), "keys": shared}
        self._save()
        return torch.from_numpy(numbers), shapes_of(sent), done

    def sign(self, order: Order) -> dict[str, str]:
        """Sign the list of the survivors; of this sum the site signs and opens no other."""
        self._check_turn(order, "masked")
        within = set(map(int, order["within"]))
        if self.known["number"] not in within or not within <= set(map(int, self.known["members"])):
            raise PolicyError("This site does not open a sum that it is not in.")
        self._check_enough(len(within))
        self.known |= {"within": sorted(within), "stage": "signed"}
        self._save()
        return {"signature": keys.sign_once(bytes.fromhex(self.known["sign"]), self._survivors())}

    def unmask(self, order: Order) -> dict[str, dict[str, str]]:
        """Return shares of the survivors' seeds, and of the keys of the others."""
        self._check_turn(order, "signed")
        self._check_signatures(order["signatures"])
        within, at, members = set(self.known["within"]), self.known["at"], self.known["members"]
        folder, digest, weights = self.known["about"]
        cohort = sorted([members[n]["site"], weights[n]] for n in map(str, within))
        with Ledger(Path(folder), Policy.of(self.node)).adding_up(cohort):
            note_sum(folder, digest, cohort)
        shares: dict[str, dict[str, str]] = {"seeds": {}, "keys": {}}
        for number, each in self.known["held"].items():
            seed, key = each[at]
            inside = int(number) in within
            shares["seeds" if inside else "keys"][number] = seed if inside else key
            each[at] = None
        self.known["seeds"][at] = self.known["masks"][at] = None
        self.known["stage"] = "opened"
        self._save()
        return shares

    def sketch(self, order: Order) -> dict[str, Any]:
        """Return sketches of the masks that this site shares with the others in the last sum."""
        self._check_turn(order, "opened")
        within, at, members = self.known["within"], self.known["at"], self.known["members"]
        nonces = {number: str(order["nonces"][str(number)]) for number in within}
        for number, nonce in nonces.items():
            if sketches.commitment(nonce) != members[str(number)]["nonces"][at]:
                raise PolicyError("The random numbers for this sketch are not those of the sites.")
        Ledger(Path(self.known["about"][0]), Policy.of(self.node)).sketch()
        about = self.known.pop("shared")
        self.known["stage"] = "sketched"
        self._save()
        shapes = tuple((name, tuple(shape)) for name, shape in about["shapes"])
        others = [number for number in within if number != self.known["number"]]
        shared = [mask(bytes.fromhex(about["keys"][str(number)]), length_of(shapes))
                  for number in others]  # fmt: skip
        seed = sketches.seed_of(self._survivors(), nonces)
        found = zip(others, sketches.sketch(shared, shapes, seed), strict=True)
        return {str(n): {name: sums.tolist() for name, sums in one.items()} for n, one in found}

    def _decrypt_shares(self, sealed: Mapping[str, str]) -> None:
        """Read the others' shares: those of all other members, dealt under the same list."""
        held, members = dict(self.known["held"]), self.known["members"]
        if set(sealed) != set(members) - set(held):
            raise PolicyError(
                "This site masks with all members of its list, and needs the shares of each: the "
                f"list has {len(members)} sites, and shares have come from {len(sealed)} others."
            )
        for number, one in sealed.items():
            try:
                held[number] = self._shares_from(int(number), one)
            except Exception as error:
                raise PolicyError(
                    f"The shares of site number {number} cannot be read, or are of another sum."
                ) from error
        self.known["held"] = held

    def _shares_from(self, source: int, sealed: str) -> list[list[str]]:
        """Return the shares of another site's seed and key, for each sum."""
        members, own = self.known["members"], self.known["number"]
        private = bytes.fromhex(self.known["seal"])
        text = keys.decrypt(private, members[str(source)]["seal"], sealed)
        digest, number, each = json.loads(text)
        if [digest, number] != [self.known["list"], source]:
            raise ValueError("they were dealt under another list, or for another sum")
        for (seed, key), _ in zip(each, self.known["seeds"], strict=True):
            keys.check_share(seed, own, map(int, members))
            keys.check_share(key, own, map(int, members))
        return list(each)

    def _survivors(self) -> str:
        return survivors_text(self.known["list"], self.known["at"], self.known["within"])

    def _check_signatures(self, signatures: Mapping[str, Any]) -> None:
        """Refuse unless enough survivors have signed the list that this site has signed."""
        text, within, members = self._survivors(), self.known["within"], self.known["members"]
        signers = {self.known["number"]} | {
            number
            for number in within
            if keys.is_signed(members[str(number)]["sign"], text, signatures.get(str(number)))
        }
        if len(signers) < self.known["threshold"]:
            raise PolicyError(
                f"{len(signers)} sites have signed the list of sites in the sum that this site has "
                f"signed, {self.known['threshold']} are needed: nothing is opened."
            )

    def _check_turn(self, order: Order, *stages: str) -> None:
        """Refuse a message out of turn: masks that are used twice hide nothing."""
        same = self.known.get("session") == order.get("session")
        if not same or self.known.get("stage") not in stages:
            raise PolicyError("This site does not know of this sum, or has already answered.")

    def _save(self) -> None:
        self.memory["sum"] = json.dumps(self.known)
        self.known = json.loads(self.memory["sum"])  # the numbers of sites become text

    def _check_members(self, members: Mapping[int, Mapping[str, Any]], threshold: int) -> None:
        if members.get(self.known["number"]) != self.known["own"]:
            raise PolicyError("This site's keys are not among those of the sum.")
        if len(members) < MIN_SITES:
            raise too_few(len(members))
        if not min_threshold(len(members)) <= threshold <= len(members):
            raise PolicyError(
                f"This site needs at least {min_threshold(len(members))} of {len(members)} sites "
                f"to open a sum; the run asks for {threshold}."
            )
        each = [
            key for one in members.values() for key in (one["seal"], one["sign"], *one["masks"])
        ]
        sums = {len(one[name]) for one in members.values() for name in ("masks", "nonces")}
        unequal = sums != {len(self.known["masks"])}
        if unequal or len(set(each)) < len(each):
            raise PolicyError("This site does not add up where two have one key, or too few.")
        if self.node.get("peers"):
            self._check_signed(members, Path(str(self.node["peers"])))

    def _check_signed(self, members: Mapping[int, Mapping[str, Any]], peers: Path) -> None:
        seen = set[str]()
        for number, one in members.items():
            text = signed_text(self.known["session"], number, one)
            signer = keys.signer(peers, text, str(one.get("signature", "")))
            if signer is None or signer in seen:
                raise PolicyError(
                    f"The keys of site number {number} are not signed by a site that this one "
                    "knows (its file of public keys, peers)."
                )
            seen.add(signer)

    def _check_weights(self, weights: Mapping[int, int], most: int) -> None:
        """Check the weights of the sites; if the others were sent different ones, masks remain."""
        own = weights.get(self.known["number"], 0)
        if set(weights) != set(map(int, self.known["members"])) or min(weights.values()) < 1:
            raise PolicyError("This site does not know what each site in the sum counts for.")
        if own > most:
            raise PolicyError("This site does not count for more rows than it has.")
        if 2 * own > sum(weights.values()):
            raise PolicyError("This site does not count for more than all others combined.")

    def _check_enough(self, sites: int) -> None:
        if sites < max(MIN_SITES, self.known["threshold"]):
            raise too_few(sites)


def too_few(sites: int) -> PolicyError:
    return PolicyError(
        f"This site's numbers leave in a sum of at least {MIN_SITES} sites, and of as many as must "
        f"open it; the run asks for {sites}."
    )


def signed_text(session: str, number: int, offer: Mapping[str, Any]) -> str:
    words = ["pfedfair secure sum", session, number, offer["site"]]
    return json.dumps([*words, offer["seal"], offer["sign"], offer["masks"], offer["nonces"]])


def list_digest(session: str, threshold: int, members: Mapping[int, Mapping[str, Any]]) -> str:
    """Return a digest of the list of members with their keys, and of how many open a sum."""
    words = ["pfedfair members", session, threshold, sorted(members.items())]
    return sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


def survivors_text(digest: str, at: int, within: Iterable[int]) -> str:
    """Return what the survivors of a sum sign: the list of members, which sum, and who they are."""
    return json.dumps(["pfedfair survivors", digest, at, sorted(within)])


def note_sum(folder: str, digest: str, cohort: list[Any]) -> None:
    """Record the sites and weights of a sum; refuse the same sum with others."""
    path = Path(folder) / NAME
    book = read_json(path) if path.exists() else {}
    if book.pop(digest, cohort) != cohort:
        raise PolicyError(
            "The same was added up before with other sites or weights, and the difference would "
            "reveal some: wait until these sites are back, or start another run with another seed."
        )
    book = dict([*book.items(), (digest, cohort)][-MAX_NOTED:])
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(book))
