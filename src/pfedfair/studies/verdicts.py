"""Verdicts on a target by each client's interval, with reasons as far as the numbers allow.

The terminal, Markdown, notebooks and the page all show these verdicts.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import words

WITHIN, UNCLEAR, EXCEEDS = "within", "not clear", "exceeds"  # the target, by the interval
FEW, SAME, NONE = "few", "same", "none"  # too few rows; one decision for all; one group only
KINDS = (WITHIN, UNCLEAR, EXCEEDS, FEW, SAME, NONE)
ENOUGH = "would make it clear"


def verdicts(frame: pd.DataFrame, target: float, gap: str) -> np.ndarray:
    """Return one of `KINDS` for each row, by the interval of its gap."""
    value, low, high = _ends(frame, gap)
    number = words.column(frame, f"{gap}_people")
    same = words.column(frame, "one_decision") > 0
    by_interval = np.select([high <= target, low > target], [WITHIN, EXCEEDS], UNCLEAR)
    few = (number > 0) & (number < FEWEST)
    found: np.ndarray = np.select([np.isnan(value), few, same], [NONE, FEW, SAME], by_interval)
    return found.astype(object)


def enough(frame: pd.DataFrame, target: float, gap: str) -> np.ndarray:
    """Return about how many rows of the smaller group would make each verdict clear.

    That is the number with which the interval of the same gap ends at the target: its width is
    that of the root of the rows.
    """
    value, low, high = _ends(frame, gap)
    half = np.where(value <= target, high - value, value - low)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        times = (half / (target - value)) ** 2
        found: np.ndarray = times * words.column(frame, f"{gap}_people")
    return found


def reasons(
    frame: pd.DataFrame,
    found: Sequence[str],
    target: float,
    gap: str,
    known_to: Sequence[float] | None = None,
    differs: Mapping[int, str] | None = None,
    seeds: int = 1,
) -> list[str | None]:
    """Return what the numbers say of each client that is not clearly within the target.

    Parameters
    ----------
    known_to
        How precisely each client's rows determined its gap when its rule was made, if known.
    differs
        By the number of a client, how its rows differ from other clients'.
    seeds
        The number of seeds that the gaps are averaged over.
    """
    needed = enough(frame, target, gap)
    lines: list[str | None] = []
    for i, verdict in enumerate(found):
        if verdict == UNCLEAR:
            lines.append(_unclear(frame.iloc[i], gap, target, needed[i], seeds))
        elif verdict == EXCEEDS:
            over = frame[gap].iloc[i] - target
            half = words.NAN if known_to is None else known_to[i]
            parts = [differs[i]] if differs and i in differs else []
            if half >= over:
                parts.append(f"its training rows determine its gap to ±{half:.3f} only")
            lines.append(" and ".join(parts) or None)
        else:
            lines.append(REASONS.get(verdict))
    return lines


REASONS = {
    NONE: "only one group has held-out rows: there is no gap to measure",
    FEW: f"fewer than {FEWEST} held-out rows of a group",
    SAME: "all rows get the same decision: a gap of 0 is no merit",
}


def _unclear(row: pd.Series, gap: str, target: float, needed: float, seeds: int) -> str:
    low, high = row.get(f"{gap}_low", words.NAN), row.get(f"{gap}_high", words.NAN)
    if low != low or high != high:
        return "its interval is not known"
    ends = f"[{words.rate(low)}, {words.rate(high)}]"
    if seeds > 1:
        return f"its interval over {seeds} seeds {ends} reaches across {target:g}"
    text = f"its interval {ends} reaches across {target:g}"
    rows = row.get(f"{gap}_people", words.NAN)
    if not rows > 0:
        return text
    return f"{text}: it has {rows:,.0f} rows of the smaller group, {words.rows(needed)} {ENOUGH}"


def _ends(frame: pd.DataFrame, gap: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    value, low, high = (words.column(frame, f"{gap}{end}") for end in words.ENDS)
    return value, low, high


def sentence(
    names: Sequence[str],
    found: Sequence[str],
    target: float,
    frame: pd.DataFrame,
    gap: str,
    seeds: int = 1,
) -> str:
    """Count the clients by verdict and name those that are not within the target.

    The rows that would make a verdict clear are of one seed: more seeds have other intervals.
    """
    clients = {kind: [i for i, one in enumerate(found) if one == kind] for kind in KINDS}
    n, within = len(found), len(clients[WITHIN])
    clauses = [f"clearly within {target:g}"] if within else []
    if n > 1:
        clauses = [f"{within:,} of {n:,} sites clearly within {target:g}"]
        clauses += ["none exceeds it"] if not clients[EXCEEDS] else []
    if 1 < n == within:
        clauses = [f"all clearly within {target:g}"]
    phrases = [
        (EXCEEDS, "exceeds it", "exceed it"),
        (UNCLEAR, "not clear", "not clear"),
        (FEW, "with too few rows", "with too few rows"),
        (SAME, "with the same decision for all rows", "with the same decision for all rows"),
        (NONE, "with rows of one group only", "with rows of one group only"),
    ]
    for kind, singular, plural in phrases:
        those = clients[kind]
        if not those:
            continue
        detail = _detail(kind, those, names if n > 1 else (), target, frame, gap, seeds)
        number = f"{len(those):,} " if n > 1 else ""
        clauses.append(f"{number}{singular if len(those) == 1 else plural}{detail}")
    return ", ".join(clauses)


def _detail(
    kind: str, those: Sequence[int], names: Sequence[str], target: float, frame: pd.DataFrame,
    gap: str, seeds: int,
) -> str:  # fmt: skip
    """Return in brackets which clients have a verdict, and the numbers that belong to it."""
    named = words.sites([names[i] for i in those]) if names and len(those) <= words.NAMED else ""
    parts = []
    if kind == EXCEEDS and len(those) == 1:
        parts = [words.interval(frame.iloc[those[0]], gap)]
    if kind == UNCLEAR and seeds == 1:
        rows = words.column(frame, f"{gap}_people")[those]
        needed = enough(frame, target, gap)[those]
        if len(those) == 1 and rows[0] > 0:
            parts = [f"{rows[0]:,.0f} rows of the smaller group"]
        if np.all(needed > 0):
            of = "" if parts else "rows of the smaller group "
            parts.append(f"{words.rows(*needed)} {of}{ENOUGH}")
    text = ": ".join(filter(None, [named, ", ".join(parts)]))
    return f" ({text})" if text else ""


def apart(frame: pd.DataFrame, gap: str) -> str:
    """Name the groups that no gap covers at some clients; "" if there are none."""
    column = frame.get(f"{gap}_apart", pd.Series("", index=frame.index)).fillna("")
    found = [(str(name), text) for name, text in zip(frame["client"], column, strict=True) if text]
    if not found:
        return ""
    if len(found) > words.NAMED:
        where = f" at {len(found):,} of {len(frame):,} sites"
    else:
        where = f": {', '.join(f'{text} at {words.sites([name])}' for name, text in found)}"
    return f"The gap does not cover groups with fewer than {FEWEST} held-out rows{where}."


def largest(frame: pd.DataFrame, gap: str) -> str:
    """Return a sentence on the largest gap and its client, for runs without a target."""
    few = frame.apply(words.is_few, axis=1, column=f"{gap}_people")
    known = frame[frame[gap].notna() & ~few]
    if not len(known):
        return f"The gap ({gap.upper()}) of every client is unknown: too few rows of two groups."
    row = known.iloc[int(known[gap].to_numpy().argmax())]
    of = f" of {len(frame):,} sites" if len(frame) > 1 else ""
    at = f", at {words.sites([str(row['client'])])}" if len(frame) > 1 else ""
    return f"The largest gap{of} is {words.interval(row, gap)} ({gap.upper()}){at}"
