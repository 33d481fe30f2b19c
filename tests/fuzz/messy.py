"""Tables as people have them, made up: the same seed, the same table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ODD = (
    "", " ", "?", "NA", "nan", "None", "-", "0", "1", "1.0", "01", "=1+1", "<b>", "é", "日本",
    "🙂", 'a "b"', "c,d", "e;f", "g\th", "two\nlines", "x" * 300, "[red]", "\u202eabc", "\\", "'",
)  # fmt: skip
LABELS = (
    (0, 1), ("no", "yes"), (False, True), (1, 2), (1.0, 2.0), ("a", "b", "c"), ("<b>", "🙂"),
    ("1", "01"), (0, 1, None), (7,), tuple(range(30)),
)  # fmt: skip
GROUPS = (
    ("f", "m"), (0, 1), (1, 2), ("f", "m", None), ("a", "b", "c", "d"), ("only",), (True, False),
    tuple(range(150)), ("1", "1.0", "2"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A table, how it is written, and what is asked of it."""

    frame: pd.DataFrame
    ending: str
    asked: dict[str, str]
    method: str


def kinds(n: int, rng: np.random.Generator) -> list[Callable[[], object]]:
    """Columns: numbers, words, dates, codes, and what should not be there."""
    some = lambda values: rng.choice(np.array(values, dtype=object), n)  # noqa: E731
    gaps = lambda values: np.where(rng.random(n) < 0.2, None, values)  # noqa: E731
    return [
        lambda: rng.normal(size=n),
        lambda: rng.integers(0, 5, n),
        lambda: gaps(rng.normal(size=n)),
        lambda: rng.lognormal(0, 20, n),
        lambda: some([0.0, 1e-200, 1e300, -1e300]),
        lambda: some([1.0, np.inf, -np.inf, np.nan]),
        lambda: some([1, 2, 3, "four"]),
        lambda: some(["1", "2", "3", ""]),
        lambda: some(ODD),
        lambda: some([f"level {k}" for k in range(400)]),
        lambda: np.arange(n) + 1_000_000,
        lambda: [f"person {k}" for k in range(n)],
        lambda: np.full(n, 3),
        lambda: [None] * n,
        lambda: rng.random(n) < 0.5,
        lambda: some([True, False, None]),
        lambda: pd.Timestamp("2001-02-03") + pd.to_timedelta(rng.integers(0, 9999, n), "h"),
        lambda: some(["2020-01-01", "2021-05-06", "", "yesterday"]),
        lambda: some(["1,5", "2,5", "10"]),
        lambda: some(["1.000", "2.000,5", "3"]),
        lambda: some([2**62, -(2**62), 0]),
    ]


def messy(seed: int) -> Case:
    """A table of a few hundred rows at the most, of columns of every kind."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([0, 1, 2, 19, 60, 120, 250], p=[0.02, 0.02, 0.02, 0.04, 0.2, 0.4, 0.3]))
    every = kinds(n, rng)
    frame = pd.DataFrame(index=range(n))
    for k in range(int(rng.integers(0, 7))):
        name = str(rng.choice([f"c{k}", f"c {k}", f"é{k}", f"<i>{k}", f'"{k}"', f"c,{k}", f"{k}"]))
        frame[name] = every[int(rng.integers(len(every)))]()
    usual = rng.random(3) < 0.7  # mostly what can be trained on
    label, group = (
        options[0 if fine else int(rng.integers(len(options)))]
        for options, fine in zip((LABELS, GROUPS), usual, strict=False)
    )
    frame["y"] = rng.choice(np.array(label, dtype=object), n)
    frame["s"] = rng.choice(np.array(group, dtype=object), n)
    sites = ["a", "b"] if usual[2] else [*ODD, *(f"site {k}" for k in range(3))][: rng.integers(30)]
    frame["site"] = rng.choice(np.array(sites or [1, 2.0], dtype=object), n)
    if rng.random() < 0.05 and n:
        frame["copy of y"] = frame["y"]
    ending = str(rng.choice([".csv", ".csv", ".parquet", ".tsv", ".csv.gz", ".CSV"]))
    if ending == ".parquet" and n and rng.random() < 0.1:
        frame["lists"] = [[1, 2]] * n
    asked = {"label": "y", "sensitive": "s"}
    if rng.random() < 0.05:
        asked["label"] = str(rng.choice([*frame.columns, "Y ", "why"]))
    return Case(frame, ending, asked, str(rng.choice(["newton", "transport", "fedavg-kde"])))


def write(case: Case, folder: Path) -> Path:
    """Write the table as its ending says; words in the place of what Parquet has no type for."""
    path = folder / f"people{case.ending}"
    if case.ending == ".parquet":
        plain = case.frame.copy()
        for column in plain.columns:
            if plain[column].map(type).nunique() > 1:
                plain[column] = plain[column].map(lambda cell: None if cell is None else str(cell))
        plain.to_parquet(path)
    else:
        case.frame.to_csv(path, index=False, sep="\t" if case.ending == ".tsv" else ",")
    return path
