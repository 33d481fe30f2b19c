"""What every contestant does, and how it is asked: `answer` reads the name of a round from standard
input, does it, and writes what it took. Needs NumPy alone, as contestants have environments of
their own.

The network is 64-64-64-1 with ReLU; a client has 2,400 rows; batches have 64. A round of FedAvg has
five epochs of SGD; one of pFedMe one epoch with five inner steps on each minibatch.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

WIDTHS = (64, 64, 64, 1)
ROWS, BATCH, EPOCHS, K = 2400, 64, 5, 5
STEPS = ROWS // BATCH  # in an epoch; whoever takes the remainder as well has one more
LR = 0.02  # FedAvg's, and pFedMe's for the global model
INNER_LR, GAMMA = 0.01, 15.0  # pFedMe's

Layers = list[tuple[np.ndarray, np.ndarray]]  # each (in, out) and (out,)
Round = Callable[[], tuple[Layers, int]]  # the global model, and gradient steps of each client


def people(clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs ``(clients, rows, 64)``, the last of them S, and labels ``(clients, rows)``."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(clients, ROWS, WIDTHS[0])).astype(np.float32)
    x[..., -1] = rng.integers(2, size=(clients, ROWS))
    y = x[..., 0] + 0.5 * x[..., -1] + rng.normal(size=(clients, ROWS)) > 0
    return x, y.astype(np.float32)


def start() -> Layers:
    """Weights and biases uniform in +-1/sqrt(fan-in)."""
    rng = np.random.default_rng(1)
    return [
        (
            (rng.uniform(-1, 1, (i, o)) / np.sqrt(i)).astype(np.float32),
            (rng.uniform(-1, 1, o) / np.sqrt(i)).astype(np.float32),
        )
        for i, o in pairwise(WIDTHS)
    ]


def loss(layers: Layers, x: np.ndarray, y: np.ndarray) -> float:
    """Mean cross-entropy of a model on everybody's rows."""
    for weight, bias in layers[:-1]:
        x = np.maximum(x @ weight + bias, 0)
    z = (x @ layers[-1][0] + layers[-1][1])[..., 0]
    return float(np.mean(np.logaddexp(0, z) - y * z))


def answer(make: Callable[[np.ndarray, np.ndarray], dict[str, Round]]) -> None:
    """Do the rounds that are asked for, as long as somebody asks."""
    out, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints
    x, y = people(int(sys.argv[1]))
    rounds = make(x, y)
    print(json.dumps(sorted(rounds)), file=out, flush=True)
    for line in sys.stdin:
        began = time.process_time()
        layers, steps = rounds[line.strip()]()
        seconds = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        told = {"seconds": seconds, "steps": steps, "loss": loss(layers, x, y), "megabytes": peak}
        print(json.dumps(told), file=out, flush=True)
