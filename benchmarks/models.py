"""What training takes: `transport` on Adult, on the additive model and on the paper's perceptron.

Seconds of CPU on one thread, without reading and dealing the rows: the two in turns, medians. The
perceptron is trained as it is here, by the kernel in C where that was built; and by PyTorch, as it
was when the goal was set.
"""

from itertools import count
from unittest.mock import patch

import torch

import pfedfair as pff
from pfedfair._native import kernel
from run import alternate, say

GOAL, TURNS = 10, 7


def trainer(model: str | None):
    """What trains a run, each time with another seed; its rows are read and dealt already."""
    data = pff.load("adult", model=model)
    federation = data.federate(pff.partition.fixed_shares())
    algorithm = pff.make("transport", {"target_ddp": 0.05, "confidence": 0.0}, data)
    seeds = count()
    return lambda: pff.train(federation, algorithm, next(seeds))


def by_pytorch(train):
    """The same without the kernel."""

    def run():
        with patch.object(kernel, "LIBRARY", None):
            train()

    return run


def race(what: str, perceptron, goal: str = "-") -> None:
    ours, theirs = alternate(trainer("additive"), perceptron, TURNS)
    met = goal == "-" or theirs / ours >= GOAL
    say(what, theirs / ours, goal, met, f"{theirs:.2f} s / {ours:.3f} s of CPU")


if __name__ == "__main__":
    torch.set_num_threads(1)
    race(f"perceptron by {kernel.words()} / additive", trainer(None), f">= {GOAL}")
    race("perceptron by PyTorch / additive", by_pytorch(trainer(None)))
