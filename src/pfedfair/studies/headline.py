"""The answer of a run, in sentences that can be read aloud.

What its rules were made to keep, and at which level of proof: an *estimate* (on average), a
*confidence* level (by the model, for each site or for all jointly), or a *certificate* (finite
sample, distribution-free). What was measured, and on which rows. How many decisions are random
draws. A model that is no better than one decision for all rows comes first.
"""

import json
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pfedfair._util.errors import option
from pfedfair.studies import summary, verdicts, words
from pfedfair.studies.decisions import Changes

LEVEL = 0.95  # of intervals


class Claim(NamedTuple):
    """What the rules of a run were made to keep.

    Attributes
    ----------
    confidence
        0: on average.
    jointly
        Whether the confidence level is that of all clients jointly.
    settings
        Those of the method, by name.
    """

    gap: str
    target: float
    confidence: float
    jointly: bool
    settings: dict[str, Any]


def claim_of(results: pd.DataFrame) -> Claim:
    """Return what the rules of a run were made to keep; the target is NaN if there is none."""
    about = json.loads(results["config"].iloc[0])
    settings = {**about.get("method", {}), **about}  # of a method with a target, its base too
    return Claim(
        gap=summary.gap_of(results),
        target=float(results["target_ddp"].iloc[0]),
        confidence=float(settings.get("confidence") or 0.0),
        jointly=bool(settings.get("jointly")),
        settings=settings,
    )


def level_of(claim: Claim, rules: pd.DataFrame) -> float:
    """Return the level of each client's interval: Bonferroni's if the claim is on all jointly."""
    joint = claim.jointly or bool((words.column(rules, "certified") > 0).any())
    return 1 - (1 - LEVEL) / len(rules) if joint else LEVEL


def place(results: pd.DataFrame) -> str:
    """Describe the rows that a run is measured on."""
    rows, protocol = results["n_test"], results["protocol"].iloc[0]
    least, most = f"{rows.min():,.0f}", f"{rows.max():,.0f}"
    if protocol == "pool":
        return f"the pool of {most} held-out rows of all sites"
    kind = "validation" if protocol == "validation" else "held-out"
    whose = "its own" if len(results) == 1 else "each site's own"
    return f"{whose} {least if least == most else f'{least} to {most}'} {kind} rows"


def sentence(
    results: pd.DataFrame, rules: pd.DataFrame, claim: Claim, found: Sequence[str], where: str
) -> str:
    """Return the answer: promise, measurement, random draws.

    Parameters
    ----------
    rules
        A row for each client, with the facts of its rule; unknown ones may be absent.
    found
        The clients' `verdicts`; none without a target.
    where
        See `place`.
    """
    names = results["client"].astype(str).to_list()
    if claim.target != claim.target:
        parts = [f"{verdicts.largest(results, claim.gap)}; no target was set"]
        parts.append(f"measured on {where}")
    else:
        parts = promise(names, rules, claim)
        counted = verdicts.sentence(names, found, claim.target, results, claim.gap)
        parts.append(f"measured on {where}: {counted}")
    useless = is_useless(results, rules)
    if useless.any():
        text = f"at {no_better(results, useless, names)}"
        if (words.column(results, "one_decision") > 0).all():
            parts = []
        parts.insert(0 if 2 * useless.sum() >= len(names) else len(parts), text)
    parts += [randomised(results, names), verdicts.apart(results, claim.gap)]
    return " ".join(f"{text[:1].upper()}{text[1:].rstrip('.')}." for text in parts if text)


