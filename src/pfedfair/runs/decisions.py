"""Decisions on the rows of a file: each with its score, its chance, the rule and what was wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from pfedfair._util.errors import InputError, has_column, option
from pfedfair.data.tables import bands
from pfedfair.data.tables.arrays import COLUMN
from pfedfair.data.tables.cells import factor
from pfedfair.data.tables.dates import base_of
from pfedfair.data.tables.sink import sink
from pfedfair.data.tables.stream import Rows
from pfedfair.runs.model import Saved
from pfedfair.runs.personal_model import Decisions, PersonalModel, unseen_words

NAMED = 5  # problems that are listed one by one
DIFFERENT = 1000  # problems that are counted one by one


@dataclass
class Summary:
    """Counts of a file's rows: all, their decisions by group, and problems."""

    rows: int = 0
    drawn: int = 0  # randomised decisions
    decided: Counter[tuple[str, str]] = field(default_factory=Counter)  # by group and decision
    problems: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)

    def notes(self) -> list[str]:
        """Say what is wrong with rows."""
        texts = unseen_words(self.levels, self.empty)
        if n := sum(self.problems.values()):
            named = [f"{problem} ({m:,})" for problem, m in self.problems.most_common(NAMED)]
            more = len(self.problems) - len(named)
            named += [f"{more:,} others"] if more else []
            rows = f"{n:,} row{'s have' if n > 1 else ' has'} no decision"
            texts.append(f"{rows}: {'; '.join(named)}. The column 'problem' says which.")
        return texts

    def table(self, groups: Sequence[str], labels: Sequence[str]) -> pd.DataFrame:
        """Rows with a decision, and the rate of every decision, of each group."""
        counts = np.array([[self.decided[g, label] for label in labels] for g in groups])
        rows = counts.sum(1)
        with np.errstate(invalid="ignore"):
            rates = dict(zip(labels, (counts / rows[:, None]).T, strict=True))
        return pd.DataFrame({"group": groups, "rows": rows} | rates)


class Opened(NamedTuple):
    """A file that has all columns that are needed, and which of them say S."""

    rows: Rows
    sensitive: list[str]


@dataclass(frozen=True, eq=False)
class Reader:
    """Which columns of a file are read, what for, and by which models rows are decided.

    Attributes
    ----------
    models
        By the clients' names. One model decides on all rows; of several, the column `client` says
        whose a row is.
    id
        The column that identifies rows; without it their inputs do.
    keep
        Columns that are copied to the output.
    """

    models: dict[str, PersonalModel]
    client: str | None = None
    id: str | None = None
    keep: tuple[str, ...] = ()

    @property
    def any(self) -> PersonalModel:
        """One of the models: they have encoder, groups and labels in common."""
        return next(iter(self.models.values()))

    @property
    def copied(self) -> list[str]:
        return list(dict.fromkeys([*([self.id] if self.id else []), *self.keep]))

    @property
    def aware(self) -> bool:
        return self.any.task.aware

    def inputs(self, there: Collection[str] = ()) -> tuple[list[str], set[str]]:
        """The columns that the encoder takes, and which of them are read as text.

        What is called like a part of a date may be a column that is `there`.
        """
        names = getattr(self.any.encoder, "names", None)
        if names is None:
            if len(self.any.encoder.shape) > 1:
                raise InputError("The model takes images: no table has its inputs.")
            return [COLUMN], set()
        numbers, categories = names
        base = {
            name: name if name in there else base_of(name)[0] for name in (*numbers, *categories)
        }
        words = {base[name] for name in categories}
        words |= {base[name] for name in numbers if base[name] != name}
        return list(dict.fromkeys(base.values())), words

    def open(self, path: Path) -> Opened:
        """Look for all columns in a file; return it, and where S is."""
        both = [name for name in self.copied if name in self.results()]
        if both:
            raise InputError(f"The output has a column '{both[0]}' of its own: rename yours.")
        rows = Rows.open(path, self.inputs()[0])
        for column in self.inputs(rows.columns)[0]:
            has_column(column, rows.columns, "in the rows, an input of the model")
        for column in ([self.client] if self.client else []) + self.copied:
            has_column(column, rows.columns, "in the rows")
        sensitive = []
        for name in self.any.sensitive_column.split(",") if self.aware else []:
            alike = [c for c in rows.columns if c.lower() == name.lower()]
            if name not in rows.columns and len(alike) != 1:
                has_column(name, rows.columns, "in the rows, the sensitive attribute")
            sensitive.append(name if name in rows.columns else alike[0])
        return Opened(rows, sensitive)

    def results(self) -> list[str]:
        """The columns of the output that are not copied."""
        labels = self.any.label_names
        scores = ["score"] if len(labels) == 2 else [f"score {label}" for label in labels]
        client = ["client"] if self.client else []
        return ["row", *client, "decision", *scores, "chance", "rule", "problem"]


