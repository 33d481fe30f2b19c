"""Modules that score images: four architectures, each made from its name and the image size.

A module takes ``(n, 3, size, size)`` numbers around 0 and returns ``(n, outputs)`` scores.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from pfedfair._util.errors import InputError, known


@dataclass(frozen=True)
class Form:
    """How to make a module for a size and outputs, and what it takes.

    `pixel_bytes` are roughly the bytes of activations that a gradient needs for each pixel; sizes
    are multiples of `grid`. `work` is the time of an image of 64 x 64 pixels, as the number of
    weights of a perceptron that takes as long; a `heavy` one needs a GPU for a complete training.
    """

    make: Callable[[int, int], nn.Module]
    pixel_bytes: int
    work: float
    grid: int = 1
    heavy: bool = False


def check(name: str, size: int) -> None:
    """Refuse an unknown network, and an image size that it does not support."""
    form = PIXELS[known("pixel network", name, PIXELS)]
    if size < SMALLEST or size % form.grid:
        grid = f", a multiple of {form.grid}" if form.grid > 1 else ""
        raise InputError(
            f"{name} takes images of at least {SMALLEST} x {SMALLEST} pixels{grid}; got {size}."
        )


def cnn(size: int, outputs: int) -> nn.Module:
    """Make three 3 x 3 convolutions of 8, 16 and 32 channels, each pooled, and a layer of 128."""
    layers: list[nn.Module] = []
    for before, after in ((3, 8), (8, 16), (16, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    wide = 32 * (size // 8) ** 2
    head = nn.Flatten(), nn.Linear(wide, 128), nn.ReLU(), nn.Linear(128, outputs)
    return nn.Sequential(*layers, *head)


class Thumbnail(nn.Module):
    """Resize to 32 x 32 pixels, each the mean of an area."""

    def forward(self, x: Tensor) -> Tensor:
        return interpolate(x, 32, mode="area")


def mlp(size: int, outputs: int) -> nn.Module:
    """Make three layers, 500 and 256 wide and the outputs, on images of 32 x 32 pixels."""
    widths = (3 * 32 * 32, 500), (500, 256)
    hidden = [layer for fans in widths for layer in (nn.Linear(*fans), nn.ReLU())]
    return nn.Sequential(Thumbnail(), nn.Flatten(), *hidden, nn.Linear(256, outputs))


class Scores(nn.Module):
    """A classifier of transformers that returns the scores only."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.body(pixel_values=x, return_dict=True).logits
        return out


def resnet18(size: int, outputs: int) -> nn.Module:
    """Make a residual network of 18 layers (He et al., CVPR 2016) of transformers."""
    lib = transformers("resnet18")
    config = lib.ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512],
        embedding_size=64, num_labels=outputs,
    )  # fmt: skip
    return Scores(lib.ResNetForImageClassification(config))


def vit(size: int, outputs: int) -> nn.Module:
    """Make a vision transformer on patches of 16 x 16 pixels (Dosovitskiy et al., ICLR 2021)."""
    lib = transformers("vit-b16")
    return Scores(lib.ViTForImageClassification(lib.ViTConfig(image_size=size, num_labels=outputs)))


def transformers(name: str) -> Any:
    """Import the library when it is needed: it is large."""
    try:
        return import_module("transformers")
    except ImportError as error:
        raise InputError(
            f"{name} needs the package transformers: pip install 'pfedfair[images]'."
        ) from error


def build(name: str, size: int, outputs: int) -> nn.Module:
    """Make a module with the initial values that its layers draw, in evaluation mode."""
    return PIXELS[name].make(size, outputs).eval()


def layout(name: str, size: int, outputs: int) -> nn.Module:
    """Make a module with shapes only, on PyTorch's meta device, without memory for values.

    The running statistics of its batch normalisations are means over all batches.
    """
    with torch.device("meta"):
        module = build(name, size, outputs)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None
    return module


SMALLEST = 16
PIXELS: dict[str, Form] = {
    "cnn": Form(cnn, pixel_bytes=280, work=5e6),
    "mlp": Form(mlp, pixel_bytes=20, work=4e5),
    "resnet18": Form(resnet18, pixel_bytes=700, work=6e7),
    "vit-b16": Form(vit, pixel_bytes=4000, work=4e8, heavy=True, grid=16),
}
