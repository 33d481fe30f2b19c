"""Decisions on the rows of a file: each with its score, its chance, the rule and any problem."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from pfedfair._util.errors import InputError, has_column, listed, option, shorten
from pfedfair.data.tables import bands
from pfedfair.data.tables.arrays import COLUMN
from pfedfair.data.tables.cells import canonical, factor, written
from pfedfair.data.tables.formats import NumberFormat, Odd
from pfedfair.data.tables.reading import TableFile, open_table
from pfedfair.data.tables.sink import sink
from pfedfair.runs import draws
from pfedfair.runs.guards import Guard
from pfedfair.runs.model import Saved
from pfedfair.runs.personal_model import (
    ODD_CELLS,
    ODD_SHARE,
    UNKNOWN_SHARE,
    Decisions,
    PersonalModel,
    describe_unseen,
    id_bytes,
)

PREFIX = "input."  # of a copied column that is called like a column of the output
NAMED = 5  # problems that are listed one by one
DIFFERENT = 1000  # problems that are counted one by one


@dataclass
class Summary:
    """Counts of a file's rows: all, decisions by group, and problems."""

    rows: int = 0
    drawn: int = 0  # randomised decisions
    decided: Counter[tuple[str, str]] = field(default_factory=Counter)  # by group and decision
    problems: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)  # cells that contradict training, by column
    unknown: Counter[str] = field(default_factory=Counter)  # see `PersonalModel.read`
    examples: dict[str, str] = field(default_factory=dict)  # of these cells, in words
    rare: Counter[str] = field(default_factory=Counter)  # new or rare values, by column
    empty: Counter[str] = field(default_factory=Counter)  # missing values, by column
    seen: defaultdict[str, Counter[bytes]] = field(default_factory=lambda: defaultdict(Counter))
    warned: int = 0  # rows with a warning
    shifts: list[str] = field(default_factory=list)  # of columns, since training
    forced: bool = False  # whether cells that contradict training count as missing

    def notes(self) -> list[str]:
        """Describe the problems of rows."""
        texts = describe_unseen(self.rare, self.empty)
        if self.forced and self.odd:
            odd = "; ".join(f"{self.examples[c]} ({n:,} cells)" for c, n in self.odd.items())
            texts.insert(0, f"Decided all the same, as if these cells were missing: {odd}.")
        if n := sum(self.problems.values()):
            named = [f"{problem} ({m:,})" for problem, m in self.problems.most_common(NAMED)]
            others = len(self.problems) - len(named)
            named += [f"{others:,} others"] if others else []
            rows = f"{n:,} row{'s have' if n > 1 else ' has'} no decision"
            texts.append(f"{rows}: {'; '.join(named)}. The column 'problem' says which.")
        return texts

    def count(self, counter: Counter[str], column: str, cells: Odd) -> None:
        """Count cells that contradict training, and keep an example."""
        counter[column] += int(cells.rows.sum())
        self.examples.setdefault(column, cells.words(column))

    def check(self) -> None:
        """Refuse a file that contradicts the training rows in more than a few cells."""
        counted = [(column, n, ODD_SHARE) for column, n in self.odd.items()]
        counted += [(column, n, UNKNOWN_SHARE) for column, n in self.unknown.items()]
        for column, n, share in counted:
            every = column in self.odd and n == self.rows  # also of a few rows
            if not self.forced and (every or (n >= ODD_CELLS and n > share * self.rows)):
                raise InputError(
                    f"{self.examples[column]}, and so are {n:,} of {self.rows:,} cells: write them "
                    f"as in training, or say {option('force', True)} to take them as missing "
                    "values; nothing was written."
                )

    def table(self, groups: Sequence[str], labels: Sequence[str]) -> pd.DataFrame:
        """Return each group's number of rows with a decision, and its rate of every decision."""
        counts = np.array([[self.decided[g, label] for label in labels] for g in groups])
        rows = counts.sum(1)
        with np.errstate(invalid="ignore"):
            rates = dict(zip(labels, (counts / rows[:, None]).T, strict=True))
        return pd.DataFrame({"group": groups, "rows": rows} | rates)


class Opened(NamedTuple):
    """A file with all required columns, and the names of its sensitive ones."""

    table: TableFile
    sensitive: list[str]


