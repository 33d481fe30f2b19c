"""A site's part in a secure sum: four messages of the server's, in this order and each once.

1. ``query.keys``: the site makes new keys, and tells the public ones.
2. ``query.shares``: it makes the seed of its own mask, and deals out shares of it and of its
   private key, each sealed for one other site. The server passes them on.
3. ``train``: the round itself; what leaves is masked.
4. ``query.unmask``: for each site whose numbers have arrived the site tells its share of the seed,
   for each other one its share of the key. Never both of one site: with both, and late numbers,
   the server could read them.

Private keys and seeds are in the memory of the site's SuperNode, never on disk. On disk is with
whom the last rounds were added up: a round again with others would tell of those who differ.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pfedfair.engines.flower import keys
from pfedfair.engines.site.masking import FEWEST, Forms, Scale, forms_of, mask, pair_masks, whole
from pfedfair.engines.site.policy import PolicyError
from pfedfair.engines.site.work import Work
from pfedfair.files import atomic

Order = Mapping[str, Any]
NAME = "added-up.json"
KEPT, RUNS = 2, 100  # rounds, as of a site's own state, and of how many runs


class Partner:
    """What a site remembers of the sum that is being made; `memory` outlives messages."""

    def __init__(self, memory: MutableMapping[str, Any], node: Order) -> None:
        self.memory, self.node = memory, node
        self.known: dict[str, Any] = json.loads(str(memory.get("sum", "{}")))

    def keys(self, order: Order) -> dict[str, str]:
        """Make keys for a new sum; return the public ones, signed if the site has a key."""
        both = {use: keys.fresh() for use in ("seal", "mask")}
        self.known = {"session": str(order["session"]), "stage": "keys"}
        self.known["number"] = int(order["number"])
        self.known["private"] = {use: one.hex() for use, one in both.items()}
        told = {use: keys.public(one) for use, one in both.items()}
        if self.node.get("key"):
            text = signed_text(self.known["session"], self.known["number"], told)
            told["signature"] = keys.sign(Path(str(self.node["key"])), text)
        self.known["own"] = told
        self._keep("keys")
        return told

    def shares(self, order: Order) -> dict[str, str]:
        """Deal out shares of the private mask key and of a new seed; sealed, by the receiver."""
        self._at("keys", order)
        members = {int(number): dict(one) for number, one in order["members"].items()}
        threshold, own = int(order["threshold"]), self.known["number"]
        self._check_members(members, threshold)
        numbers, seed = sorted(members), secrets.token_bytes(keys.LENGTH)
        dealt = [keys.deal(secret, threshold, numbers) for secret in (seed, self._private("mask"))]
        self.known |= {"members": members, "threshold": threshold, "seed": seed.hex()}
        self.known["kept"] = [dealt[0][own], dealt[1][own]]
        private, sealed = self._private("seal"), {}
        for number in numbers:
            if number != own:
                text = json.dumps([self.known["session"], own, dealt[0][number], dealt[1][number]])
                sealed[str(number)] = keys.seal(private, members[number]["seal"], text)
        self._keep("shares")
        return sealed

    def masked(self, order: Order, work: Work) -> tuple[Tensor, Forms, int]:
        """Train, and hide what comes of it; return the numbers, their form and how many rounds."""
        self._at("shares", order)
        sealed = {int(number): str(one) for number, one in order["shares"].items()}
        own, members = self.known["number"], self.known["members"]
        present = sorted({*sealed, own})
        if not {str(number) for number in present} <= set(members):
            raise PolicyError("This site does not add up with sites whose keys it has not seen.")
        self._check_enough(len(present))
        people = int(order["people"])
        if not 1 <= people <= work.people:
            raise PolicyError("This site does not count for more people than it has.")
        # From here on these masks are used up, whatever happens.
        self.known |= {"sealed": sealed, "present": present}
        self.known["round"] = [str(work.site.folder), work.key, work.t]
        self._keep("masked")
        sent, done = work.train()
        scale = Scale(work.algorithm.sums, int(order["bits"]), work.algorithm.models)
        numbers = whole(sent, work.server, scale, people, len(present))
        private, session = self._private("mask"), self.known["session"]
        pairs = {
            number: keys.mask_key(private, members[str(number)]["mask"], session)
            for number in present
            if number != own
        }
        numbers += mask(bytes.fromhex(self.known["seed"]), len(numbers))
        numbers += pair_masks(own, pairs, len(numbers))
        return torch.from_numpy(numbers), forms_of(sent), done

    def unmask(self, order: Order) -> dict[str, dict[str, str]]:
        """Shares of the seeds of those who are in the sum, and of the keys of those who are not."""
        self._at("masked", order)
        within, present = sorted(map(int, order["within"])), self.known["present"]
        own = self.known["number"]
        if own not in within or not set(within) <= set(present):
            raise PolicyError("This site does not open a sum that it is not in.")
        self._check_enough(len(within))
        remember(self.known["round"], within)
        told: dict[str, dict[str, str]] = {"seeds": {}, "keys": {}}
        private = self._private("seal")
        for number in present:
            both = self.known["kept"]
            if number != own:
                other = self.known["members"][str(number)]["seal"]
                text = keys.unseal(private, other, self.known["sealed"][str(number)])
                session, source, *both = json.loads(text)
                if [session, source] != [self.known["session"], number]:
                    raise PolicyError("This site was given shares of another sum.")
            kind, share = ("seeds", both[0]) if number in within else ("keys", both[1])
            told[kind][str(number)] = share
        self.known = {}
        self._keep("opened")
        return told

    def _private(self, use: str) -> bytes:
        return bytes.fromhex(self.known["private"][use])

    def _at(self, stage: str, order: Order) -> None:
        """Refuse what is out of turn: masks that are used twice hide nothing."""
        if self.known.get("session") != order.get("session") or self.known.get("stage") != stage:
            raise PolicyError("This site does not know of this sum, or has already answered.")

    def _keep(self, stage: str) -> None:
        self.known["stage"] = stage
        self.memory["sum"] = json.dumps(self.known)
        self.known = json.loads(self.memory["sum"])

    def _check_members(self, members: Mapping[int, Mapping[str, str]], threshold: int) -> None:
        own, session = self.known["number"], self.known["session"]
        if members.get(own) != self.known["own"]:
            raise PolicyError("This site's own keys are not among those of the sum.")
        if not len(members) // 2 < threshold <= len(members):
            raise PolicyError(
                f"This site needs more than half of {len(members)} sites to open a sum; the run "
                f"asks for {threshold}."
            )
        if len(members) < FEWEST:
            raise too_few(len(members))
        if len({one[use] for one in members.values() for use in ("seal", "mask")}) < 2 * len(
            members
        ):
            raise PolicyError("This site does not add up with two sites that have one key.")
        if self.node.get("peers"):
            folder, seen = Path(str(self.node["peers"])), set[str]()
            for number, one in members.items():
                text = signed_text(session, number, one)
                who = keys.signer(folder, text, one.get("signature", ""))
                if who is None or who in seen:
                    raise PolicyError(
                        f"The keys of site number {number} are not signed by a site that this one "
                        "knows (its folder of public keys, peers)."
                    )
                seen.add(who)

    def _check_enough(self, sites: int) -> None:
        if sites < max(FEWEST, self.known["threshold"]):
            raise too_few(sites)


def too_few(sites: int) -> PolicyError:
    return PolicyError(
        f"This site's numbers leave in a sum of at least {FEWEST} sites, and of more than half; "
        f"the run asks for {sites}."
    )


def signed_text(session: str, number: int, told: Mapping[str, str]) -> str:
    return f"pfedfair secure sum {session} {number} {told['seal']} {told['mask']}"


def remember(about: tuple[str, str, int], within: list[int]) -> None:
    """Note with whom a round is added up; refuse one that was added up with others."""
    folder, run, t = about
    path = Path(folder) / NAME
    book = json.loads(path.read_text()) if path.exists() else {}
    rounds = book.pop(run, {})
    if rounds.get(str(t), within) != within:
        raise PolicyError(
            "This round was added up before, with other sites: the difference would tell of some. "
            "Wait until all of them are back, or start another run."
        )
    rounds = dict(list({**rounds, str(t): within}.items())[-KEPT:])
    book = dict([*book.items(), (run, rounds)][-RUNS:])
    with atomic(path) as beside:
        beside.write_text(json.dumps(book))
