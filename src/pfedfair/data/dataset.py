"""A data set: raw columns, a label Y, a sensitive attribute S."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column
from pfedfair._util.notebook import abbreviate, block
from pfedfair.data.tables.bands import Bands, check_bands
from pfedfair.data.tables.cells import factor
from pfedfair.data.tables.formats import Formats
from pfedfair.data.tables.groups import columns_of, cross

if TYPE_CHECKING:
    from pfedfair.federation import Federation
    from pfedfair.partition import Plan


@dataclass(frozen=True)
class PaperPlan:
    """How the paper splits a data set: rows of (S=0, S=1) at the two kinds of client."""

    under: tuple[int, int]
    over: tuple[int, int]
    n_under: int
    n_over: int
    test_fraction: float
    scaled: str = ""  # why it is smaller than the paper's, as a message

    @property
    def rows(self) -> int:
        return self.n_under * sum(self.under) + self.n_over * sum(self.over)


@dataclass(frozen=True)
class Dataset:
    """Raw rows and the roles of their columns.

    `y` and `s` are codes from 0; `label_names` and `group_names` are their names. For an empty
    tuple in `categorical`, the categories are those of the training rows. Inputs that are not
    columns are in `array`: embeddings ``(n, d)``, or pixels
    ``(n, 3, height, width)``.
    """

    name: str
    frame: pd.DataFrame = field(repr=False)
    y: np.ndarray = field(repr=False)
    s: np.ndarray = field(repr=False)
    numeric: tuple[str, ...]
    categorical: dict[str, tuple[str, ...]]
    label_names: tuple[str, ...]
    group_names: tuple[str, ...]
    label_column: str
    sensitive_column: str  # or several, with commas between
    hidden: tuple[int, ...] = (64, 64)
    paper_plan: PaperPlan | None = None
    settings: str = "own"  # section of its tuned settings
    array: np.ndarray | None = field(default=None, repr=False)
    scaling: str = "standard"  # of embeddings: "standard" or "whiten"
    encoding: str = "standard"  # of columns: "standard" or "piecewise"
    inputs: str = ""  # description of the array, for headings
    held: np.ndarray | None = field(default=None, repr=False)  # mask of the test rows, if fixed
    aware: bool = True  # whether models get S, unless specified otherwise
    notes: tuple[str, ...] = ()  # for the user, on these rows
    model: str = ""  # of pixels: the network's name, if not the usual one
    client: str = ""  # the column of each row's client, if the data set has clients
    excluded: Mapping[str, str] = field(default_factory=dict, repr=False)  # columns, and why
    keep: tuple[str, ...] = ()  # columns that the user never excludes
    weight: np.ndarray | None = field(default=None, repr=False)  # of each row; their mean is 1
    bands: Bands = field(default_factory=dict)  # of sensitive numbers, see `from_frame`
    formats: Formats = field(default_factory=Formats, repr=False)  # of numbers and dates in text
    as_written: Mapping[str, pd.Series] = field(default_factory=dict, repr=False)  # see `cells_of`
    person: str | None = None  # the column of each row's person, if persons have several rows
    rows: np.ndarray | None = field(default=None, repr=False)  # their numbers in the user's table
    without_sensitive: int = 0  # rows of the user's table that are left out, as S is missing
    table_rows: int = 0  # all rows of the user's table, if some are left out

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        text = "; ".join([self.inputs_words(), *self.role_words()])
        return f"<Dataset {self.name}: {len(self):,} rows; {text}>"

    def _repr_html_(self) -> str:
        lines = [f"Inputs: {self.inputs_words()}.", *(f"{line}." for line in self.role_words())]
        sizes = np.bincount(self.s, minlength=len(self.group_names))
        table = pd.DataFrame({"group": self.group_names, "rows": sizes})
        if len(self.label_names) == 2:
            right = np.bincount(self.s, self.y, minlength=len(sizes))
            table[f"share of {self.label_names[1]}"] = right / np.maximum(sizes, 1)
        return block(f"{self.name}: {len(self):,} rows", [*lines, *self.notes], table)

    def inputs_words(self, without: str | None = None) -> str:
        """Describe the inputs of models except S; `without` is the column of clients."""
        if self.array is not None:
            width = " x ".join(map(str, self.array.shape[1:]))
            return f"{width} numbers" + (f" ({self.inputs})" if self.inputs else "")
        columns = [c for c in (*self.numeric, *self.categorical) if c != without]
        return f"{len(columns)} column{'s' * (len(columns) != 1)} ({abbreviate(columns)})"

    def role_words(self) -> tuple[str, str]:
        """Describe the label and the sensitive attribute."""
        names, groups = self.label_names, abbreviate(self.group_names)
        text = f"{names[-1]} counts as positive" if len(names) == 2 else abbreviate(names)
        return f"Label {self.label_column}: {text}", f"S {self.sensitive_column}: {groups}"

    def by(
        self,
        attributes: str | Sequence[str],
        merge_groups: bool = False,
        bands: Mapping[str, Sequence[float]] | None = None,
    ) -> Dataset:
        """Return the same rows with other columns as the sensitive attribute; see `from_frame`."""
        attributes = columns_of(attributes)
        before = self.sensitive_column.split(",")
        for column in attributes:
            able = (*before, *self.categorical, *self.numeric)
            has_column(column, able, f"of {self.name} for the sensitive attribute")
        cuts = check_bands(bands)
        s, names = cross(self.frame, attributes, merge_groups, bands=cuts)
        inputs = self.categorical | dict.fromkeys(before, ())
        return replace(
            self,
            s=s,
            group_names=names,
            sensitive_column=",".join(attributes),
            numeric=tuple(c for c in self.numeric if c not in attributes),
            categorical={c: v for c, v in inputs.items() if c not in attributes},
            paper_plan=None,
            bands=cuts,
        )

    def cells_of(self, column: str) -> pd.Series:
        """Return a column's cells as they were, even if numbers do not hold all that they say."""
        return self.as_written.get(column, self.frame[column])

    @cached_property
    def persons(self) -> np.ndarray | None:
        """Codes of the rows' persons, all of whose rows are on one side of every split."""
        return None if self.person is None else factor(self.frame[self.person])[0]

    @cached_property
    def digest(self) -> str:
        """A hash of the array, the labels, the groups and all columns."""
        frame = self.frame if self.array is None else self.frame.astype(str)  # of few columns
        columns = pd.util.hash_pandas_object(frame).to_numpy()
        found = hashlib.sha256(columns.tobytes())
        for part in (self.array, self.y, self.s, self.held):
            found.update(b"" if part is None else np.ascontiguousarray(part).view(np.uint8).data)
        return found.hexdigest()

    def unfold(self) -> Dataset:
        """Return the same rows with a column for each number of an embedding.

        A site needs columns of numbers, as it sends their sums.
        """
        if self.array is None:
            return self
        if self.array.ndim > 2:
            raise InputError(f"The sites of '{self.name}' take embeddings, not pixels.")
        names = [f"embedding {k}" for k in range(self.array.shape[1])]
        wide = pd.DataFrame(self.array.astype(np.float32), columns=names)
        frame = pd.concat([self.frame.reset_index(drop=True), wide], axis=1)
        return replace(self, frame=frame, array=None, numeric=tuple(names))

    @property
    def raw_inputs(self) -> pd.DataFrame | np.ndarray:
        """The inputs before encoding: the columns, or the array."""
        return self.frame if self.array is None else self.array

    def federate(
        self,
        plan: Plan | str | None = None,
        seed: int = 0,
        sensitive_as_input: bool | None = None,
    ) -> Federation:
        """Split the rows among clients by `plan`, and encode them.

        A column's name makes a client of each of its values. By default, clients are the data
        set's, or the paper's, and `aware` says whether models get S.
        """
        from pfedfair.federation import federate

        aware = self.aware if sensitive_as_input is None else sensitive_as_input
        return federate(self, plan, seed, aware)