def promise(names: Sequence[str], rules: pd.DataFrame, claim: Claim) -> list[str]:
    """Describe what the rules were made to keep, and which sites are too small for that."""
    n, texts = len(names), []
    small, certified = (words.column(rules, name) for name in ("too_small", "certified"))
    if not np.isnan(certified).all():
        texts.append(_certificate(names, certified > 0, rules, claim))
    others = np.flatnonzero(~(certified > 0)).tolist()
    those = [i for i in others if small[i] > 0]
    able = len(others) - len(those)
    limit = "it" if len(others) < n else f"the gap ({claim.gap.upper()}) at most {claim.target:g}"
    what = f"keeps {limit} {_proof(claim, n)}"
    if able:
        who = _number(able, n) if len(others) == n else _others(able)
        verb = "has a rule" if able == 1 else "have a rule"
        texts.append(f"{who} {verb} made to {what.replace('keeps', 'keep', 1)}")
    if those:
        who = _who([names[i] for i in those], n)
        verb = "is" if len(those) == 1 else "are"
        which = "that" if able else f"a rule that {what}"
        ways = remedies(rules.iloc[those])
        texts.append(f"{who} {verb} too small for {which}{': ' * bool(ways)}{ways}")
    return texts


def _proof(claim: Claim, n: int) -> str:
    """Return the level of proof of a rule without a certificate."""
    if not claim.confidence:
        return "on average (an estimate)"
    level = f"with {100 * claim.confidence:g} % confidence"
    if claim.jointly and n > 1:
        return f"at all of them jointly {level} (model-based)"
    chance = by_chance(n, claim.confidence)
    chance = f": of {n:,}, {chance} may exceed it by chance" if chance else ""
    each = f", each site separately{chance}" if n > 1 else ""
    return f"{level} (model-based{each})"


def by_chance(n: int, confidence: float) -> str:
    """Return how many of n sites may exceed the target by chance; "" for less than one.

    >>> by_chance(50, 0.95), by_chance(39, 0.95), by_chance(5, 0.95)
    ('2 or 3', 'about 2', '')
    """
    number = n * (1 - confidence)
    whole = round(number)
    if abs(number - whole) < 0.2:
        return f"about {whole:,}" if whole else ""
    return f"{int(number):,} or {int(number) + 1:,}" if number > 1 else ""


def _certificate(names: Sequence[str], has: np.ndarray, rules: pd.DataFrame, claim: Claim) -> str:
    n, number = len(names), int(has.sum())
    needed = words.column(rules, "certificate_rows")[~has]
    more = ""
    if number < n and np.all(needed > 0):
        who = "it" if n == 1 else "each" if not number else "the others" if n - number > 1 else (
            "the other")  # fmt: skip
        more = f"; {who} would need {words.rows(*needed)} more rows{' each' * (who[-1] == 's')}"
    if not number:
        return f"{'no site has a' if n > 1 else 'the only site has no'} certificate{more}"
    those = words.sites(list(compress(names, has)))
    named = f" ({those})" if number < n and number <= words.NAMED else ""
    verb, where = ("has", "there") if number == 1 else ("have", "at all of them jointly")
    return (
        f"{_number(number, n)}{named} {verb} a certificate: the gap ({claim.gap.upper()}) is at "
        f"most {claim.target:g} {where} with {100 * (claim.confidence or LEVEL):g} % confidence "
        f"(finite-sample, distribution-free){more}"
    )


def remedies(small: pd.DataFrame) -> str:
    """Describe what would do for all of some sites that are too small; "" if that is unknown."""
    rows, target, confidence = (
        words.column(small, f"enough_{name}") for name in ("rows", "target", "confidence")
    )
    ways = []
    if np.all(rows > 0):
        ways.append(f"{words.rows(*rows)} more rows{' each' * (len(small) > 1)}")
    if np.all(target > 0):
        ways.append(f"a target of {target.max():.2g}")
    if np.all(confidence >= 0.5):
        ways.append(f"a confidence level of {100 * confidence.min():.2g} %")
    return f"{words.either(ways)} would do" if ways else ""


def _number(number: int, n: int) -> str:
    if n == 1:
        return "the only site"
    return f"all {n:,} sites" if number == n else f"{number:,} of {n:,} sites"


def _others(number: int) -> str:
    return "the other site" if number == 1 else f"the other {number:,}"


