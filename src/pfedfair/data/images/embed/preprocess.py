"""Prepare an image for an encoder, according to its preprocessor_config.json.

The work is done by transformers' image processors for Pillow; settings whose effect is not
described here are refused.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line, read_json
from pfedfair.data.images.embed.pictures import LARGEST, BadImage

if TYPE_CHECKING:
    from PIL.Image import Image

KINDS = (
    "Beit", "Bit", "Blip", "CLIP", "ChineseCLIP", "ConvNext", "DeiT", "MobileNetV1", "Pvt",
    "Siglip", "ViT",
)  # fmt: skip
SETTINGS = {"do_resize", "size", "default_to_square", "resample", "do_center_crop", "crop_size"}
SETTINGS |= {"do_rescale", "rescale_factor", "do_normalize", "image_mean", "image_std"}
NAMES = ("image_processor_type", "feature_extractor_type")
IGNORED = {*NAMES, "processor_class", "do_convert_rgb", "transformers_version", "data_format"}
IGNORED |= {"_valid_processor_keys", "input_data_format", "disable_grouping", "device"}
MUST_BE_OFF = ("do_pad", "do_reduce_labels", "use_square_size", "reduce_labels")
MOST_PIXELS = 4096  # of a side


@dataclass(frozen=True)
class Steps:
    """Resize, crop the middle, scale and shift: in this order."""

    processor: str
    shortest: int | None  # the length of the shorter side after resizing
    exact: tuple[int, int] | None  # or height and width
    resample: int  # Pillow's number of the filter
    crop: tuple[int, int] | None
    rescale: float | None
    mean: tuple[float, float, float] | None
    std: tuple[float, float, float] | None


@dataclass(frozen=True)
class Preprocessing:
    """One of transformers' image processors, and a description of its steps."""

    processor: Any
    steps: Steps

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the encoder's input."""
        size = self.steps.crop or self.steps.exact
        assert size is not None
        return size

    def describe(self) -> dict[str, Any]:
        """Return the steps for the metadata of a file of embeddings."""
        steps = asdict(self.steps) | {"transparency": "dropped"}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in steps.items()}

    def __call__(self, image: Image) -> np.ndarray:
        """Return (3, height, width), float32."""
        short, long = sorted(image.size)
        if self.steps.shortest and self.steps.shortest**2 * long / short > LARGEST:
            width, height = image.size
            raise BadImage(f"{width} x {height} is too long and thin to be resized")
        pixels: np.ndarray = self.processor(image, return_tensors="np")["pixel_values"][0]
        return pixels.astype(np.float32, copy=False)


def read_preprocessing(folder: Path) -> Preprocessing:
    """Read an encoder's preprocessor_config.json."""
    path, given = _find_settings(folder)
    if not isinstance(given, dict):
        raise InputError(f"{path} is not a table of settings: take the file of the encoder.")
    name = next((given[key] for key in NAMES if isinstance(given.get(key), str)), None)
    kind = _base_name(name) if name else None
    if kind not in KINDS:
        known = ", ".join(f"{kind}ImageProcessor" for kind in KINDS)
        raise InputError(f"{path} asks for {name or 'no image processor'}: known are {known}.")
    able = SETTINGS | {"crop_pct"} if kind == "ConvNext" else SETTINGS
    settings = {key: value for key, value in given.items() if value is not None}
    for key, value in settings.items():
        off = key in MUST_BE_OFF and not value
        if key not in able and key not in IGNORED and not off:
            raise InputError(f"{path} has a setting that is not known here: {key} = {value}.")
    try:
        return _make(kind, {key: value for key, value in settings.items() if key in able})
    except Exception as error:  # transformers raises many kinds
        raise InputError(f"{path} cannot be used: {first_line(error)}.") from error


def _find_settings(folder: Path) -> tuple[Path, Any]:
    path = folder / "preprocessor_config.json"
    if path.is_file():
        return path, read_json(path)
    combined = folder / "processor_config.json"
    if combined.is_file() and isinstance(content := read_json(combined), dict):
        return combined, content.get("image_processor")
    raise InputError(
        f"{folder} has no preprocessor_config.json, which says how images are prepared: put the "
        "file that belongs to the encoder there."
    )


def _base_name(name: str) -> str:
    """Return a processor's name without the endings of its variants."""
    for ending in ("Fast", "Pil", "ImageProcessor", "FeatureExtractor"):
        name = name.removesuffix(ending)
    return name


def _make(kind: str, settings: dict[str, Any]) -> Preprocessing:
    import transformers

    made = getattr(transformers, f"{kind}ImageProcessorPil")(**settings)
    shortest, exact = _lengths(made.size)
    if made.do_center_crop and made.crop_size is None:
        raise ValueError("it has do_center_crop without a crop_size")
    crop = _lengths(made.crop_size)[1] if made.do_center_crop else None
    if made.do_resize and kind == "ConvNext":
        if shortest is None or crop is not None:
            raise ValueError("with crop_pct, size must be a shortest_edge, and do_center_crop off")
        side = (shortest, shortest)
        if shortest < 384:
            shortest, crop = int(shortest / float(made.crop_pct)), side
        else:
            shortest, exact = None, side
    if not made.do_resize:
        shortest = exact = None
    if crop is None and exact is None:
        raise ValueError("it says neither height and width nor a crop: images would differ in size")
    if made.resample not in range(6):
        raise ValueError(f"resample = {made.resample} is no filter of Pillow")
    if made.do_normalize and min(_colours(made.image_std)) <= 0:
        raise ValueError("image_std must be above zero")
    steps = Steps(
        processor=f"{kind}ImageProcessor",
        shortest=shortest,
        exact=exact,
        resample=int(made.resample),
        crop=crop,
        rescale=float(made.rescale_factor) if made.do_rescale else None,
        mean=_colours(made.image_mean) if made.do_normalize else None,
        std=_colours(made.image_std) if made.do_normalize else None,
    )
    return Preprocessing(made, steps)


def _lengths(size: Any) -> tuple[int | None, tuple[int, int] | None]:
    """Read a size: the shorter side, or height and width."""
    given = {key: value for key, value in dict(size).items() if value is not None}
    if not all(isinstance(value, int) and 0 < value <= MOST_PIXELS for value in given.values()):
        raise ValueError(f"{given} is not a size in pixels")
    if set(given) == {"shortest_edge"}:
        return given["shortest_edge"], None
    if set(given) == {"height", "width"}:
        return None, (given["height"], given["width"])
    raise ValueError(f"a size of {', '.join(given)} is not known here")


def _colours(value: Any) -> tuple[float, float, float]:
    each = [value] * 3 if isinstance(value, int | float) else value
    red, green, blue = map(float, each)
    return red, green, blue
