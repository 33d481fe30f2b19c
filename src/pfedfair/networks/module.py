"""Any ``torch.nn.Module`` as a network, through ``torch.func``."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from pfedfair.errors import InputError


class Module:
    """Run one module for many rows of parameters at once.

    The module must map ``(n, d)`` to ``(n, 1)`` and keep no running statistics (so no batch
    normalisation: its buffers would mix the clients' data). Yours is copied, not changed. Every run
    starts from fresh values of the layers that can draw them (``reset_parameters``); parameters
    without such a layer start from the values that they have.
    """

    def __init__(self, module: nn.Module) -> None:
        if next(module.buffers(), None) is not None:
            raise InputError(
                f"{type(module).__name__} has buffers (running statistics): these would be shared "
                "between clients. Use layer normalisation instead of batch normalisation."
            )
        self.module = copy.deepcopy(module).eval()
        self.shapes = {name: p.shape for name, p in module.named_parameters()}
        self.size = sum(shape.numel() for shape in self.shapes.values())

    def init(self, rng: np.random.Generator) -> Tensor:
        """Let every layer draw its own initial values, from a seed drawn here."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            for layer in self.module.modules():
                if callable(reset := getattr(layer, "reset_parameters", None)):
                    reset()
        return nn.utils.parameters_to_vector(self.module.parameters()).detach().clone()

    def logits(self, w: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self._stacked(w, x)

    def vjp(self, w: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        logits, pull = vjp(lambda rows: self._stacked(rows, x), w)[:2]
        return logits, lambda slope: pull(slope)[0]

    def _stacked(self, w: Tensor, x: Tensor) -> Tensor:
        out: Tensor = vmap(self._one)(w, x)
        return out

    def _one(self, w: Tensor, x: Tensor) -> Tensor:
        pieces = torch.split(w, [shape.numel() for shape in self.shapes.values()])
        shaped = [p.view(shape) for p, shape in zip(pieces, self.shapes.values(), strict=True)]
        named = dict(zip(self.shapes, shaped, strict=True))
        out: Tensor = functional_call(self.module, named, (x,))
        return out
