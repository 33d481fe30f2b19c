"""Partitions, plans, and the dealing of rows that plans share."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, option
from pfedfair._util.scalars import to_scalars
from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.partition.persons import TEST, VALIDATION, Persons, mark_shared

Rows = np.ndarray
MOST, SHOWN = 100, 20  # more than `MOST` clients are not all listed, but the first `SHOWN`


@dataclass(frozen=True, eq=False)
class Partition:
    """The row numbers of every client, and the pool: all rows that no client trains or tunes on.

    `shared_conditional` says that clients differ in their share of S only, P(X, Y | S) being the
    same by construction. Then the pool, weighted to a client's share, is a test set for it.
    """

    data: Dataset
    train: tuple[Rows, ...]
    validation: tuple[Rows, ...]
    test: tuple[Rows, ...]
    pool: Rows
    names: tuple[str, ...]
    shared_conditional: bool
    column: str | None = None  # the column with each row's client, if there is one
    notes: tuple[str, ...] = ()  # which clients were left out

    def __repr__(self) -> str:
        return f"<Partition of {self.data.name}: {len(self.names)} clients>"

    @cached_property
    def shares(self) -> np.ndarray:
        """Each client's shares of the groups, by weight, among training and validation rows."""
        s, weight, groups = self.data.s, self.data.weight, len(self.data.group_names)
        counts = []
        for pair in zip(self.train, self.validation, strict=True):
            rows = np.concatenate(pair)
            counts.append(np.bincount(s[rows], None if weight is None else weight[rows], groups))
        return np.array([count / count.sum() for count in counts])

    @property
    def share_s1(self) -> np.ndarray:
        """Each client's share of S = 1."""
        return self.shares[:, 1]

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Underrepresented: the client's largest group is not the federation's."""
        rows = np.concatenate(self.train + self.validation)
        size = np.bincount(self.data.s[rows], minlength=len(self.data.group_names))
        largest = size == size.max()
        against = self.shares[:, largest].max(1) < self.shares.max(1)
        return tuple("underrepresented" if a else "overrepresented" for a in against)

    def table(self) -> pd.DataFrame:
        """Return one line per client: its numbers of rows, and its shares of the groups."""
        names = np.array(self.data.group_names)
        groups = {f"share {name}": self.shares[:, z] for z, name in enumerate(names)}
        if len(names) > 3:
            present = (self.shares > 0).sum(1)
            most = names[self.shares.argmax(1)]
            groups = {"groups": present, "largest group": most, "its share": self.shares.max(1)}
        table = {
            "client": self.names,
            "role": self.roles,
            "train": [len(r) for r in self.train],
            "validation": [len(r) for r in self.validation],
            "test": [len(r) for r in self.test],
            **groups,
        }
        if len(self.data.label_names) == 2:
            table["label rate"] = [self.data.y[r].mean() for r in self.train]
        return pd.DataFrame(table)

    def describe(self) -> str:
        """Return the table as text, with the pool and the notes."""
        table = self.table()
        listed = table if len(table) <= MOST else table.head(SHOWN)
        text = listed.to_string(index=False, float_format="{:.3f}".format)
        if len(listed) < len(table):
            least, most = table["train"].min(), table["train"].max()
            text += (
                f"\nand {len(table) - SHOWN:,} more clients; of all {len(table):,} each has "
                f"{least:,} to {most:,} rows to train on"
            )
        return "\n".join((text, f"held-out pool: {len(self.pool)} rows", *self.notes))


class Plan:
    """A recipe for a partition; each is a frozen dataclass.

    `column` is the column with each row's client, if there is one; it is not an input.
    """

    column: str | None
    of_paper = False  # whether clients are those of the data set's `paper_plan`

    def __post_init__(self) -> None:
        """Check the fields that several plans have."""
        to_scalars(self)
        clients, rows = getattr(self, "clients", None), getattr(self, "rows", None)
        by_column = getattr(self, "column", None) is not None  # which determines the clients
        if rows is not None and (rows < 1 or (clients is None and not by_column)):
            raise InputError(
                f"rows is the number of rows of each client, at least 1; say {option('clients')} "
                f"or {option('client', python='column')}, too."
            )
        if clients is not None and clients < 1:
            raise InputError(f"A federation needs at least one client, got {clients}.")
        for name in ("under_fraction", "share"):
            if not 0 <= (share := getattr(self, name, 0)) <= 1:
                raise InputError(f"{name} must be in [0, 1], got {share:g}.")
        for name in ("test", "validation"):
            if not 0 <= (part := getattr(self, name, 0)) < 1:  # training needs rows, too
                raise InputError(f"{name} must be in [0, 1), got {part:g}.")

    @property
    def words(self) -> str:
        """How the rows are dealt, for tables and legends."""
        raise NotImplementedError

    def split(self, data: Dataset, seed: int) -> Partition:
        """Deal the rows."""
        raise NotImplementedError

    def rows_each(self, data: Dataset) -> int | None:
        """Return the number of training rows per client, if the plan gives all the same."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan's class and fields; `partition.from_dict` makes it again."""
        return {"kind": type(self).__name__, **asdict(self)}  # type: ignore[call-overload]


