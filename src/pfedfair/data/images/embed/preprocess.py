"""From an image to the numbers that an encoder takes, as its preprocessor_config.json says.

Equal to transformers' own image processors for Pillow; what we do not know is refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair._util.files import read_json
from pfedfair.data.images.embed.pictures import LARGEST, BadImage

if TYPE_CHECKING:
    from PIL.Image import Image

NEAREST, BILINEAR, BICUBIC = 0, 2, 3
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
HALF = ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])


def _kind(
    size: dict[str, int],
    colours: tuple[list[float], list[float]],
    resample: int = BICUBIC,
    crop: bool = False,
    square: bool = True,
) -> dict[str, Any]:
    own = {"size": size, "default_to_square": square, "do_center_crop": crop, "resample": resample}
    return own | {"image_mean": colours[0], "image_std": colours[1]}


def _side(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


# What each processor does where its file says nothing.
KINDS = {
    "Beit": _kind(_side(224), HALF),
    "Bit": _kind({"shortest_edge": 224}, CLIP, crop=True, square=False),
    "Blip": _kind(_side(384), CLIP),
    "CLIP": _kind({"shortest_edge": 224}, CLIP, crop=True, square=False),
    "ChineseCLIP": _kind({"shortest_edge": 224}, CLIP, crop=True, square=False),
    "ConvNext": _kind({"shortest_edge": 384}, HALF, square=False) | {"crop_pct": 224 / 256},
    "DeiT": _kind(_side(256), HALF, crop=True),
    "MobileNetV1": _kind({"shortest_edge": 256}, HALF, BILINEAR, crop=True, square=False),
    "Pvt": _kind(_side(224), IMAGENET),
    "Siglip": _kind(_side(224), HALF, square=False),
    "ViT": _kind(_side(224), HALF, BILINEAR),
}
SHARED = {
    "do_resize": True,
    "do_rescale": True,
    "do_normalize": True,
    "rescale_factor": 1 / 255,
    "crop_size": _side(224),
}
NAMES = ("image_processor_type", "feature_extractor_type")
SAY_NOTHING = {*NAMES, "processor_class", "do_convert_rgb", "transformers_version", "data_format"}
SAY_NOTHING |= {"_valid_processor_keys", "input_data_format", "disable_grouping", "device"}
MUST_BE_OFF = ("do_pad", "do_reduce_labels", "use_square_size", "reduce_labels")


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop the middle, scale and shift: in this order."""

    processor: str
    shortest: int | None  # the length of the shorter side after resizing
    exact: tuple[int, int] | None  # or height and width
    resample: int  # Pillow's number of the filter
    crop: tuple[int, int] | None
    rescale: float | None
    mean: tuple[float, float, float] | None
    std: tuple[float, float, float] | None

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of what the encoder gets."""
        size = self.crop or self.exact
        assert size is not None
        return size

    def describe(self) -> dict[str, Any]:
        told = asdict(self) | {"transparency": "dropped"}
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in told.items()
        }

    def __call__(self, image: Image) -> np.ndarray:
        """Return (3, height, width), float32."""
        pixels = np.asarray(self._resized(image))
        if self.crop is not None:
            pixels = _middle(pixels, *self.crop)
        values = np.empty((3, *pixels.shape[:2]), np.float32)
        for channel, table in enumerate(self._values):
            np.take(table, pixels[:, :, channel], out=values[channel], mode="clip")
        return values

    def _resized(self, image: Image) -> Image:
        from PIL.Image import Resampling

        width, height = image.size
        if self.exact is not None:
            new_height, new_width = self.exact
        elif self.shortest is not None:
            long = int(self.shortest * max(width, height) / min(width, height))
            tall = width <= height
            new_height, new_width = (long, self.shortest) if tall else (self.shortest, long)
        else:
            return image
        if new_height * new_width > LARGEST:
            raise BadImage(f"{width} x {height} is too long and thin to be resized")
        return image.resize((new_width, new_height), Resampling(self.resample))

    @cached_property
    def _values(self) -> np.ndarray:
        """What each of a channel's 256 values becomes, (3, 256)."""
        values = np.arange(256, dtype=np.float64)
        if self.rescale is not None:
            values *= self.rescale
        values = np.tile(values.astype(np.float32), (3, 1))
        if self.mean is None or self.std is None:
            return values
        mean, std = (np.array(each, np.float32)[:, None] for each in (self.mean, self.std))
        return (values - mean) / std