@dataclass(frozen=True, eq=False)
class Reader:
    """Columns to read from a file, and the models that decide on its rows.

    Attributes
    ----------
    models
        By the clients' names. A single model decides on all rows; of several, the column `client`
        names the one for each row.
    id
        The column that identifies rows; without it their inputs do.
    keep
        Columns that are copied to the output.
    force
        Decide on rows with cells that contradict training, as if these were missing.
    strict
        Refuse a file with warnings.
    guard, numbers
        What compares rows with the training rows, if the run has these values; and the clients'
        numbers in it.
    """

    models: dict[str, PersonalModel]
    client: str | None = None
    id: str | None = None
    keep: tuple[str, ...] = ()
    force: bool = False
    strict: bool = False
    guard: Guard | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)

    @property
    def any(self) -> PersonalModel:
        """A model: all have encoder, groups and labels in common."""
        return next(iter(self.models.values()))

    @cached_property
    def client_of(self) -> dict[str, str]:
        """The clients' names by their canonical spelling."""
        return {canonical(name) or name: name for name in self.models}

    @property
    def copied(self) -> list[str]:
        return list(dict.fromkeys([*([self.id] if self.id else []), *self.keep]))

    @property
    def aware(self) -> bool:
        return self.any.task.aware

    def inputs(self) -> tuple[list[str], set[str]]:
        """Return the columns that the encoder takes, and those that any program writes alike."""
        names = getattr(self.any.encoder, "names", None)
        if names is None:
            if len(self.any.encoder.shape) > 1:
                raise InputError("The model takes images: no table has its inputs.")
            return [COLUMN], set()
        numbers, categories = names
        formats, parts = self.any.input_formats.columns, self.any.date_parts
        columns = [parts.get(name, name) for name in (*numbers, *categories)]
        return list(dict.fromkeys(columns)), {c for c, f in formats.items() if f == NumberFormat()}

    def open(self, path: Path) -> Opened:
        """Check that a file has all columns; return it with the names of its sensitive ones."""
        rows = open_table(path)
        for column in self.inputs()[0]:
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

    def output_names(self) -> dict[str, str]:
        """Return the output's names of copied columns: a result's name gets `PREFIX` before it."""
        results = self.results()
        found = {name: name for name in self.copied if name not in results}
        for name in self.copied:
            if name in results:
                new = f"{PREFIX}{name}"
                while new in found.values():
                    new = f"{PREFIX}{new}"
                found[name] = new
        return {name: found[name] for name in self.copied}

    def notes(self) -> list[str]:
        """Name the copied columns that have another name in the output."""
        pairs = self.output_names().items()
        renamed = [f"'{old}' is written as '{new}'" for old, new in pairs if old != new]
        return [f"The output has columns of these names: {listed(renamed)}."] if renamed else []

    def results(self) -> list[str]:
        """Return the columns of the output that are not copied."""
        labels = self.any.label_names
        scores = ["score"] if len(labels) == 2 else [f"score {label}" for label in labels]
        client = ["client"] if self.client else []
        return ["row", *client, "decision", *scores, "chance", "rule", "problem", "warning"]


def decide_file(
    reader: Reader,
    opened: Opened,
    output: Path,
    on_part: Callable[[float], None] = lambda done: None,
) -> Summary:
    """Decide on every row of a file; write a row for each to `output`, in the same order."""
    table, sensitive = opened
    needed, plain = reader.inputs()
    columns = [*needed, *sensitive, *([reader.client] if reader.client else []), *reader.copied]
    summary = Summary(forced=reader.force)
    numbers = plain - {*sensitive, *reader.copied, reader.client}
    with sink(output) as write:
        for frame in table.parts(columns, numbers, on_part):
            write(_decided(reader, frame, sensitive, summary))
        summary.check()  # of the whole file: the order of its rows does not matter
        if not summary.rows:
            frame = pd.DataFrame({c: pd.Series(dtype=object) for c in columns})
            write(_decided(reader, frame, sensitive, summary))
        summary.shifts = reader.guard.notes() if reader.guard else []
        if reader.strict and (summary.shifts or summary.warned):
            what = (*summary.shifts, f"{summary.warned:,} rows have a warning")[0]
            raise InputError(f"{what}: nothing was written, as {option('strict', True)} asks.")
    return summary