def decide_file(
    reader: Reader,
    opened: Opened,
    output: Path,
    on_part: Callable[[float], None] = lambda done: None,
) -> Summary:
    """Decide on every row of a file; write a row for each to `output`, in the same order."""
    rows, sensitive = opened
    needed, words = reader.inputs(rows.columns)
    more = [*sensitive, *([reader.client] if reader.client else [])]
    columns = list(dict.fromkeys([*needed, *more]))
    summary = Summary()
    with sink(output) as write:
        for frame, copy in rows.parts(columns, {*words, *more}, reader.copied, on_part):
            write(_decided(reader, frame, copy, sensitive, summary))
        if not summary.rows:
            nothing = pd.DataFrame({c: pd.Series(dtype=object) for c in columns})
            empty = pd.DataFrame({c: pd.Series(dtype=object) for c in reader.copied})
            write(_decided(reader, nothing, empty, sensitive, summary))
    return summary


def _decided(
    reader: Reader, frame: pd.DataFrame, copy: pd.DataFrame, sensitive: list[str], summary: Summary
) -> pd.DataFrame:
    """The output for some rows."""
    n, one = len(frame), reader.any
    names, problem = list(reader.models), Texts(n)
    whose = np.zeros(n, dtype=np.int64)
    if reader.client:
        codes, words = factor(frame[reader.client])
        names, whose = [*words, ""], codes % (len(words) + 1)  # -1 is the last, ""
        for k in np.flatnonzero(np.bincount(whose, minlength=1)).tolist():
            if names[k] not in reader.models:
                why = f"the run has no client '{names[k]}'" if names[k] else ""
                problem.add(why or f"{reader.client} is empty", whose == k)
    if reader.id:
        nobody = (copy[reader.id].str.strip() == "").to_numpy(bool)
        problem.add(f"{reader.id} is empty", nobody)
    s = groups_of(one, frame, sensitive, problem)
    fine = np.flatnonzero(problem.codes == 0)
    code, chance, rule = np.full(n, -1), np.full(n, np.nan), Texts(n)
    scores = np.full((n, len(one.label_names)), np.nan)
    if len(fine):
        people = frame if len(fine) == n else frame.iloc[fine]
        packed = one.encoder.pack(people)
        levels, empty = one.encoder.unseen(people, packed)
        summary.levels.update(levels)
        summary.empty.update(empty)
        for k, mine in _apart(whose[fine]):
            model, at, x = reader.models[names[k]], fine[mine], packed[mine]
            who = copy[reader.id].iloc[at] if reader.id else None
            found = _outcomes(model, x, s[at], who)
            code[at], chance[at], scores[at] = found.code, found.chance, found.scores
            applied = model.predictor.rule.applied(model.label_names, model.group_names)
            rule.codes[at] = np.array([rule.number(words) for words in applied])[s[at]]
    _count(summary, one, n, code, s, chance, problem)
    columns: dict[str, Any] = {"row": np.arange(summary.rows - n, summary.rows)}
    columns |= {str(c): copy[c].array for c in copy}
    if reader.client:
        columns["client"] = _category(whose, names)
    columns["decision"] = _category(code % (len(one.label_names) + 1), [*one.label_names, ""])
    if len(one.label_names) == 2:
        columns["score"] = scores[:, 1]
    else:
        columns |= {f"score {label}": scores[:, c] for c, label in enumerate(one.label_names)}
    columns |= {"chance": chance, "rule": rule.category(), "problem": problem.category()}
    return pd.DataFrame(columns)


def _apart(whose: np.ndarray) -> Iterator[tuple[int, np.ndarray | slice]]:
    """Each number that occurs, and where."""
    codes, each = pd.factorize(whose)
    if len(each) == 1:
        yield int(each[0]), slice(None)
        return
    apart = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    yield from zip(each.tolist(), apart, strict=True)


class Texts:
    """A column of few different texts: their numbers, at first those of no text."""

    def __init__(self, n: int) -> None:
        self.codes, self.words = np.zeros(n, dtype=np.int64), {"": 0}

    def number(self, text: str) -> int:
        return self.words.setdefault(text, len(self.words))

    def add(self, text: str, where: np.ndarray) -> None:
        """Give these rows a text, except those that have one."""
        where = where & (self.codes == 0)
        if where.any():
            self.codes[where] = self.number(text)

    def category(self) -> Any:
        return _category(self.codes, list(self.words))