def paper_plan(data: Dataset) -> PaperPlan:
    if data.paper_plan is None:
        column = option("client", python="partition.by_column")
        drawn = f"{option('partition', 'dirichlet')} {option('clients', 'N')}"
        drawn = drawn if drawn.startswith("--") else "partition.dirichlet_shares"
        raise InputError(
            f"'{data.name}' has no plan of shares: name the column that says which client a row "
            f"belongs to ({column}), or let clients be drawn ({drawn})."
        )
    return data.paper_plan


def rows_each(data: Dataset, clients: int, rows: int | None) -> int:
    """Return the rows per client, all equal: by default as many in total as in the paper."""
    return rows or paper_plan(data).rows // clients


def equal_clients(data: Dataset, shares: np.ndarray, rows: int | None) -> np.ndarray:
    """Return the numbers of rows (S=0, S=1) per client, all clients of equal size.

    `shares` are those of the larger group of the paper's underrepresented clients.
    """
    plan, rows = paper_plan(data), rows_each(data, len(shares), rows)
    if rows < 1:
        raise InputError(f"{len(shares)} clients are too many: there would be no row for each.")
    larger = np.rint(shares * rows).astype(int)
    counts = np.stack([rows - larger, larger], axis=1)
    return counts if plan.under[1] > plan.under[0] else counts[:, ::-1]


def deal(
    data: Dataset, counts: np.ndarray, test_fraction: float, validation: float, seed: int
) -> Partition:
    """Deal each group's shuffled rows: first all training rows, then the test rows.

    Where the data reserves rows for the test, test rows are dealt from these, and they are the
    pool.
    """
    tests = np.rint(counts * test_fraction).astype(int)
    rng, both = seeds.generator(seed, seeds.PARTITION), np.concatenate([counts, tests])
    hands = _deal_rows(data, counts, both, rng)  # refuses to deal more rows than there are
    validating = None
    if data.persons is not None:
        validating = Persons(data.persons, seed, VALIDATION)
        hands = _deal_persons(data, validating, counts, tests, rng)
    split = [stratified(hand, data.s, validation, rng, validating) for hand in hands[: len(counts)]]
    checks, train = zip(*split, strict=True)
    rest = np.arange(len(data)) if data.held is None else np.flatnonzero(data.held)
    pool = np.setdiff1d(rest, np.concatenate(train + checks))
    held = tuple(np.sort(hand) for hand in hands[len(counts) :])
    names = tuple(str(i + 1) for i in range(len(counts)))
    return Partition(data, train, checks, held, pool, names, shared_conditional=True)


