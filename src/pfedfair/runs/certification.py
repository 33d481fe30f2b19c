"""Certificates: rules whose true gap is within the target at all certified clients jointly.

A client's scorer and the rules that it may get (`Method.path`) are made without its rows: by the
other clients, in `FOLDS` trainings that each leave out some of the clients. Its own training rows,
without labels, then decide which of the rules are certified (`pfedfair.theory.certificates`), and
the most accurate of these is its rule. The encoder is fitted on a part of each client's rows that
certifies nothing. So given all others' rows, a client's rule is wrong with at most its level, an
equal part of 1 - confidence; that any is wrong, with at most their sum, however they depend.

A client without a certificate keeps the model that is trained on all clients, and its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, option
from pfedfair._util.notebook import abbreviate
from pfedfair.data.tables import encoder as inputs
from pfedfair.engines.local import fit
from pfedfair.federation import Federation, encoded
from pfedfair.methods import Clients, Method, State
from pfedfair.partition import Partition, stratified
from pfedfair.rules import Rule, Thresholds
from pfedfair.theory.certificates import (
    FAR,
    Path,
    certified,
    enough_rows,
    plan,
    standard_error,
)

if TYPE_CHECKING:
    from pfedfair.runs.run import Run

FOLDS = 10  # trainings, at most, that each leave out some of the clients
ENCODED = 0.1  # part of a client's rows that the encoder is fitted on
MOST = 20_000  # rows of a group that certify
CONFIDENCE = 0.95  # of all certificates jointly, unless the method has another
MAX_RANDOMISED = 0.05  # part of a client's rows, unless the method has another
NAMED = 20  # clients that a sentence names


def fit_encoder(federation: Federation, algorithm: Method) -> Federation:
    """Return the federation, encoded without the rows that certify; refuse what has no proof."""
    data, part, task = federation.data, federation.partition, federation.table.task
    if not algorithm.supports.certificates:
        raise InputError(f"{type(algorithm).__name__} has no rules to certify: take transport.")
    if not (task.binary and task.aware and algorithm.criterion == "dp"):
        raise InputError(
            "A certificate is for two groups, two classes, demographic parity (dp), and S as an "
            "input: leave out --certify, or change these."
        )
    if data.weight is not None or data.persons is not None:
        raise InputError(
            "A certificate counts rows as independent and alike: leave out "
            f"{option('weight' if data.persons is None else 'person')}, or the certificate."
        )
    if len(federation) < 2:
        raise InputError("A client's certificate needs other clients, to make its rules.")
    encoder = inputs.fit(data, [_split(federation, i)[0] for i in range(len(part.names))],
                         part.column)  # fmt: skip
    return encoded(data, part, encoder, task.aware, federation.seed)


def certify(run: Run, on_work: Callable[[float], None] = lambda work: None) -> Run:
    """Return the run with a certified rule at each client whose rows allow one.

    The run's federation must be one of `fit_encoder`. A rule's facts say whether it is certified,
    at which confidence level, and about how many rows would be enough if it is not.
    """
    count = len(run.federation)
    level = (1 - (getattr(run.algorithm, "confidence", None) or CONFIDENCE)) / count
    theta, rules = run.fitted.theta.clone(), list(run.fitted.rules)
    parts = trainings(run.federation)
    for fold in np.array_split(np.arange(count), parts):
        rest = np.setdiff1d(np.arange(count), fold)
        others = replace(run.federation, partition=_only(run.federation.partition, rest))
        fitted = fit(others, run.algorithm, run.network, run.seed,
                     on_work=lambda part: on_work(part / parts))  # fmt: skip
        for i in fold.tolist():
            found = _client(run, i, fitted.server, level)
            facts = dict(rules[i].facts) | found.facts
            if found.rule is not None:
                rules[i], theta[i] = found.rule, fitted.w
            rules[i].facts = facts
    return replace(run, fitted=run.fitted._replace(theta=theta, rules=rules))


def trainings(federation: Federation) -> int:
    """Return the number of trainings that certificates take."""
    return min(FOLDS, len(federation))


def describe(run: Run) -> str:
    """Return who is certified, and what the others lack, in a sentence or two; "" without."""
    about = run.certificate
    if about is None:
        return ""
    names, rules = run.federation.partition.names, run.fitted.rules
    without = {name: rule.facts["enough_rows"] - n for name, rule, n in
               zip(names, rules, run.federation.sizes, strict=True)
               if not rule.facts["certified"]}  # fmt: skip
    what = f"a gap of at most {about['target_ddp']:g}"
    joint = f"jointly with {about['confidence']:.0%} confidence"
    if not without:
        return f"All {len(names)} clients have a certificate of {what}, {joint}."
    if len(without) == len(names):
        first = f"No client has a certificate of {what}"
    else:
        first = (f"Certified, {joint}, {what}: clients "
                 f"{abbreviate(about['certified'], NAMED)}")  # fmt: skip
    return f"{first}. Without a certificate: {_missing(without)}."


def _missing(without: dict[str, float]) -> str:
    """Name clients, with the number of rows that would do."""
    named = []
    for name, rows in without.items():
        more = f"about {max(rows, 1):,.0f} more rows" if np.isfinite(rows) else "rows of one group"
        named.append(f"{name} ({more} would do)")
    return abbreviate(named, NAMED)


@dataclass(frozen=True, eq=False)
class Found:
    """A client's certified rule, if there is one, and its facts."""

    rule: Rule | None
    facts: dict[str, float]


