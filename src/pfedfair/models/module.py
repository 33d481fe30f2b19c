"""Any ``torch.nn.Module`` as a network, through ``torch.func``."""

import copy
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from pfedfair._util.errors import InputError
from pfedfair.models.base import Network, with_group


class Module(Network):
    """Run one module for many rows of parameters at once.

    The module maps the inputs ``(n, ...)`` to ``(n, outputs)``. If its ``forward`` takes a second
    argument, it is given the groups ``(n,)`` there; with `groups` it gets them behind flat inputs,
    as `MLP` does. It runs in evaluation mode: buffers, such as the running statistics of a batch
    normalisation, are the same for all clients and do not change. The module is copied.
    Every run starts from fresh values of the layers that can draw them (``reset_parameters``);
    parameters without such a layer start from the values that they have.
    """

    def __init__(self, module: nn.Module, groups: int = 0) -> None:
        self.module = copy.deepcopy(module).eval()
        self.groups = groups
        self.words = f"module {type(module).__name__}"
        self.shapes = {name: p.shape for name, p in module.named_parameters()}
        self.size = sum(shape.numel() for shape in self.shapes.values())
        positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        taken = [p for p in signature(module.forward).parameters.values() if p.kind in positional]
        self.takes_s = any(p.name == "s" or p.default is Parameter.empty for p in taken[1:2])

    def init(self, rng: np.random.Generator) -> Tensor:
        """Let every layer draw its own initial values, from a seed drawn here."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            for layer in self.module.modules():
                has_parameters = any(True for _ in layer.parameters(recurse=False))
                if has_parameters and callable(reset := getattr(layer, "reset_parameters", None)):
                    before = {name: buffer.clone() for name, buffer in layer.named_buffers()}
                    reset()  # which resets running statistics, too
                    for name, buffer in layer.named_buffers():
                        buffer.copy_(before[name])
        return nn.utils.parameters_to_vector(self.module.parameters()).detach().clone()

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        with torch.no_grad():
            return self._stacked(w, x, s)

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        logits, pull = vjp(lambda rows: self._stacked(rows, x, s), w)[:2]
        return logits, lambda slope: pull(slope)[0]

    def to_dict(self) -> dict[str, Any]:
        shapes = {name: list(shape) for name, shape in self.shapes.items()}
        return {"kind": "module", "words": self.words, "shapes": shapes, "groups": self.groups}

    def buffers(self) -> dict[str, Tensor]:
        return {name: buffer.clone() for name, buffer in self.module.named_buffers()}

    @classmethod
    def restore(
        cls, about: dict[str, Any], buffers: dict[str, Tensor], module: nn.Module | None
    ) -> Self:
        """Make the network again from what was saved and the same module."""
        if module is None:
            raise InputError(
                f"The saved network is a {about['words']}: give the same module, as in "
                "load_model(folder, client, module=...)."
            )
        made = cls(module, about["groups"])
        if {name: list(shape) for name, shape in made.shapes.items()} != about["shapes"]:
            raise InputError(f"The {made.words} has other parameters than the saved one.")
        for name, buffer in made.module.named_buffers():
            buffer.copy_(buffers[name])
        return made

    def _stacked(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        out: Tensor = vmap(self._one)(w, with_group(x, s, self.groups), s)
        return out

    def _one(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        pieces = torch.split(w, [shape.numel() for shape in self.shapes.values()])
        shaped = [p.view(shape) for p, shape in zip(pieces, self.shapes.values(), strict=True)]
        named = dict(zip(self.shapes, shaped, strict=True))
        out: Tensor = functional_call(self.module, named, (x, s) if self.takes_s else (x,))
        return out