def _deal_rows(
    data: Dataset, counts: np.ndarray, both: np.ndarray, rng: np.random.Generator
) -> list[Rows]:
    """Return the rows of `both` the clients' training hands, as many as `counts`, and the tests."""
    dealt = []
    for group in range(counts.shape[1]):
        rows, train, needed = data.s == group, counts[:, group].sum(), both[:, group].sum()
        if data.held is None:
            _enough(data, group, train, needed - train, rows.sum(), rows.sum() - train)
            dealing = rng.permutation(np.flatnonzero(rows))[:needed]
        else:
            held = rows & data.held
            _enough(data, group, train, needed - train, (rows & ~held).sum(), held.sum())
            fit, check = (rng.permutation(np.flatnonzero(mask)) for mask in (rows & ~held, held))
            dealing = np.concatenate([fit[:train], check[: needed - train]])
        dealt.append(np.split(dealing, np.cumsum(both[:-1, group])))
    return [np.concatenate(hand) for hand in zip(*dealt, strict=True)]


def _deal_persons(
    data: Dataset, persons: Persons, counts: np.ndarray, tests: np.ndarray, rng: np.random.Generator
) -> list[Rows]:
    """Return nearly the same numbers of rows as `_deal_rows`, all of a person in one hand."""
    every, held = np.arange(len(data)), data.held
    dealings = [(every, [*counts, *tests])]
    if held is not None:
        dealings = [(every[~held], [*counts]), (every[held], [*tests])]
    hands = []
    for rows, wanted in dealings:
        size = np.bincount(data.s[rows], minlength=counts.shape[1])
        share = np.array(wanted).T / np.maximum(size, 1)[:, None]  # (groups, hands)
        rest = 1 - share.sum(1, keepdims=True)
        *some, _ = persons.deal(rows, data.s, np.concatenate([share, rest.clip(0)], axis=1), rng)
        hands += some
    return hands


def _enough(data: Dataset, group: int, train: int, test: int, able: int, able_test: int) -> None:
    """Refuse to deal more rows of a group than the data has."""
    if train > able or test > able_test:
        present = f"{able}" if data.held is None else f"{able} to train and {able_test} to test"
        raise InputError(
            f"The partition needs {train + test} rows of {data.group_names[group]} ({train} to "
            f"train, {test} to test), {data.name} has {present}: ask for fewer clients or another "
            "share."
        )


def hold_out(
    data: Dataset,
    clients: dict[str, Rows],
    test: float,
    validation: float,
    seed: int,
    most: int | None = None,
) -> Partition:
    """Hold out a part of each client's rows for the test, stratified by group.

    Where the data reserves rows for the test, those are held out. With `most`, at most that many
    rows of a client are not.
    """
    rng = seeds.generator(seed, seeds.PARTITION)
    each = [test if most is None else max(test, 1 - most / len(own)) for own in clients.values()]
    testing, validating, parts = None, None, []
    if data.persons is not None:
        codes = mark_shared(data.persons, list(clients.values()))
        testing = Persons(codes, seed, TEST, shared=max(each))
        validating = Persons(codes, seed, VALIDATION)
    for rows, part in zip(clients.values(), each, strict=True):
        if data.held is None:
            held, rest = stratified(rows, data.s, part, rng, testing)
        else:
            held, rest = rows[data.held[rows]], rows[~data.held[rows]]
        check, fit = stratified(rest, data.s, validation, rng, validating)
        parts.append((fit, check, held))
    train, checks, tests = zip(*parts, strict=True)
    pool = np.sort(np.concatenate(tests))
    return Partition(data, train, checks, tests, pool, tuple(clients), shared_conditional=False)


def stratified(
    rows: Rows,
    s: np.ndarray,
    fraction: float,
    rng: np.random.Generator,
    persons: Persons | None = None,
) -> tuple[Rows, Rows]:
    """Split rows in two, `fraction` of each group in the first part.

    If it is known whose rows they are, all rows of a person are in one part.
    """
    if persons is not None:
        groups = int(s[rows].max(initial=0)) + 1
        shares = np.tile([fraction, 1 - fraction], (groups, 1))
        first, second = persons.deal(rows, s, shares, rng)
        return first, second
    groups = s[rows]  # not all of s: that would take time for every row of the federation
    number = max(2, int(groups.max(initial=0)) + 1)
    shuffled = [rng.permutation(rows[groups == z]) for z in range(number)]
    cut = [np.split(part, [round(fraction * len(part))]) for part in shuffled]
    first, second = (np.sort(np.concatenate(part)) for part in zip(*cut, strict=True))
    return first, second
