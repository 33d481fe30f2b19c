"""An arm of a comparison: a method at one level, with every client's results over seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pfedfair.experiments import FRONTIER
from pfedfair.studies import summary, verdicts, words
from pfedfair.studies.ranking import set_apart
from pfedfair.studies.rows import CONSTANT, TARGET


@dataclass(frozen=True, eq=False)
class Arm:
    """A method at one level.

    `config` has all its settings, as JSON. `apart` is whether it decides like the constant
    classifier: see `ranking.set_apart`. `frame` has a row for each client of the part, in its
    order: accuracy and gap with the ends of their intervals, those of the run for one seed, and
    those of the mean over seeds for several.
    """

    method: str
    level: str
    target: float | None
    seeds: int
    config: str
    apart: bool
    frame: pd.DataFrame

    @property
    def words(self) -> str:
        return f"{self.method}, {self.level}" if self.level else self.method

    def verdicts(self, gap: str) -> list[str] | None:
        """Return each client's verdict, if there is a target."""
        if self.target is None:
            return None
        return [*verdicts.verdicts(self.frame, self.target, gap)]

    def reasons(self, gap: str) -> list[str | None]:
        """Return why a client is not within the target, None for those that are."""
        judged = self.verdicts(gap)
        if judged is None or self.target is None:
            return [None] * len(self.frame)
        return verdicts.reasons(self.frame, judged, self.target, gap, seeds=self.seeds)


def arms(part: pd.DataFrame) -> list[Arm]:
    """Return all arms of the held-out results of a data set and partition, without the frontier."""
    part = part[part["method"] != FRONTIER]
    gap = summary.gap_of(part)
    sites = list(dict.fromkeys(part["client"]))
    several = part.groupby("method")["level"].nunique() > 1
    compared, apart = [], set_apart(part)
    for (method, level, config), runs in part.groupby(["method", "level", "config"], sort=False):
        target = float(runs["target_ddp"].iloc[0]) if "target_ddp" in runs else words.NAN
        shown = str(level) if level != "0" or several.get(method, False) else ""
        compared.append(
            Arm(
                method=str(method),
                level=words.level(shown) if shown else "",
                target=None if target != target else target,
                seeds=runs["seed"].nunique(),
                config=str(config),
                apart=(method, level, config) in apart,
                frame=_over_seeds(runs, gap).reindex(sites).reset_index(),
            )
        )
    return compared


def _over_seeds(runs: pd.DataFrame, gap: str) -> pd.DataFrame:
    """Return accuracy and gap of each client; the mean and its interval for several seeds."""
    number = f"{gap}_people"
    measures = [f"{name}{end}" for name in ("accuracy", gap) for end in words.ENDS]
    if runs["seed"].nunique() == 1:
        columns_of_run = [name for name in (*measures, number, "one_decision") if name in runs]
        return runs.set_index("client")[columns_of_run]
    by_client = runs.groupby("client", sort=False)
    over = summary.over_seeds(runs, ["client"], ["accuracy", gap]).set_index("client")
    columns: dict[str, pd.Series] = {}
    for name in ("accuracy", gap):
        mean, half = over[name], over[f"{name}_half"]
        ends = [(mean - half).clip(lower=0.0), (mean + half).clip(upper=1.0)]
        columns |= dict(zip((name, f"{name}_low", f"{name}_high"), [mean, *ends], strict=True))
    if number in runs:
        columns[number] = by_client[number].min()
    if "one_decision" in runs:
        columns["one_decision"] = by_client["one_decision"].all()
    return pd.DataFrame(columns)


def is_about_targets(compared: Sequence[Arm]) -> bool:
    """Return whether most arms have a target, not one or two among many methods."""
    number = sum(arm.target is not None for arm in compared)
    return 0 < sum(arm.method != CONSTANT for arm in compared) <= 2 * number


def chosen(compared: Sequence[Arm], gap: str) -> int:
    """Return the arm to show first.

    That is the one with the default target, or with the least sum of error and gap at its worst
    client.
    """
    if is_about_targets(compared):
        with_target = [k for k, arm in enumerate(compared) if arm.target is not None]
        return min(with_target, key=lambda k: abs((compared[k].target or 0.0) - TARGET))
    trained = [k for k, arm in enumerate(compared) if not arm.apart]

    def worst(k: int) -> float:
        frame = compared[k].frame
        return float((1 - frame["accuracy"] + frame[gap].fillna(0)).max())

    return min(trained or range(len(compared)), key=worst, default=0)


def sentence(compared: Sequence[Arm], gap: str) -> str:
    """Return the main result: clients within the target, or the ends of the trade-off."""
    if not compared:
        return ""
    best = compared[chosen(compared, gap)]
    found = best.verdicts(gap)
    if found is not None and best.target is not None and is_about_targets(compared):
        names = best.frame["client"].astype(str).to_list()
        over = f", mean of {best.seeds} seeds" if best.seeds > 1 else ""
        text = verdicts.sentence(names, found, best.target, best.frame, gap, best.seeds)
        return f"{best.words}{over}: {text}."
    trained = [arm for arm in compared if not arm.apart and arm.frame[gap].notna().any()]
    if not trained:
        return ""
    fairest = min(trained, key=lambda arm: float(arm.frame[gap].max()))
    accurate = max(trained, key=lambda arm: float(arm.frame["accuracy"].min()))

    def describe(arm: Arm) -> str:
        low, high = arm.frame["accuracy"].min(), arm.frame[gap].max()
        numbers = f"{words.percent(low)} % accuracy and {gap.upper()} {words.rate(high)}"
        return f"{arm.words}: {numbers} at the worst client"

    if len(trained) == 1:
        return f"{describe(fairest)}."
    if fairest is accurate:
        return f"The fairest and most accurate is {describe(fairest)}."
    return f"The fairest is {describe(fairest)}; the most accurate is {describe(accurate)}."
