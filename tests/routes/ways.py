"""Train on one format, decide by every route, and compare decisions row by row."""

from __future__ import annotations

import datetime
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import writers
from kinds import EITHER, FILES, REFUSED, SAME, SKIPPED, Kind
from writers import Dialect, Rows

import pfedfair as pff
from pfedfair.data.tables import reading

METHODS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "newton": ("newton", {"rounds": 3}),
    "draws": ("transport", {"rounds": 4, "target_ddp": 0.05}),
}
SCORE, SINGLE = 1e-6, 2e-6  # largest difference of scores, and where they are in single precision
FEW = 3  # rows of a small file
SHEET = 48  # rows of a workbook, which is slow to write
PART = 64  # rows of a part of a file that is read in parts
NOTHING = ("", "NA", "N/A", "n/a", "null", "NULL", "None", "nan", "NaN", "?", "#N/A", "<NA>")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class RefusedError(Exception):
    """A route refused the rows with one sentence."""


@dataclass(frozen=True)
class Run:
    """A run on a table in one format.

    Attributes
    ----------
    rows
        The rows to decide on: those of training, if the kind has no `new` cells.
    of_training
        Whether `rows` are those of training.
    """

    folder: Path
    kind: Kind
    trained: str
    rows: Rows
    of_training: bool


@dataclass(frozen=True)
class Trainer:
    """Train on tables; the same table is trained on once."""

    folder: Path
    done: dict[Any, Path] = field(default_factory=dict)

    def run(self, rows: Rows, kind: Kind, trained: str, **options: Any) -> Path:
        """Train on a table in this format; return the run's folder."""
        out = self.folder / str(len(self.done))
        if trained == "csv":
            table = writers.write_text(rows, self.folder / "train.csv", ",")
        else:
            table = writers.write_parquet(rows, self.folder / "train.parquet")
        drop = ",".join(filter(None, ["id", kind.options.get("drop", "")]))
        options = {**kind.options, **options, "drop": drop}
        key = table.read_bytes(), repr(options), kind.method
        if key not in self.done:
            train(table, out, kind.method, options)
            self.done[key] = out
        return self.done[key]

    def prepare(self, kind: Kind, trained: str) -> Run:
        """Train on a table of this kind; return the run with the rows to decide on."""
        rows = writers.make(kind)
        folder = self.run(rows, kind, trained)
        new = kind.new is not None
        if new:
            rows = writers.make(kind, kind.new, seed=1)
        return Run(folder, kind, trained, replace(rows, dialect=Dialect(**kind.dialect)), not new)


