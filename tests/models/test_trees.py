"""Trees as a row of numbers score as scikit-learn's do."""

import json

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

import pfedfair as pff
from pfedfair.methods.pooled import _flat
from pfedfair.models import Trees, from_dict

ONE_SPLIT = np.array([[1, 0.5, 1, 2, 0.0], [0, 0, 1, 1, -2.0], [0, 0, 2, 2, 3.0]])


@pytest.mark.parametrize("groups", [0, 2])
def test_scores_are_those_of_the_ensemble(groups):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 4)).astype(np.float32)
    x[:, 2] = np.round(x[:, 2])  # ties
    s = rng.integers(0, 2, 900)
    y = (x[:, 0] * x[:, 1] + x[:, 2] + s + rng.normal(size=900) > 0.5).astype(int)
    seen = np.column_stack([x, s]).astype(np.float32) if groups else x
    model = HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=12).fit(seen, y)
    network = Trees(30, 23, groups)  # room for more than there are
    row = network.pack([_flat(each[0].nodes) for each in model._predictors],
                       float(model._baseline_prediction.ravel()[0]))  # fmt: skip
    assert row.shape == (network.size,)
    again = from_dict(json.loads(json.dumps(network.to_dict())))
    w = torch.stack([row, torch.zeros_like(row)])
    for net in (network, again):
        z = net.logits(w, torch.from_numpy(x).repeat(2, 1, 1), torch.from_numpy(s).repeat(2, 1))
        np.testing.assert_allclose(z[0, :, 0], model.decision_function(seen), atol=1e-5)
        assert (z[1] == 0).all()  # an empty row


def test_a_split_is_at_its_threshold_in_single_precision():
    """Between two neighbours there is a threshold in double precision only."""
    low = np.float32(0.3)
    high = np.nextafter(low, np.float32(1))
    network = Trees(2, 3)
    tree = ONE_SPLIT.copy()
    tree[0, 1] = 0.25 * float(low) + 0.75 * float(high)  # rounds to the upper one
    x = torch.tensor([[[0.0, low], [0.0, high]]])
    z = network.logits(network.pack([tree], 0.5)[None], x, torch.zeros(1, 2, dtype=torch.long))
    assert z.flatten().tolist() == [-1.5, 3.5]


def test_rows_are_models_of_their_own():
    network = Trees(2, 3)
    w = torch.stack([network.pack(trees, 0.0) for trees in ([ONE_SPLIT], [ONE_SPLIT, ONE_SPLIT])])
    x = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).repeat(2, 1, 1)
    z = network.logits(w, x, torch.zeros(2, 2, dtype=torch.long))[..., 0]
    assert z.tolist() == [[3.0, -2.0], [6.0, -4.0]]


def test_they_are_not_trained_by_gradients():
    network = Trees(2, 3)
    with pytest.raises(pff.InputError, match="grown, not trained by gradients"):
        network.vjp(torch.zeros(1, network.size), torch.zeros(1, 2, 2), torch.zeros(1, 2))
