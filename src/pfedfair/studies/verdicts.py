"""Does a client keep its target? By its interval, and if not, why: only what the numbers allow.

The terminal, Markdown, notebooks and the page all say what is decided here.
"""

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from pfedfair._util.errors import option
from pfedfair._util.notebook import some
from pfedfair.metrics.intervals import FEWEST, quantile
from pfedfair.studies import words

WITHIN, UNSURE, ABOVE = "within", "not clear", "above"  # of the target, by the interval
FEW, SAME, NONE = "few", "same", "none"  # too few people; one decision for all; one group only
KINDS = (WITHIN, UNSURE, ABOVE, FEW, SAME, NONE)
LEVEL = 0.95  # of all intervals
NAMED = 3  # clients in a sentence
UNKNOWN = "the numbers do not say why"


def verdicts(frame: pd.DataFrame, target: float, gap: str) -> np.ndarray:
    """One of `KINDS` for each row: where the interval of its gap is, if that is clear."""
    value, low, high = (
        frame.get(f"{gap}{end}", pd.Series(np.nan, index=frame.index)).to_numpy(float)
        for end in ("", "_low", "_high")
    )
    people = frame.get(f"{gap}_people", pd.Series(np.nan, index=frame.index)).to_numpy(float)
    alike = frame.get("one_decision", pd.Series(False, index=frame.index)).to_numpy(bool)
    by_interval = np.select([high <= target, low > target], [WITHIN, ABOVE], UNSURE)
    few = (people > 0) & (people < FEWEST)
    found: np.ndarray = np.select([np.isnan(value), few, alike], [NONE, FEW, SAME], by_interval)
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
    """Say of each client that is not surely within the target why; None of the others.

    Parameters
    ----------
    known_to
        How precisely each client's rows determined its gap when its rule was made, if known.
    differs
        By the number of a client, how its people differ from other clients'.
    seeds
        Over how many the gaps are means.
    """
    lucky = chance(found, frame, target, gap)
    lines: list[str | None] = []
    for i, verdict in enumerate(found):
        row = frame.iloc[i]
        if verdict == WITHIN:
            lines.append(None)
        elif verdict == NONE:
            lines.append("people of one group only are held out: there is no gap to measure")
        elif verdict == FEW:
            lines.append(f"fewer than {FEWEST} people of a group are held out")
        elif verdict == SAME:
            lines.append("everybody gets the same decision: a gap of 0 is no merit")
        elif verdict == UNSURE:
            lines.append(_unsure(row, gap, target, seeds))
        else:
            of_rows = None if known_to is None else known_to[i]
            lines.append(_above(row, gap, target, of_rows, (differs or {}).get(i), lucky[i]))
    return lines


def _unsure(row: pd.Series, gap: str, target: float, seeds: int) -> str:
    low, high = row.get(f"{gap}_low", words.NAN), row.get(f"{gap}_high", words.NAN)
    if low != low or high != high:
        return "its interval is not known"
    if seeds > 1:
        return f"its interval over {seeds} seeds {_ends(low, high)} reaches above {target:g}"
    people = row.get(f"{gap}_people", words.NAN)
    few = f" its {people:,.0f} people of the smaller group tell no more" if people > 0 else ""
    return f"its interval {_ends(low, high)} reaches above {target:g}:{few}".rstrip(":")


def _above(row: pd.Series, gap: str, target: float, known_to: float | None,
           differs: str | None, lucky: bool) -> str:  # fmt: skip
    parts = []
    if differs:
        parts.append(differs)
    over = row[gap] - target
    if known_to is not None and known_to == known_to and known_to >= over:
        parts.append(f"its training rows tell its gap to ±{known_to:.3f} only")
    if lucky and not parts:
        parts.append("maybe bad luck: among so many clients that keep it, some look as if not")
    return " and ".join(parts) or UNKNOWN


def _ends(low: float, high: float) -> str:
    return f"[{words.rate(low)}, {words.rate(high)}]"


def chance(found: Sequence[str], frame: pd.DataFrame, target: float, gap: str) -> np.ndarray:
    """Which clients above the target may be so by chance.

    Of n clients whose gap is just the target, one in forty has an interval above it. Chance will do
    if there are no more of them than that allows, and an interval made for n clients at once (as
    wide as the given one, times the ratio of the standard errors) is not above it any more.
    """
    above = np.array([verdict == ABOVE for verdict in found], dtype=bool)
    judged = sum(verdict in (WITHIN, UNSURE, ABOVE) for verdict in found)
    if not above.any() or above.sum() > np.ceil(judged * (1 - LEVEL) / 2):
        return np.zeros(len(above), dtype=bool)
    wider = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / judged) / quantile(LEVEL)
    value, low = (frame[name].to_numpy(float) for name in (gap, f"{gap}_low"))
    return np.asarray(above & (value - wider * (value - low) <= target))


