"""What training takes: `transport` on Adult, on the additive model and on the paper's perceptron.

Seconds of CPU on one thread, without reading and dealing the rows: the two in turns, medians.
"""

from itertools import count

import torch

import pfedfair as pff
from run import alternate, say

GOAL, TURNS = 10, 7


def trainer(model: str | None):
    """What trains a run, each time with another seed; its rows are read and dealt already."""
    data = pff.load("adult", model=model)
    federation = data.federate(pff.partition.fixed_shares())
    algorithm = pff.make("transport", {"target_ddp": 0.05}, data)
    seeds = count()
    return lambda: pff.train(federation, algorithm, next(seeds))


if __name__ == "__main__":
    torch.set_num_threads(1)
    additive, perceptron = alternate(trainer("additive"), trainer(None), TURNS)
    ratio = perceptron / additive
    say(
        "transport on Adult: perceptron / additive",
        ratio,
        f">= {GOAL}",
        ratio >= GOAL,
        f"{perceptron:.2f} s / {additive:.3f} s of CPU",
    )