def _category(codes: np.ndarray, words: Sequence[str]) -> Any:
    """Texts by their numbers: pandas would look at every cell."""
    if len(set(words)) < len(words):
        known = {word: k for k, word in enumerate(dict.fromkeys(words))}
        codes, words = np.array([known[word] for word in words])[codes], list(known)
    return pd.Categorical.from_codes(codes, pd.Index(list(words)).astype(object))


def _outcomes(model: PersonalModel, x: np.ndarray, s: np.ndarray, ids: pd.Series | None
              ) -> Decisions:  # fmt: skip
    def who(rows: np.ndarray) -> list[bytes]:
        """Identify rows by their ids; without, by all inputs of the model."""
        if ids is not None:
            return [str(one).strip().encode() for one in ids.iloc[rows]]
        return [x[row].tobytes() + int(s[row]).to_bytes(2) for row in rows]

    return model.outcomes(torch.from_numpy(x), torch.from_numpy(s), who)


def _count(summary: Summary, model: PersonalModel, n: int, code: np.ndarray, s: np.ndarray,
           chance: np.ndarray, problem: Texts) -> None:  # fmt: skip
    summary.rows += n
    summary.drawn += int((chance < 1).sum())
    words = list(problem.words)
    for k, m in Counter(problem.codes[problem.codes > 0].tolist()).items():
        text = words[k]
        known = text in summary.problems or len(summary.problems) < DIFFERENT
        summary.problems[text if known else "others"] += m
    groups, labels = len(model.group_names), len(model.label_names)
    fine = code >= 0
    pairs = np.bincount(s[fine] * labels + code[fine], minlength=groups * labels)
    for z, group in enumerate(model.group_names):
        for c, label in enumerate(model.label_names):
            summary.decided[group, label] += int(pairs[z * labels + c])


def groups_of(
    model: PersonalModel, frame: pd.DataFrame, columns: Sequence[str], problem: Texts
) -> np.ndarray:
    """Everybody's group, 0 if none is needed or known; why it is not known is a problem."""
    n = len(frame)
    if not columns or n == 0:
        return np.zeros(n, dtype=np.int64)
    several, named_values = [], []
    for column, edges in zip_longest(columns, model.bands[: len(columns)], fillvalue=()):
        codes, words = factor(frame[column])
        problem.add(f"{column} is empty", codes < 0)
        codes, words = codes % (len(words) + 1), [*words, ""]  # -1 is the last
        if edges:  # what is in no band stays what it is, and is a problem
            place, _ = bands.places(frame[column], edges)
            codes = np.where(place < 0, codes, place + len(words))
            words = [*words, *bands.names(edges)]
        several.append(codes)
        named_values.append(words)
    codes = several[0]
    for more, words in zip(several[1:], named_values[1:], strict=True):
        codes = codes * len(words) + more
    codes, places = pd.factorize(codes)
    which = np.unravel_index(places, [len(words) for words in named_values])
    names = [" x ".join(w[k] for w, k in zip(named_values, one, strict=True))
             for one in zip(*which, strict=True)]  # fmt: skip
    named = " or ".join(model.group_names) if len(model.group_names) < 5 else "a known group"
    known = model.groups_of
    for k, name in enumerate(names):
        if name not in known:
            problem.add(f"{','.join(columns)} is '{name}', not {named}", codes == k)
    return np.array([known.get(name, 0) for name in names], dtype=np.int64)[codes]


def reader_of(
    saved: Saved,
    client: str | None = None,
    client_column: str | None = None,
    id: str | None = None,
    key: bytes | None = None,
    keep: Sequence[str] = (),
) -> Reader:
    """Take the models of a run: one client's by its name, or all where a column says whose."""
    names = saved.clients
    if client is None and client_column is None:
        if len(names) != 1:
            some = ", ".join(names if len(names) < 9 else (*names[:3], "...", *names[-1:]))
            say = f"{option('client')}, or {option('client_column')}"
            raise InputError(f"Say whose model decides, by {say}: {some}.")
        client = names[0]
    if client is not None and client_column is not None:
        raise InputError(f"Say {option('client')} or {option('client_column')}, not both.")
    models = [saved.of_client(client)] if client is not None else [
        saved.of_client(k, copy=False) for k in range(len(names))]  # fmt: skip
    if key is not None:
        models = [replace(model, key=key) for model in models]
    return Reader({model.name: model for model in models}, client_column, id, tuple(keep))
