"""Verdicts on a target by each client's interval, with reasons as far as the numbers allow.

The terminal, Markdown, notebooks and the page all show these verdicts.
"""

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import option
from pfedfair._util.notebook import abbreviate
from pfedfair.metrics.intervals import FEWEST, quantile
from pfedfair.studies import words

WITHIN, UNCLEAR, ABOVE = "within", "not clear", "above"  # of the target, by the interval
FEW, SAME, NONE = "few", "same", "none"  # too few rows; one decision for all; one group only
KINDS = (WITHIN, UNCLEAR, ABOVE, FEW, SAME, NONE)
LEVEL = 0.95  # of all intervals
NAMED = 3  # clients in a sentence
UNKNOWN = "the numbers do not say why"


def verdicts(frame: pd.DataFrame, target: float, gap: str) -> np.ndarray:
    """Return one of `KINDS` for each row, by the interval of its gap."""
    value, low, high = (
        frame.get(f"{gap}{end}", pd.Series(np.nan, index=frame.index)).to_numpy(float)
        for end in ("", "_low", "_high")
    )
    number = frame.get(f"{gap}_people", pd.Series(np.nan, index=frame.index)).to_numpy(float)
    same = frame.get("one_decision", pd.Series(False, index=frame.index)).to_numpy(bool)
    by_interval = np.select([high <= target, low > target], [WITHIN, ABOVE], UNCLEAR)
    few = (number > 0) & (number < FEWEST)
    found: np.ndarray = np.select([np.isnan(value), few, same], [NONE, FEW, SAME], by_interval)
    return found.astype(object)


def reasons(
    frame: pd.DataFrame,
    found: Sequence[str],
    target: float,
    gap: str,
    known_to: Sequence[float] | None = None,
    differs: Mapping[int, str] | None = None,
    seeds: int = 1,
) -> list[str | None]:
    """Return why each client is not clearly within the target; None for those that are.

    Parameters
    ----------
    known_to
        How precisely each client's rows determined its gap when its rule was made, if known.
    differs
        By the number of a client, how its rows differ from other clients'.
    seeds
        The number of seeds that the gaps are averaged over.
    """
    lucky = chance(found, frame, target, gap)
    lines: list[str | None] = []
    for i, verdict in enumerate(found):
        row = frame.iloc[i]
        if verdict == WITHIN:
            lines.append(None)
        elif verdict == NONE:
            lines.append("only one group has held-out rows: there is no gap to measure")
        elif verdict == FEW:
            lines.append(f"fewer than {FEWEST} held-out rows of a group")
        elif verdict == SAME:
            lines.append("all rows get the same decision: a gap of 0 is no merit")
        elif verdict == UNCLEAR:
            lines.append(_unclear(row, gap, target, seeds))
        else:
            of_rows = None if known_to is None else known_to[i]
            lines.append(_above(row, gap, target, of_rows, (differs or {}).get(i), lucky[i]))
    return lines


def _unclear(row: pd.Series, gap: str, target: float, seeds: int) -> str:
    low, high = row.get(f"{gap}_low", words.NAN), row.get(f"{gap}_high", words.NAN)
    if low != low or high != high:
        return "its interval is not known"
    if seeds > 1:
        return f"its interval over {seeds} seeds {_ends(low, high)} reaches above {target:g}"
    number = row.get(f"{gap}_people", words.NAN)
    few = f" it has {number:,.0f} rows of the smaller group" if number > 0 else ""
    return f"its interval {_ends(low, high)} reaches above {target:g}:{few}".rstrip(":")


def _above(row: pd.Series, gap: str, target: float, known_to: float | None,
           differs: str | None, lucky: bool) -> str:  # fmt: skip
    parts = []
    if differs:
        parts.append(differs)
    over = row[gap] - target
    if known_to is not None and known_to == known_to and known_to >= over:
        parts.append(f"its training rows determine its gap to ±{known_to:.3f} only")
    if lucky and not parts:
        parts.append("maybe by chance: of so many clients within it, some are found above it")
    return " and ".join(parts) or UNKNOWN


def _ends(low: float, high: float) -> str:
    return f"[{words.rate(low)}, {words.rate(high)}]"


def chance(found: Sequence[str], frame: pd.DataFrame, target: float, gap: str) -> np.ndarray:
    """Return which clients may be above the target by chance only.

    Of n clients whose gap equals the target, one in forty has an interval above it. Chance explains
    those above if they are no more than that, and if an interval for n clients at once (as wide as
    the given one, times the ratio of the standard errors) is not above the target.
    """
    above = np.array([verdict == ABOVE for verdict in found], dtype=bool)
    judged = sum(verdict in (WITHIN, UNCLEAR, ABOVE) for verdict in found)
    if not above.any() or above.sum() > np.ceil(judged * (1 - LEVEL) / 2):
        return np.zeros(len(above), dtype=bool)
    wider = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / judged) / quantile(LEVEL)
    value, low = (frame[name].to_numpy(float) for name in (gap, f"{gap}_low"))
    return np.asarray(above & (value - wider * (value - low) <= target))


