"""The server's part in a secure sum: pass on what it cannot read, and add up.

After Bonawitz and others, "Practical secure aggregation for privacy-preserving machine learning",
CCS 2017; `partner` is the sites' part. A site that is lost on the way is left out: before its
shares have arrived as if it had never come, and the others make new keys; afterwards the others'
shares of its key reconstruct the masks that it shares with them, and these are subtracted.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.engines.flower import keys, log
from pfedfair.engines.flower.participants import Participants
from pfedfair.engines.flower.partner import MAX_SUMS, list_digest, survivors_text
from pfedfair.engines.flower.records import read_training
from pfedfair.engines.flower.sizes import check_text, max_bytes
from pfedfair.engines.site.bounds import bound_weights
from pfedfair.engines.site.checkpoint import Checkpoint
from pfedfair.engines.site.checks import cannot_be
from pfedfair.engines.site.masking import (
    MASKED,
    MIN_SITES,
    Scale,
    Shapes,
    dequantise,
    length_of,
    mask,
    min_threshold,
    order_digest,
    pair_masks,
    state_digest,
)  # fmt: skip
from pfedfair.engines.site.settings import Settings
from pfedfair.engines.site.sketches import (
    COUNT,
    commitment,
    find_liars,
    nonce_of,
    seed_of,
    sketch,
)
from pfedfair.methods import State

MAX_INTEGER = 2**63 - 1
Check = Callable[[int, Mapping[str, Any]], None]  # of a site's answer; raises if it is impossible
NOTICE = (
    "the sites' numbers are summed behind masks: the server sees sums of at least %d sites, and no "
    "site's numbers. Each site shortens its update (max-change = %g); for one that does not, the "
    "server asks for a few random sums of each site's numbers if a sum cannot be right"
)


class Round(NamedTuple):
    """The answers of a round, stacked for the method's server round.

    A secure sum is one row, as if one client had sent it. `steps` is the number of rounds that each
    site has done.
    """

    sites: list[int]
    stacked: State
    weights: Tensor
    steps: int
    last_answers: dict[int, State]


class SumError(Exception):
    """A sum that cannot be made, and why."""


class LiarError(InputError):
    """Sites are known to have sent what cannot be right: the run ends."""


class Opened(NamedTuple):
    """The last sum: each site's numbers under the masks that it shares with others in the sum."""

    at: int
    vectors: dict[int, np.ndarray]
    nonces: dict[int, str]
    shapes: Shapes
    weights: dict[int, int]


@dataclass
class Cohort:
    """Sites that have exchanged shares of their keys, for some sums."""

    session: str
    threshold: int
    offers: dict[int, dict[str, Any]]  # public keys
    shares: dict[int, dict[str, Any]]  # encrypted shares, by sender and receiver
    sums: int
    used: int = 0
    opened: Opened | None = None

    def fits(self, sites: list[int]) -> bool:
        """Whether the next sum of these sites can use its keys."""
        return self.used < self.sums and sorted(self.shares) == sites


def secure_round(
    settings: Settings, participants: Participants, state: Checkpoint, cohort: Cohort | None
) -> tuple[Round, Cohort]:
    """Conduct a round of which the server sees sums only; try again with new keys if it fails."""
    for _ in (1, 2):
        participants.wait(state)
        sites = sorted(participants.connected(state))
        aggregation = SecureSum(settings, participants, state)
        try:
            if cohort is None or not cohort.fits(sites):
                cohort = aggregation.prepare(sites)
            found = aggregation.make(cohort)
        except LiarError:
            raise
        except (SumError, InputError, KeyError, ValueError) as error:
            log.error("pfedfair: round %d could not be added up: %s", state.done + 1, error)
            cohort = None
            continue
        lost = sorted(set(sites) - set(found.sites))
        if lost:
            log.warning("pfedfair: the sum is without %s", aggregation.names(*lost))
        return found, cohort
    raise InputError(
        f"Round {state.done + 1} could not be added up twice: see the log for why. The same "
        "command goes on from here."
    )


