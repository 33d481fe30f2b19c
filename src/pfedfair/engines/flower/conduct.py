"""The server's side of a run: who takes part, what is agreed, round after round.

Every wait has an end; every site that is refused or missing is named in the log; after every round
the state is on disk, and a run that is started again goes on from there.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.tables.roles import LIKE_A_NAME
from pfedfair.engines.flower import log
from pfedfair.engines.flower.post import ask
from pfedfair.engines.flower.records import pack, unpack
from pfedfair.engines.flower.robust import robust
from pfedfair.engines.flower.roster import Roster
from pfedfair.engines.flower.secure import SAID, Circle, secure_round
from pfedfair.engines.flower.sizes import allowed, check_arrays
from pfedfair.engines.local import flush_denormal
from pfedfair.engines.site.bounds import bounded_rows
from pfedfair.engines.site.checkpoint import Checkpoint, Place
from pfedfair.engines.site.checks import check_model, odd_ones, refusal, shortened
from pfedfair.engines.site.masking import FEWEST
from pfedfair.engines.site.schema import agree
from pfedfair.engines.site.settings import Settings
from pfedfair.engines.site.work import make_network
from pfedfair.methods import Method, State


class Conductor:
    """One run."""

    def __init__(self, grid: Grid, settings: Settings) -> None:
        self.grid = grid
        self.settings = settings
        self.roster = Roster(grid, settings)
        self.lacking: dict[str, str] = {}  # sites without a personal model at the end, and why
        self.circle: Circle | None = None  # who adds up together, in secure sums
        self.silent: set[int] = set()  # nodes that were waited for in vain, the last time

    def run(self) -> Checkpoint:
        """Conduct the run to its end; return its last state."""
        algorithm, out = self.settings.algorithm, self.settings.out
        before = Checkpoint.load(out)
        state = before or self.begin()
        if state.key != self.settings.key(state.schema):
            raise InputError(f"{out} holds another run: choose another out, or delete it.")
        if before is not None:
            log.info("pfedfair: going on after round %d", state.done)
            self.roster.gather(state, everybody=True)
        while state.done < self.settings.rounds:
            began = time.monotonic()
            if self.settings.secure_sum:
                server, who, steps = secure_round(self, state)
                last: dict[int, State] = {}
            else:
                messages, steps = self.round(state)
                who = sorted(messages)
                last = state.last | messages if algorithm.keeps_clients else {}
                with flush_denormal():
                    server = self.combine(algorithm, state, messages)
            w, old = server.get("w"), state.server["w"]
            if w is None or (w.shape, w.dtype) != (old.shape, old.dtype):
                raise InputError("The sites' answers make no model: see the log for who sent what.")
            check_model("global", w)
            seconds = time.monotonic() - began
            done, each = state.done + steps, [*state.seconds, seconds]
            state = replace(state, server=server, done=done, last=last, seconds=each)
            state.save(out)
            names = ", ".join(state.places[number].name for number in who)
            log.info("pfedfair: round %d of %d with %s, %.1f s",
                     state.done, self.settings.rounds, names, seconds)  # fmt: skip
        self.finish(state)
        return state

    def begin(self) -> Checkpoint:
        """Wait for the sites, agree on a schema, set up the server's state."""
        settings, algorithm = self.settings, self.settings.algorithm
        self.roster.gather()
        here = (self.roster.known[node] for node in self.roster.nodes.values())
        found = sorted((one for one in here if one), key=lambda one: (one.place, one.site))
        schema, refused = agree(found, settings.blind, settings.hidden)
        for site, why in refused.items():
            self.roster.refuse(site, why)
        for column in schema.left:
            log.warning(
                "pfedfair: column '%s' is no input: at most sites it %s", column, LIKE_A_NAME
            )
        places = [Place(one.site, one.rows) for one in found if one.site not in refused]
        if len(places) < settings.min_sites:
            raise InputError(
                f"{len(places)} sites have the same table, {settings.min_sites} are needed. "
                + " ".join(f"Site '{site}': {why}." for site, why in refused.items())
            )
        network = make_network(schema, algorithm)
        w = network.init(seeds.generator(settings.seed, seeds.INIT))
        sizes = _sizes(places, range(len(places)))
        server = algorithm.start_server(w, sizes)
        if not algorithm.sends_models_only and (settings.clip > 0 or settings.aggregate != "mean"):
            raise InputError(
                "clip, epsilon and aggregate are for methods whose sites send their model and "
                f"nothing else; {type(algorithm).__name__} sends more."
            )
        if settings.epsilon > 0:
            answers = -(-settings.rounds // settings.local_rounds)
            log.info(
                "pfedfair: differential privacy of a whole site: epsilon %g and delta %g for one "
                "answer, for all %d epsilon %.3g and delta %g; a repeated round is one answer more",
                settings.epsilon, settings.delta, *settings.spent(answers).values(),
            )  # fmt: skip
        if settings.secure_sum:
            log.info(f"pfedfair: {SAID}", FEWEST, settings.max_change)
        state = Checkpoint(settings.key(schema), schema, places, server)
        state.save(settings.out)
        names = ", ".join(f"{i}: {place.name}" for i, place in enumerate(places))
        log.info("pfedfair: %s with %d sites (%s)", type(algorithm).__name__, len(places), names)
        return state

    def round(self, state: Checkpoint) -> tuple[dict[int, State], int]:
        """Ask all sites for one round's answer; ask again, once, if too few are good."""
        for attempt in (1, 2):
            self.roster.gather(state)
            answers = self.send(state, "train")
            good, steps = self.accept(state, answers)
            if len(good) >= self.settings.min_sites:
                return good, steps
            log.error(
                "pfedfair: %d good answers in round %d, %d are needed%s",
                len(good), state.done + 1, self.settings.min_sites,
                "; asking once more" if attempt == 1 else "",
            )  # fmt: skip
        raise InputError(
            f"Round {state.done + 1} had {len(good)} good answers twice, {self.settings.min_sites} "
            "are needed: see the log for who was refused and why. The same command goes on from "
            "here."
        )

    def accept(
        self, state: Checkpoint, answers: dict[int, Message]
    ) -> tuple[dict[int, State], int]:
        """Return the good answers by the sites' numbers, and how many rounds each has done."""
        good: dict[int, State] = {}
        steps: dict[int, int] = {}
        models = self.settings.algorithm.models

        def refuse(number: int, why: str) -> None:
            name = state.places[number].name
            log.error("pfedfair: the answer of site '%s' is refused: %s", name, why)

        for number, answer in sorted(answers.items()):
            name = state.places[number].name
            if answer.has_error():
                log.error("pfedfair: site '%s' failed: %s", name, answer.error.reason)
                continue
            try:
                arrays = answer.content.array_records["arrays"]
                check_arrays(arrays, allowed(state.server))
                message = unpack(arrays)
                steps[number] = int(str(answer.content.metric_records["metrics"]["rounds"]))
            except Exception as error:
                log.error("pfedfair: the answer of site '%s' cannot be read: %r", name, error)
                continue
            why = refusal(message, state.server, models, self.settings.far)
            if not 1 <= steps[number] <= self.settings.local_rounds:
                why = f"it says that it has done {steps[number]} rounds"
            if why is None:
                good[number] = message
            else:
                refuse(number, why)
        usual = Counter(steps[number] for number in good).most_common(1)
        odd = odd_ones(good, state.server, models) | {
            number: f"it has done {steps[number]} rounds, the others {usual[0][0]}"
            for number in good
            if steps[number] != usual[0][0]
        }
        for number, why in odd.items():
            refuse(number, why)
            del good[number]
        rows = {number: place.rows for number, place in enumerate(state.places)}
        good, long = shortened(good, state.server, models, rows)
        for number, why in long.items():
            log.warning("pfedfair: the update of site '%s': %s", state.places[number].name, why)
        return good, usual[0][0] if usual else 1

    def combine(self, algorithm: Method, state: Checkpoint, messages: dict[int, State]) -> State:
        """The algorithm's own server round, over those who answered.

        Where the server keeps something of every client, a site that is missing counts with its
        last answer.
        """
        keys = set(next(iter(messages.values())))  # a last answer of another kind does not count
        last = {number: one for number, one in state.last.items() if set(one) == keys}
        if algorithm.keeps_clients and (last or not state.last):
            messages = last | messages
            missing = [p.name for i, p in enumerate(state.places) if i not in messages]
            if missing:
                raise InputError(
                    f"{type(algorithm).__name__} needs every site's first answer; "
                    f"{', '.join(missing)} did not send one. The same command tries again."
                )
        numbers = sorted(messages)
        stacked = {
            name: torch.stack([messages[number][name] for number in numbers])
            for name in messages[numbers[0]]
        }
        sizes = _sizes(state.places, numbers)
        if self.settings.aggregate != "mean":
            w = robust(stacked["w"], self.settings.aggregate, self.settings.malicious)
            stacked, sizes = {"w": w[None]}, sizes.sum()[None]
        return algorithm.server_round(state.server, stacked, sizes)

    def finish(self, state: Checkpoint) -> None:
        """Let every site make and keep its own model.

        Who is away or fails is asked once more: it has `wait` seconds to come back. Who has none
        in the end is in `lacking`.
        """
        self.lacking = {place.name: "it is not here." for place in state.places}
        for attempt in (1, 2):
            self.roster.gather(state, everybody=attempt == 2, least=2 - attempt)
            answers = self.send(state, "train.finish", set(self.lacking))
            for number, place in enumerate(state.places):
                if place.name not in self.lacking or number not in answers:
                    continue
                answer = answers[number]
                if answer.has_error():
                    self.lacking[place.name] = str(answer.error.reason)
                    continue
                del self.lacking[place.name]
                told = dict(answer.content.metric_records.get("metrics") or MetricRecord())
                numbers = {k: v for k, v in told.items() if isinstance(v, float)}
                words = ", ".join(f"{name} {value:.3f}" for name, value in numbers.items())
                log.info("pfedfair: site '%s' has its model%s", place.name, words and f": {words}")
            if not self.lacking:
                return
            for name, why in self.lacking.items():
                log.error("pfedfair: site '%s' has no personal model: %s The same command asks it "
                          "again.", name, why)  # fmt: skip

    def send(
        self,
        state: Checkpoint,
        kind: str,
        only: Collection[str] | None = None,
        more: Mapping[int, dict[str, str]] | None = None,
    ) -> dict[int, Message]:
        """Send the server's state to all seated sites, or some; return their answers by number.

        Some by name (`only`), or those that are told something `more`.
        """
        seated: Collection[int] = self.roster.seated(state)
        if only is not None:
            seated = [i for i in seated if state.places[i].name in only]
        if more is not None:
            seated = [i for i in seated if i in more]
        arrays, contents = pack(state.server), {}
        order: dict[str, Any] = {"round": state.done, "key": state.name}
        order |= {"schema": state.schema.to_json(), "max-change": self.settings.max_change}
        order |= {"local-rounds": self.settings.local_rounds}
        for number in seated:
            told = more[number] if more else {}
            config = ConfigRecord({**order, "number": number, **told})
            contents[number] = RecordDict({"arrays": arrays, "config": config})
        return self.deliver(state, kind, contents)

    def deliver(
        self, state: Checkpoint, kind: str, contents: Mapping[int, RecordDict]
    ) -> dict[int, Message]:
        """Send some sites a content each; return their answers, all by the sites' numbers."""
        seated = {i: node for i, node in self.roster.seated(state).items() if i in contents}
        by_node = {node: contents[number] for number, node in seated.items()}
        quiet = self.silent.intersection(seated.values())
        optional = quiet if len(quiet) < len(seated) else set()
        limit, poll = self.settings.round_timeout, self.settings.poll
        most = allowed(state.server)
        found = ask(self.grid, by_node, kind, limit, poll, str(state.done + 1), optional, most)
        for number, node in seated.items():
            if node not in found:
                name = state.places[number].name
                log.error("pfedfair: site '%s' did not answer (limit %g s)", name, limit)
        # Nobody waits twice in a row for a dead one, nor gives up a slow one for good.
        asked = set(seated.values())
        self.silent = (self.silent - asked) | (asked - {*found, *optional})
        return {number: found[node] for number, node in seated.items() if node in found}


def _sizes(places: list[Place], numbers: Iterable[int]) -> Tensor:
    """How many people each site counts for."""
    rows = bounded_rows([places[number].rows for number in numbers])
    return torch.tensor(rows, dtype=torch.float32)
