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
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from pfedfair._util import seeds
from pfedfair._util.errors import InputError, option
from pfedfair.data.tables import encoder as inputs
from pfedfair.data.task import Task
from pfedfair.engines.local import fit
from pfedfair.federation import Federation, encoded
from pfedfair.methods import Clients, Method, State
from pfedfair.partition import Partition, stratified
from pfedfair.rules import Rule, Thresholds
from pfedfair.theory.certificates import FAR, choose

if TYPE_CHECKING:
    from pfedfair.runs.run import Run

FOLDS = 10  # trainings, at most, that each leave out some of the clients
ENCODED = 0.1  # part of a client's rows that the encoder is fitted on
MOST = 20_000  # rows of a group that certify
CONFIDENCE = 0.95  # of all certificates jointly, unless the method has another
MAX_RANDOMISED = 0.05  # part of a client's rows, unless the method has another


def fit_encoder(federation: Federation, algorithm: Method) -> Federation:
    """Return the federation, encoded without the rows that certify; refuse what has no proof."""
    data, part, task = federation.data, federation.partition, federation.table.task
    check(algorithm, task)
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


def check(algorithm: Method, task: Task) -> None:
    """Refuse a method without a path of rules, and a task without a proof."""
    if not algorithm.supports.certificates:
        raise InputError(
            f"{type(algorithm).__name__} has no rules to certify with these settings: take "
            f"transport, without {option('prefer', 'up')}."
        )
    if not (task.binary and task.aware and algorithm.criterion == "dp"):
        raise InputError(
            "A certificate is for two groups, two classes, demographic parity (dp), and S as an "
            f"input: leave out {option('certify')}, or change these."
        )


def certify(run: Run, on_work: Callable[[float], None] = lambda work: None) -> Run:
    """Return the run with a certified rule at each client whose rows allow one.

    The run's federation must be one of `fit_encoder`. A rule's facts say whether it is certified,
    at which confidence level, and about how many more rows would be enough if it is not, 0 if no
    number would.
    """
    count = len(run.federation)
    level = error_of(run.algorithm) / count
    theta, rules = run.fitted.theta.clone(), list(run.fitted.rules)
    parts = trainings(run.federation)
    for fold in np.array_split(np.arange(count), parts):
        rest = np.setdiff1d(np.arange(count), fold)
        others = replace(run.federation, partition=_only(run.federation.partition, rest.tolist()))
        fitted = fit(others, run.algorithm, run.network, run.seed,
                     on_work=lambda part: on_work(part / parts))  # fmt: skip
        for i in fold.tolist():
            shares, scores = run.federation.partition.shares[i], _scores(run, i, fitted.server)
            rule, facts = certified_rule(run.algorithm, fitted.server, shares, scores, level)
            needed, n = facts["certificate_rows"] / (1 - ENCODED), run.federation.sizes[i]
            facts["certificate_rows"] = max(needed - n, 1.0) if np.isfinite(needed) else 0.0
            facts = dict(rules[i].facts) | facts
            if rule is None:
                rules[i] = copy(rules[i])
            else:
                rules[i], theta[i] = rule, fitted.w
            rules[i].facts = facts
    return replace(run, fitted=run.fitted._replace(theta=theta, rules=rules))


def trainings(federation: Federation) -> int:
    """Return the number of trainings that certificates take."""
    return min(FOLDS, len(federation))


def error_of(algorithm: Method) -> float:
    """Return the chance that any certificate fails: 1 less the method's confidence level."""
    return 1 - (getattr(algorithm, "confidence", None) or CONFIDENCE)


def certified_rule(
    algorithm: Method,
    server: State,
    shares: np.ndarray,
    scores: Sequence[np.ndarray],
    level: float,
) -> tuple[Rule | None, dict[str, float]]:
    """Return a client's certified rule, or None, and facts about its certificate.

    Parameters
    ----------
    server
        A state of the server that does not depend on the rows that certify.
    shares
        The client's shares of the groups, ``(2,)``.
    scores
        The logits of the rows that certify, in order, of each group.
    level
        The chance that the rule's gap exceeds the target.
    """
    target = algorithm.target
    assert target is not None
    facts = {"certified": 0.0, "certificate_level": 1 - level, "certificate_rows": np.inf}
    if not all(map(len, scores)):
        return None, facts
    path = algorithm.path(server, shares)
    path = path._replace(thresholds=path.thresholds.astype(np.float32))  # as in a rule
    randomised = getattr(algorithm, "max_randomised", MAX_RANDOMISED)
    found = choose(path, scores, target, level, randomised)
    facts["certificate_rows"] = found.enough
    if found.rule is None:
        return None, facts
    facts |= {"certified": 1.0, "too_small": 0.0}
    facts |= {"known_to": 1.96 * found.error, "certainty_cost": found.lost}
    return _rule(path.thresholds[found.rule], found.parts, path.usual), facts


def _rule(thresholds: np.ndarray, own: tuple[float, float], usual: int) -> Rule:
    """Return thresholds, by which a part `own` of decisions is made; the others are `usual`."""
    parts = np.zeros((2, 4))
    parts[:, 0] = parts[:, 1] = thresholds
    for z, part in enumerate(own):
        if part < 1 and usual:
            parts[z, 3] = 1 - part
        elif part < 1:
            parts[z, 1:3] = FAR, part
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
    return replace(
        part,
        train=tuple(part.train[i] for i in clients),
        validation=tuple(part.validation[i] for i in clients),
        test=tuple(part.test[i] for i in clients),
        names=tuple(part.names[i] for i in clients),
    )
