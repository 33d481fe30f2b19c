"""All clients at once by ``torch.func``: vmap of the gradient, steps in ``foreach`` calls."""

import task
import torch
from loop import sequential
from torch.func import functional_call, grad, vmap
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

torch.set_num_threads(1)


def make(x, y):
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    model, clients = sequential(), len(x)
    first = {name: p.detach() for name, p in model.named_parameters()}
    names, each = list(first), torch.arange(clients)[:, None]

    def loss(parameters, a, b):
        return cross_entropy(functional_call(model, parameters, (a,))[:, 0], b)

    gradients = vmap(grad(loss))

    def copies():
        return {name: p.expand(clients, *p.shape).clone() for name, p in first.items()}

    def minibatches(random):
        order = torch.stack([torch.randperm(y.shape[1], generator=random) for _ in each])
        for part in order[:, : task.STEPS * task.BATCH].chunk(task.STEPS, dim=1):
            yield x[each, part], y[each, part]

    def layers(w):
        mean = [w[name].mean(0).numpy() for name in names]
        return [(mean[i].T, mean[i + 1]) for i in range(0, len(mean), 2)]

    def fedavg():
        w, random = copies(), torch.Generator().manual_seed(0)
        for _ in range(task.EPOCHS):
            for a, b in minibatches(random):
                slopes = gradients(w, a, b)
                torch._foreach_add_(list(w.values()), [slopes[n] for n in names], alpha=-task.LR)
        return layers(w), task.EPOCHS * task.STEPS

    def pfedme():
        w, random = copies(), torch.Generator().manual_seed(0)
        for a, b in minibatches(random):
            theta = {name: p.clone() for name, p in w.items()}
            own, shared = list(theta.values()), list(w.values())
            for _ in range(task.K):
                slopes = gradients(theta, a, b)
                moves = [slopes[name] for name in names]
                torch._foreach_add_(moves, torch._foreach_sub(own, shared), alpha=task.GAMMA)
                torch._foreach_add_(own, moves, alpha=-task.INNER_LR)
            tie = torch._foreach_sub(own, shared)
            torch._foreach_add_(shared, tie, alpha=task.LR * task.GAMMA)
        return layers(w), task.K * task.STEPS

    return {"fedavg": fedavg, "pfedme": pfedme}


if __name__ == "__main__":
    task.answer(make)