def _client(run: Run, i: int, server: State, level: float) -> Found:
    """Return a client's certified rule by a state of the server to which it sent nothing."""
    target = run.algorithm.target
    assert target is not None
    scores = _scores(run, i, server)
    rows = np.array([len(of_group) for of_group in scores])
    facts = {"certified": 0.0, "certificate_level": 1 - level, "enough_rows": np.inf}
    if not rows.all():
        return Found(None, facts)
    path = run.algorithm.path(server, run.federation.partition.shares[i])
    thresholds = path.thresholds.astype(np.float32)
    counts = rows - np.stack([np.searchsorted(scores[z], thresholds[:, z]) for z in (0, 1)], axis=1)
    levels = plan(path, rows, target, level, shrinks(run.algorithm, path, rows))
    own = target / levels.margin  # the part of decisions that are the rule's
    sound = np.flatnonzero(certified(counts, rows, levels))
    if len(sound) == 0:
        rates = counts[np.abs(np.diff(counts / rows, axis=1)[:, 0]).argmin()] / rows
        enough = enough_rows(rates, rows / rows.sum(), target, level)
        return Found(None, facts | {"enough_rows": enough / (1 - ENCODED)})
    k = int(sound[path.accuracy[sound].argmax()])
    fair = np.abs(path.gaps) <= target
    cost = path.accuracy[fair].max(initial=0.0) - path.accuracy[k]
    width = 1.96 * own * standard_error(counts[k] / rows, rows)
    facts |= {"certified": 1.0, "enough_rows": np.nan, "known_to": width, "certainty_cost": cost}
    return Found(_rule(thresholds[k], own, path.usual), facts)


def shrinks(algorithm: Method, path: Path, rows: np.ndarray) -> bool:
    """Return whether decisions may be the usual label at random, by the method's limit on these."""
    positive = float(rows @ path.rates[np.abs(path.gaps).argmin()] / rows.sum())
    randomised = 1 - positive if path.usual else positive
    return randomised <= getattr(algorithm, "max_randomised", MAX_RANDOMISED)


def _rule(thresholds: np.ndarray, own: float, usual: int) -> Rule:
    """Return thresholds, by which the part `own` of decisions is made; others are `usual`."""
    parts = np.zeros((2, 4))
    parts[:, 0] = parts[:, 1] = thresholds
    if own < 1 and usual:
        parts[:, 3] = 1 - own
    elif own < 1:
        parts[:, 1], parts[:, 2] = FAR, own
    return Thresholds(torch.from_numpy(parts).float())


def _scores(run: Run, i: int, server: State) -> list[np.ndarray]:
    """Return the logits of a client's rows that certify, in order, of each of two groups."""
    federation = run.federation
    table, (_, rows) = federation.table, _split(federation, i)
    s = table.s.numpy()
    rng = seeds.generator(run.seed, seeds.CERTIFICATE, i, 1)
    found = []
    for z in (0, 1):
        own = rng.permutation(rows[s[rows] == z])[:MOST]
        clients = Clients(run.network, table, [own], [i], run.seed)
        found.append(np.sort(clients.scores(server["w"], 0)[:, 0].numpy()) if len(own) else own)
    return found


def _split(federation: Federation, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a client's rows for the encoder, and those that certify."""
    rng = seeds.generator(federation.seed, seeds.CERTIFICATE, i, 0)
    return stratified(federation.partition.train[i], federation.data.s, ENCODED, rng)


def _only(part: Partition, clients: Sequence[int]) -> Partition:
    """Return the partition with some of the clients."""
    each = {name: tuple(getattr(part, name)[i] for i in clients)
            for name in ("train", "validation", "test", "names")}  # fmt: skip
    return replace(part, **each)