def read_preprocessing(folder: Path) -> Preprocessing:
    """Read an encoder's preprocessor_config.json."""
    path, given = _found(folder)
    if not isinstance(given, dict):
        raise InputError(f"{path} is not a table of settings: take the file of the encoder.")
    name = next((given[key] for key in NAMES if isinstance(given.get(key), str)), None)
    kind = _plain(name) if name else None
    if kind not in KINDS:
        known = ", ".join(f"{kind}ImageProcessor" for kind in KINDS)
        raise InputError(f"{path} asks for {name or 'no image processor'}: known are {known}.")
    told = SHARED | KINDS[kind]
    settings = told | {key: value for key, value in given.items() if value is not None}
    for key, value in settings.items():
        off = key in MUST_BE_OFF and not value
        if key not in told and key not in SAY_NOTHING and not off:
            raise InputError(f"{path} has a setting that is not known here: {key} = {value}.")
    try:
        return _checked(f"{kind}ImageProcessor", settings)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} cannot be used: {error}.") from error


def _found(folder: Path) -> tuple[Path, Any]:
    path = folder / "preprocessor_config.json"
    if path.is_file():
        return path, read_json(path)
    whole = folder / "processor_config.json"
    if whole.is_file() and isinstance(content := read_json(whole), dict):
        return whole, content.get("image_processor")
    raise InputError(
        f"{folder} has no preprocessor_config.json, which says how images are prepared: put the "
        "file that belongs to the encoder there."
    )


def _plain(name: str) -> str:
    """Take off the endings that tell variants of a processor apart."""
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        name = name.removesuffix(ending)
    return name


def _checked(processor: str, told: dict[str, Any]) -> Preprocessing:
    shortest, exact = _lengths(told["size"], told["default_to_square"])
    crop = _lengths(told["crop_size"], True)[1] if told["do_center_crop"] else None
    if told["do_resize"] and "crop_pct" in told:
        if shortest is None or crop is not None:
            raise ValueError("with crop_pct, size must be a shortest_edge, and do_center_crop off")
        side = (shortest, shortest)
        if shortest < 384:
            shortest, crop = int(shortest / float(told["crop_pct"])), side
        else:
            shortest, exact = None, side
    if not told["do_resize"]:
        shortest = exact = None
    if crop is None and exact is None:
        raise ValueError("it says neither height and width nor a crop: images would differ in size")
    if told["resample"] not in range(6):
        raise ValueError(f"resample = {told['resample']} is no filter of Pillow")
    normal = bool(told["do_normalize"])
    if normal and min(_colours(told["image_std"])) <= 0:
        raise ValueError("image_std must be above zero")
    return Preprocessing(
        processor=processor,
        shortest=shortest,
        exact=exact,
        resample=int(told["resample"]),
        crop=crop,
        rescale=float(told["rescale_factor"]) if told["do_rescale"] else None,
        mean=_colours(told["image_mean"]) if normal else None,
        std=_colours(told["image_std"]) if normal else None,
    )


def _lengths(size: Any, square: bool) -> tuple[int | None, tuple[int, int] | None]:
    """Read a size: the shorter side, or height and width."""
    if isinstance(size, int):
        size = _side(size) if square else {"shortest_edge": size}
    elif isinstance(size, list | tuple) and len(size) == 2:
        size = dict(zip(("height", "width"), size, strict=True))
    said = {key: value for key, value in size.items() if value is not None}
    if not all(isinstance(value, int) and 0 < value <= 4096 for value in said.values()):
        raise ValueError(f"{size} is not a size in pixels")
    if set(said) == {"shortest_edge"}:
        return said["shortest_edge"], None
    if set(said) == {"height", "width"}:
        return None, (said["height"], said["width"])
    raise ValueError(f"a size of {', '.join(said)} is not known here")


def _colours(value: Any) -> tuple[float, float, float]:
    each = [value] * 3 if isinstance(value, int | float) else value
    red, green, blue = map(float, each)
    return red, green, blue


def _middle(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Cut out the middle; what is missing is black."""
    (top, above, rows), (left, before, columns) = (
        (max((has - wants) // 2, 0), max((wants - has + 1) // 2, 0), min(has, wants))
        for has, wants in zip(pixels.shape[:2], (height, width), strict=True)
    )
    cut = pixels[top : top + rows, left : left + columns]
    if cut.shape[:2] == (height, width):
        return cut
    whole = np.zeros((height, width, 3), pixels.dtype)
    whole[above : above + rows, before : before + columns] = cut
    return whole
