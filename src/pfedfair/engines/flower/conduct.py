"""The server's side of a run: agree on a schema, conduct the rounds, hand over the models.

Every wait has a time limit; every site that is refused or missing is named in the log; after every
round the state is on disk, and a run that is started again resumes from there.
"""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import torch
from flwr.app import MetricRecord
from flwr.serverapp import Grid
from torch import Tensor

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.tables.roles import LIKE_A_NAME
from pfedfair.engines.flower import log
from pfedfair.engines.flower.participants import Answers, Participants
from pfedfair.engines.flower.records import pack_states, read_training
from pfedfair.engines.flower.robust import robust
from pfedfair.engines.flower.secure import NOTICE, Cohort, Round, SecureSum, secure_round
from pfedfair.engines.flower.sizes import max_bytes
from pfedfair.engines.local import flush_denormal
from pfedfair.engines.site.bounds import bound_weights
from pfedfair.engines.site.checkpoint import Checkpoint, Participant
from pfedfair.engines.site.checks import (
    cannot_be,
    check_model,
    find_outliers,
    find_suspects,
    refusal,
    shorten_updates,
)
from pfedfair.engines.site.masking import MIN_SITES
from pfedfair.engines.site.rounds import make_network
from pfedfair.engines.site.schema import agree
from pfedfair.engines.site.settings import Settings
from pfedfair.engines.site.votes import MAX_EARLIER, MAX_STATES
from pfedfair.methods import State
from pfedfair.methods.phases import Phase, adds_noise, phase_at, sends_models_only, started

PAUSE = 3  # rounds until the sites vote again on one that they found harmless


