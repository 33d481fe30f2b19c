"""Text for numbers, data sets and measures, for readers who do not know the paper."""

import json
import textwrap
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pfedfair import partition
from pfedfair.metrics.intervals import FEWEST

NAN = float("nan")
ENDS = ("", "_low", "_high")  # of a measure: itself and its interval
NAMED = 3  # sites in a sentence
MANY = 1e6  # rows, beyond which a number of them is no advice
NAME = 13  # letters of a method's name in one line, for 80 columns
HALF_WIDTH = (
    "±: half the width of the 95 % interval of a mean over seeds (Student t); it takes "
    "two seeds or more."
)
TOO_FEW = "too few rows"
ACCURACY = "accuracy: correct predictions in percent; higher is better (↑)."
ROLES = (
    "under-rep. clients: those whose largest group is not the largest of all clients' rows "
    "(underrepresented); over-rep.: the others."
)
WORST = (
    "worst of clients: the lowest accuracy and the largest gap of any client, maybe of two "
    "different ones; worst in both: the client with the largest sum of error and gap."
)
SHORT_ROLE = {"underrepresented": "under-rep.", "overrepresented": "over-rep."}


def percent(mean: float, half: float = NAN) -> str:
    """Return a share in percent, and the half-width of its interval.

    >>> percent(0.8213, 0.0042), percent(0.8213), percent(float("nan"))
    ('82.1 ±0.4', '82.1', 'n/a')
    """
    if mean != mean:
        return "n/a"
    return f"{100 * mean:.1f}" + (f" ±{100 * half:.1f}" if half == half else "")


def rate(mean: float, half: float = NAN) -> str:
    """Return a number from 0 to 1, and its half-width; n/a where a client has no row of a group.

    >>> rate(0.0523, 0.01), rate(1.0), rate(0.5, 1.2), rate(float("nan"))
    ('.052 ±.010', '1.00', '.500 ±1.20', 'n/a')
    """
    if mean != mean:
        return "n/a"
    short = f"{mean:.2f}" if mean >= 0.9995 else f"{mean:.3f}".removeprefix("0")
    return short + (f" ±{rate(half)}" if half == half else "")


def measure(row: pd.Series, name: str, half: bool = False) -> str:
    """Return a row's measure, an accuracy in percent; with `half`, also its half-width."""
    form = percent if "accuracy" in name else rate
    return form(row[name], row[f"{name}_half"] if half else NAN)


def both(row: pd.Series) -> str:
    """Return accuracy and DDP in one line."""
    return f"{percent(row['accuracy'])} {rate(row['ddp'])}"


def points(mean: float, low: float, high: float, digits: int = 1, between: str = " ") -> str:
    """Return a difference of two accuracies in percentage points, and its interval.

    >>> points(0.02, 0.01, 0.03)
    '+2.0 [+1.0, +3.0]'
    """
    mean, low, high = (100 * value for value in (mean, low, high))
    return f"{mean:+.{digits}f}{between}[{low:+.{digits}f}, {high:+.{digits}f}]"


def level(text: str) -> str:
    """Return the fairness level of a method in words.

    >>> level("0.9"), level("≤ 0.05 95%"), level("tau 0.1")
    ('eta 0.9', 'gap ≤ 0.05 95%', 'tau 0.1')
    """
    return f"gap {text}" if text.startswith("≤") else text if " " in text else f"eta {text}"


def column(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return a column of numbers, NaN where they are unknown or the frame has no such column."""
    values = frame[name] if name in frame else pd.Series(np.nan, index=frame.index)
    return pd.to_numeric(values, errors="coerce").to_numpy(float)


def sites(names: Sequence[str]) -> str:
    """Return the names of a few sites, or the number of more.

    >>> sites(["a"]), sites(["a", "b", "c"]), sites(list("abcd")), sites(["site 2"])
    ('site a', 'sites a, b and c', '4 sites', 'site 2')
    """
    if len(names) > NAMED:
        return f"{len(names):,} sites"
    text = f"{', '.join(names[:-1])}{' and ' * (len(names) > 1)}{names[-1]}"
    if all(name.lower().startswith("site") for name in names):
        return text
    return f"site{'s' * (len(names) > 1)} {text}"


def rows(*numbers: float) -> str:
    """Return a number of rows as an estimate in two digits, or the least and the largest of some.

    >>> rows(1873.2), rows(99.6, 1873.2), rows(12.0, float("inf"))
    ('about 1,900', 'about 100 to 1,900', 'about 12 to more than a million')
    """
    each = [
        f"{float(f'{one:.2g}'):,.0f}" if one < MANY else "more than a million"
        for one in (min(numbers), max(numbers))
    ]
    text = " to ".join(dict.fromkeys(each))
    return text if text.startswith("more") else f"about {text}"


def either(ways: Sequence[str]) -> str:
    """Return alternatives in words.

    >>> either(["a", "b", "c"]), either(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join(filter(None, [", ".join(ways[:-1]), *ways[-1:]]))


def share(part: float) -> str:
    """Return a share in percent, also a small one.

    >>> share(0.1234), share(0.0312), share(0.0001), share(0.0)
    ('12 %', '3.1 %', 'less than 0.1 %', '0 %')
    """
    if 0 < part < 0.001:
        return "less than 0.1 %"
    digits = 0 if part >= 0.0995 or part == 0 else 1
    return f"{100 * part:.{digits}f} %"


def is_few(row: pd.Series, column: str) -> bool:
    """Return whether a number of rows is positive, but too small to report a rate."""
    return bool(0 < row.get(column, NAN) < FEWEST)


def interval(row: pd.Series, name: str, between: str = " ") -> str:
    """Return a measure of a client and its interval, or that there are too few rows."""
    if is_few(row, f"{name}_people"):
        return TOO_FEW
    mean, low, high = (measure(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return f"{mean}{between}[{low}, {high}]" if mean != "n/a" else mean


def narrow(text: str, width: int = NAME) -> str:
    r"""Wrap a name into lines.

    >>> narrow("pfedfair-target")
    'pfedfair-\ntarget'
    """
    return "\n".join(textwrap.wrap(text, width)) or text


def setting(results: pd.DataFrame) -> str:
    """Return the data set and the partition of results in words."""
    how = partition.from_dict(json.loads(results["partition"].iloc[0])).words
    name, inputs = results["dataset"].iloc[0], [one for one in results["inputs"].unique() if one]
    if inputs:
        name += f" ({' and '.join(inputs)})"
    clients = results["client"].nunique()
    return f"{name}, {clients} clients, {how}" if clients > 1 else f"{name}, all in one place"


def heading(results: pd.DataFrame) -> str:
    """Return the data set, the partition and the number of seeds of results in words."""
    seeds = results["seed"].nunique()
    return f"{setting(results)}, {seeds} seed{'s' if seeds > 1 else ''}"
