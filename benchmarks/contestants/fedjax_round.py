"""FedJAX's own federated averaging, compiled (its default)."""

import jax
import jax.numpy as jnp
import task

if not hasattr(jax, "tree_map"):  # FedJAX 0.0.17 was made for a JAX that had it
    jax.tree_map = jax.tree_util.tree_map

import fedjax
from fedjax.algorithms import fed_avg


def loss(layers, batch, rng):
    a = batch["x"]
    for weight, bias in layers[:-1]:
        a = jax.nn.relu(a @ weight + bias)
    z = (a @ layers[-1][0] + layers[-1][1])[:, 0]
    return jnp.mean(jnp.logaddexp(0, z) - batch["y"] * z)


def make(x, y):
    people = [fedjax.ClientDataset({"x": a, "y": b}) for a, b in zip(x, y, strict=True)]
    steps = task.EPOCHS * task.STEPS
    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(task.LR),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(
            batch_size=task.BATCH, num_epochs=None, num_steps=steps, seed=0
        ),
    )
    start = [tuple(map(jnp.asarray, layer)) for layer in task.start()]

    def fedavg():
        clients = [(b"%d" % i, own, jax.random.PRNGKey(i)) for i, own in enumerate(people)]
        state, _ = algorithm.apply(algorithm.init(start), clients)
        return [tuple(map(jax.device_get, layer)) for layer in state.params], steps

    return {"fedavg": fedavg}


if __name__ == "__main__":
    task.answer(make)
