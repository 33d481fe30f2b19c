"""What training takes: `transport` on Adult, on the additive model and on the paper's perceptron.

Seconds of CPU on one thread, the least of three runs, and their ratio.
"""

import time

import torch

import pfedfair as pff


def seconds(model: str | None) -> float:
    """CPU time of one run, without reading and dealing the rows."""
    data = pff.load("adult", model=model)
    federation = data.federate(pff.partition.fixed_shares())
    algorithm = pff.make("transport", {"target_ddp": 0.05}, data)
    taken = []
    for seed in range(3):
        began = time.process_time()
        pff.train(federation, algorithm, seed)
        taken.append(time.process_time() - began)
    return min(taken)


if __name__ == "__main__":
    torch.set_num_threads(1)
    additive, perceptron = seconds("additive"), seconds(None)
    print(f"transport on Adult, CPU: perceptron {perceptron:.2f} s, additive {additive:.2f} s, "
          f"{perceptron / additive:.1f} times less (goal: 10)")  # fmt: skip
