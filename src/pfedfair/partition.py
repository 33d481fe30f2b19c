"""Which client holds which rows.

A plan is a recipe (`fixed_shares`, `dirichlet_mixture`, `by_column`); `plan.split(data, seed)`
deals the rows. Training rows, validation rows and the held-out pool never overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from pfedfair import seeds
from pfedfair.data.table import Dataset, PaperPlan
from pfedfair.errors import InputError

Rows = np.ndarray


@dataclass(frozen=True, eq=False)
class Partition:
    """The row numbers of every client, and the pool: all rows that nobody trains or tunes on.

    `shared_conditional` says that clients differ in their share of S only, P(X, Y | S) being the
    same by construction. Then the whole pool, weighted to a client's share, is a test set for it.
    """

    data: Dataset
    train: tuple[Rows, ...]
    validation: tuple[Rows, ...]
    test: tuple[Rows, ...]
    pool: Rows
    names: tuple[str, ...]
    shared_conditional: bool

    @cached_property
    def shares(self) -> np.ndarray:
        """Each client's shares of the groups among its training and validation rows."""
        groups = len(self.data.group_names)
        own = zip(self.train, self.validation, strict=True)
        counts = [np.bincount(self.data.s[np.concatenate(p)], minlength=groups) for p in own]
        return np.array([count / count.sum() for count in counts])

    @property
    def share_s1(self) -> np.ndarray:
        """Each client's share of S = 1."""
        return self.shares[:, 1]

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Underrepresented: the client's largest group is not the federation's."""
        everyone = np.concatenate(self.train + self.validation)
        size = np.bincount(self.data.s[everyone], minlength=len(self.data.group_names))
        largest = size == size.max()
        against = self.shares[:, largest].max(1) < self.shares.max(1)
        return tuple("underrepresented" if a else "overrepresented" for a in against)

    def table(self) -> pd.DataFrame:
        """One row per client: how many rows it has, and of whom."""
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
        """Print-ready table of shares."""
        text = self.table().to_string(index=False, float_format="{:.3f}".format)
        return f"{text}\nheld-out pool: {len(self.pool)} rows"


class Plan(Protocol):
    """A recipe for a partition.

    `column` is the column that says whose a row is, if there is one; it is not an input.
    """

    @property
    def column(self) -> str | None: ...

    def split(self, data: Dataset, seed: int) -> Partition: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class FixedShares:
    """See `fixed_shares`."""

    clients: int | None = None
    under_fraction: float = 0.2
    share: float = 0.8
    validation: float = 0.0
    rows: int | None = None

    column = None

    def split(self, data: Dataset, seed: int) -> Partition:
        plan = _paper_plan(data)
        if self.clients is None:
            counts = np.array([plan.under] * plan.n_under + [plan.over] * plan.n_over)
        else:
            under = round(self.clients * self.under_fraction)
            shares = np.repeat([self.share, 1 - self.share], [under, self.clients - under])
            counts = _counts(shares, plan, self.rows)
        return _deal(data, counts, plan.test_fraction, self.validation, seed)


@dataclass(frozen=True)
class DirichletMixture:
    """See `dirichlet_mixture`."""

    clients: int = 20
    under_fraction: float = 0.2
    means: tuple[float, float] = (0.8, 0.2)
    concentration: tuple[float, float] = (20.0, 20.0)
    validation: float = 0.0
    rows: int | None = None

    column = None

    def split(self, data: Dataset, seed: int) -> Partition:
        plan = _paper_plan(data)
        under = round(self.clients * self.under_fraction)
        rng = seeds.generator(seed, seeds.PARTITION, 1)
        kinds = zip(self.means, self.concentration, (under, self.clients - under), strict=True)
        shares = np.concatenate([_recentred_beta(m, c, n, rng) for m, c, n in kinds])
        counts = _counts(shares, plan, self.rows)
        return _deal(data, counts, plan.test_fraction, self.validation, seed)


@dataclass(frozen=True)
class DirichletShares:
    """See `dirichlet_shares`."""

    clients: int
    concentration: float = 5.0
    test: float = 0.25
    validation: float = 0.0

    column = None

    def split(self, data: Dataset, seed: int) -> Partition:
        rng = seeds.generator(seed, seeds.PARTITION, 1)
        size = np.bincount(data.s, minlength=len(data.group_names))
        dealt = np.maximum((1 - self.test) * size - self.clients, 0)  # the rest is for the test
        parts = rng.dirichlet(np.full(self.clients, self.concentration), len(size))
        counts = np.floor(parts * dealt[:, None]).astype(int).T
        return _deal(data, counts, self.test / (1 - self.test), self.validation, seed)


@dataclass(frozen=True)
class ByColumn:
    """See `by_column`."""

    column: str
    test: float = 0.25
    validation: float = 0.0
    min_rows: int = 20

    def split(self, data: Dataset, seed: int) -> Partition:
        if self.column not in data.frame:
            raise InputError(
                f"There is no column '{self.column}' to make clients of: "
                f"the data has {', '.join(map(str, data.frame.columns))}."
            )
        if self.column in (data.label_column, *data.sensitive_column.split(",")):
            raise InputError(
                f"Column '{self.column}' is the label or the sensitive attribute: it cannot say "
                "which client a row belongs to."
            )
        column = data.frame[self.column]
        if column.isna().any():
            raise InputError(f"The client column '{self.column}' has empty cells: fill them.")
        column = column.astype(str)
        train, validation, test, names = [], [], [], []
        rng = seeds.generator(seed, seeds.PARTITION)
        for name in sorted(column.unique()):
            rows = np.flatnonzero(column == name)
            if len(rows) < self.min_rows:
                raise InputError(
                    f"Client '{name}' of column '{self.column}' has {len(rows)} rows, "
                    f"at least {self.min_rows} are needed: merge or drop it."
                )
            held, own = stratified(rows, data.s, self.test, rng)
            check, fit = stratified(own, data.s, self.validation, rng)
            train.append(fit)
            validation.append(check)
            test.append(held)
            names.append(str(name))
        pool = np.sort(np.concatenate(test))
        return Partition(
            data, tuple(train), tuple(validation), tuple(test), pool, tuple(names), False
        )


def fixed_shares(
    clients: int | None = None,
    under_fraction: float = 0.2,
    share: float = 0.8,
    validation: float = 0.0,
    rows: int | None = None,
) -> FixedShares:
    """Give the paper's fixed shares of S.

    Without `clients`: the paper's own plan of the data set (Adult: 1 client of 400 women and 2,000
    men, 4 of the inverse). With `clients`: equal sizes; the first `under_fraction` of the clients
    have `share` of the group that is the minority overall, the others the inverse.

    Parameters
    ----------
    validation
        The part of every client's training rows that is set aside for tuning.
    rows
        Training rows of each client; by default as many in all as in the paper.
    """
    _check(clients, under_fraction, share, validation, rows)
    return FixedShares(clients, under_fraction, share, validation, rows)


def dirichlet_mixture(
    clients: int = 20,
    under_fraction: float = 0.2,
    means: tuple[float, float] = (0.8, 0.2),
    concentration: tuple[float, float] = (20.0, 20.0),
    validation: float = 0.0,
    rows: int | None = None,
) -> DirichletMixture:
    """Draw each client's shares of S from one of two Dirichlet distributions.

    The two kinds of client (see `fixed_shares`) have the given `means` of their share of the group
    that is the minority overall, exactly: draws are shifted to that mean. The paper's symmetric
    alphas 0.5 and 1 would have mean 1/2; `concentration` (the sum of the two Dirichlet parameters,
    for under- and overrepresented clients) says how little a client strays from its mean.
    """
    _check(clients, under_fraction, 0.5, validation, rows)
    if not all(0 < mean < 1 for mean in means):
        raise InputError(f"means must be between 0 and 1, got {means[0]:g} and {means[1]:g}.")
    if min(concentration) <= 0:
        raise InputError(f"concentration must be positive, got {min(concentration):g}.")
    return DirichletMixture(clients, under_fraction, means, concentration, validation, rows)


def dirichlet_shares(
    clients: int, concentration: float = 5.0, test: float = 0.25, validation: float = 0.0
) -> DirichletShares:
    """Deal each group's rows to the clients in parts that a symmetric Dirichlet draws.

    For any data and any number of groups. A small `concentration` makes clients that differ much.
    A part `test` of the rows is left for the held-out pool.
    """
    _check(clients, 0.5, 0.5, validation, None)
    if not 0 < concentration < float("inf"):
        raise InputError(f"concentration must be a positive number, got {concentration:g}.")
    if not 0 < test < 1:
        raise InputError(f"test must be between 0 and 1, got {test:g}.")
    return DirichletShares(clients, concentration, test, validation)


def by_column(
    column: str, test: float = 0.25, validation: float = 0.0, min_rows: int = 20
) -> ByColumn:
    """One client per value of a column; each keeps a part `test` of its own rows for the test."""
    for name, part in (("test", test), ("validation", validation)):
        if not 0 <= part < 1:
            raise InputError(f"{name} must be in [0, 1), got {part:g}.")
    return ByColumn(column, test, validation, min_rows)


def _check(
    clients: int | None, under_fraction: float, share: float, validation: float, rows: int | None
) -> None:
    if rows is not None and (rows < 1 or clients is None):
        raise InputError("rows is the number of rows of each client, at least 1; give clients too.")
    if clients is not None and clients < 1:
        raise InputError(f"A federation needs at least one client, got {clients}.")
    for name, value in (("under_fraction", under_fraction), ("share", share)):
        if not 0 <= value <= 1:
            raise InputError(f"{name} must be in [0, 1], got {value:g}.")
    if not 0 <= validation < 1:
        raise InputError(f"validation must be in [0, 1), got {validation:g}.")


def _paper_plan(data: Dataset) -> PaperPlan:
    if data.paper_plan is None:
        raise InputError(
            f"'{data.name}' has no plan of shares: name the column that says which client a row "
            "belongs to (--client), or let clients be drawn (--partition dirichlet --clients N)."
        )
    return data.paper_plan


def _counts(shares: np.ndarray, plan: PaperPlan, rows: int | None) -> np.ndarray:
    """Rows of (S=0, S=1) per client, all of equal size.

    `shares` are those of the group that the plan's underrepresented clients have most of.
    """
    rows = rows or plan.rows // len(shares)
    if rows < 1:
        raise InputError(f"{len(shares)} clients are too many: there would be no row for each.")
    those = np.rint(shares * rows).astype(int)
    counts = np.stack([rows - those, those], axis=1)
    return counts if plan.under[1] > plan.under[0] else counts[:, ::-1]


def _recentred_beta(mean: float, concentration: float, n: int, rng: np.random.Generator) -> Rows:
    """Two-valued Dirichlet draws in [0, 1], shifted so that their average is `mean`."""
    draws = rng.beta(mean * concentration, (1 - mean) * concentration, n)
    for _ in range(100):  # a shift may push draws over an edge, where they are clipped
        if n == 0 or abs(draws.mean() - mean) < 1e-9:
            break
        draws = np.clip(draws + mean - draws.mean(), 0.0, 1.0)
    return np.asarray(draws)


def _deal(
    data: Dataset, counts: np.ndarray, test_fraction: float, validation: float, seed: int
) -> Partition:
    """Deal each group's shuffled rows: first everybody's training rows, then the test rows."""
    tests = np.rint(counts * test_fraction).astype(int)
    rng = seeds.generator(seed, seeds.PARTITION)
    train: list[list[Rows]] = [[] for _ in counts]
    test: list[list[Rows]] = [[] for _ in counts]
    for group in range(counts.shape[1]):
        rows = rng.permutation(np.flatnonzero(data.s == group))
        needed = int(counts[:, group].sum() + tests[:, group].sum())
        if needed > len(rows):
            raise InputError(
                f"The partition needs {needed} rows of {data.group_names[group]} "
                f"({counts[:, group].sum()} to train, {tests[:, group].sum()} to test), "
                f"{data.name} has {len(rows)}: ask for fewer clients or another share."
            )
        ends = np.cumsum(np.concatenate([counts[:, group], tests[:, group]]))
        dealt = np.split(rows[:needed], ends[:-1])
        for i in range(len(counts)):
            train[i].append(dealt[i])
            test[i].append(dealt[len(counts) + i])
    own = [stratified(np.concatenate(t), data.s, validation, rng) for t in train]
    used = np.concatenate([np.concatenate(pair) for pair in own])
    return Partition(
        data=data,
        train=tuple(fit for _, fit in own),
        validation=tuple(check for check, _ in own),
        test=tuple(np.sort(np.concatenate(t)) for t in test),
        pool=np.setdiff1d(np.arange(len(data)), used),
        names=tuple(str(i + 1) for i in range(len(counts))),
        shared_conditional=True,
    )


def stratified(
    rows: Rows, s: np.ndarray, fraction: float, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Split rows in two, `fraction` of each group in the first part."""
    first: list[Rows] = []
    second: list[Rows] = []
    for group in range(max(2, int(s.max()) + 1)):
        mine = rng.permutation(rows[s[rows] == group])
        cut = round(fraction * len(mine))
        first.append(mine[:cut])
        second.append(mine[cut:])
    return np.sort(np.concatenate(first)), np.sort(np.concatenate(second))
