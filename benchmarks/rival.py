"""The rival: pFedMe as one would write it, client by client, without waste.

One model and one optimiser per role, made once and loaded with each client's numbers; minibatches
are cut before the loop; parameters move in one ``foreach`` call. Autograd and SGD do
the rest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from pfedfair._util import seeds
from pfedfair.federation import Federation, minibatches
from pfedfair.methods.pfedme import PFedMe
from pfedfair.models import MLP
from pfedfair.models.base import with_group


def sequential(network: MLP, w: torch.Tensor) -> torch.nn.Sequential:
    """Build the network that a flat row of parameters describes."""
    layers: list[torch.nn.Module] = []
    for _, fan_in, fan_out in network.layers:
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    vector_to_parameters(w, model.parameters())
    return model


def pfedme_round(
    federation: Federation, algorithm: PFedMe, network: MLP, seed: int
) -> torch.Tensor:
    start = sequential(network, network.init(seeds.generator(seed, seeds.INIT)))
    local, personal = (sequential(network, torch.zeros(network.size)) for _ in range(2))
    inner = torch.optim.SGD(personal.parameters(), lr=algorithm.alpha_inner, foreach=True)
    w0, w, theta = (list(model.parameters()) for model in (start, local, personal))
    answers = []
    for client, rows in enumerate(federation.partition.train):
        table = federation.table
        x = with_group(table.x[rows], table.s[rows], network.groups)
        y = table.y[rows]
        rng = seeds.generator(seed, seeds.MINIBATCH, client, 0)
        with torch.no_grad():
            torch._foreach_copy_(w, w0)
        for part in minibatches(np.arange(len(rows)), algorithm.batch, rng):
            bx, by = x[part], y[part]
            with torch.no_grad():
                torch._foreach_copy_(theta, w)
            for _ in range(algorithm.K):
                inner.zero_grad()
                binary_cross_entropy_with_logits(personal(bx)[:, 0], by).backward()
                with torch.no_grad():
                    tie = torch._foreach_sub(theta, w)
                    torch._foreach_add_([p.grad for p in theta], tie, alpha=algorithm.gamma)
                inner.step()
            with torch.no_grad():
                tie = torch._foreach_sub(theta, w)
                torch._foreach_add_(w, tie, alpha=algorithm.alpha * algorithm.gamma)
        answers.append(parameters_to_vector(local.parameters()).detach().clone())
    return torch.stack(answers).mean(0)