def train(table: Path, out: Path, method: str, options: Mapping[str, Any]) -> None:
    name, settings = METHODS[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = pff.load(table, label="y", sensitive="s", **options)
        federation = data.federate(pff.partition.by_column("site", min_rows=1), seed=0)
        pff.train(federation, pff.make(name, settings, data)).save(out)


Command = Callable[..., tuple[int, str, str]]
Found = pd.DataFrame  # with `decision` as text, and `score`, of every row


def is_a_sentence(text: str) -> bool:
    return text.endswith(".") and "\n" not in text and "Traceback" not in text and len(text) < 900


# --- routes --------------------------------------------------------------------------------------


def write(rows: Rows, route: str, folder: Path) -> Path:
    """Write rows in the format of a route."""
    ending = ".CSV" if rows.dialect.capital else ".csv"
    match route:
        case "csv" | "parts":
            return writers.write_text(rows, folder / f"new{ending}", ",")
        case "few":
            return writers.write_text(rows.take(few(rows)), folder / f"few{ending}", ",")
        case "semicolon":
            return writers.write_text(rows, folder / f"semicolon{ending}", ";")
        case "comma":
            return writers.write_text(rows, folder / f"comma{ending}", ";", "comma")
        case "few, comma":
            return writers.write_text(rows.take(few(rows)), folder / "few.csv", ";", "comma")
        case "tab":
            return writers.write_text(rows, folder / "new.tsv", "\t")
        case "gz":
            return writers.write_text(rows, folder / "new.csv.gz", ",")
        case "utf16":
            return writers.write_text(rows, folder / "wide.csv", ",", encoding="utf-16")
        case "xlsx":
            return writers.write_xlsx(rows.take(range(SHEET)), folder / "new.xlsx")
        case "parquet":
            return writers.write_parquet(rows, folder / "new.parquet")
        case "text parquet":
            return writers.write_parquet(rows, folder / "text.parquet", "texts")
    raise ValueError(route)


OTHERS = ("run", "python", "python text", "onnx")
ROUTES = {
    "csv": (*FILES, *OTHERS),
    "parquet": (
        "parquet", "csv", "comma", "xlsx", "text parquet", "few", *OTHERS,
    ),
}  # fmt: skip
"""By format of training: after typed values, files of other separators are not tried again."""


def few(rows: Rows) -> list[int]:
    """Return some rows, with different cells: what a column is cannot be inferred from them."""
    return list(range(FEW)) if len(rows) >= FEW else list(range(len(rows)))


def by_file(run: Run, route: str, folder: Path, pfedfair: Command, *more: str) -> Found:
    """Decide on a file with the command predict."""
    out = folder / f"{route} decided.parquet".replace(", ", "-")
    path = write(run.rows, route, folder)
    arguments = ["predict", run.folder, "--client-column", "site", "--input", path, "--output", out,
                 "--overwrite", *(more or ["--quiet"])]  # fmt: skip
    if run.kind.role == "id":
        arguments += ["--id", "id"]
    before = getattr(reading, "ROWS", None)
    if route == "parts":
        reading.ROWS = PART
    try:
        code, said, errors = pfedfair(*arguments)
    finally:
        reading.ROWS = before
    if code == 2:
        if not is_a_sentence(errors.strip()) or out.exists():
            raise AssertionError(f"refused without one sentence: {errors.strip()[-300:]}")
        raise RefusedError(errors.strip())
    assert code == 0, errors
    found = pd.read_parquet(out)
    found.attrs["said"] = said
    return found.astype({"decision": str})


def by_run(run: Run) -> Found:
    """Return the run's own predictions of its train and held-out rows."""
    found = pd.read_parquet(run.folder / "predictions.parquet")
    found = found[found["split"].isin(["train", "validation", "test"])]
    assert len(found) == len(run.rows)
    return found.sort_values("row").reset_index(drop=True).astype({"decision": str})


def by_python(run: Run, part: str, names: Sequence[str]) -> Found:
    """Decide with a client's model on a data frame of its rows; `names` are the rows' clients."""
    frame = run.rows.frame(part)
    found = pd.DataFrame({"decision": "", "score": np.nan}, frame.index)
    name, at = first_client(names)
    rows = frame.iloc[at]
    model = pff.load_model(run.folder, client=name)
    ids = rows["id"] if run.kind.role == "id" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decided = model.predict(rows, ids=ids)
            scores = model.score_samples(rows)
        except pff.InputError as error:
            raise RefusedError(str(error)) from None
    found.loc[at, "decision"] = [str(one) for one in decided]
    found.loc[at, "score"] = scores if scores.ndim == 1 else scores[:, -1]
    return found


def first_client(names: Sequence[str]) -> tuple[str, np.ndarray]:
    """Return a client's name and rows: one is enough, all have the same inputs."""
    name = sorted(set(names) - {""})[0]
    return name, np.flatnonzero(np.array(names) == name)


def by_onnx(run: Run, folder: Path, pfedfair: Command, names: Sequence[str]) -> Found:
    """Score with the exported graph, from inputs as ``docs/predict.md`` asks for them."""
    found = pd.DataFrame({"decision": "", "score": np.nan}, range(len(run.rows)))
    name, at = first_client(names)
    path = folder / "model.onnx"
    code, _, errors = pfedfair("export", run.folder, "--client", name, "--to", "onnx", "--output",
                               path, "--overwrite", "-q")  # fmt: skip
    assert code == 0, errors
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options)
    rows = run.rows.take(at.tolist())
    feeds = {one.name: feed(rows, one.name, one.type, run.trained)[:, None]
             for one in session.get_inputs()}  # fmt: skip
    outputs = [one.name for one in session.get_outputs()]
    outcome = dict(zip(outputs, session.run(outputs, feeds), strict=True))
    score = outcome["score"]
    found.loc[at, "score"] = (score if score.ndim == 1 else score[:, -1]).astype(float)
    found.loc[at, "decision"] = outcome.get("label", np.full(len(at), None, dtype=object))
    return found


def feed(rows: Rows, name: str, kind: str, trained: str) -> np.ndarray:
    """Return an input of the graph, in the words of the table that was trained on."""
    base, part = re.fullmatch(r"(.*?)(?: \((year|month|weekday|hour)\))?", name).groups()
    if base not in rows.columns:
        base, part = name, None
    column = rows.columns[base]
    if part:
        times = column.typed
        if not pd.api.types.is_datetime64_any_dtype(times):
            dotted = times.astype(str).str.fullmatch(r"\d+\.\d+\.\d+").any()
            form = "%d.%m.%Y" if dotted else "ISO8601"
            times = pd.to_datetime(times, format=form, errors="coerce")
        times = times.dt.tz_localize(None)
        year = times.dt.year + (times.dt.dayofyear - 1) / 366
        if part == "year":
            return year.to_numpy(np.float64)
        parts = {"weekday": times.dt.dayofweek.map(dict(enumerate(DAYS))), "month": times.dt.month,
                 "hour": times.dt.hour}  # fmt: skip
        return np.array([word(value) for value in parts[part]], dtype=object)
    if "double" in kind:
        if pd.api.types.is_numeric_dtype(column.typed):
            return column.typed.to_numpy(np.float64, na_value=np.nan)
        cells = pd.Series(column.texts) if trained == "csv" else column.typed
        return pd.to_numeric(cells.map(word), errors="coerce").to_numpy(np.float64)
    cells = column.texts if trained == "csv" else column.typed
    if getattr(cells, "dtype", None) == np.float32:  # pandas yields doubles
        cells = cells.to_numpy()
    return np.array([word(cell) for cell in cells], dtype=object)