class Conductor:
    """One run."""

    def __init__(self, grid: Grid, settings: Settings) -> None:
        self.settings = settings
        self.participants = Participants(grid, settings)
        self.without_model: dict[str, str] = {}  # sites, and why
        self.left_out: dict[str, int] = {}  # sites, and how often their answers were left out
        self.cleared: dict[int, int] = {}  # sites that were voted on for nothing, and the round
        self.cohort: Cohort | None = None  # the keys of secure sums
        self.good_states: list[State] = []  # the last ones that the sites found no worse
        self.is_worse = False  # whether they found the last one worse than that

    def run(self) -> Checkpoint:
        """Conduct the run to its end; return its last state."""
        out = self.settings.out
        before = Checkpoint.load(out)
        state = before or self.begin()
        if state.key != self.settings.key(state.schema):
            raise InputError(f"{out} holds another run: choose another out, or delete it.")
        if before is not None:
            log.info("pfedfair: going on after round %d", state.done)
            self.participants.wait(state, require_all=True)
        while state.done < self.settings.rounds:
            state = self.round(state)
        self.finish(state)
        return state

    def begin(self) -> Checkpoint:
        """Wait for the sites, agree on a schema, set up the server's state."""
        settings, algorithm = self.settings, self.settings.algorithm
        self.participants.wait()
        known = map(self.participants.described.get, self.participants.nodes.values())
        found = sorted((one for one in known if one), key=lambda one: (one.place, one.site))
        schema, refused = agree(found, settings.blind, settings.hidden)
        for site, why in refused.items():
            self.participants.refuse(site, why)
        for column in schema.left:
            log.warning(
                "pfedfair: column '%s' is no input: at most sites it %s", column, LIKE_A_NAME
            )
        sites = [Participant(one.site, one.rows) for one in found if one.site not in refused]
        if len(sites) < settings.min_sites:
            raise InputError(
                f"{len(sites)} sites have the same table, {settings.min_sites} are needed. "
                + " ".join(f"Site '{site}': {why}." for site, why in refused.items())
            )
        network = make_network(schema, algorithm)
        server = {"w": network.init(seeds.generator(settings.seed, seeds.INIT))}
        for phase in started(algorithm.phases, 0, 0):
            server = phase.start_server(server, _weights(sites, range(len(sites))))
        sends_more = not sends_models_only(algorithm.phases)
        if sends_more and (settings.clip > 0 or settings.aggregate != "mean"):
            raise InputError(
                "clip, epsilon and aggregate are for methods whose sites send their model and "
                f"nothing else; {type(algorithm).__name__} sends more."
            )
        if settings.epsilon > 0:
            answers = -(-settings.rounds // settings.local_rounds)
            log.info(
                "pfedfair: differential privacy of a whole site: epsilon %g and delta %g for one "
                "answer, for all %d epsilon %.3g and delta %g",
                settings.epsilon, settings.delta, *settings.spent(answers).values(),
            )  # fmt: skip
        if settings.secure_sum:
            log.info(f"pfedfair: {NOTICE}", MIN_SITES, settings.max_change)
        state = Checkpoint(settings.key(schema), schema, sites, server)
        state.save(settings.out)
        names = ", ".join(f"{i}: {site.name}" for i, site in enumerate(sites))
        log.info("pfedfair: %s with %d sites (%s)", type(algorithm).__name__, len(sites), names)
        return state

    def round(self, state: Checkpoint) -> Checkpoint:
        """Conduct one round and save the server's new state, which is returned."""
        began = time.monotonic()
        if self.settings.secure_sum:
            found, self.cohort = secure_round(self.settings, self.participants, state, self.cohort)
        else:
            found = self.unmasked_round(state)
        done, last = state.done + found.steps, found.last_answers
        server = self.next_state(state, found)
        if self.settings.secure_sum:
            server = self.vote_on_sum(state, server, found.steps)
        with flush_denormal():
            for following in started(self.settings.algorithm.phases, done, done):
                weights = _weights(state.sites, range(len(state.sites)))
                server, last = following.start_server(server, weights), {}
        w, old = server.get("w"), state.server["w"]
        if w is None or (w.shape, w.dtype) != (old.shape, old.dtype):
            raise InputError("The sites' answers make no model: see the log for what they sent.")
        check_model("global", w)
        seconds = time.monotonic() - began
        state = replace(
            state, server=server, done=done, last_answers=last, seconds=[*state.seconds, seconds],
        )  # fmt: skip
        state.save(self.settings.out)
        names = ", ".join(state.sites[number].name for number in found.sites)
        log.info("pfedfair: round %d of %d with %s, %.1f s",
                 state.done, self.settings.rounds, names, seconds)  # fmt: skip
        return state

    def unmasked_round(self, state: Checkpoint) -> Round:
        """Ask all sites for one round's answer; ask again, once, if too few are accepted."""
        for attempt in (1, 2):
            self.participants.wait(state)
            good, steps = self.accept(state, self.participants.order(state, "train"))
            if len(good) >= self.settings.min_sites:
                return self.stack(state, self.vote_on_suspects(state, good), steps)
            log.error(
                "pfedfair: %d good answers in round %d, %d are needed%s",
                len(good), state.done + 1, self.settings.min_sites,
                "; asking once more" if attempt == 1 else "",
            )  # fmt: skip
        raise InputError(
            f"Round {state.done + 1} had {len(good)} good answers twice, {self.settings.min_sites} "
            "are needed: see the log for the refused sites. The same command goes on from "
            "here."
        )

    def accept(self, state: Checkpoint, answers: Answers) -> tuple[dict[int, State], int]:
        """Return the accepted answers by the sites' numbers, and how many rounds each has done."""
        good: dict[int, State] = {}
        steps: dict[int, int] = {}
        settings = self.settings
        phase = settings.phase(state.done)
        models = phase.states.models

        def refuse(number: int, why: str) -> None:
            name = state.sites[number].name
            log.error("pfedfair: the answer of site '%s' is refused: %s", name, why)

        for number, answer in self.participants.successes(state, answers).items():
            try:
                message, steps[number] = read_training(answer, max_bytes(state.server))
            except Exception as error:
                name = state.sites[number].name
                log.error("pfedfair: the answer of site '%s' cannot be read: %r", name, error)
                continue
            why = refusal(message, state.server, models, settings.far)
            why = why or cannot_be(phase, message, state, [number])
            if not 1 <= steps[number] <= settings.local_rounds:
                why = f"it says that it has done {steps[number]} rounds"
            if why is None:
                good[number] = message
            else:
                refuse(number, why)
        usual = Counter(steps[number] for number in good).most_common(1)
        outliers = find_outliers(good, state.server, models) | {
            number: f"it has done {steps[number]} rounds, the others {usual[0][0]}"
            for number in good
            if steps[number] != usual[0][0]
        }
        for number, why in outliers.items():
            refuse(number, why)
            del good[number]
        rows = {number: site.rows for number, site in enumerate(state.sites)}
        good, shortened = shorten_updates(good, state.server, models, rows)
        for number, why in shortened.items():
            log.warning("pfedfair: the update of site '%s': %s", state.sites[number].name, why)
        return good, usual[0][0] if usual else 1

    def vote_on_suspects(self, state: Checkpoint, good: dict[int, State]) -> dict[int, State]:
        """Return the answers without those that most sites' rows are better off without.

        The sites vote only if answers are unlike most, see `find_suspects`. They do not if answers
        have noise, which a vote would not have, or are combined by a robust mean.
        """
        settings, phase = self.settings, self.settings.phase(state.done)
        private = settings.epsilon > 0 or adds_noise(settings.algorithm.phases)
        if private or settings.aggregate != "mean" or not (phase.trains or phase.decides):
            return good
        rows = {number: site.rows for number, site in enumerate(state.sites)}
        states = phase.states
        why = find_suspects(good, state.server, states.models, states.grow_with_rows, rows)
        each = [{number} for number in why][: MAX_STATES - 2]
        sets = each + [set(why)] * (len(why) > 1)
        sets = [left for left in sets if 2 * len(left) < len(good)]
        if all(self.cleared.get(number, -PAUSE) > state.done - PAUSE for number in why) or not sets:
            return good
        proposals = [good, *(leave_out(phase, state, good, left) for left in sets)]
        votes = self.poll(
            state, [self.next_state(state, self.stack(state, one, 1)) for one in proposals]
        )
        without = outvoted(votes, sets)
        self.cleared |= dict.fromkeys(set(why) - set(without), state.done)
        for number, against in without.items():
            name = state.sites[number].name
            self.left_out[name] = self.left_out.get(name, 0) + 1
            log.error(
                "pfedfair: the answer of site '%s' is left out: %s, and by %d of %d votes the "
                "sites' own rows are better off without it",
                name, why[number], against, sum(votes),
            )  # fmt: skip
        return leave_out(phase, state, good, set(without)) if without else good

    def vote_on_sum(self, state: Checkpoint, server: State, steps: int) -> State:
        """Return the state to go on with, after a vote; or end the run for liars.

        The sites compare the model with the last that they found no worse: after 1, 2, 4, 8,
        ... rounds, as a vote is a message more, and at the end of training. Where sites send
        statistics a model may be worse once, as after a Newton step that is too long: then they
        vote on the next one, too. Where they send models, and nobody is named, the better one is
        taken at the end of training. (Not before: the same state would be added up again.)
        """
        phases, phase = self.settings.algorithm.phases, self.settings.phase(state.done)
        number = len(state.seconds) + 1
        ends = phase_at(phases, state.done + steps)[0] is not phase
        private = self.settings.epsilon > 0 or adds_noise(phases)
        due = ends or self.is_worse or number & (number - 1) == 0
        if private or not phase.trains or not due:
            return server
        before = self.good_states or [state.server]
        votes = self.poll(state, [server, *before])
        again, self.is_worse = self.is_worse, 2 * votes[0] < sum(votes)
        if not self.is_worse:
            self.good_states = [] if ends else [*before, server][-MAX_EARLIER:]
            return server
        self.good_states = [] if ends else before
        log.warning("pfedfair: by %d of %d votes the sites' own rows are worse off with the model "
                    "of round %d than with one before", sum(votes) - votes[0], sum(votes),
                    state.done + steps)  # fmt: skip
        of_models = phase.states.sends_models_only
        if again or ends or of_models:
            assert self.cohort is not None
            SecureSum(self.settings, self.participants, state).stop_for_liars(self.cohort)
        if not ends:
            return server
        self.is_worse = False
        if not of_models:  # a larger ridge costs training rows, and is right
            return server
        log.warning(
            "pfedfair: the run goes on with the best of the models that they found no worse"
        )
        return before[max(range(len(before)), key=votes[1:].__getitem__)]

    def poll(self, state: Checkpoint, proposals: list[State]) -> list[int]:
        """Return how many sites find each of the proposed states best.

        A site that does not answer counts for the first one.
        """
        answers = self.participants.order(state, "query.vote", arrays=pack_states(proposals))
        votes = [0] * len(proposals)
        for answer in self.participants.successes(state, answers).values():
            record = answer.content.config_records.get("config")
            best = record.get("best") if record is not None else None
            if type(best) is int and 0 <= best < len(votes):
                votes[best] += 1
        votes[0] += len(self.participants.connected(state)) - sum(votes)
        return votes

    def next_state(self, state: Checkpoint, found: Round) -> State:
        """Return the server's state after a round of the current phase."""
        with flush_denormal():
            return self.settings.phase(state.done).server_round(
                state.server, found.stacked, found.weights
            )

    def stack(self, state: Checkpoint, answers: dict[int, State], steps: int) -> Round:
        """Stack the answers of a round for the method's server round.

        Where the server keeps something of every client, a missing site counts with its last
        answer in this phase.
        """
        settings, sites, last = self.settings, sorted(answers), dict[int, State]()
        if settings.phase(state.done).states.keeps_clients:
            answers = last = state.last_answers | answers
            missing = [site.name for i, site in enumerate(state.sites) if i not in answers]
            if missing:
                raise InputError(
                    f"{type(settings.algorithm).__name__} needs every site's first answer; "
                    f"{', '.join(missing)} did not send one. The same command tries again."
                )
        numbers = sorted(answers)
        stacked = {
            name: torch.stack([answers[number][name] for number in numbers])
            for name in answers[numbers[0]]
        }
        weights = _weights(state.sites, numbers)
        if settings.aggregate != "mean":
            with flush_denormal():
                w = robust(stacked["w"], settings.aggregate, settings.malicious)
            stacked, weights = {"w": w[None]}, weights.sum()[None]
        return Round(sites, stacked, weights, steps, last)

    def finish(self, state: Checkpoint) -> None:
        """Have every site make and keep its personal model.

        Sites that are absent or fail are asked once more, and have `wait` seconds to return. Those
        that still have no model are in `without_model`.
        """
        missing = self.without_model = {site.name: "it is not here." for site in state.sites}
        for attempt in (1, 2):
            self.participants.wait(state, require_all=attempt == 2, least=2 - attempt)
            numbers = [i for i, site in enumerate(state.sites) if site.name in missing]
            answers = self.participants.order(state, "train.finish", {i: {} for i in numbers})
            for number, answer in sorted(answers.items()):
                name = state.sites[number].name
                if answer.has_error():
                    missing[name] = str(answer.error.reason)
                    continue
                missing.pop(name, None)
                metrics = answer.content.metric_records.get("metrics") or MetricRecord()
                shared = [f"{k} {v:.3f}" for k, v in metrics.items() if isinstance(v, float)]
                words = f": {', '.join(shared)}" if shared else ""
                log.info("pfedfair: site '%s' has its model%s", name, words)
            if not missing:
                return
            for name, why in missing.items():
                log.error("pfedfair: site '%s' has no personal model: %s The same command asks it "
                          "again.", name, why)  # fmt: skip


def outvoted(votes: list[int], sets: list[set[int]]) -> dict[int, int]:
    """Return who is left out: those of the set with the most votes whom more than half leave out.

    The first number is of votes to leave out nobody, the others are of those for each set. Also
    returned is how many leave out each. So few liars cannot have a site left out where the others
    are divided.

    >>> outvoted([2, 1, 0, 2], [{4}, {7}, {4, 7}]), outvoted([2, 1, 2], [{4}, {7}])
    ({4: 3}, {})
    """
    count = Counter[int]()
    for many, left in zip(votes[1:], sets, strict=True):
        count.update(dict.fromkeys(left, many))
    chosen = max(range(len(sets)), key=votes[1:].__getitem__)
    return {n: count[n] for n in sorted(sets[chosen]) if 2 * count[n] > sum(votes)}


def leave_out(
    phase: Phase, state: Checkpoint, good: dict[int, State], left: set[int]
) -> dict[int, State]:
    """Return the answers without some; with the server's models where every site must be there."""
    if not phase.states.keeps_clients:
        return {number: message for number, message in good.items() if number not in left}
    unmoved = {name: state.server[name] for name in phase.states.sent_models}
    return {n: message | unmoved if n in left else message for n, message in good.items()}


def _weights(sites: list[Participant], numbers: Iterable[int]) -> Tensor:
    """Return the number of rows that each site counts for."""
    rows = bound_weights([sites[number].rows for number in numbers])
    return torch.tensor(rows, dtype=torch.float32)