@dataclass
class SecureSum:
    """One sum."""

    settings: Settings
    participants: Participants
    state: Checkpoint

    def prepare(self, sites: list[int]) -> Cohort:
        """Have the sites make keys for the next sums, and exchange shares of them.

        Each masks with all members of the list: where one deals no shares, the others start anew.
        """
        while True:
            cohort = self.exchange(sites)
            if len(cohort.shares) == len(cohort.offers):
                return cohort
            missing = self.names(*sorted(set(cohort.offers) - set(cohort.shares)))
            log.warning("pfedfair: %s dealt no shares: new keys without it", missing)
            sites = sorted(cohort.shares)

    def exchange(self, sites: list[int]) -> Cohort:
        """Ask for keys, then for shares; a site that does not answer is missing there."""
        remaining = -(-(self.settings.rounds - self.state.done) // self.settings.local_rounds)
        session, sums = secrets.token_hex(16), min(remaining, MAX_SUMS)

        def check_keys(number: int, offer: Mapping[str, Any]) -> None:
            public = [offer["seal"], offer["sign"], *offer["masks"]]
            for key in public:
                keys.check_public(key)
            right = len(public) == len(set(public)) == 2 + sums == 2 + len(offer["nonces"])
            if not right or type(offer["site"]) is not str:
                raise ValueError(f"it has not made keys for {sums} sums")

        orders = {n: {"session": session, "sums": sums, "number": n} for n in sites}
        offers = self.ask("query.keys", orders, check_keys)
        threshold = max(self.settings.secure_threshold, min_threshold(len(offers)))
        self.require(offers, self.min_sites(threshold), "keys")
        order = {"session": session, "members": offers, "threshold": threshold}

        def check_receivers(number: int, sent: Mapping[str, Any]) -> None:
            if set(sent) != {str(other) for other in offers if other != number}:
                raise ValueError("it has not dealt shares to all others")

        shares = self.ask("query.shares", dict.fromkeys(offers, order), check_receivers)
        self.require(shares, self.min_sites(self.settings.secure_threshold), "shares")
        return Cohort(session, threshold, offers, shares, sums)

    def make(self, cohort: Cohort) -> Round:
        """Ask for masked numbers, signatures of who is in the sum, and shares; add up."""
        at, threshold = cohort.used, cohort.threshold
        cohort.used += 1
        vectors, shapes, steps, rows_of = self.train_masked(cohort, at)
        self.require(vectors, self.min_sites(threshold), "numbers")
        within = sorted(vectors)
        signatures = self.sign(cohort, at, within)
        wanted = {"seeds": within, "keys": sorted(set(cohort.shares) - set(within))}

        def check_shares(number: int, sent: Mapping[str, Any]) -> None:
            for kind, numbers in wanted.items():
                for one in numbers:
                    keys.check_share(sent[kind][str(one)], number, cohort.offers)

        order = {"session": cohort.session, "signatures": signatures}
        opened = self.ask("query.unmask", dict.fromkeys(signatures, order), check_shares)
        self.require(opened, threshold, "shares at the end")
        nonces = {}
        for number, vector in vectors.items():
            committed = cohort.offers[number]["nonces"][at]
            seed = self.reconstruct(opened, "seeds", number, threshold, committed)
            nonces[number] = nonce_of(seed)
            vector -= mask(seed, len(vector))
        public = {number: one["masks"][at] for number, one in cohort.offers.items()}
        digest = self.order_digest(rows_of)
        for number in wanted["keys"]:
            private = self.reconstruct(opened, "keys", number, threshold, public[number])
            for n, vector in vectors.items():
                pair = {number: keys.mask_key(private, public[n], cohort.session, digest)}
                vector -= pair_masks(n, pair, len(vector))
        cohort.opened = Opened(at, vectors, nonces, shapes, rows_of)
        total = np.sum([*vectors.values()], axis=0)  # shared masks cancel
        phase = self.settings.phase(self.state.done)
        scale, weights = Scale(phase.sums, phase.states.models), [rows_of[n] for n in within]
        try:
            message = dequantise(total, shapes, self.state.server, scale, weights)
            self.check_change(message)
            if why := cannot_be(phase, message, self.state, within):
                raise SumError(f"the sum cannot be: {why}")
        except (SumError, InputError) as error:
            log.error("pfedfair: round %d: %s", self.state.done + 1, error)
            self.stop_for_liars(cohort)
            raise
        if len(opened) < len(cohort.shares):
            cohort.used = cohort.sums  # the others' keys no longer fit the remaining sites
        stacked = {name: tensor[None] for name, tensor in message.items()}
        rows = torch.tensor([float(sum(self.state.sites[n].rows for n in within))])
        return Round(within, stacked, rows, steps, {})

    def reconstruct(
        self, opened: Mapping[int, Mapping[str, Any]], kind: str, number: int, threshold: int,
        known: str,
    ) -> bytes:  # fmt: skip
        """Return a site's seed or private key from shares, one of which may be wrong.

        `known` is what the site has shown with its keys: the seed's commitment, or the public key.
        Without this check a wrong share would make an honest site's numbers look like a lie.
        """
        shares = {n: str(sent[kind][str(number)]) for n, sent in opened.items()}
        for left in (None, *shares):
            some = {n: share for n, share in shares.items() if n != left}
            if len(some) < threshold:
                break
            with suppress(ValueError):
                secret = keys.reconstruct(some, threshold)
                shown = commitment(nonce_of(secret)) if kind == "seeds" else keys.public(secret)
                if shown == known:
                    if left is not None:
                        log.error("pfedfair: %s has sent a wrong share, or %s has dealt one",
                                  self.names(left), self.names(number))  # fmt: skip
                    return secret
        raise SumError(
            f"the shares of a secret of {self.names(number)} do not fit: it has dealt wrong ones, "
            f"or one of {self.names(*shares)} has sent a wrong one"
        )

    def stop_for_liars(self, cohort: Cohort) -> None:
        """End the run if the sketches of the last sum tell who sent what cannot be right."""
        liars = self.find_liars(cohort)
        for number, why in liars.items():
            log.error("pfedfair: %s sent numbers unlike the others': %s", self.names(number), why)
        if liars:
            raise LiarError(
                f"Round {self.state.done + 1} was spoilt, as it seems by {self.names(*liars)}: see "
                "the log. The same is not added up again with others, so start another run, with "
                "another seed and without it."
            )
        log.error("pfedfair: nobody could be named")

    def find_liars(self, cohort: Cohort) -> dict[int, str]:
        """Return the sites whose numbers in the last sum are unlike the others', by sketches."""
        opened, phase = cohort.opened, self.settings.phase(self.state.done)
        assert opened is not None
        within, nonces = sorted(opened.vectors), opened.nonces
        digest = list_digest(cohort.session, cohort.threshold, cohort.offers)
        seed = seed_of(survivors_text(digest, opened.at, within), nonces)
        partly = sketch([opened.vectors[n] for n in within], opened.shapes, seed)
        own = dict(zip(within, partly, strict=True))
        form = {name: len(sums) for name, sums in partly[0].items()}

        def check_sketch(number: int, sent: Mapping[str, Any]) -> None:
            for other in within:
                if other == number:
                    continue
                if {k: len(v) for k, v in sent[str(other)].items()} != form:
                    raise ValueError("it has no sketch of all masks")
                for sums in sent[str(other)].values():
                    if not all(type(one) is int and abs(one) <= MAX_INTEGER for one in sums):
                        raise ValueError("its sketch has other than whole numbers of 64 bits")

        order = {"session": cohort.session, "nonces": {str(n): nonces[n] for n in within}}
        answers = self.ask("query.sketch", dict.fromkeys(within, order), check_sketch)
        unknown, conflicts = set[int](), list[tuple[int, int]]()
        for i, j in combinations(within, 2):
            reported = [answers[a][str(b)] for a, b in ((i, j), (j, i)) if a in answers]
            if not reported:
                unknown |= {i, j}
                continue
            if reported[0] != reported[-1]:
                conflicts.append((i, j))
            for name in form:
                shared = np.array(reported[0][name], dtype=np.int64)
                own[i][name] -= shared
                own[j][name] += shared
        if conflicts:
            return self.find_false(conflicts, len(within) - 1)
        known = [n for n in within if n not in unknown]
        counts = {n: int(own[n].pop(COUNT)[0]) for n in within}
        if any(counts[n] != 1 for n in known):
            return {n: f"it counts for {counts[n]} sites" for n in known if counts[n] != 1}
        if len(known) < MIN_SITES:
            return {}
        scale, sizes = Scale(phase.sums, phase.states.models), self.state.sites
        usual = median(sizes[n].rows for n in known)
        found = {}
        for n in known:  # with more rows a site takes more steps
            by = {name: float(opened.weights[n]) if scale.how[name] == "size" else
                  float(sizes[n].rows) if name in phase.states.grow_with_rows else 1.0
                  for name in own[n]}  # fmt: skip
            longer = {name: max(1.0, sizes[n].rows / usual) for name in scale.models}
            found[n] = {name: sums / (by[name] * longer.get(name, 1.0))
                        for name, sums in own[n].items()}  # fmt: skip
        liars = find_liars(found)
        return {n: why if n in answers else f"{why}, by the others' sketches: it sent none"
                for n, why in liars.items()}  # fmt: skip

    def find_false(self, conflicts: list[tuple[int, int]], others: int) -> dict[int, str]:
        """Return who may lie, of pairs of sites whose sketches of their shared mask differ.

        One of each pair lies, and it may be the other who is named for it. So only who is in
        conflict with more than half of the others is known to, if most are honest.
        """
        count = Counter(n for pair in conflicts for n in pair)
        known = {n: f"it shares other masks than {k} of the sites say"
                 for n, k in count.items() if 2 * k > others}  # fmt: skip
        why = "of it and one of the others who are named here, one reports a false mask"
        return known or dict.fromkeys(sorted(count), why)

    def sign(self, cohort: Cohort, at: int, within: list[int]) -> dict[int, str]:
        """Have the survivors sign the list of them, which each opens only if enough others did."""
        digest = list_digest(cohort.session, cohort.threshold, cohort.offers)
        text = survivors_text(digest, at, within)

        def check_signature(number: int, sent: Mapping[str, Any]) -> None:
            if not keys.is_signed(cohort.offers[number]["sign"], text, sent["signature"]):
                raise ValueError("it has not signed who is in the sum")

        order = {"session": cohort.session, "within": within}
        signed = self.ask("query.sign", dict.fromkeys(within, order), check_signature)
        self.require(signed, cohort.threshold, "signatures")
        return {number: str(sent["signature"]) for number, sent in signed.items()}

    def min_sites(self, threshold: int) -> int:
        return max(MIN_SITES, threshold, self.settings.min_sites)

    def train_masked(
        self, cohort: Cohort, at: int
    ) -> tuple[dict[int, np.ndarray], Shapes, int, dict[int, int]]:
        """Have the sites train; return masked vectors of equal shapes, and each site's weight."""
        senders = cohort.shares
        rows = [self.state.sites[number].rows for number in senders]
        weights = dict(zip(senders, bound_weights(rows), strict=True))
        orders = {}
        for number in senders:
            order: dict[str, Any] = {"session": cohort.session, "sum": at, "people": weights}
            if at == 0:
                order["shares"] = {str(sender): sent[str(number)]
                                   for sender, sent in senders.items()
                                   if sender != number}  # fmt: skip
            orders[number] = {"secure": json.dumps(order)}
        found: dict[int, tuple[np.ndarray, Shapes, int]] = {}
        answers = self.participants.order(self.state, "train", orders)
        for number, answer in self.participants.successes(self.state, answers).items():
            try:
                found[number] = self.read_masked(answer)
            except Exception as error:
                log.error("pfedfair: the answer of %s cannot be read: %r",
                          self.names(number), error)  # fmt: skip
        often = Counter((shapes, steps) for _, shapes, steps in found.values())
        usual = max(often, key=lambda kind: often[kind], default=((), 1))
        for number, (_, *kind) in found.items():
            if tuple(kind) != usual:
                log.error("pfedfair: the answer of %s is refused: it has other numbers than the "
                          "others'", self.names(number))  # fmt: skip
        vectors = {n: one for n, (one, *kind) in found.items() if tuple(kind) == usual}
        return vectors, *usual, weights

    def read_masked(self, answer: Message) -> tuple[np.ndarray, Shapes, int]:
        tensors, steps = read_training(answer, max_bytes(self.state.server))
        vector = tensors[MASKED].numpy()
        shapes = tuple((str(name), tuple(map(int, shape)))
                       for name, shape in _read(answer)["forms"])  # fmt: skip
        if not 1 <= steps <= self.settings.local_rounds:
            raise ValueError(f"it says that it has done {steps} rounds")
        phase = self.settings.phase(self.state.done)
        for name, shape in shapes:
            if name not in phase.sums:
                raise ValueError(f"'{name}' is not one of the method's numbers")
            if name in phase.states.models and shape != self.state.server[name].shape:
                raise ValueError(f"'{name}' has shape {shape}")
        if vector.dtype != np.int64 or vector.shape != (length_of(shapes),):
            raise ValueError(f"it has {vector.shape} numbers of kind {vector.dtype}")
        return vector, shapes, steps

    def order_digest(self, weights: Mapping[int, int]) -> str:
        """Return a digest of the order to the sites."""
        settings, state = self.settings, self.state
        return order_digest(
            state_digest(state.done, state.server), state.key, settings.local_rounds,
            settings.max_change, weights,
        )  # fmt: skip

    def check_change(self, message: State) -> None:
        """Refuse a mean of models that is further away than each of them may be."""
        for name in self.settings.phase(self.state.done).states.models:
            if name in message:
                change = message[name].double() - self.state.server[name].double()
                size = float(change.square().mean().sqrt())
                if not size <= self.settings.far:
                    raise SumError(
                        f"the mean of '{name}' moved by {size:.3g}, more than "
                        f"{self.settings.far:g} (max-change): a site sent other numbers than it "
                        "should"
                    )

    def ask(
        self, kind: str, orders: Mapping[int, Mapping[str, Any]], check: Check
    ) -> dict[int, dict[str, Any]]:
        """Send each site its order; return the answers that pass the check."""
        contents = {
            number: RecordDict({"config": ConfigRecord({"secure": json.dumps(order)})})
            for number, order in orders.items()
        }
        found = {}
        answers = self.participants.ask(self.state, kind, contents)
        for number, answer in self.participants.successes(self.state, answers).items():
            try:
                sent = _read(answer)
                check(number, sent)
                found[number] = sent
            except Exception as error:
                log.error("pfedfair: %s: the answer of %s cannot be read: %r",
                          kind, self.names(number), error)  # fmt: skip
        return found

    def require(self, found: Mapping[int, object], least: int, what: str) -> None:
        if len(found) < least:
            raise SumError(f"{len(found)} sites have sent {what}, {least} are needed")

    def names(self, *numbers: int) -> str:
        return ", ".join(f"site '{self.state.sites[number].name}'" for number in numbers)


def _read(answer: Message) -> dict[str, Any]:
    return dict(json.loads(check_text(str(answer.content.config_records["config"]["secure"]))))
