"""Every method gives what it gave before: a few rounds on COMPAS, numbers of an earlier version.

Another processor may round otherwise, and turn the decision on a row or two.
"""

import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff

KEPT = pd.read_csv(Path(__file__).with_name("numbers.csv"))
RUNS = dict(list(KEPT.groupby(["method", "settings", "blind", "clients"], sort=False)))


@cache
def federation(blind, clients):
    return pff.load("compas").federate(pff.partition.fixed_shares(clients or None), 0, not blind)


def test_every_method_is_there():
    assert set(KEPT["method"]) == set(pff.methods.METHODS)


@pytest.mark.parametrize("asked", RUNS, ids=lambda asked: f"{asked[0]} {asked[1]}")
def test_the_same_numbers(asked):
    method, settings, blind, clients = asked
    algorithm = pff.make(method, json.loads(settings), "compas")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pff.CollapseWarning)
        network = "linear" if algorithm.supports.linear_only else None
        table = pff.train(federation(blind, clients), algorithm, 0, network).table()
    for measure in ("accuracy", "ddp", "eo"):
        np.testing.assert_allclose(table[measure], RUNS[asked][measure], atol=2e-3)
