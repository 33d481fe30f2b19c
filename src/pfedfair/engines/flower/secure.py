"""The server's part in a secure sum: it passes on what it cannot read, and adds up.

After Bonawitz and others, "Practical secure aggregation for privacy-preserving machine learning",
CCS 2017; `partner` is the sites' part. Whoever is lost on the way is left out: before its shares
are there it is as if it had never come; after that the others' shares of its key make the masks
again that it shares with them, and these are taken off.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from flwr.app import ConfigRecord, Message, RecordDict

from pfedfair._util.errors import InputError
from pfedfair.engines.flower import keys, log
from pfedfair.engines.flower.partner import AT_ONCE
from pfedfair.engines.flower.records import unpack
from pfedfair.engines.flower.sizes import allowed, check_arrays, check_text
from pfedfair.engines.local import flush_denormal
from pfedfair.engines.site.bounds import bounded_rows
from pfedfair.engines.site.checkpoint import Checkpoint
from pfedfair.engines.site.masking import (
    FEWEST,
    MASKED,
    Forms,
    Scale,
    all_asked,
    least_to_open,
    length_of,
    mask,
    pair_masks,
    question,
    read,
)  # fmt: skip
from pfedfair.engines.site.settings import Settings
from pfedfair.methods import State

if TYPE_CHECKING:
    from pfedfair.engines.flower.conduct import Conductor

Send = Callable[[str, Mapping[int, RecordDict]], dict[int, Message]]
Train = Callable[[Mapping[int, dict[str, str]]], dict[int, Message]]
Check = Callable[[int, Mapping[str, Any]], None]  # of what a site says; raises if it cannot be
SAID = (
    "the sites' numbers are added up behind masks: the server sees sums of at least %d sites, and "
    "nobody's own. Each site shortens its own update (max-change = %g); an update that is too long "
    "on purpose is seen in the sum alone, and nobody can say whose it is"
)


class Sum(NamedTuple):
    """What a round's messages add up to, as if one client had sent it; and whose they were."""

    who: list[int]
    message: State
    steps: int


class FailedError(Exception):
    """A sum that cannot be made: why not."""


@dataclass
class Circle:
    """Sites that have dealt shares to each other, for some sums."""

    session: str
    threshold: int
    offers: dict[int, dict[str, Any]]  # public keys
    dealt: dict[int, dict[str, Any]]  # sealed shares, by whom and for whom
    sums: int
    used: int = 0

    def fits(self, seated: list[int]) -> bool:
        """Whether the next sum can do with its keys."""
        return self.used < self.sums and sorted(self.dealt) == seated


