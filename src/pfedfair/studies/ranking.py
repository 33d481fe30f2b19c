"""Which methods can be ranked, and their ranks by differences paired by seed.

Methods are compared at the same fairness: by their trade-off scores, or by the worst client's
accuracy at a limit on the gap. What decides like the constant classifier is not ranked.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import comb

import pandas as pd

from pfedfair._util.errors import option
from pfedfair._util.notebook import abbreviate
from pfedfair.experiments import FRONTIER
from pfedfair.metrics import mean_interval
from pfedfair.metrics.intervals import FEWEST
from pfedfair.studies import summary, tradeoff, words
from pfedfair.studies.rows import CONSTANT

LEVEL = 0.95  # of the differences of all pairs of methods together
SEEDS = 3  # the fewest to rank with: of two, an interval has one degree of freedom
LIMITS = (0.05, 0.1)  # on the gap: the second if fewer methods have a level within the first
SHARE = 0.1  # of clients with one decision for all rows: from here on a model is set apart
ARM = ["method", "level", "config"]
FEWER = {0: "Methods without a common seed", 1: "One seed", 2: "Two seeds"}
SAME = "one decision for all rows"
POOR = "no more accurate than the constant"


@dataclass(frozen=True, eq=False)
class Ranking:
    """Methods in the order of a measure.

    `frame` has a row for each method that can be ranked, the best first: see `ranked`. `apart` has
    a line for each reason not to rank methods or levels, with their names. The `missing` methods
    have the measure at no level.
    """

    measure: str
    seeds: int
    frame: pd.DataFrame
    apart: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    limit: float = words.NAN  # on the gap

    @property
    def answer(self) -> str:
        """Return which method is the best, or why none is."""
        names = self.frame["method"].to_list()
        if names and self.seeds < SEEDS:
            few = f"{FEWER[self.seeds]} cannot tell methods apart"
            return f"{few}: take {option('seeds', 5)}. No method is ranked."
        over = f"{100 * LEVEL:g} % confidence, {self.seeds} seeds"
        tied = self.frame.loc[self.frame["rank"] == 1, "method"].to_list()
        clauses = []
        if len(names) < 2:
            which = f"Only {names[0]}" if names else "No method"
            clauses.append(f"{which} can be ranked by {self.measure}")
        elif len(tied) == 1:
            second = self.frame.iloc[1]
            lead = words.points(-second["less"], -second["less_high"], -second["less_low"])
            clauses.append(
                f"{names[0]} is clearly the best by {self.measure}: {lead} percentage points to "
                f"the next, {names[1]} ({over})"
            )
        else:
            clauses.append(f"No clear winner among {listed(tied)} by {self.measure} ({over})")
            if rest := names[len(tied) :]:
                clauses.append(f"clearly worse: {listed(rest)}")
        if self.missing:
            clauses.append(f"no such level: {listed(self.missing)}")
        return f"{'; '.join(clauses)}."


def listed(names: Sequence[str]) -> str:
    """Join names with commas and an "and".

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def ranked(values: pd.DataFrame, higher: bool = True) -> pd.DataFrame:
    """Return the rank of each method and its difference to the best.

    A method has the rank of the best method that it is not clearly worse than. *Clearly*: the
    interval of the difference, paired by seed, is on one side of 0. Intervals hold for all pairs
    of methods together (Bonferroni), as the best one is found in the same data.

    Parameters
    ----------
    values
        ``(seeds, methods)`` of the measure.
    higher
        Whether higher is better.

    Returns
    -------
    A row per method, the best first: ``method``, ``rank`` (NaN with fewer than `SEEDS` seeds), and
    ``less``, ``less_low``, ``less_high``: the method's measure less that of the best.
    """
    few, rank = len(values.dropna()) < SEEDS, dict.fromkeys(values, words.NAN)
    order = list(values.mean().sort_values(ascending=not higher, kind="stable").index)
    level = 1 - (1 - LEVEL) / max(comb(len(order), 2), 1)

    def less(name: Hashable, best: Hashable) -> tuple[float, ...]:
        return mean_interval((values[name] - values[best]).to_numpy(), level)

    def is_worse(name: Hashable, best: Hashable) -> bool:
        _, low, high = less(name, best)
        return high < 0 if higher else low > 0

    rest = [] if few else order
    while rest:
        worse = [name for name in rest if is_worse(name, rest[0])]
        rank |= {name: 1 + len(order) - len(rest) for name in rest if name not in worse}
        rest = worse
    names = list(values) if few else sorted(order, key=lambda name: rank[name])
    rows = [(name, rank[name], *less(name, names[0])) for name in names]
    return pd.DataFrame(rows, columns=["method", "rank", "less", "less_low", "less_high"])


