"""One linear layer: the classifier on a frozen encoder."""

from __future__ import annotations

from pfedfair.networks.mlp import MLP


def linear(inputs: int, outputs: int = 1) -> MLP:
    """Return logistic regression, which is an MLP without hidden layers.

    >>> linear(3).size
    4
    """
    return MLP(inputs, hidden=(), outputs=outputs)
