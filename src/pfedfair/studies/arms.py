"""An arm of a comparison: a method at one level, what every client got, over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.studies import summary, verdicts, words
from pfedfair.studies.rows import CONSTANT, TARGET


@dataclass(frozen=True, eq=False)
class Arm:
    """A method at one level.

    `config` is all its settings, as JSON. `frame` has a row for each client of the part, in its
    order: accuracy and gap with the ends of their intervals, of one seed those of the run, of
    several those of the mean over seeds.
    """

    method: str
    level: str
    target: float | None
    seeds: int
    config: str
    frame: pd.DataFrame

    @property
    def words(self) -> str:
        return f"{self.method}, {self.level}" if self.level else self.method

    def verdicts(self, gap: str) -> list[str] | None:
        """Whether each client keeps the target, if there is one."""
        if self.target is None:
            return None
        return [*verdicts.verdicts(self.frame, self.target, gap)]

    def reasons(self, gap: str) -> list[str | None]:
        """Why each client does not keep it."""
        found = self.verdicts(gap)
        if found is None or self.target is None:
            return [None] * len(self.frame)
        return verdicts.reasons(self.frame, found, self.target, gap, seeds=self.seeds)


def arms(part: pd.DataFrame) -> list[Arm]:
    """All arms of the held-out results of one data set and partition; the frontier is none."""
    part = part[part["method"] != FRONTIER]
    gap = summary.gap_of(part)
    sites = list(dict.fromkeys(part["client"]))
    several = part.groupby("method")["level"].nunique() > 1
    found = []
    for (method, level, config), runs in part.groupby(["method", "level", "config"], sort=False):
        target = float(runs["target_ddp"].iloc[0]) if "target_ddp" in runs else words.NAN
        shown = str(level) if level != "0" or several.get(method, False) else ""
        found.append(
            Arm(
                method=str(method),
                level=words.level(shown) if shown else "",
                target=None if target != target else target,
                seeds=runs["seed"].nunique(),
                config=str(config),
                frame=_over_seeds(runs, gap).reindex(sites).reset_index(),
            )
        )
    return found


def _over_seeds(runs: pd.DataFrame, gap: str) -> pd.DataFrame:
    """Accuracy and gap of each client; of several seeds the mean and its interval."""
    people = f"{gap}_people"
    measures = [f"{name}{end}" for name in ("accuracy", gap) for end in words.ENDS]
    one = runs["seed"].nunique() == 1
    if one:
        kept = [name for name in (*measures, people, "one_decision") if name in runs]
        return runs.set_index("client")[kept]
    each = runs.groupby("client", sort=False)
    over = summary.over_seeds(runs, ["client"], ["accuracy", gap]).set_index("client")
    columns: dict[str, pd.Series] = {}
    for name in ("accuracy", gap):
        mean, half = over[name], over[f"{name}_half"]
        ends = [(mean - half).clip(lower=0.0), (mean + half).clip(upper=1.0)]
        columns |= dict(zip((name, f"{name}_low", f"{name}_high"), [mean, *ends], strict=True))
    if people in runs:
        columns[people] = each[people].min()
    if "one_decision" in runs:
        columns["one_decision"] = each["one_decision"].all()
    return pd.DataFrame(columns)


def asks(every: Sequence[Arm]) -> bool:
    """Whether it is about targets: most arms have one, not one or two among many methods."""
    asked = sum(arm.target is not None for arm in every)
    return 0 < sum(arm.method != CONSTANT for arm in every) <= 2 * asked


def chosen(every: Sequence[Arm], gap: str) -> int:
    """The arm to show first: the usual target, or the least sum of error and gap at the worst."""
    asked = [k for k, arm in enumerate(every) if arm.target is not None]
    if asks(every):
        return min(asked, key=lambda k: abs((every[k].target or 0.0) - TARGET))
    real = [k for k, arm in enumerate(every) if arm.method != CONSTANT] or [*range(len(every))]

    def badness(k: int) -> float:
        frame = every[k].frame
        return float((1 - frame["accuracy"] + frame[gap].fillna(0)).max())

    return min(real, key=badness, default=0)


def sentence(every: Sequence[Arm], gap: str) -> str:
    """What came out, first of all: the target that is kept, or the ends of the trade-off."""
    if not every:
        return ""
    best = every[chosen(every, gap)]
    found = best.verdicts(gap)
    if found is not None and best.target is not None and asks(every):
        names = best.frame["client"].astype(str).to_list()
        why = best.reasons(gap)
        over = f", mean of {best.seeds} seeds" if best.seeds > 1 else ""
        text = verdicts.sentence(names, found, why, best.target, gap)
        return f"{best.words}{over}: {text[:1].lower()}{text[1:]}"
    real = [arm for arm in every if arm.method != CONSTANT and arm.frame[gap].notna().any()]
    if not real:
        return ""
    fairest = min(real, key=lambda arm: float(arm.frame[gap].max()))
    accurate = max(real, key=lambda arm: float(arm.frame["accuracy"].min()))

    def describe(arm: Arm) -> str:
        low, high = arm.frame["accuracy"].min(), arm.frame[gap].max()
        where = f"{words.percent(low)} % accuracy and a {gap.upper()} of {words.rate(high)}"
        return f"{arm.words}: {where} at the worst client"

    if fairest is accurate:
        return f"The fairest and most accurate is {describe(fairest)}."
    return f"The fairest is {describe(fairest)}; the most accurate is {describe(accurate)}."
