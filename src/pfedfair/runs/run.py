"""One training run: its inputs, its measured results, and how to save it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair import metrics
from pfedfair._util.errors import InputError, known, option
from pfedfair._util.notebook import abbreviate, block
from pfedfair.data.tables.bands import list_edges
from pfedfair.data.task import outputs
from pfedfair.engines.collection import is_shared
from pfedfair.engines.local import Fitted
from pfedfair.federation import Federation, Table, client_number
from pfedfair.methods import Clients, Method
from pfedfair.metrics.criteria import CRITERIA
from pfedfair.models import Network
from pfedfair.partition import Partition
from pfedfair.rules import Likeliest, Rule
from pfedfair.runs import history
from pfedfair.runs.card import card_of, columns_of, values_of
from pfedfair.runs.draws import draw, key_of, of_client
from pfedfair.runs.files import write_run
from pfedfair.runs.guards import Reference
from pfedfair.runs.measurement import measure
from pfedfair.runs.model import PersonalModel
from pfedfair.runs.predictions import Scored, StoredPredictor, draws_of, is_storable, rows_of, score
from pfedfair.runs.predictor import Predictor, collapsed, count, of_decisions, tallies
from pfedfair.runs.shapes import read_shapes, shapes
from pfedfair.theory import frontier

if TYPE_CHECKING:
    from pfedfair.report.document import Report


VALIDATION = "a plan with validation=0.2"
NO_ROWS = "the folder keeps scores, not the rows themselves"


def measured_rows(part: Partition, protocol: str | None) -> tuple[str, list[np.ndarray], bool]:
    """Return the protocol, the rows to measure each client on, and whether to weight them.

    "pool": all held-out rows, weighted to the client's share of S, for clients that differ in that
    share only (there it is the default); "own": the client's own test rows; "validation": the
    validation rows, of all clients and weighted where "pool" would be.
    """
    protocol = protocol or ("pool" if part.shared_conditional else "own")
    known("protocol", protocol, list(metrics.PROTOCOLS))
    if protocol == "pool" and not part.shared_conditional:
        raise InputError(
            "Protocol 'pool' needs clients that differ in their share of S only; these clients "
            "differ in more: use protocol 'own', each client's own test rows."
        )
    weighted = part.shared_conditional and protocol != "own"
    tuning = protocol == "validation"
    rows = list(part.validation if tuning else part.test)
    if weighted:
        rows = [np.concatenate(rows) if tuning else part.pool] * len(rows)
    unmeasured = [name for name, own in zip(part.names, rows, strict=True) if len(own) == 0]
    if unmeasured:
        raise InputError(f"{_no_rows(unmeasured, tuning)}{_instead(part, protocol)}.")
    return protocol, rows, weighted


def _no_rows(clients: Sequence[str], tuning: bool) -> str:
    """Say that clients have no rows to be measured on, and what to do."""
    named = abbreviate([f"'{name}'" for name in clients])
    what = "Client" if len(clients) == 1 else "Clients"
    have = "has" if len(clients) == 1 else "have"
    if tuning:
        return f"{what} {named} {have} no validation rows: hold some out, as {VALIDATION} does"
    return f"{what} {named} {have} no held-out rows to be measured on: add some, or leave it out"


def _instead(part: Partition, protocol: str) -> str:
    """Name the other protocol, where clients may be measured on all held-out rows."""
    able = protocol == "own" and part.shared_conditional and len(part.pool) > 0
    how = "measures each client on the held-out rows of all"
    return f", or take {option('protocol', 'pool')}, which {how}" if able else ""


class Loaded(NamedTuple):
    """The folder that a run was read from, and the content of its ``run.json``."""

    folder: Path
    card: Mapping[str, Any]


class Rowless(Network):
    """A network without rows: raises an error where a method would score rows not stored."""

    words, size = "no network", 0

    def init(self, rng: np.random.Generator) -> Tensor:
        return torch.zeros(0)

    def to_dict(self) -> dict[str, Any]:
        return {}

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        raise InputError(
            f"Another target needs the training rows for this method, and {NO_ROWS}: retarget the "
            "run before it is saved, or train again."
        )

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        self.logits(w, x, s)
        raise AssertionError


@dataclass(frozen=True, eq=False)
class Run:
    """The result of `train`, or of `load_run`, which has the scores of rows and not the rows.

    Attributes
    ----------
    command
        The command line, for the card.
    logits
        For every client the numbers of its rows in order, their logits and random draws; None if
        rows are scored on demand.
    reference
        The training rows' values by column, if the run has scores and no rows.
    """

    federation: Federation
    algorithm: Method
    network: Network
    fitted: Fitted
    seed: int
    seconds: float
    curve: tuple[Mapping[str, float], ...] = ()  # see `history`
    command: str = ""
    logits: Sequence[Scored] | None = field(default=None, repr=False)
    loaded: Loaded | None = field(default=None, repr=False)
    reference: Reference | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<{self._heading}>"

    def _repr_html_(self) -> str:
        if not self.measurable:
            lines = [f"{line}." for line in self.federation.words()]
            return block(self._heading, [*lines, "No rows are held out to measure it on."])
        from pfedfair.report.document import small

        return small(self)

    def report(self, path: str | Path | None = None, protocol: str | None = None) -> "Report":
        """Return the report page, which a notebook shows; write it to `path` if given.

        It has `html`, `text` (Markdown), `document` (all its numbers) and `save`. For `protocol`
        see `measured_rows`.
        """
        from pfedfair.report.document import report_of

        return report_of(self, path, protocol)

    @property
    def _heading(self) -> str:
        level = f" ({self.algorithm.level})" if self.algorithm.level else ""
        what = f"{type(self.algorithm).__name__}{level} on {self.federation.data.name}"
        clients = f"{len(self.federation)} client{'s' * (len(self.federation) != 1)}"
        return f"Run of {what}: {clients}, seed {self.seed}, {self.network.words}"

    @property
    def folder(self) -> Path | None:
        """The folder that `load_run` read the run from; None if it was trained here."""
        return self.loaded.folder if self.loaded else None

    @cached_property
    def card(self) -> Mapping[str, Any]:
        """The content of ``run.json`` except the description of the models."""
        if self.loaded:
            return self.loaded.card
        card: Mapping[str, Any] = json.loads(json.dumps(card_of(self)))  # types as in the file
        return card

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """Which columns are inputs, which are not, and why."""
        return self.loaded.card["columns"] if self.loaded else columns_of(self.federation)

    @cached_property
    def predictors(self) -> list[Predictor]:
        """The predictor of every client: network, parameters and rule."""
        each = zip(self.fitted.theta, self.fitted.rules, strict=True)
        keys = [of_client(self.key, name) for name in self.federation.partition.names]
        if self.logits is None:
            return [Predictor(self.network, *one, key) for one, key in zip(each, keys, strict=True)]
        scored = zip(each, keys, self.logits, strict=True)
        return [StoredPredictor(self.network, theta, rule, key, *of[:2])
                for (theta, rule), key, of in scored]  # fmt: skip

    def draws(self, client: int, rows: np.ndarray) -> np.ndarray:
        """Return a client's random draws of some of its rows, the same for every use of them."""
        numbers, drawn = self._draws[client]
        return drawn[np.searchsorted(numbers, rows)]

    @cached_property
    def _draws(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The numbers of each client's rows in order, and their draws."""
        part = self.federation.partition
        if self.logits is None:
            drawn = draws_of(self.predictors, part, self.federation.table)
        else:
            drawn = [draws for *_, draws in self.logits]
        found = []
        for numbers, draws, one in zip(rows_of(part), drawn, self.predictors, strict=True):
            if draws is None:  # of a rule that drew nothing when the run was saved
                ids = (str(row).encode() for row in numbers)
                found.append((numbers, draw(one.key, ids)))
            else:
                found.append((numbers, draws.numpy()))
        return found

    @cached_property
    def record(self) -> Self:
        """The run with the scores of all its rows, computed once, instead of their inputs.

        The run itself if it has these already, or too many rows.
        """
        part, table = self.federation.partition, self.federation.table
        if self.logits is not None or not is_storable(part):
            return self
        number = torch.arange(len(table.y))
        numbered = Table(number, table.y, table.s, table.task, person=table.person)
        federation = replace(self.federation, table=numbered)
        reference, logits = Reference.of(self.federation), score(self.predictors, part, table)
        return replace(self, federation=federation, logits=logits, reference=reference)

    @cached_property
    def collapsed(self) -> np.ndarray:
        """Whether each client's model predicts one class for all of its training rows."""
        rows = self.federation.partition.train
        return collapsed(self.predictors, self.federation.table, rows, self.draws)

    @cached_property
    def history(self) -> pd.DataFrame:
        """The learning curve on training rows: loss, accuracy and gap, each the mean over clients.

        A row for the global model after each measured round; the last row is for the clients'
        final models and rules.
        """
        rows = self.federation.partition.train
        counts = count(self.predictors, self.federation.table, rows, draw_of=self.draws)
        end = history.means(counts, self.algorithm.criterion)
        return history.frame(self.curve, end, self.algorithm)

    @property
    def doubts(self) -> str:
        """A warning on how training ended; "" if there is none."""
        return self.algorithm.warning(self.fitted.server)

    @property
    def measurable(self) -> bool:
        """Whether every client has rows to be measured on."""
        return all(len(rows) > 0 for rows in self.federation.partition.test)

    def table(self, protocol: str | None = None, level: float = 0.95) -> pd.DataFrame:
        """Return accuracy, gaps, other measures and negative prediction rates, by client.

        Each interval is of this confidence level by itself.
        With fewer than five in ``ddp_people`` the gap is not informative, see
        `metrics.confidence_intervals`. Of more than two groups, ``ddp_apart`` names those that the
        gap does not cover, with their measured rows, see `metrics.set_apart`, and ``ddp_floor`` is
        the largest gap to expect if none is real, see `metrics.noise_floor`. Where all measured
        rows get `one_decision`, the gap is 0 for that reason. ``constant`` is the accuracy of the
        most frequent training label for all rows, and ``gain`` that of the model less that.
        ``randomised`` is the part of the measured rows whose decision is a random draw. For ``auc``
        and so on see `metrics.performance`, for `protocol` `measured_rows`.
        """
        return self.measured(protocol, level).assign(collapsed=self.collapsed)

    def measured(self, protocol: str | None = None, level: float = 0.95) -> pd.DataFrame:
        """Return `table` without the column `collapsed`, which requires the training rows."""
        protocol, rows, weighted = measured_rows(self.federation.partition, protocol)
        key = protocol, level
        if key not in self._measured:
            found = measure(self.federation, self.predictors, rows, weighted, self.draws, level)
            self._measured[key] = found.assign(protocol=protocol)
        return self._measured[key].copy()

    @cached_property
    def _measured(self) -> dict[tuple[str, float], pd.DataFrame]:
        """A cache of `measured`, by protocol and confidence level."""
        return {}

    def frontier(self, limits: Sequence[float], protocol: str | None = None) -> pd.DataFrame:
        """Return the best that thresholds on the global model's scores reach, by limit and client.

        They are set on the rows that they are measured on: no method, but a bound to compare
        methods with. A client without both groups has no gap to limit.
        """
        part, data = self.federation.partition, self.federation.table
        if not data.task.binary:
            raise InputError("The frontier is computed for two groups and two classes.")
        if self.federation.data.weight is not None:
            raise InputError("The frontier is computed for rows without weights.")
        protocol, held, weighted = measured_rows(part, protocol)
        y, s = data.y.long().numpy(), data.s.numpy()
        best: dict[tuple[int, float], list[tuple[float, float]]] = {}
        for i, (own, share) in enumerate(zip(held, part.share_s1, strict=True)):
            if (id(own), share) not in best:  # the same for clients with the same rows and share
                share_s1 = float(share if weighted else s[own].mean())
                score = self.global_scores(i, own)
                best[id(own), share] = frontier(score, y[own], s[own], share_s1, limits)
        rows = [
            {"target_ddp": limit, "client": name, "role": role, "share_s1": share}
            | {"n_train": n, "n_test": len(own), "protocol": protocol}
            | dict(zip(("accuracy", "ddp"), best[id(own), share][k], strict=True))
            for k, limit in enumerate(limits)
            for name, role, n, own, share in zip(
                part.names, part.roles, self.federation.sizes, held, part.share_s1, strict=True
            )
        ]
        return pd.DataFrame(rows)

    def global_scores(self, client: int, rows: np.ndarray) -> np.ndarray:
        """Return the global model's scores of rows that measure a client.

        A loaded run has them only if every client has the global model.
        """
        if self.logits is None:
            return np.asarray(self._scores[rows])
        if not self._is_one_model:
            raise InputError(
                "The frontier is computed from the global model's scores, and the folder keeps "
                "those of each client's own model."
            )
        table, at = self.federation.table, torch.from_numpy(rows)
        logits = self.predictors[client].logits(table.x[at], table.s[at], table.encoder)
        return torch.sigmoid(logits[:, 0]).double().numpy()

    @cached_property
    def _scores(self) -> np.ndarray:
        """The global model's scores of all rows."""
        table, scorer = self.federation.table, Predictor(self.network, self.fitted.w, Likeliest())
        logits = scorer.logits(table.x, table.s, table.encoder)
        return torch.sigmoid(logits[:, 0]).double().numpy()

    @cached_property
    def _is_one_model(self) -> bool:
        """Whether every client has the global model."""
        theta = self.fitted.theta
        models = theta[:1] if is_shared(theta) else theta
        return all(torch.equal(model, self.fitted.w) for model in models)

    def shapes(self) -> pd.DataFrame:
        """Return the global model's contribution to a score by column and value (`shapes.py`)."""
        return self._shapes.copy()

    @cached_property
    def _shapes(self) -> pd.DataFrame:
        if self.folder is None:
            return shapes(self.federation, self.network, self.fitted.w)
        found = read_shapes(self.folder)
        if found is None:
            raise InputError(
                f"{self.network.words} has no shapes: take {option('model', 'linear')} or additive."
            )
        return found

    def personal_model(self, client: int | str) -> PersonalModel:
        """Return the model of a client, by its name (a text) or its position from 0."""
        number = client_number(self.federation.partition.names, client)
        theta, rule = self.fitted.theta[number], self.fitted.rules[number]
        return self._model(theta, rule, self.federation.partition.names[number])

    def global_model(self) -> PersonalModel:
        """Return the model that all clients share, with the likeliest label as its decision."""
        width = outputs(self.federation.table.task.classes)
        return self._model(self.fitted.w, Likeliest(outputs=width), "")

    def _model(self, theta: Tensor, rule: Rule, name: str) -> PersonalModel:
        data = self.federation.data
        key = of_client(self.key, name)
        predictor = Predictor(self.network, theta.clone(), rule, key)  # shares no memory
        return PersonalModel(
            predictor, self.federation.encoder, self.federation.table.task, data.group_names,
            data.label_names, data.sensitive_column, self.values, name,
            list_edges(data.bands, data.sensitive_column), data.formats,
        )  # fmt: skip

    @cached_property
    def key(self) -> bytes:
        """The key of random draws, see `pfedfair.runs.draws`."""
        return key_of(self.seed, self.fitted.w)

    @cached_property
    def values(self) -> dict[str, int]:
        """The values of S in the table, and the groups that they belong to."""
        return dict(self.loaded.card["values"]) if self.loaded else values_of(self.federation.data)

    def rules(self, protocol: str | None = None) -> pd.DataFrame:
        """Return each client's gap, its rule, and what the rule costs in accuracy.

        The cost is relative to the likeliest label by the same scores, for two classes the
        threshold 1/2.
        """
        part = self.federation.partition
        _, rows, weighted = measured_rows(part, protocol)
        likeliest = Likeliest(outputs=outputs(self.federation.table.task.classes))
        without_rule = [replace(predictor, rule=likeliest) for predictor in self.predictors]
        table, weight = self.federation.table, self.federation.data.weight
        each = of_decisions(without_rule, table, rows, tallies(table, weight), self.draws)
        counts = np.stack([moments[1] for moments in each])
        accuracy = metrics.measure(counts, part.shares if weighted else None)["accuracy"]
        gap = CRITERIA[self.algorithm.criterion].measure
        shown = [f"{gap}{end}" for end in ("", "_low", "_high", "_people")]
        measured = self.table(protocol)
        about = [{**rule.table(), **rule.facts} for rule in self.fitted.rules]
        rules = pd.DataFrame(about, index=measured.index)
        return pd.concat([measured[["client", "accuracy", *shown]], rules], axis=1).assign(
            cost=accuracy - measured["accuracy"], constant=measured["constant"]
        )

    @cached_property
    def certificate(self) -> Mapping[str, Any] | None:
        """The joint confidence, the target and the certified clients; None without certificates."""
        facts = [rule.facts for rule in self.fitted.rules]
        if "certified" not in facts[0]:
            return None
        names = self.federation.partition.names
        return {
            "confidence": 1 - sum(1 - of_rule["certificate_level"] for of_rule in facts),
            "target_ddp": self.algorithm.target,
            "certified": [n for n, of in zip(names, facts, strict=True) if of["certified"]],
        }

    def retarget(self, **changes: Any) -> Self:
        """Return this run with another target_ddp or confidence, without training or messages."""
        if self.certificate is not None:
            raise InputError("A certificate is for one target: train again for another.")
        algorithm = self.algorithm.retarget(**changes)
        rules = list(algorithm.rules(self.fitted.server, self.fitted.own, self._clients()))
        return replace(self, algorithm=algorithm, fitted=self.fitted._replace(rules=rules))

    def sweep(self, targets: Sequence[float]) -> Iterator[Self]:
        """Yield the run with each of the targets, as `retarget` does; faster than one by one."""
        states = self.fitted.server, self.fitted.own, self._clients()
        for algorithm, rules in self.algorithm.sweep(targets, *states):
            fitted = self.fitted._replace(rules=list(rules))
            yield replace(self, algorithm=algorithm, fitted=fitted)

    def _clients(self) -> Clients:
        table, rows = self.federation.table, self.federation.partition.train
        network = self.network if self.logits is None else Rowless()
        return Clients(network, table, rows, range(len(rows)), self.seed)

    def save(self, folder: str | Path, command: str = "") -> None:
        """Write all that `load_run` needs: models, a card, the scores of all rows, and shapes.

        `command` is the command line, for the card. See `pfedfair.runs.files` for the files.
        """
        if self.folder is not None:
            raise InputError(
                f"A run can be saved where it was trained: {NO_ROWS}. Copy {self.folder}."
            )
        run = replace(self, command=command) if command else self
        write_run(run.record, Path(folder))
