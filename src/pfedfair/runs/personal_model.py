"""A client's classifier on raw rows."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pfedfair._util.errors import InputError
from pfedfair.data.tables import encoder as inputs
from pfedfair.data.tables.aliases import has_sensitive, select_sensitive
from pfedfair.data.tables.bands import cut
from pfedfair.data.tables.cells import DECIMAL, WHOLE, canonical
from pfedfair.data.tables.dates import base_of
from pfedfair.data.tables.formats import (
    DateFormat,
    Formats,
    Odd,
    doubtful,
    of_other_kinds,
    refuse,
)
from pfedfair.data.tables.missing_groups import NAME
from pfedfair.data.task import Task, outputs
from pfedfair.models import probabilities
from pfedfair.runs import draws
from pfedfair.runs.predictor import DrawOf, Predictor

# Cells of a column that contradict training, and are refused: at least so many, and such a share.
ODD_CELLS, ODD_SHARE, UNKNOWN_SHARE = 10, 0.05, 0.5
BOOLS = {"False": False, "True": True}


class Decisions(NamedTuple):
    """Decisions on rows: their codes, the chance of each, and the labels' scores.

    The chance is that of the decision made: 1 where it was not randomised. Scores are the model's
    probabilities of the labels, ``(n, classes)``, before the rule.
    """

    code: np.ndarray
    chance: np.ndarray
    scores: np.ndarray


class Read(NamedTuple):
    """Rows as they are read, by columns: cells that contradict the training rows are `odd`.

    They are missing or unknown in what is packed. Categories that training rows did not have,
    where they had few, are `unknown`: they contradict the training rows if they are most.
    """

    frame: pd.DataFrame
    packed: np.ndarray
    odd: dict[str, Odd]
    unknown: dict[str, Odd]


@dataclass(frozen=True, eq=False)
class PersonalModel:
    """A client's classifier on raw rows, with scikit-learn's methods.

    Attributes
    ----------
    sensitive_column
        The column of S in a table; several columns are separated by commas.
    seen
        Values of S in the training rows, and the groups that they belong to.
    name
        The client's name.
    """

    predictor: Predictor
    encoder: inputs.Inputs
    task: Task
    group_names: tuple[str, ...]
    label_names: tuple[str, ...]
    sensitive_column: str = ""
    seen: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    bands: tuple[tuple[float, ...], ...] = ()  # of each sensitive number, see `bands.list_edges`
    # Of the training rows' numbers and dates; None for a server's run, and an older one.
    formats: Formats | None = None

    def with_key(self, key: bytes) -> Self:
        """Return the model with random draws from another key."""
        predictor = replace(self.predictor, key=draws.of_client(key, self.name))
        return replace(self, predictor=predictor)

    @cached_property
    def classes_(self) -> np.ndarray:
        """The labels, as numbers or Booleans if all can be converted."""
        names = self.label_names
        if set(names) <= set(BOOLS):
            return np.array([BOOLS[name] for name in names])
        if all(map(WHOLE.fullmatch, names)):
            return np.array([int(name) for name in names])
        if all(WHOLE.fullmatch(name) or DECIMAL.fullmatch(name) for name in names):
            return np.array([float(name) for name in names])
        return np.array(names)

    def predict_proba(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return the chance that `predict` decides for each of `classes_`, ``(n, labels)``.

        It is 0 or 1 where a rule draws nothing. Without a rule, the likeliest label is decided for,
        and these are the probabilities of the labels. They rank rows by decision: to rank them by
        score, take `decision_function`, as scikit-learn's scorer "roc_auc" does.
        """
        return self.chances(*self._inputs(X, sensitive_features))

    def predict(
        self,
        X: pd.DataFrame,
        sensitive_features: Any = None,
        random_state: int | None = None,
        ids: Any = None,
    ) -> np.ndarray:
        """Return the decision for every row, one of `classes_`.

        Parameters
        ----------
        sensitive_features
            The group of every row. If left out, it is taken from X, where the model needs it.
        random_state
            The seed of randomised decisions. By default the draw of a row follows from its id, or
            from its inputs: as by the command predict, the same row has the same decision.
        ids
            The identifier of every row; the same identifier has the same random draw every time.
        """
        decided: np.ndarray = self.classes_[self.decide(X, sensitive_features, random_state, ids)]
        return decided

    def decide(
        self,
        X: pd.DataFrame,
        sensitive_features: Any = None,
        random_state: int | None = None,
        ids: Any = None,
    ) -> np.ndarray:
        """Return 0, 1, ... for every row, as `predict` does; `label_names` says what they mean."""
        x, s = self._inputs(X, sensitive_features)
        if ids is None and random_state is not None:
            rng = np.random.default_rng(random_state)
            return self.predictor.rule.decide(
                self.predictor.logits(x, s, self.encoder), s, rng
            ).numpy()
        if ids is None:
            return self.outcomes(x, s).code
        if len(encoded := [id_bytes(id) for id in ids]) != len(x):
            raise InputError(f"There are {len(encoded)} ids for {len(x)} rows.")
        return self.outcomes(
            x, s, lambda rows: draws.draw(self.predictor.key, [encoded[k] for k in rows])
        ).code

    def decision_function(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return the model's log-odds of the second label; of more than two, a logit for each.

        It is the score before the rule: where that has thresholds, 0 is not where decisions change.
        """
        return self.log_odds(*self._inputs(X, sensitive_features))

    def score_samples(self, X: pd.DataFrame, sensitive_features: Any = None) -> np.ndarray:
        """Return the model's score, which thresholds are set on: the chance of the second label.

        Of more than two labels, the chance of each.
        """
        return self.scores(*self._inputs(X, sensitive_features))

    def chances(self, x: Tensor, s: Tensor) -> np.ndarray:
        """Return `predict_proba` of packed rows."""
        return self.predictor.chances(x, s, self.encoder).double().numpy()

    def log_odds(self, x: Tensor, s: Tensor) -> np.ndarray:
        """Return `decision_function` of packed rows."""
        z = self._logits(x, s).numpy()
        return z[:, 0] if self.task.classes == 2 else z

    def scores(self, x: Tensor, s: Tensor) -> np.ndarray:
        """Return `score_samples` of packed rows."""
        p = probabilities(self._logits(x, s)).numpy()
        return p[:, 1] if self.task.classes == 2 else p

    def words(self) -> list[str]:
        """Describe how the model decides."""
        return self.predictor.rule.words(self.label_names, self.group_names)

    def outcomes(self, x: Tensor, s: Tensor, draw_of: DrawOf | None = None) -> Decisions:
        """Decide on packed rows; `draw_of` returns the random draws of the rows with these numbers.

        Without it they follow from the inputs.
        """
        z = self.predictor.logits(x, s, self.encoder)
        code, chance = self.predictor.decide_scored(
            z, s, draw_of or partial(self.predictor.draws, x, s)
        )
        return Decisions(code.numpy(), chance.numpy(), probabilities(self._of_labels(z)).numpy())

    def _of_labels(self, logits: Tensor) -> Tensor:
        """Return the logits of labels, without those of an auxiliary head."""
        return logits[:, : outputs(self.task.classes)]

    def _logits(self, x: Tensor, s: Tensor) -> Tensor:
        return self._of_labels(self.predictor.logits(x, s, self.encoder)).double()

    def _inputs(self, X: pd.DataFrame, sensitive_features: Any) -> tuple[Tensor, Tensor]:
        given, columns = sensitive_features, self.sensitive_column
        if given is None and self.task.aware:
            if columns and isinstance(X, pd.DataFrame) and has_sensitive(X, columns):
                given = select_sensitive(X, columns, self.group_names)
            else:
                rows = f", or rows with the column '{columns}'" if columns else ""
                raise InputError(
                    "The model takes the sensitive attribute as an input: give sensitive_features"
                    f"{rows}."
                )
        s = np.zeros(len(X), np.int64) if given is None else self.codes(given)
        return torch.from_numpy(self.pack(X)), torch.from_numpy(s)

    def pack(self, rows: Any) -> np.ndarray:
        """Pack the inputs of rows, read as the training rows were.

        Refuse cells that contradict the training rows, and warn of values that these did not have,
        or rarely.
        """
        if isinstance(rows, pd.DataFrame):
            rows, packed, odd, unknown = self.read(rows)
            most = {c: cells for c, cells in unknown.items() if _is_most(cells.rows)}
            refuse(odd | most, len(rows))
        else:
            packed = self.encoder.pack(rows)
        for text in describe_unseen(*self.encoder.unseen(rows, packed)):
            warnings.warn(text, UnseenWarning, stacklevel=5)
        return packed

    def read(self, rows: pd.DataFrame) -> Read:
        """Return rows with numbers and dates, packed; and what contradicts the training rows."""
        twice = rows.columns[rows.columns.duplicated()]
        if len(twice):
            raise InputError(f"The rows have more than one column '{twice[0]}': rename one.")
        hiding = [c for c in self.date_parts if c in rows]  # they are called like a part of a date
        (frame, odd), unknown = self.input_formats.convert(rows.drop(columns=hiding)), {}
        if doubts := doubtful(self.input_formats, rows, odd):
            frame = frame.assign(**{c: frame[c].mask(cells.rows) for c, cells in doubts.items()})
            odd |= {c: cells.joined(odd.get(c)) for c, cells in doubts.items()}
        packed = self.encoder.pack(frame)
        for name, cells, known in self.encoder.unknown(frame, packed):
            if name not in frame:  # a part of a date
                continue
            if found := of_other_kinds(frame[name], cells, known):
                odd[name] = found
            else:
                word = str(frame[name].iloc[int(cells.argmax())])
                unknown[name] = Odd(cells, word, "no value")
        return Read(frame, packed, odd, unknown)

    @cached_property
    def date_parts(self) -> dict[str, str]:
        """The inputs that are parts of dates, and their columns.

        A column may be called like a part, such as "pay (hour)". Without formats it counts as one.
        """
        numbers, categories = getattr(self.encoder, "names", ((), ()))
        named = {c: base_of(c)[0] for c in (*numbers, *categories) if base_of(c)[1]}
        if self.formats is None:
            return named
        dates = {c for c, one in self.formats.columns.items() if isinstance(one, DateFormat)}
        return {c: base for c, base in named.items() if base in dates}

    @cached_property
    def input_formats(self) -> Formats:
        """The formats of the inputs; those of older runs, and of typed data sets, are the usual."""
        numbers, _ = getattr(self.encoder, "names", ((), ()))
        given = {} if self.formats is None else self.formats.columns
        parts = self.date_parts
        usual = Formats.usual((c for c in numbers if c not in parts), parts.values())
        return Formats({**usual.columns, **given})

    @cached_property
    def groups_of(self) -> dict[str, int]:
        """The group of each value that S may have in a table."""
        names = self.group_names
        merged = {part: z for z, name in enumerate(names) for part in name.split(" + ")}
        parts = {name: name.split(" x ") for name in merged if NAME in name}
        blank = {" x ".join("" if part == NAME else part for part in each): merged[name]
                 for name, each in parts.items() if NAME in each}  # fmt: skip
        return {
            **blank,
            **merged,
            **self.seen,
            **{canonical(n) or n: z for z, n in enumerate(names)},
        }

    def codes(self, sensitive_features: Any) -> np.ndarray:
        """Return 0, 1, ... for names of groups (or for these numbers if they cannot be names).

        The values of several attributes (a table with a column for each) are joined by " x ".
        Numbers of an attribute with bands are cut as in training.
        """
        columns, names = pd.DataFrame(sensitive_features), self.group_names
        called = self.sensitive_column.split(",")
        for name, edges, of in zip(list(columns), self.bands, called, strict=False):
            if edges:
                format = self.input_formats.columns.get(of)
                bands = cut(columns[name], edges, "sensitive_features", format)
                columns[name] = bands.astype(object)
        texts = [columns[name].map(lambda v: canonical(v) or "").to_numpy(object)
                 for name in columns]  # fmt: skip
        values = pd.Series([" x ".join(row) for row in zip(*texts, strict=True)], dtype=object)
        ways: list[Mapping[str, int]] = [{canonical(name) or name: z
                                          for z, name in enumerate(names)}]  # fmt: skip
        if not any(map(_is_number, names)):  # codes only where they cannot be names
            numbers = {str(z): z for z in range(len(names))}
            known = {*names, *self.seen}
            ways += [way for way in (numbers, {"False": 0, "True": 1}) if not way.keys() & known]
        for way in (*ways, self.groups_of):
            if values.isin(way).all():
                return values.map(way).to_numpy(np.int64, copy=True)  # a tensor is made of it
        raise InputError(
            f"sensitive_features must be {' or '.join(names)}; "
            f"found '{values[~values.isin(self.groups_of)].iloc[0]}'."
        )


class UnseenWarning(UserWarning):
    """Rows to decide on have values that are new or rare in the training rows."""


def _is_most(rows: np.ndarray) -> bool:
    return bool(rows.sum() >= ODD_CELLS and rows.mean() > UNKNOWN_SHARE)


def describe_unseen(rare: Mapping[str, int], empty: Mapping[str, int]) -> list[str]:
    """Describe new, rare and missing values: how many cells of which columns have them."""
    texts = []
    for counts, kind in ((rare, "with a new or rare value"), (empty, "with a missing value")):
        if counts:
            named = ", ".join(f"{column} {n:,}" for column, n in counts.items())
            total = sum(counts.values())
            texts.append(
                f"{total:,} cell{'s' * (total > 1)} {kind} ({named}): the training rows had fewer "
                "such, or none."
            )
    return texts


def id_bytes(id: Any) -> bytes:
    """Return the bytes of an id: of its canonical spelling, the same for 1, 1.0, "1" and "0001"."""
    return (canonical(id) or "").encode()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
