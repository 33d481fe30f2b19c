"""A tidy loop over the clients in everyday PyTorch.

One model and one optimiser per role, made once and loaded with each client's numbers; minibatches
are cut before the loop; parameters move in one ``foreach`` call.
"""

import task
import torch
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

torch.set_num_threads(1)


def sequential():
    layers = []
    for weight, bias in task.start():
        linear = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T))
            linear.bias.copy_(torch.from_numpy(bias))
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def layers_of(model):
    return [(layer.weight.detach().T.numpy(), layer.bias.detach().numpy()) for layer in model[::2]]


def make(x, y):
    people = [(torch.from_numpy(a), torch.from_numpy(b)) for a, b in zip(x, y, strict=True)]
    start, mean, local, personal = (sequential() for _ in range(4))
    w0, total, w, theta = (list(one.parameters()) for one in (start, mean, local, personal))
    outer = torch.optim.SGD(w, lr=task.LR, foreach=True)
    inner = torch.optim.SGD(theta, lr=task.INNER_LR, foreach=True)

    def each_client(train):
        random = torch.Generator().manual_seed(0)
        with torch.no_grad():
            torch._foreach_zero_(total)
        for a, b in people:
            with torch.no_grad():
                torch._foreach_copy_(w, w0)
            train(a, b, random)
            with torch.no_grad():
                torch._foreach_add_(total, w, alpha=1 / len(people))
        return layers_of(mean)

    def fedavg(a, b, random):
        for _ in range(task.EPOCHS):
            for part in torch.randperm(len(b), generator=random).tensor_split(task.STEPS):
                outer.zero_grad()
                cross_entropy(local(a[part])[:, 0], b[part]).backward()
                outer.step()

    def pfedme(a, b, random):
        for part in torch.randperm(len(b), generator=random).tensor_split(task.STEPS):
            some, labels = a[part], b[part]
            with torch.no_grad():
                torch._foreach_copy_(theta, w)
            for _ in range(task.K):
                inner.zero_grad()
                cross_entropy(personal(some)[:, 0], labels).backward()
                with torch.no_grad():
                    tie = torch._foreach_sub(theta, w)
                    torch._foreach_add_([p.grad for p in theta], tie, alpha=task.GAMMA)
                inner.step()
            with torch.no_grad():
                tie = torch._foreach_sub(theta, w)
                torch._foreach_add_(w, tie, alpha=task.LR * task.GAMMA)

    return {
        "fedavg": lambda: (each_client(fedavg), task.EPOCHS * task.STEPS),
        "pfedme": lambda: (each_client(pfedme), task.K * task.STEPS),
    }


if __name__ == "__main__":
    task.answer(make)