def _who(those: Sequence[str], n: int) -> str:
    few = len(those) <= words.NAMED and len(those) < n
    return words.sites(those) if few else _number(len(those), n)


def randomised(results: pd.DataFrame, names: Sequence[str]) -> str:
    """Describe the share of decisions that are random draws; "" if there are none."""
    drawn = np.nan_to_num(words.column(results, "randomised"))
    if not drawn.any():
        return ""
    total = float(np.average(drawn, weights=words.column(results, "n_test")))
    text, most = f"{words.share(total)} of the decisions are random draws", int(drawn.argmax())
    if len(names) > 1 and drawn[most] > max(2 * total, 0.01):
        text += f", {words.share(drawn[most])} at {words.sites([names[most]])}"
    return text


def is_useless(results: pd.DataFrame, rules: pd.DataFrame) -> np.ndarray:
    """Return which models are no more accurate than one decision for all rows, or make only one."""
    with np.errstate(invalid="ignore"):
        no_better = words.column(results, "accuracy") <= words.column(rules, "constant")
    return np.asarray(no_better | (words.column(results, "one_decision") > 0))


def no_better(results: pd.DataFrame, useless: np.ndarray, names: Sequence[str]) -> str:
    """Name the sites whose model is no better than one decision for all rows."""
    where = _who(list(compress(names, useless)), len(names))
    if (words.column(results, "one_decision")[useless] > 0).all():
        return f"{where}, all rows get the same decision: a gap of 0 is no merit"
    return f"{where}, the model is no more accurate than one decision for all rows"


def gains(
    changes: Changes, claim: Claim, results: pd.DataFrame, groups: Sequence[str], label: str
) -> str:
    """Describe who gets and who loses the last label, compared with the likeliest label.

    At all sites, or, where all are measured on the same rows, at the one with most changes.
    """
    n, at = len(results), 0
    where, counted = "At all sites together, " * (n > 1), changes.total
    if n > 1 and results["protocol"].iloc[0] == "pool":
        at, counted = int((changes.gained + changes.lost).sum(1).argmax()), changes
        where = f"At {words.sites([str(results['client'].iloc[at])])}, "
    parts = []
    for verb, moved in (("lose", counted.lost[at]), ("gain", counted.gained[at])):
        parts += [(int(moved[z]), int(counted.rows[at, z]), groups[z], verb)
                  for z in np.flatnonzero(moved).tolist()]  # fmt: skip
    if not parts:
        return "No decision differs from the likeliest label."
    parts.sort(key=lambda part: -part[0])
    rest = len(parts) - words.NAMED
    each = [f"{k:,} of {rows:,} rows of {group} {verb} {'it' if i else f'the decision {label}'}"
            for i, (k, rows, group, verb) in enumerate(parts[: words.NAMED])]  # fmt: skip
    text = f"{where}{', '.join(each)}"
    text += f" (and {rest} smaller change{'s' * (rest > 1)})" if rest > 0 else ""
    text += ", compared with the likeliest label"
    if not counted.levels_down[at]:
        return f"{text}."
    up = claim.settings.get("prefer") == "any"
    hint = f"; {option('prefer', 'up')} raises the worse-off group instead" if up else ""
    return f"{text}: mostly levelling down{hint}."


def hints(claim: Claim, found: Sequence[str]) -> list[str]:
    """Return how to go on where the target is not kept at some sites."""
    doubt = any(one in (verdicts.EXCEEDS, verdicts.UNCLEAR) for one in found)
    if "confidence" in claim.settings and not claim.confidence and doubt:
        aims = f"{option('confidence', 0.95)} keeps each site within it with that confidence level"
        return [f"On average means that about half of such sites exceed the target; {aims}."]
    if "jointly" in claim.settings and not claim.jointly and by_chance(
        len(found), claim.confidence
    ):  # fmt: skip
        return [f"{option('jointly', True)} makes it one promise on all sites."]
    return []