def _decided(
    reader: Reader, frame: pd.DataFrame, sensitive: list[str], summary: Summary
) -> pd.DataFrame:
    """Return the output for a part of the rows; add it to the summary."""
    n, shared = len(frame), reader.any
    copy = {c: _copied(frame[c]) for c in reader.copied}
    raw, (frame, packed, odd, unknown) = frame, shared.read(frame)
    problem, warning = Texts(n), Texts(n)
    names, client = _clients_of(reader, raw, problem)
    if reader.id:
        problem.add(f"{reader.id} is empty", factor(raw[reader.id])[0] < 0)
    for column, cells in odd.items():
        summary.count(summary.odd, column, cells)
        if not reader.force:
            problem.add(cells.words(column), cells.rows)
    for column, cells in unknown.items():
        summary.count(summary.unknown, column, cells)
        warning.append(f"{column} has a value that no training row had", cells.rows)
    s = groups_of(shared, raw, sensitive, problem)
    valid = np.flatnonzero(problem.codes == 0)
    code, chance, rule = np.full(n, -1), np.full(n, np.nan), Texts(n)
    scores = np.full((n, len(shared.label_names)), np.nan)
    if len(valid):
        if len(valid) < n:
            frame, packed = frame.iloc[valid], packed[valid]
        if reader.guard:
            numbers = [reader.numbers.get(names[k], 0) for k in range(len(names))]
            clients = Counter(np.array(numbers)[client[valid]].tolist())
            for text, warned in reader.guard.add(frame, packed, shared.encoder, clients):
                warning.append(text, valid[np.flatnonzero(warned)])
        rare, empty = shared.encoder.unseen(frame, packed)
        summary.rare.update(rare)
        summary.empty.update(empty)
        for k, of_client in _by_value(client[valid]):
            model, at, x = reader.models[names[k]], valid[of_client], packed[of_client]
            ids = raw[reader.id].iloc[at] if reader.id else None
            outcomes = _outcomes(model, x, s[at], ids, summary.seen[names[k]])
            code[at], chance[at], scores[at] = outcomes.code, outcomes.chance, outcomes.scores
            applied = model.predictor.rule.applied(model.label_names, model.group_names)
            rule.codes[at] = np.array([rule.number(words) for words in applied])[s[at]]
    _count(summary, shared, n, code, s, chance, problem)
    columns: dict[str, Any] = {"row": np.arange(summary.rows - n, summary.rows)}
    columns |= {new: copy[old].array for old, new in reader.output_names().items()}
    if reader.client:
        columns["client"] = _category(client, names)
    labels = shared.label_names
    columns["decision"] = _category(code % (len(labels) + 1), [*labels, ""])
    if len(labels) == 2:
        columns["score"] = scores[:, 1]
    else:
        columns |= {f"score {label}": scores[:, c] for c, label in enumerate(labels)}
    columns |= {"chance": chance, "rule": rule.category(), "problem": problem.category()}
    columns["warning"] = warning.category()
    summary.warned += int((warning.codes > 0).sum())
    return pd.DataFrame(columns)


def _clients_of(reader: Reader, rows: pd.DataFrame, problem: Texts) -> tuple[list[str], np.ndarray]:
    """Return the clients' names, and the number of each row's; note unknown ones as problems."""
    if not reader.client:
        return list(reader.models), np.zeros(len(rows), dtype=np.int64)
    codes, words = factor(rows[reader.client])
    client = codes % (len(words) + 1)  # -1 is the last, ""
    names = [reader.client_of.get(word, word) for word in [*words, ""]]
    for k in np.flatnonzero(np.bincount(client, minlength=1)).tolist():
        if names[k] not in reader.models:
            why = f"the run has no client '{shorten(names[k])}'" if names[k] else ""
            problem.add(why or f"{reader.client} is empty", client == k)
    return names, client