def sentence(
    names: Sequence[str], found: Sequence[str], why: Sequence[str | None], target: float, gap: str
) -> str:
    """Return how many clients are within the target by their intervals; name the others."""
    clients = {kind: [i for i, one in enumerate(found) if one == kind] for kind in KINDS}
    n, within = len(found), len(clients[WITHIN])
    keep = "keeps" if within == 1 else "keep"
    level = f"with {100 * LEVEL:g} % confidence"
    text = f"{_count(within, n)} {keep} a gap ({gap.upper()}) of at most {target:g} {level}"
    phrases = [
        (ABOVE, "clearly does not", "clearly do not"),
        (UNCLEAR, "", ""),
        (FEW, "has too few rows", "have too few rows"),
        (SAME, "gives all rows the same decision, which is no merit",
         "give all rows the same decision, which is no merit"),
        (NONE, "has rows of one group only", "have rows of one group only"),
    ]  # fmt: skip
    for kind, singular, plural in phrases:
        if clients[kind]:
            named = _named([names[i] for i in clients[kind]])
            clause = f"{named} {singular if len(clients[kind]) == 1 else plural}"
            clause = f"at {named} it is not clear" if kind == UNCLEAR else clause
            reason = _shared([why[i] for i in clients[kind]]) if kind == ABOVE else ""
            text += f"; {clause}{reason}"
    return f"{text}."


def apart(frame: pd.DataFrame, gap: str) -> str:
    """Name the groups that no gap covers at some clients; "" if there are none."""
    column = frame.get(f"{gap}_apart", pd.Series("", index=frame.index)).fillna("")
    found = [(str(name), text) for name, text in zip(frame["client"], column, strict=True) if text]
    if not found:
        return ""
    each = [f"{text} at client {name}" for name, text in found[:NAMED]]
    rest = [f"others at {len(found) - NAMED:,} more sites"] if len(found) > NAMED else []
    return (
        f"The gap does not cover groups with fewer than {FEWEST} held-out rows: "
        f"{', '.join([*each, *rest])}."
    )


def _count(within: int, n: int) -> str:
    if n == 1:
        return "The only site" if within else "0 of 1 site"
    return f"All {n:,} sites" if within == n else f"{within:,} of {n:,} sites"


def _named(names: Sequence[str]) -> str:
    """Return the names of up to three clients, or the number of more."""
    if len(names) > NAMED:
        return f"{len(names):,} sites"
    what = "client" if len(names) == 1 else "clients"
    return f"{what} {', '.join(names[:-1])}{' and ' * (len(names) > 1)}{names[-1]}"


def _shared(why: Sequence[str | None]) -> str:
    """Return the reason, if all clients have the same."""
    kinds = {str(one).split("±")[0] for one in why}
    if len(kinds) > 1:
        return ", for different reasons"
    (kind,) = kinds
    if kind == UNKNOWN:
        return f"; {UNKNOWN}"
    text = str(why[0])
    if len(why) > 1:
        text = text.replace("its ", "their ")
        most = [str(one).split("±")[1].split(" ")[0] for one in why if "±" in str(one)]
        text = text if not most else text.replace(f"±{most[0]}", f"±{max(most)}")
    return f", because {text}" if not text.startswith("maybe") else f", {text}"


def largest(frame: pd.DataFrame, gap: str) -> str:
    """Return a sentence on the largest gap and its client, for runs without a target."""
    few = frame.apply(words.is_few, axis=1, column=f"{gap}_people")
    known = frame[frame[gap].notna() & ~few]
    if not len(known):
        return f"The gap ({gap.upper()}) of every client is unknown: too few rows of two groups."
    row = known.iloc[int(known[gap].to_numpy().argmax())]
    of = f" of {len(frame)} clients" if len(frame) > 1 else ""
    text = f"The largest gap{of} is {words.interval(row, gap)} ({gap.upper()}), at client"
    return f"{text} {row['client']}; no target was set."


def target_words(
    frame: pd.DataFrame, target: float, gap: str, config: Mapping[str, Any]
) -> tuple[str, ...]:
    """Describe how many clients reached the target."""
    found = verdicts(frame, target, gap)
    judged = ~np.isin(found, [NONE, FEW])
    known, few = frame[judged], frame[found == FEW]
    within = known[gap] <= target
    above = abbreviate(list(frame.loc[found == ABOVE, "client"].astype(str)))
    text = f"{gap.upper()} at most {target:g}: {within.sum()} of {len(known)} clients are within it"
    same = int((within & known["one_decision"]).sum()) if "one_decision" in known else 0
    text += f", {same} of them because all rows get the same decision" if same else ""
    text += f"; clearly above it (95 % interval): {above}." if above else (
        "; none is clearly above it (95 % interval).")  # fmt: skip
    lines = [text]
    if len(few):
        clients = abbreviate(list(few["client"].astype(str)))
        lines.append(f"{words.TOO_FEW} at {len(few)} of the other clients: {clients}.")
    if config.get("confidence") is None and not within.all():
        lines.append(
            "The rules were fitted to estimated gaps, which are too low for some clients: "
            f"{option('confidence', 0.95)} aims lower, so that gaps are within the target at that "
            "confidence level."
        )
    return tuple(lines)