@dataclass
class Secure:
    """One sum. `post` sends a message to some sites, `train` the round's own."""

    settings: Settings
    state: Checkpoint
    post: Send
    train: Train

    def prepare(self, seated: list[int]) -> Circle:
        """Have the sites make keys for the next sums, and deal out shares of them."""
        left = -(-(self.settings.rounds - self.state.done) // self.settings.local_rounds)
        session, sums = secrets.token_hex(16), min(left, AT_ONCE)
        order = {"session": session, "sums": sums}

        def sound(number: int, told: Mapping[str, Any]) -> None:
            for key in (told["seal"], *told["masks"]):
                keys.check_public(key)
            if len({told["seal"], *told["masks"]}) != 1 + sums or type(told["site"]) is not str:
                raise ValueError(f"it has not made keys for {sums} sums")

        asked = {number: {**order, "number": number} for number in seated}
        offers = self.ask("query.keys", asked, sound)
        threshold = max(self.settings.secure_threshold, least_to_open(len(offers)))
        self.enough(offers, self.least(threshold), "keys")
        about = {"session": session, "members": offers, "threshold": threshold}

        def whole(number: int, told: Mapping[str, Any]) -> None:
            if set(told) != {str(other) for other in offers if other != number}:
                raise ValueError("it has not dealt shares to all others")

        dealt = self.ask("query.shares", dict.fromkeys(offers, about), whole)
        self.enough(dealt, self.least(threshold), "shares")
        return Circle(session, threshold, offers, dealt, sums)

    def make(self, circle: Circle) -> Sum:
        """Ask the sites for their masked numbers, and to open the sum; add up."""
        at, threshold = circle.used, circle.threshold
        circle.used += 1
        vectors, forms, steps, people = self.masked(circle, at)
        self.enough(vectors, self.least(threshold), "numbers")
        within = sorted(vectors)
        order = {"session": circle.session, "within": within}
        wanted = {"seeds": within, "keys": sorted(set(circle.dealt) - set(within))}

        def opens(number: int, told: Mapping[str, Any]) -> None:
            for kind, numbers in wanted.items():
                for one in numbers:
                    keys.check_share(told[kind][str(one)], number, circle.offers)

        opened = self.ask("query.unmask", dict.fromkeys(within, order), opens)
        self.enough(opened, threshold, "shares at the end")
        total = np.zeros_like(vectors[within[0]])
        for vector in vectors.values():
            total += vector
        for number in within:
            shares = {who: str(told["seeds"][str(number)]) for who, told in opened.items()}
            total -= mask(keys.made_again(shares, threshold), len(total))
        public = {number: one["masks"][at] for number, one in circle.offers.items()}
        asked = self.asked(people)
        for number in wanted["keys"]:
            shares = {who: str(told["keys"][str(number)]) for who, told in opened.items()}
            private = keys.made_again(shares, threshold)
            if keys.public(private) != public[number]:
                raise FailedError(f"the shares of the key of {self.names(number)} do not fit")
            pairs = {n: keys.mask_key(private, public[n], circle.session, asked) for n in within}
            total += pair_masks(number, pairs, len(total))
        weights = [people[number] for number in within]
        message = read(total, forms, self.state.server, self.scale, weights)
        self.check_way(message)
        if len(opened) < len(circle.dealt):
            circle.used = circle.sums  # who is lost has lost its place among the others' keys
        return Sum(within, message, steps)

    def least(self, threshold: int) -> int:
        return max(FEWEST, threshold, self.settings.min_sites)

    def masked(
        self, circle: Circle, at: int
    ) -> tuple[dict[int, np.ndarray], Forms, int, dict[int, int]]:
        """The round itself: masked numbers of equal form, and what each site counts for."""
        dealt = circle.dealt
        rows = [self.state.places[number].rows for number in dealt]
        people = dict(zip(dealt, bounded_rows(rows), strict=True))
        orders = {}
        for number in dealt:
            order: dict[str, Any] = {"session": circle.session, "sum": at}
            order["people"] = people
            if at == 0:
                order["shares"] = {str(source): told[str(number)] for source, told in dealt.items()
                                   if source != number}  # fmt: skip
            orders[number] = {"secure": json.dumps(order)}
        found: dict[int, tuple[np.ndarray, Forms, int]] = {}
        for number, answer in self.good(self.train(orders)).items():
            try:
                found[number] = self.look(answer)
            except Exception as error:
                log.error("pfedfair: the answer of %s cannot be read: %r",
                          self.names(number), error)  # fmt: skip
        often = Counter((forms, steps) for _, forms, steps in found.values())
        usual = max(often, key=lambda kind: often[kind], default=((), 1))
        for number, (_, *kind) in found.items():
            if tuple(kind) != usual:
                log.error("pfedfair: the answer of %s is refused: it has other numbers than the "
                          "others'", self.names(number))  # fmt: skip
        vectors = {n: one for n, (one, *kind) in found.items() if tuple(kind) == usual}
        return vectors, *usual, people

    def look(self, answer: Message) -> tuple[np.ndarray, Forms, int]:
        arrays = answer.content.array_records["arrays"]
        check_arrays(arrays, allowed(self.state.server))
        vector = unpack(arrays)[MASKED].numpy()
        told = _read(answer)["forms"]
        forms = tuple((str(name), tuple(map(int, shape))) for name, shape in told)
        steps = int(str(answer.content.metric_records["metrics"]["rounds"]))
        if not 1 <= steps <= self.settings.local_rounds:
            raise ValueError(f"it says that it has done {steps} rounds")
        models = self.settings.algorithm.models
        for name, shape in forms:
            if name not in self.settings.algorithm.sums:
                raise ValueError(f"'{name}' is not one of the method's numbers")
            if name in models and shape != self.state.server[name].shape:
                raise ValueError(f"'{name}' has shape {shape}")
        if vector.dtype != np.int64 or vector.shape != (length_of(forms),):
            raise ValueError(f"it has {vector.shape} numbers of kind {vector.dtype}")
        return vector, forms, steps

    def asked(self, people: Mapping[int, int]) -> str:
        """A name for all that the sites are asked."""
        about, settings = question(self.state.done, self.state.server), self.settings
        rounds, change = settings.local_rounds, settings.max_change
        return all_asked(about, self.state.key, rounds, change, people)

    @property
    def scale(self) -> Scale:
        return Scale(self.settings.algorithm.sums, self.settings.algorithm.models)

    def check_way(self, message: State) -> None:
        """A mean of honest sites' models is no further away than each of theirs may be."""
        for name in self.settings.algorithm.models:
            if name in message:
                way = message[name].double() - self.state.server[name].double()
                far = float(way.square().mean().sqrt())
                if not far <= self.settings.far:
                    raise FailedError(
                        f"the mean of '{name}' moved by {far:.3g}, more than {self.settings.far:g} "
                        "(max-change): a site sent other numbers than it should"
                    )

    def ask(
        self, kind: str, about: Mapping[int, Mapping[str, Any]], check: Check
    ) -> dict[int, dict[str, Any]]:
        """Send some sites a text each; return what those say whose answer passes the check."""
        contents = {}
        for number, order in about.items():
            text = json.dumps(order)
            contents[number] = RecordDict({"config": ConfigRecord({"secure": text})})
        found = {}
        for number, answer in self.good(self.post(kind, contents)).items():
            try:
                told = _read(answer)
                check(number, told)
                found[number] = told
            except Exception as error:
                log.error("pfedfair: %s: the answer of %s cannot be read: %r",
                          kind, self.names(number), error)  # fmt: skip
        return found

    def good(self, answers: Mapping[int, Message]) -> dict[int, Message]:
        for number, answer in sorted(answers.items()):
            if answer.has_error():
                log.error("pfedfair: %s failed: %s", self.names(number), answer.error.reason)
        return {n: answer for n, answer in sorted(answers.items()) if not answer.has_error()}

    def enough(self, found: Mapping[int, object], least: int, what: str) -> None:
        if len(found) < least:
            raise FailedError(f"{len(found)} sites have sent {what}, {least} are needed")

    def names(self, *numbers: int) -> str:
        return ", ".join(f"site '{self.state.places[number].name}'" for number in numbers)


def _read(answer: Message) -> dict[str, Any]:
    return dict(json.loads(check_text(str(answer.content.config_records["config"]["secure"]))))


def secure_round(conductor: Conductor, state: Checkpoint) -> tuple[State, list[int], int]:
    """A round of which the server sees sums alone: its new state, whose they are, how many rounds.

    Once more, with new keys, if it fails.
    """
    settings = conductor.settings
    for _ in (1, 2):
        conductor.roster.gather(state)
        seated = sorted(conductor.roster.seated(state))
        made = Secure(
            settings, state, partial(conductor.deliver, state),
            lambda orders: conductor.send(state, "train", more=orders),
        )  # fmt: skip
        circle, conductor.circle = conductor.circle, None
        try:
            if circle is None or not circle.fits(seated):
                circle = made.prepare(seated)
            found = made.make(circle)
        except (FailedError, InputError, KeyError, ValueError) as error:
            log.error("pfedfair: round %d could not be added up: %s", state.done + 1, error)
            continue
        conductor.circle = circle
        lost = sorted(set(seated) - set(found.who))
        if lost:
            log.warning("pfedfair: the sum is without %s", made.names(*lost))
        stacked = {name: tensor[None] for name, tensor in found.message.items()}
        people = torch.tensor([float(sum(state.places[n].rows for n in found.who))])
        with flush_denormal():
            server = settings.algorithm.server_round(state.server, stacked, people)
        return server, found.who, found.steps
    raise InputError(
        f"Round {state.done + 1} could not be added up twice: see the log for why. The same "
        "command goes on from here."
    )