def _copied(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column's cells as text for the output; missing ones are empty."""
    return pd.Series(written(column).fill_null("").to_pandas(), dtype=object)


def _by_value(values: np.ndarray) -> Iterator[tuple[int, np.ndarray | slice]]:
    """Yield each number that occurs, and its positions."""
    codes, unique = pd.factorize(values)
    if len(unique) == 1:
        yield int(unique[0]), slice(None)
        return
    positions = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    yield from zip(unique.tolist(), positions, strict=True)


class Texts:
    """A column of text as codes, with few different texts; at first all are empty."""

    def __init__(self, n: int) -> None:
        self.codes, self.words = np.zeros(n, dtype=np.int64), {"": 0}

    def number(self, text: str) -> int:
        return self.words.setdefault(text, len(self.words))

    def add(self, text: str, where: np.ndarray) -> None:
        """Set the text of these rows, except of those that have one."""
        where = where & (self.codes == 0)
        if where.any():
            self.codes[where] = self.number(text)

    def append(self, text: str, where: np.ndarray) -> None:
        """Append a text to that of these rows."""
        words = list(self.words)
        for code in np.unique(self.codes[where]).tolist():
            both = f"{words[code]}; {text}" if code else text
            rows = np.zeros(len(self.codes), bool)
            rows[where] = True
            self.codes[rows & (self.codes == code)] = self.number(both)

    def category(self) -> Any:
        return _category(self.codes, list(self.words))


def _category(codes: np.ndarray, words: Sequence[str]) -> Any:
    """Return texts by their numbers as a categorical: pandas would look at every cell."""
    if len(set(words)) < len(words):
        known = {word: k for k, word in enumerate(dict.fromkeys(words))}
        codes, words = np.array([known[word] for word in words])[codes], list(known)
    return pd.Categorical.from_codes(codes, pd.Index(list(words)).astype(object))


def _outcomes(
    model: PersonalModel,
    x: np.ndarray,
    s: np.ndarray,
    ids: pd.Series | None,
    seen: Counter[bytes],
) -> Decisions:
    """Decide on rows; `seen` counts earlier ones with these inputs."""

    def draw_of(rows: np.ndarray) -> np.ndarray:
        if ids is None:
            return model.predictor.draws(*both, rows, seen)
        return draws.draw(model.predictor.key, (id_bytes(id) for id in ids.iloc[rows]))

    both = torch.from_numpy(x), torch.from_numpy(s)
    return model.outcomes(*both, draw_of)


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
    valid = code >= 0
    pairs = np.bincount(s[valid] * labels + code[valid], minlength=groups * labels)
    for z, group in enumerate(model.group_names):
        for c, label in enumerate(model.label_names):
            summary.decided[group, label] += int(pairs[z * labels + c])


def groups_of(
    model: PersonalModel, frame: pd.DataFrame, columns: Sequence[str], problem: Texts
) -> np.ndarray:
    """Return each row's group, 0 if none is needed or known; note unknown groups as problems.

    A missing value is a problem, unless the model has a group of those.
    """
    n = len(frame)
    if not columns or n == 0:
        return np.zeros(n, dtype=np.int64)
    several, named_values, missing = [], [], {}
    called = model.sensitive_column.split(",")
    for k, column in enumerate(columns):
        edges = model.bands[k] if k < len(model.bands) else ()
        format = model.input_formats.columns.get(called[k])
        codes, words = factor(frame[column])
        missing[column] = codes < 0
        codes, words = codes % (len(words) + 1), [*words, ""]  # -1 is the last
        if edges:  # what is in no band stays what it is, and is a problem
            band, _ = bands.band_indices(frame[column], edges, format)
            codes = np.where(band < 0, codes, band + len(words))
            words = [*words, *bands.names(edges)]
        several.append(codes)
        named_values.append(words)
    codes = several[0]
    for next_codes, words in zip(several[1:], named_values[1:], strict=True):
        codes = codes * len(words) + next_codes
    codes, combinations = pd.factorize(codes)
    which = np.unravel_index(combinations, [len(words) for words in named_values])
    names = [" x ".join(w[k] for w, k in zip(named_values, combination, strict=True))
             for combination in zip(*which, strict=True)]  # fmt: skip
    named = " or ".join(model.group_names) if len(model.group_names) < 5 else "a known group"
    known = model.groups_of
    has_group = np.array([name in known for name in names])[codes]
    for column, is_missing in missing.items():
        problem.add(f"{column} is empty", is_missing & ~has_group)
    for k, name in enumerate(names):
        if name not in known:
            problem.add(f"{','.join(columns)} is '{shorten(name)}', not {named}", codes == k)
    return np.array([known.get(name, 0) for name in names], dtype=np.int64)[codes]


def reader_of(
    saved: Saved,
    client: str | None = None,
    client_column: str | None = None,
    id: str | None = None,
    key: bytes | None = None,
    keep: Sequence[str] = (),
    force: bool = False,
    strict: bool = False,
) -> Reader:
    """Return a reader with one client's model, by its name, or with all and a client column."""
    names = saved.clients
    if client is None and client_column is None:
        if len(names) != 1:
            shown = ", ".join(names if len(names) < 9 else (*names[:3], "...", *names[-1:]))
            how = f"{option('client')}, or {option('client_column')}"
            raise InputError(f"Say which client's model decides, by {how}: {shown}.")
        client = names[0]
    if client is not None and client_column is not None:
        raise InputError(f"Say {option('client')} or {option('client_column')}, not both.")
    models = [saved.of_client(client)] if client is not None else [
        saved.of_client(k, copy=False) for k in range(len(names))]  # fmt: skip
    if key is not None:
        models = [model.with_key(key) for model in models]
    reference = saved.reference
    many = reference is not None and len(reference.counts) > 1
    return Reader(
        {model.name: model for model in models}, client_column, id, tuple(keep), force, strict,
        Guard(reference) if reference else None,
        {name: k for k, name in enumerate(names)} if many else {},
    )  # fmt: skip