def sentence(
    names: Sequence[str], found: Sequence[str], why: Sequence[str | None], target: float, gap: str
) -> str:
    """How many keep the target for sure, and what there is to say of the others."""
    who = {kind: [i for i, one in enumerate(found) if one == kind] for kind in KINDS}
    n, kept = len(found), len(who[WITHIN])
    keep = "keeps" if kept == 1 else "keep"
    sure = f"with {100 * LEVEL:g} % confidence"
    text = f"{_count(kept, n)} {keep} a gap ({gap.upper()}) of at most {target:g} {sure}"
    others = [
        (ABOVE, "clearly does not", "clearly do not"),
        (UNSURE, "", ""),
        (FEW, "has too few rows", "have too few rows"),
        (SAME, "gives everybody the same decision, which is no merit",
         "give everybody the same decision, which is no merit"),
        (NONE, "has people of one group only", "have people of one group only"),
    ]  # fmt: skip
    for kind, one, many in others:
        if who[kind]:
            those = _named([names[i] for i in who[kind]])
            those_are = f"{those} {one if len(who[kind]) == 1 else many}"
            those_are = f"at {those} it is not clear" if kind == UNSURE else those_are
            reason = _shared([why[i] for i in who[kind]]) if kind == ABOVE else ""
            text += f"; {those_are}{reason}"
    return f"{text}."


def _count(kept: int, n: int) -> str:
    if n == 1:
        return "The only site" if kept else "0 of 1 site"
    return f"All {n:,} sites" if kept == n else f"{kept:,} of {n:,} sites"


def _named(names: Sequence[str]) -> str:
    """Name a few clients, or say how many they are."""
    if len(names) > NAMED:
        return f"{len(names):,} sites"
    what = "client" if len(names) == 1 else "clients"
    return f"{what} {', '.join(names[:-1])}{' and ' * (len(names) > 1)}{names[-1]}"


def _shared(why: Sequence[str | None]) -> str:
    """The reason, if it is one for all of them."""
    kinds = {str(one).split("±")[0] for one in why}
    if len(kinds) > 1:
        return ", each for its own reason"
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
    """Without a target: the largest gap, and whose it is."""
    few = frame.apply(words.few, axis=1, people=f"{gap}_people")
    known = frame[frame[gap].notna() & ~few]
    if not len(known):
        return f"The gap ({gap.upper()}) of every client is unknown: too few people of two groups."
    row = known.iloc[int(known[gap].to_numpy().argmax())]
    of = f" of {len(frame)} clients" if len(frame) > 1 else ""
    text = f"The largest gap{of} is {words.interval(row, gap)} ({gap.upper()}), at client"
    return f"{text} {row['client']}; no target was set."


def target_words(
    frame: pd.DataFrame, target: float, gap: str, config: Mapping[str, Any]
) -> tuple[str, ...]:
    """Say whether the target was reached, client by client."""
    found = verdicts(frame, target, gap)
    judged = ~np.isin(found, [NONE, FEW])
    known, few = frame[judged], frame[found == FEW]
    within = known[gap] <= target
    above = some(list(frame.loc[found == ABOVE, "client"].astype(str)))
    text = f"{gap.upper()} at most {target:g}: {within.sum()} of {len(known)} clients are within it"
    alike = int((within & known["one_decision"]).sum()) if "one_decision" in known else 0
    text += f", {alike} of them because everybody gets the same decision" if alike else ""
    text += f"; clearly above it (95 % interval): {above}." if above else (
        "; none is clearly above it (95 % interval).")  # fmt: skip
    lines = [text]
    if len(few):
        who = some(list(few["client"].astype(str)))
        lines.append(f"{words.TOO_FEW} at {len(few)} of the other clients: {who}.")
    sure = config.get("confidence") is not None or within.all()
    return (*lines,) if sure else (*lines, best_guess())


def best_guess() -> str:
    """What to do where some clients are above a target that nobody promised for sure."""
    return (
        "It was aimed at by the best guess, which is too low for some: "
        f"{option('confidence', 0.95)} aims lower, so that it is kept for 95 % of what a client's "
        "gap may be."
    )