def by_limit(part: pd.DataFrame) -> Ranking:
    """Rank methods by the worst client's accuracy at a limit on the gap.

    Of each method the most accurate level counts whose worst client's gap is within the limit on
    average over seeds. It is chosen on the rows that it is measured on.

    Parameters
    ----------
    part
        Held-out results of one data set and partition.

    Returns
    -------
    The ``frame`` has the ``level`` and ``config`` that count, too.
    """
    gap, part = summary.gap_of(part), of_common_seeds(part)
    why = set_apart(part)
    runs = summary.over_clients(part)
    arms = runs.groupby(ARM, sort=False)[["worst_accuracy", f"worst_{gap}"]].mean().reset_index()
    able = arms[[key not in why for key in arms[ARM].itertuples(index=False, name=None)]]
    able = able[able["method"] != FRONTIER]
    found = [able[able[f"worst_{gap}"] <= limit] for limit in LIMITS]
    loose = found[0]["method"].nunique() < found[1]["method"].nunique()
    limit = LIMITS[loose]
    best = found[loose].sort_values("worst_accuracy", ascending=False, kind="stable")
    best = best.drop_duplicates("method")[ARM]
    values = runs.merge(best, on=ARM).pivot(index="seed", columns="method", values="worst_accuracy")
    order = [name for name in dict.fromkeys(able["method"]) if name in values]
    least = able[~able["method"].isin(order)].groupby("method", sort=False)[f"worst_{gap}"].min()
    above = [f"{name} ({words.rate(least[name])} or more)" for name in least.index]
    missed = (f"not ranked ({gap.upper()} above {limit:g}): {listed(above)}.",) if above else ()
    return Ranking(
        measure=f"the worst client's accuracy at a {gap.upper()} of at most {limit:g}",
        seeds=len(values.dropna()),
        frame=ranked(values[order]).merge(best, on="method"),
        apart=(*missed, *named(why, part)),
        missing=tuple(least.index),
        limit=limit,
    )


def by_area(part: pd.DataFrame) -> Ranking:
    """Rank methods by their trade-off scores: see `tradeoff.scores`.

    Parameters
    ----------
    part
        Results of one data set and partition, on validation rows and held-out rows.
    """
    part = of_common_seeds(part)
    held = summary.held_out(part)
    why = set_apart(held)
    values = tradeoff.scores(part).pivot(index="seed", columns="method", values="area")
    able = {key[0] for key in held[ARM].itertuples(index=False, name=None) if key not in why}
    order = [name for name in dict.fromkeys(part["method"]) if name not in (CONSTANT, FRONTIER)]
    poor = [m for m in order if m in able and values[m].mean() >= values[CONSTANT].mean()]
    why = {key: reason for key, reason in why.items() if key[0] not in able}
    lines = named(why, part) + ((f"not ranked ({POOR}): {listed(poor)}.",) if poor else ())
    return Ranking(
        measure="the trade-off score",
        seeds=len(values.dropna()),
        frame=ranked(values[[m for m in order if m in able and m not in poor]], higher=False),
        apart=lines,
    )


def of_common_seeds(part: pd.DataFrame) -> pd.DataFrame:
    """Return the results of the seeds that every method and level has, all if there is none."""
    seeds = [set(runs["seed"]) for _, runs in part.groupby(ARM)]
    common = part["seed"].isin(set.intersection(*seeds))
    return part[common] if common.any() else part


def set_apart(part: pd.DataFrame) -> dict[tuple[str, ...], str]:
    """Return by method, level and config why it decides like the constant classifier.

    One decision for all rows at a tenth of the clients or more (over seeds; clients with too few
    held-out rows do not count), or an accuracy of the worst client, or of the mean, that is not
    above the constant classifier's.
    """
    gap = summary.gap_of(part)
    held_out = part.get("one_decision", part["collapsed"]).fillna(False).astype(bool)
    same = part["collapsed"] | held_out
    few = part.get(f"{gap}_people", pd.Series(words.NAN, index=part.index)).between(1, FEWEST - 1)
    share = (same & ~few).groupby([part[name] for name in ARM], sort=False).mean()
    runs = summary.over_clients(part)
    accuracy = runs.groupby(ARM)[["worst_accuracy", "mean_accuracy"]].mean()
    constant = runs.loc[runs["method"] == CONSTANT, list(accuracy)].mean()
    poor = (accuracy <= constant).any(axis=1)
    methods = [key for key in share.index if key[0] != FRONTIER]
    why = {key: SAME for key in methods if share[key] >= SHARE or key[0] == CONSTANT}
    return why | {key: POOR for key in methods if key not in why and poor[key]}


def named(why: dict[tuple[str, ...], str], part: pd.DataFrame) -> tuple[str, ...]:
    """Return a line for each reason, with the methods and levels that it is about."""
    levels = part.groupby("method")["level"].nunique()
    lines = []
    for reason in dict.fromkeys(why.values()):
        each: dict[str, list[str]] = {}
        for (method, level, _), own in why.items():
            if own == reason:
                each.setdefault(method, []).append(words.level(level))
        names = [
            name if len(own) == levels[name] else f"{name} at {abbreviate(own)}"
            for name, own in each.items()
        ]
        lines.append(f"not ranked ({reason}): {'; '.join(names)}.")
    return tuple(lines)
