"""Networks on pixels: one large module, applied to one model at a time."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from pfedfair._util.errors import InputError
from pfedfair.models.architectures import PIXELS, build, check, layout
from pfedfair.models.base import Network

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's red, green and blue
MEMORY = 2**30  # bytes of activations of one slice of a batch, where it can be sliced


class Pixels(Network):
    """A network from `PIXELS` on images of `size` x `size` pixels, values from 0 to 255.

    A row is a model's parameters and then its buffers: mean, variance and number of batches of
    every batch normalisation. While it trains, these layers normalise by the batch's own
    statistics. The buffers are not moved by training: `settle` measures them, and from then on
    `logits` normalises by them. A model that is not settled is scored by the batch's statistics,
    too, so its scores depend on the other images of the batch.

    Nothing else is random or differs between training and use: dropout is off. S is not an input.
    It runs on a GPU if there is one; models stay on the CPU between calls.

    Parameters
    ----------
    name
        cnn, mlp, resnet18 or vit-b16.
    """

    unbatched = True  # of a padded batch the statistics would be wrong

    def __init__(self, name: str, size: int, outputs: int = 1) -> None:
        check(name, size)
        self.name, self.pixels, self.outputs = name, size, outputs
        self.words = f"{name} at {size} px"
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.module = layout(name, size, outputs)
        self.trained = {key: value.shape for key, value in self.module.named_parameters()}
        self.buffer_shapes = {key: value.shape for key, value in self.module.named_buffers()}
        self.measured = sum(shape.numel() for shape in self.buffer_shapes.values())
        self.size = self.measured + sum(shape.numel() for shape in self.trained.values())
        self.slice = max(1, MEMORY // (PIXELS[name].pixel_bytes * size**2))

    def init(self, rng: np.random.Generator) -> Tensor:
        """Let every layer draw its own initial values, from a seed drawn here."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**63)))
            module = build(self.name, self.pixels, self.outputs)
        both = *module.parameters(), *module.buffers()
        return torch.cat([tensor.detach().float().flatten() for tensor in both])

    def logits(self, w: Tensor, x: Tensor, s: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.stack([self._scores(row, one) for row, one in zip(w, x, strict=True)])

    def vjp(self, w: Tensor, x: Tensor, s: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        each = [self._one_vjp(row, one) for row, one in zip(w, x, strict=True)]

        def pullback(slope: Tensor) -> Tensor:
            return torch.stack([pull(one) for (_, pull), one in zip(each, slope, strict=True)])

        return torch.stack([scores for scores, _ in each]), pullback

    def settle(self, w: Tensor, batches: Callable[[], Iterable[Tensor]]) -> Tensor:
        """Measure the buffers: means over the batches of the batches' statistics."""
        if not self.measured:
            return w
        settled = w.to(self.device, copy=True)
        settled[:, -self.measured :] = 0
        with torch.no_grad(), self._by_batch(measure=True):
            for x in batches():
                for row, one in zip(settled, x, strict=True):
                    self._call(*self._parts(row), one)  # which moves the buffers in the row
        return settled.to(w.device)

    def like(self, outputs: int) -> Network:
        return Pixels(self.name, self.pixels, outputs)

    def to_dict(self) -> dict[str, Any]:
        about = {"name": self.name, "size": self.pixels, "outputs": self.outputs}
        return {"kind": "pixels", **about}

    # --- one model ------------------------------------------------------------------------------

    def _scores(self, row: Tensor, x: Tensor) -> Tensor:
        """Score by one model: by its statistics, or by the batch's if it is not settled."""
        trained, buffers = self._parts(row.to(self.device))
        if self.measured and not bool(buffers[-1] > 0):  # the last is a number of batches
            with self._by_batch():
                return self._call(trained, buffers, x).to(row.device)
        parts = [self._call(trained, buffers, part) for part in torch.split(x, self.slice)]
        return torch.cat(parts).to(row.device)

    def _one_vjp(self, row: Tensor, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the scores of one model in training, and the map from their slope to the row's.

        A batch that is too large is processed in slices, each once more for its gradient: that
        takes a third longer, and memory for one slice only. Batch statistics need the full batch.
        """
        trained, buffers = self._parts(row.to(self.device).detach())
        no_slope = torch.zeros_like(buffers)  # of the buffers
        if not self.measured and len(x) > self.slice:
            return self._scores(row, x).detach(), lambda slope: self._sliced(trained, x, slope)
        trained.requires_grad_()
        with torch.enable_grad(), self._by_batch():
            scores = self._call(trained, buffers, x)

        def pull(slope: Tensor) -> Tensor:
            slope = slope.to(self.device)
            (grad,) = torch.autograd.grad(scores, trained, slope, retain_graph=True)
            return torch.cat([grad, no_slope]).to(row.device)

        return scores.detach().to(row.device), pull

    def _sliced(self, trained: Tensor, x: Tensor, slope: Tensor) -> Tensor:
        total = torch.zeros_like(trained)
        trained = trained.detach().requires_grad_()
        parts = torch.split(x, self.slice), torch.split(slope.to(self.device), self.slice)
        for inputs, slopes in zip(*parts, strict=True):
            with torch.enable_grad():
                scores = self._call(trained, trained[:0], inputs)
            total += torch.autograd.grad(scores, trained, slopes)[0]
        return total.to(slope.device)

    def _parts(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """Split a model's row into its parameters and its buffers."""
        trained, buffers = torch.split(row, [self.parameters, self.measured])
        return trained, buffers

    def _call(self, trained: Tensor, buffers: Tensor, x: Tensor) -> Tensor:
        named = {**_shaped(trained, self.trained), **_shaped(buffers, self.buffer_shapes)}
        try:
            out: Tensor = functional_call(self.module, named, (self._inputs(x),))
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            raise InputError(
                f"{self.words} normalises by the images of a batch, and there is only one: "
                "give every client at least two."
            ) from error
        return out

    def _inputs(self, x: Tensor) -> Tensor:
        if x.shape[1:] != (3, self.pixels, self.pixels):
            shape = " x ".join(map(str, x.shape[1:]))
            raise InputError(
                f"A network {self.words} takes 3 x {self.pixels} x {self.pixels} numbers for each "
                f"image, these are {shape}: give images of that size."
            )
        mean, spread = (torch.tensor(v, device=self.device).view(3, 1, 1) for v in (MEAN, SPREAD))
        return (x.to(self.device).float() / 255 - mean) / spread

    @contextmanager
    def _by_batch(self, measure: bool = False) -> Iterator[None]:
        """Let batch normalisations use the statistics of the batch, and move the buffers or not."""
        layers = [layer for layer in self.module.modules() if isinstance(layer, nn.BatchNorm2d)]
        for layer in layers:
            layer.training, layer.track_running_stats = True, measure
        try:
            yield
        finally:
            for layer in layers:
                layer.training, layer.track_running_stats = False, True


def _shaped(flat: Tensor, shapes: dict[str, torch.Size]) -> dict[str, Tensor]:
    """View a flat row as tensors, by name."""
    pieces = torch.split(flat, [shape.numel() for shape in shapes.values()])
    return {name: piece.view(shape)
            for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}  # fmt: skip
