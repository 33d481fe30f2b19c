"""The ridge: a linear layer ends where scikit-learn's logistic regression does."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import pfedfair as pff
from pfedfair.engines.local import fit
from pfedfair.methods import METHODS
from pfedfair.methods.defaults import make
from pfedfair.runs import choose_network

ROWS, RIDGE = 120, 0.05
SHORT = {
    "transport": {"rounds": 5, "agree": 2, "bins": 20},
    "logofair": {"rounds": 4, "dual_rounds": 2},
}


@pytest.fixture(scope="module")
def one_place():
    """Three standardised columns of one client, blind."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((ROWS, 3)), columns=list("abc"))
    frame["s"] = rng.integers(0, 2, ROWS)
    frame["y"] = (frame["a"] - 2 * frame["b"] + rng.standard_normal(ROWS) > 0.7).astype(int)
    plan = pff.partition.together(test=0.1)
    return pff.from_frame(frame, "y", "s", encoding="standard").federate(
        plan, sensitive_as_input=False
    )


@pytest.mark.parametrize("optimiser", [{"optimiser": "sgd", "alpha": 1.0}, {"alpha": 0.02}])
@pytest.mark.parametrize("method", ["fedavg", "erm-local"])
def test_one_client_ends_at_the_logistic_regression(one_place, method, optimiser):
    table, train = one_place.table, one_place.partition.train[0]
    x = np.column_stack([table.x[train], np.ones(len(train))])  # the bias has a ridge, too
    reference = LogisticRegression(C=1 / (len(train) * RIDGE), fit_intercept=False, tol=1e-10)
    reference.fit(x, table.y[train])
    algorithm = make(method, {"rounds": 2, "epochs": 300, "ridge": RIDGE} | optimiser)
    theta = pff.train(one_place, algorithm, network="linear").fitted.theta[0]
    assert sorted(theta.tolist()) == pytest.approx(sorted(reference.coef_[0]), abs=2e-4)


@pytest.mark.parametrize("name", sorted({*METHODS} - {"constant", "pooled"}))
def test_no_method_takes_a_ridge_without_using_it(name, one_place, federation):
    where = one_place if METHODS[name].kind.place == "centralised" else federation
    settings = {"rounds": 3, "batch": 40} | SHORT.get(name, {})
    lengths = []
    for ridge in (0.0, 3.0):
        algorithm = make(name, settings | {"ridge": ridge})
        network = algorithm.network(
            choose_network(where, pff.methods.FedAvg(), "linear"), where.table.task
        )
        lengths.append(float(fit(where, algorithm, network, seed=0).theta.norm()))
    assert lengths[1] < lengths[0]


def test_a_ridge_is_not_below_zero():
    with pytest.raises(pff.InputError, match="ridge"):
        make("fedavg", {"ridge": -0.1})