def word(cell: Any) -> str:
    """Write a cell as text inputs ask for it: codes as 1, flags as True and False."""
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return ""
    if isinstance(cell, bytes):
        cell = cell.decode()
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        cell = cell.date()
    text = unicodedata.normalize("NFC", str(cell).strip())
    if text in NOTHING:
        return ""
    if text.lower() in ("true", "false"):
        return text.lower().title()
    if re.fullmatch(r"[+-]?\d+(\.0*)?", text):
        return str(int(text.partition(".")[0]))
    if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d+[eE][+-]\d+", text):
        return repr(float(text))
    return text


# --- comparison ----------------------------------------------------------------------------------


def failures(
    kind: Kind, trained: str, trainer: Trainer, folder: Path, pfedfair: Command
) -> list[str]:
    """Return what is wrong, for each route: nothing if all agree, or refuse as declared.

    The decisions to agree with are the run's own; for new rows and randomised decisions those of
    the command predict on the format of training.
    """
    run = trainer.prepare(kind, trained)
    first = "run" if run.of_training and kind.role != "id" else trained
    routes = [first, *(route for route in ROUTES[trained] if route != first)]
    if not run.of_training:
        routes = [route for route in routes if route != "run"]
    if kind.comma is None:
        routes = [route for route in routes if route != "few, comma"]
    routes = [route for route in routes if kind.expected(trained, route) != SKIPPED]
    truth, wrong = None, []
    for route in routes:
        expected = kind.expected(trained, route)
        if truth is None and route in ("python", "python text", "onnx") and expected != REFUSED:
            continue  # there is nothing to agree with, as is reported
        try:
            found = outcome(run, route, folder, pfedfair, truth)
        except RefusedError as refusal:
            if expected == SAME:
                wrong.append(f"{route}: refused: {refusal}")
            continue
        except Exception as error:
            wrong.append(f"{route}: {type(error).__name__}: {str(error).strip()[-300:]}")
            continue
        if expected == REFUSED:
            wrong.append(f"{route}: was not refused")
        elif truth is None:
            truth = found
        elif differs := difference(truth, found, route, run.rows, expected):
            wrong.append(f"{route}: {differs}")
    return wrong


def outcome(run: Run, route: str, folder: Path, pfedfair: Command, truth: Found | None) -> Found:
    """Decide by a route."""
    if route in FILES:
        return by_file(run, route, folder, pfedfair)
    if route == "run":
        return by_run(run)
    names = list(writers.SITES) if truth is None else truth["client"].astype(str).tolist()
    names += names[:1] * (len(run.rows) - len(names))
    if route == "onnx":
        return by_onnx(run, folder, pfedfair, names)
    return by_python(run, "typed" if route == "python" else "texts", names)


def difference(truth: Found, found: Found, route: str, rows: Rows, expected: str = SAME) -> str:
    """Describe the first row with another decision or score than in `truth`; "" if there is none.

    Python and ONNX decide on one client's rows, ONNX in single precision. Where a refusal is fine,
    so is a row without a decision, as its column `problem` says why.
    """
    if route.startswith("few"):
        at = few(rows)
    else:
        at = list(range(SHEET if route == "xlsx" else len(rows)))
    truth, rows = truth.iloc[at].reset_index(drop=True), rows.take(at)
    if len(truth) != len(found):
        return f"{len(found)} rows in the place of {len(truth)}"
    score = "score" if "score" in truth else [c for c in truth if c.startswith("score")][-1]
    right = truth[score].to_numpy(float)
    scores = found[score if score in found else "score"].to_numpy(float)
    most = SINGLE if route == "onnx" else SCORE
    away = ~np.isclose(right, scores, rtol=0, atol=most, equal_nan=True)
    decided = np.array(truth["decision"] != found["decision"])
    here = np.ones(len(truth), dtype=bool)
    if route in ("python", "python text", "onnx"):
        here &= np.isfinite(scores)
    if route in ("run", "python", "python text") and "id" in truth:  # predict asks for an id
        here &= np.array(truth["problem"] == "")
    if expected == EITHER and "problem" in found:
        here &= np.array(found["problem"] == "")
    if route == "run" and "id" in truth:
        decided[:] = False  # a run knows no identifiers
    if route == "onnx":
        decided &= np.array(found["decision"].notna())  # of a randomised rule there is none
    away, decided = away & here, decided & here
    where = np.flatnonzero(away | decided)
    if not len(where):
        return ""
    k = where[0]
    names = ["k"] if "k" in rows.columns else [name for name in rows.columns if name not in "xy"]
    columns = [(name, rows.columns[name]) for name in names]
    shown = ", ".join(f"{name} {one.texts[k][:40]!r} ({str(one.typed.iloc[k])[:40]})"
                      for name, one in columns)  # fmt: skip
    return (
        f"{len(where)} of {len(truth)} rows differ ({away.sum()} scores, {decided.sum()} "
        f"decisions), row {k} with {shown}: {scores[k]:.6f} {found['decision'].iloc[k]!r} "
        f"in the place of {right[k]:.6f} {truth['decision'].iloc[k]!r}"
    )
