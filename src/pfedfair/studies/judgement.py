"""One run judged once, for the terminal, Markdown, notebooks and the page."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from pfedfair.runs import Run
from pfedfair.studies import headline, verdicts, words
from pfedfair.studies.decisions import Changes, changes, differing
from pfedfair.studies.headline import Claim


class Judgement(NamedTuple):
    """Every client's verdict and its reason, and the answer on all of them.

    Attributes
    ----------
    results, rules
        A row for each client; where the claim is about all clients jointly, so are the intervals
        of the gap.
    found, why
        Without a target no verdicts, and None of each client.
    changes
        What the rules change; None if there are none, or only files to read.
    """

    results: pd.DataFrame
    rules: pd.DataFrame
    claim: Claim
    found: list[str]
    why: list[str | None]
    sentence: str
    changes: Changes | None = None


def of_frames(
    results: pd.DataFrame,
    rules: pd.DataFrame,
    differs: Mapping[int, str] | None = None,
    changed: Changes | None = None,
) -> Judgement:
    """Judge a run by its results and its rules; for `differs` see `verdicts.reasons`."""
    claim = headline.claim_of(results)
    found: list[str] = []
    why: list[str | None] = [None] * len(results)
    if claim.target == claim.target:
        found = [*verdicts.verdicts(results, claim.target, claim.gap)]
        known_to = words.column(rules, "known_to").tolist()
        why = verdicts.reasons(results, found, claim.target, claim.gap, known_to, differs)
    text = headline.sentence(results, rules, claim, found, headline.place(results))
    return Judgement(results, rules, claim, found, why, text, changed)


def of_run(run: Run, results: pd.DataFrame, rules: pd.DataFrame) -> Judgement:
    """Judge a run also by its rows: whom its rules change, and why a target is exceeded."""
    claim, protocol = headline.claim_of(results), str(results["protocol"].iloc[0])
    level = headline.level_of(claim, rules)
    if level != headline.LEVEL:
        ends = [f"{claim.gap}_low", f"{claim.gap}_high"]
        table = run.measured(protocol, level)
        results = results.assign(**{end: table[end].to_numpy() for end in ends})
    differs: Mapping[int, str] = {}
    if claim.target == claim.target:
        found = verdicts.verdicts(results, claim.target, claim.gap)
        above = np.flatnonzero(found == verdicts.EXCEEDS).tolist()
        differs = differing(run, above, protocol)
    ruled = bool(run.fitted.rules[0].numbers.numel())
    return of_frames(results, rules, differs, changes(run, protocol) if ruled else None)
