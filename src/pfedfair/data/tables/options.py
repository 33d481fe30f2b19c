"""How a table becomes a data set: the roles of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from filecmp import cmp
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from pfedfair._util.errors import InputError, has_column, option
from pfedfair.data.tables.bands import Bands, check_bands, parse_bands
from pfedfair.data.tables.cells import DECIMAL, WHOLE
from pfedfair.data.tables.groups import columns_of, join_names
from pfedfair.data.tables.missing_groups import EXCLUDE, Missing

LISTS = ("drop", "categorical", "keep", "unknown")
NOT_OF_SITES = ("weight", "missing_sensitive", "unknown")


@dataclass(frozen=True)
class TableOptions:
    """The name of a data set and the roles of its columns; for their meaning see `from_frame`.

    The column of clients belongs to the plan of a federation, the encoding to the model.
    """

    name: str = "table"
    label: str | None = None
    sensitive: str | None = None  # or several columns, with commas between
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    merge_groups: bool = False
    keep: tuple[str, ...] = ()
    positive: Any = None
    bands: tuple[tuple[str, tuple[float, ...]], ...] = ()
    test: Any = None  # a path, or a frame
    weight: str | None = None
    person: str | None = None
    missing_sensitive: str | None = None
    unknown: tuple[str, ...] = ()

    @classmethod
    def parse(cls, **given: Any) -> Self:
        """Make options of what a user gave: lists, or texts as in a command or in settings."""
        given |= {name: tuple(columns_of(given.get(name) or ())) for name in LISTS}
        given["sensitive"] = join_names(given.get("sensitive") or ()) or None
        given["bands"] = tuple(_parse_bands(given.get("bands") or ()).items())
        given["merge_groups"] = bool(given.get("merge_groups"))
        for name in ("label", "weight", "person", "missing_sensitive"):
            given[name] = None if given.get(name) is None else str(given[name])
        return cls(**given)

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> TableOptions:
        """Read the settings of a site, where "" stands for nothing, without those of no site."""
        names = [field.name for field in fields(TableOptions) if field.name not in NOT_OF_SITES]
        given = {name: config.get(name.replace("_", "-")) or None for name in names}
        return TableOptions.parse(**given | {"name": str(config["data"])})

    def to_config(self) -> dict[str, str | bool]:
        """Return the settings that `of_config` reads."""
        given = {field.name: getattr(self, field.name) or "" for field in fields(TableOptions)[1:]}
        given |= {name: ",".join(given[name]) for name in LISTS}
        bands = (f"{column}:{','.join(map(str, edges))}" for column, edges in self.bands)
        given |= {"data": self.name, "bands": ";".join(bands), "merge_groups": self.merge_groups}
        return {name.replace("_", "-"): v for name, v in given.items() if name not in NOT_OF_SITES}

    def given(self) -> list[str]:
        """Return which options were given, except name, label and S."""
        every = fields(TableOptions)[3:]
        return [field.name for field in every if getattr(self, field.name) is not field.default]

    @property
    def missing(self) -> Missing:
        """How missing values of S are treated."""
        return Missing(self.missing_sensitive or EXCLUDE, self.unknown)

    @property
    def edges(self) -> Bands:
        """The bands by column."""
        return dict(self.bands)

    def attributes(self, frame: pd.DataFrame) -> list[str]:
        """Return the sensitive columns."""
        return [c if c in frame else c.strip() for c in (self.sensitive or "").split(",")]

    def roles(self, frame: pd.DataFrame) -> dict[str, str]:
        """Return the columns with a role, which are no inputs; refuse missing or repeated ones."""
        named = [(self.label, "the label")]
        named += [(column, "the sensitive attribute") for column in self.attributes(frame)]
        named += [(self.weight, "the weights"), (self.person, "the persons")]
        found: dict[str, str] = {}
        for column, role in named:
            if column is None:
                continue
            has_column(column, frame, f"for {role}")
            if found.setdefault(column, role) != role:
                raise InputError(f"Column '{column}' cannot be both {found[column]} and {role}.")
        return found

    def check(self, frame: pd.DataFrame) -> None:
        """Refuse columns that are missing, have two roles, or are duplicated."""
        values = [c for c in frame.columns if WHOLE.fullmatch(c) or DECIMAL.fullmatch(c)]
        if self.label not in frame and len(values) > 1 and not _are_consecutive(values):
            raise InputError(
                f"There is no column '{self.label}' for the label, and the names of columns look "
                f"like values ({', '.join(values[:3])}): put a line of names above them."
            )
        for column in (*self.drop, *self.categorical, *self.keep):
            has_column(column, frame, "to drop, to keep or to take as categories")
        self.roles(frame)
        attributes = self.attributes(frame)
        for column in (str(self.label), *attributes):
            _refuse_second(frame, column, (*self.drop, *self.keep))
        if len(frame) == 0:
            raise InputError("The table has names of columns, but no rows.")
        hidden = [c for c in attributes if c in self.drop]
        if hidden and len(hidden) < len(attributes):
            raise InputError(
                f"Column '{hidden[0]}' is a part of S: drop all of {self.sensitive}, or none of "
                "them."
            )


def refuse_training_rows(test: Path, path: Path) -> None:
    """Refuse test rows that are the training rows in `path`."""
    there = test.is_file() and path.is_file()
    if there and (test.samefile(path) or cmp(test, path, shallow=False)):
        raise InputError(
            f"The rows for the test, {test}, are those of {path}: name another file, or leave out "
            f"{option('test')}, and a part of the rows is held out."
        )


def _parse_bands(given: Any) -> Bands:
    """Parse bands: a mapping, pairs, or texts as typed; one text has semicolons between bands."""
    if isinstance(given, str):
        given = given.split(";")
    if not isinstance(given, Mapping) and all(isinstance(text, str) for text in given):
        return parse_bands(given)
    return check_bands(dict(given))


def _refuse_second(frame: pd.DataFrame, column: str, decided: Sequence[str]) -> None:
    """Refuse a column whose name is that of a second `column`, unless the user decided on it."""
    again = re.compile(re.escape(column) + r"\.\d+")
    for other in frame.columns:
        if again.fullmatch(other) and other not in decided:
            raise InputError(
                f"Column '{other}' is called like a second '{column}', which no input may "
                f"reveal: say {option('drop', other)}, or {option('keep', other)} if it is "
                "another thing."
            )


def _are_consecutive(names: Sequence[str]) -> bool:
    """Whether names are consecutive numbers, which count the columns."""
    return bool((np.diff([float(name) for name in names]) == 1).all())
