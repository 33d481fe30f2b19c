"""Write one table in each format: texts as files have them, or typed values."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from kinds import Kind
from openpyxl.cell import WriteOnlyCell

ROWS = 160
SITES = ("north", "south")


@dataclass(frozen=True)
class Dialect:
    """How a file differs from the usual one."""

    order: str = ""
    extra: bool = False
    without: tuple[str, ...] = ()
    first: str = ""
    twice: str = ""
    names: str = "{}"
    index: bool = False
    bom: bool = False
    newline: str = "\n"
    quote: bool = False
    hint: bool = False
    trailing: bool = False
    cut: bool = False
    empty_lines: int = 0
    blank: str = ""
    capital: bool = False


@dataclass(frozen=True)
class Column:
    """The cells of a column in all formats."""

    texts: list[str]
    comma: list[str]
    typed: pd.Series
    excel: list[Any]
    arrow: Any = None


@dataclass(frozen=True)
class Rows:
    """A table in all formats."""

    columns: Mapping[str, Column]
    dialect: Dialect = field(default_factory=Dialect)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())).texts)

    def take(self, rows: Sequence[int]) -> Rows:
        """Return some of the rows."""
        found = {
            name: Column(*([part[k] for k in rows] for part in (one.texts, one.comma)),
                         one.typed.iloc[list(rows)].reset_index(drop=True),
                         [one.excel[k] for k in rows], one.arrow)
            for name, one in self.columns.items()
        }  # fmt: skip
        return Rows(found, self.dialect)

    def named(self) -> list[tuple[str, str]]:
        """Return the columns in the order of the file: their names in it, and their own."""
        dialect, names = self.dialect, [*self.columns]
        names = [name for name in names if name not in dialect.without]
        if dialect.order == "reversed":
            names.reverse()
        if dialect.first:
            names.sort(key=lambda name: name != dialect.first)
        if dialect.twice:
            names.append(dialect.twice)
        return [(dialect.names.format(name), name) for name in names]

    def frame(self, part: str = "texts") -> pd.DataFrame:
        """Return the texts, or the typed values, as a data frame."""
        named = self.named()
        columns = [getattr(self.columns[name], part) for _, name in named]
        if part != "typed":
            columns = [pd.Series(texts, dtype="str") for texts in columns]
        found = pd.concat(columns, axis=1, keys=[title for title, _ in named])
        if self.dialect.extra:
            found.insert(0, "extra", range(len(found)))
            found["note"] = 'no, "this" is; not'
        return found


def column_of(kind: Kind, cells: Sequence[tuple[str, Any]], at: np.ndarray) -> Column:
    """Return a column whose rows have the cells with these numbers."""
    usual = cells == kind.all_cells
    decided = usual if kind.new is None else list(cells) == list(kind.new)
    texts = [text for text, _ in cells]
    values = [value for _, value in cells]
    comma = list(kind.comma) if kind.comma is not None and decided else texts
    excel = list(kind.excel) if kind.excel is not None and decided else values
    dtype = kind.dtype if usual else dtype_of(kind, values)
    typed = pd.Series([values[k] for k in at], dtype=dtype)
    found = ([part[k] for k in at] for part in (texts, comma))
    return Column(*found, typed, [excel[k] for k in at], kind.arrow)


def dtype_of(kind: Kind, values: Sequence[Any]) -> Any:
    """Return the type of new values: that of the kind, if it has missing values."""
    fine = {value for value in values if value is not None} <= {v for _, v in kind.all_cells}
    missing = any(value is None for value in values)
    typed = kind.dtype is not None and fine
    return kind.dtype if typed and not (missing and str(kind.dtype)[:3] in ("int", "uin")) else None


def make(kind: Kind, cells: Sequence[tuple[str, Any]] | None = None, seed: int = 0) -> Rows:
    """Return a table with a column of this kind, for training or (with `cells`) to decide on."""
    return join([kind], seed, cells)


def join(
    kinds: Sequence[Kind], seed: int = 0, new: Sequence[tuple[str, Any]] | None = None,
    n: int = ROWS, gaps: float = 0.0,
) -> Rows:  # fmt: skip
    """Return a table with a column for each kind; several kinds are inputs k0, k1, ...

    The label depends on every cell, so that a cell that is misread changes scores.
    """
    rng = np.random.default_rng(seed)
    logit, columns = np.zeros(n), {}
    for number, kind in enumerate(kinds):
        cells = kind.all_cells
        at = np.arange(n) % len(kind.cells)
        rng.shuffle(at)
        for k in range(len(kind.once)):
            at[rng.integers(n, size=2)] = len(kind.cells) + k
        logit += 1.6 * np.cos(2.2 * at + number)
        if new is not None:
            cells, at = list(new), np.arange(n) % len(new)
            rng.shuffle(at)
        if gaps:
            cells = [*cells, ("", None)]
            at = np.where(rng.random(n) < gaps, len(cells) - 1, at)
            kind = with_gaps(kind, cells)
        name = kind.column if len(kinds) == 1 else f"k{number}"
        columns[name] = (column_of(kind, cells, at), at)
    draws = kinds[0].method == "draws"
    x = rng.choice([0.25, 0.75], n) if draws else rng.normal(size=n).round(2)
    sex, site = rng.integers(2, size=n), rng.integers(2, size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(logit + x + 0.8 * sex - 0.5)))).astype(int)
    given = {name: one for name, (one, _) in columns.items()}
    usual = {
        "id": plain([str(1000 + k) for k in range(n)], [1000 + k for k in range(n)]),
        "x": plain([f"{v:.2f}" for v in x], [float(f"{v:.2f}") for v in x]),
        "s": plain([("f", "m")[k] for k in sex]),
        "site": plain([SITES[k] for k in site]),
        "y": plain([str(k) for k in y], y.tolist()),
    }
    if len(kinds) == 1 and kinds[0].role == "label":  # the label is the cell of the row's outcome
        kind = kinds[0]
        given["y"] = column_of(kind, kind.all_cells, (y + (rng.random(n) < 0.3)) % len(kind.cells))
    found = {"id": usual["id"], "x": usual["x"]}
    return Rows(found | {k: v for k, v in given.items() if k not in usual} | usual | given)


def numbered(kinds: Sequence[Kind]) -> Kind:
    """Return a kind that stands for a table of several."""
    return replace(kinds[0], name=", ".join(map(str, kinds)), comma=None, expect={})


def with_gaps(kind: Kind, cells: Sequence[tuple[str, Any]]) -> Kind:
    """Return the kind with missing values."""
    comma = None if kind.comma is None else [*kind.comma, ""]
    excel = None if kind.excel is None else [*kind.excel, None]
    small = str(kind.dtype)[:3] in ("int", "uin")
    dtype = str(kind.dtype).replace("i", "I").replace("u", "U") if small else kind.dtype
    dtype = "UInt64" if str(kind.dtype) == "uint64" else dtype
    return replace(kind, cells=tuple(cells), once=(), comma=comma, excel=excel, dtype=dtype)


def plain(texts: list[str], values: list[Any] | None = None) -> Column:
    """Return a column of words, or of numbers, whose decimal point may be a comma."""
    values = texts if values is None else values
    return Column(
        texts, [text.replace(".", ",") for text in texts], pd.Series(values), list(values)
    )


# --- files ---------------------------------------------------------------------------------------


def text_of(rows: Rows, separator: str, part: str = "texts") -> str:
    """Return a delimited file."""
    dialect, frame = rows.dialect, rows.frame(part)
    lines = [list(frame.columns), *frame.to_numpy(dtype=object).tolist()]
    if dialect.index:
        lines = [["", *lines[0]], *([str(k), *line] for k, line in enumerate(lines[1:]))]
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=separator, lineterminator=dialect.newline,
                        quoting=csv.QUOTE_ALL if dialect.quote else csv.QUOTE_MINIMAL)  # fmt: skip
    if dialect.hint:
        file.write(f"sep={separator}{dialect.newline}")
    if dialect.blank or dialect.trailing:
        for line in lines:
            one = io.StringIO(newline="")
            each = csv.writer(one, delimiter=separator, lineterminator="")
            written = []
            for cell in line:
                one.seek(0)
                one.truncate()
                each.writerow([cell, ""])
                written.append(one.getvalue()[: -len(separator)])
            end = separator * dialect.trailing + dialect.newline
            file.write((separator + dialect.blank).join(written) + end)
    else:
        writer.writerows(lines)
    text = file.getvalue()
    if dialect.cut:
        text = text[: -len(dialect.newline)]
    return text + dialect.newline * dialect.empty_lines


def write_text(rows: Rows, path: Path, separator: str, part: str = "texts",
               encoding: str = "utf-8") -> Path:  # fmt: skip
    text = text_of(rows, separator, part)
    if rows.dialect.bom and encoding == "utf-8":
        encoding = "utf-8-sig"
    content = text.encode(encoding)
    if path.suffix == ".gz":
        content = gzip.compress(content, 1)
    path.write_bytes(content)
    return path


def write_xlsx(rows: Rows, path: Path) -> Path:
    """Write typed cells, as Excel does: texts stay texts, even if they look like a formula."""
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    named = rows.named()
    extra = rows.dialect.extra
    sheet.append([title for title, _ in named] + ["note"] * extra)
    for k in range(len(rows)):
        line = [excel_cell(sheet, rows.columns[name].excel[k]) for _, name in named]
        sheet.append(line + ["no, this is; not"] * extra)
    book.save(path)
    return path


def excel_cell(sheet: Any, value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    if isinstance(value, str):
        cell = WriteOnlyCell(sheet, value)
        cell.data_type = "e" if value == "#N/A" else "s"
        return cell
    return value.item() if isinstance(value, np.generic) else value


def write_parquet(rows: Rows, path: Path, part: str = "typed") -> Path:
    """Write typed columns as pandas does, or the texts as they are."""
    frame, named = rows.frame(part), rows.named()
    if rows.dialect.twice:
        columns = [pa.Array.from_pandas(frame.iloc[:, k]) for k in range(frame.shape[1])]
        table = pa.table(columns, names=list(frame.columns))
    else:
        own = {title: rows.columns[name].arrow for title, name in named} if part == "typed" else {}
        usual = [title for title in frame.columns if own.get(title) is None]
        table = pa.Table.from_pandas(frame[usual], preserve_index=False)
        for k, title in enumerate(frame.columns):
            if title not in usual:
                table = table.add_column(k, title, arrow_of(frame[title], own[title]))
    pq.write_table(table, path)
    return path


def arrow_of(column: pd.Series, kind: Any) -> pa.Array:
    values = [None if value is None or value is pd.NA else value for value in column]
    if pa.types.is_string(kind):
        values = [None if value is None else str(value) for value in values]
    return pa.array(values, type=kind, from_pandas=True)
