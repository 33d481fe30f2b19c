"""A vision model as an encoder: one row of numbers for each image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pfedfair._util.errors import InputError, known, option
from pfedfair._util.files import first_line, read_json
from pfedfair.data.images.embed import checkpoints
from pfedfair.data.images.embed.checkpoints import Checkpoint
from pfedfair.data.images.embed.preprocess import Preprocessing, read_preprocessing

POOLINGS = ("cls", "projection", "pooled", "mean")
HAS_HEAD = ("siglip", "clip", "blip")  # whose pooler was trained on images
NOT_USED = ("mask_token", "position_ids")  # for training only, and computed ones


@dataclass(frozen=True)
class Encoder:
    checkpoint: Checkpoint
    model: torch.nn.Module
    preprocessing: Preprocessing
    pooling: str
    first: int  # number of tokens before those of the image
    width: int = 0

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Return (n, width) for (n, 3, height, width)."""
        with torch.inference_mode():
            outputs = self.model(pixel_values=torch.from_numpy(pixels))
            return self._pooled(outputs).float().numpy()

    def _pooled(self, outputs: Any) -> torch.Tensor:
        if self.pooling == "projection":
            return torch.as_tensor(outputs.image_embeds)
        hidden: torch.Tensor = outputs.last_hidden_state
        if self.pooling == "pooled":
            pooled = getattr(outputs, "pooler_output", None)
            return hidden.mean((2, 3)) if pooled is None else pooled.flatten(1)
        if self.pooling == "cls":
            return hidden[:, 0]
        return hidden.mean((2, 3)) if hidden.ndim == 4 else hidden[:, self.first :].mean(1)


def load(name: str, revision: str | None = None, pooling: str | None = None) -> Encoder:
    """Load and test an encoder; remote code is not run, and no weight may be random."""
    if pooling is not None:
        known("pooling", pooling, POOLINGS)
    try:
        import PIL  # noqa: F401
        import transformers
    except ImportError as error:
        raise InputError("Encoders need more: pip install 'pfedfair[images]'.") from error
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    checkpoint = checkpoints.find(name, revision)
    preprocessing = read_preprocessing(checkpoint.folder)
    model, missing = _model(checkpoint)
    encoder = Encoder(checkpoint, model, preprocessing, "mean", _tokens_before(model))
    outputs = _try_image(encoder)
    chosen = pooling or _choose(model, outputs)
    _check_pooling(chosen, outputs, encoder)
    random = [key for key in missing if not _unused(key, chosen)]
    if random:
        raise InputError(
            f"{checkpoint.folder} lacks weights of {type(model).__name__}, which would be random: "
            f"{', '.join(sorted(random)[:3])}{' and others' if len(random) > 3 else ''} "
            f"({len(random)} of {len(list(model.parameters()))})."
        )
    parts = (checkpoint, model, preprocessing, chosen, encoder.first)
    width = Encoder(*parts)._pooled(outputs).shape[1]
    return Encoder(*parts, width)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads: the rounding may depend on their number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _model(checkpoint: Checkpoint) -> tuple[torch.nn.Module, set[str]]:
    from transformers import AutoConfig

    folder, settings = checkpoint.folder, read_json(checkpoint.folder / "config.json")
    if "quantization_config" in settings:
        raise InputError(f"{folder} is quantised: take the encoder's own weights.")
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        kind = settings.get("model_type", "none")
        raise InputError(
            f"{folder / 'config.json'} cannot be used (model_type {kind}: {first_line(error)}): "
            "only models that transformers itself has are loaded."
        ) from error
    kind, config = _vision_class(checkpoint, config)
    if getattr(config, "num_channels", 3) != 3:
        raise InputError(f"{folder} takes {config.num_channels} channels: choose one for RGB.")
    try:
        model, info = kind.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            attn_implementation="sdpa" if kind._supports_sdpa else "eager",
            output_loading_info=True,
        )
    except Exception as error:
        raise InputError(
            f"The weights in {folder} do not fit its config.json ({first_line(error)}): download "
            "both again."
        ) from error
    return model.eval(), set(info["missing_keys"])


def _vision_class(checkpoint: Checkpoint, config: Any) -> tuple[Any, Any]:
    """Return the vision model's class for a config; with a projection if the weights have one."""
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    inner = getattr(config, "vision_config", None) or config
    known_one = type(inner) in MODEL_MAPPING and not config.model_type.startswith("timm")
    kind: Any = MODEL_MAPPING[type(inner)] if known_one else None
    if not isinstance(kind, type) or getattr(kind, "main_input_name", "") != "pixel_values":
        raise InputError(
            f"{checkpoint.folder} holds a {config.model_type} model, which is not one for images: "
            "choose a vision model, such as dinov2 or clip."
        )
    if "visual_projection.weight" in checkpoint.keys:
        if inner is not config and hasattr(config, "projection_dim"):
            inner.projection_dim = config.projection_dim
        kind = getattr(transformers, f"{kind.__name__}WithProjection", kind)
    return kind, inner


def _tokens_before(model: Any) -> int:
    """Count the tokens that are not of the image: class, registers, distillation."""
    names = {name.rsplit(".", 1)[-1] for name, _ in model.named_parameters()}
    if not names & {"cls_token", "class_token", "class_embedding"}:
        return 0
    registers = getattr(model.config, "num_register_tokens", 0) or 0
    return 1 + registers + ("distillation_token" in names)


def _try_image(encoder: Encoder) -> Any:
    """Return the outputs for a test image; refuse a model that fails or draws random numbers."""
    height, width = encoder.preprocessing.size
    pixels = torch.linspace(-1, 1, 3 * height * width).reshape(1, 3, height, width)
    folder, before = encoder.checkpoint.folder, torch.get_rng_state()
    try:
        with torch.inference_mode(), threads(1):  # more would only wait for one another
            outputs = encoder.model(pixel_values=pixels)
        outputs.last_hidden_state  # noqa: B018
    except Exception as error:
        raise InputError(
            f"{folder} does not take images of {height} x {width}, as its preprocessor_config.json "
            f"makes them ({first_line(error)})."
        ) from error
    if not torch.equal(torch.get_rng_state(), before):
        torch.set_rng_state(before)
        raise InputError(
            f"{folder} gives other numbers for the same image each time (it masks parts at "
            "random): choose another encoder."
        )
    return outputs


def _choose(model: Any, outputs: Any) -> str:
    """Return the pooling that makes the image's embedding."""
    if getattr(outputs, "image_embeds", None) is not None:
        return "projection"
    if outputs.last_hidden_state.ndim == 4:
        return "pooled"
    trained = any(model.config.model_type.startswith(head) for head in HAS_HEAD)
    if trained and getattr(outputs, "pooler_output", None) is not None:
        return "pooled"
    return "cls" if _tokens_before(model) else "mean"


def _check_pooling(pooling: str, outputs: Any, encoder: Encoder) -> None:
    hidden, pooled = outputs.last_hidden_state, getattr(outputs, "pooler_output", None)
    has = {
        "projection": getattr(outputs, "image_embeds", None) is not None,
        "pooled": pooled is not None or hidden.ndim == 4,
        "cls": hidden.ndim == 3 and encoder.first > 0,
        "mean": True,
    }
    if not has[pooling]:
        can = ", ".join(name for name in POOLINGS if has[name])
        name = type(encoder.model).__name__
        given = option("pooling", pooling)
        raise InputError(f"{given} is not possible with {name}: choose {can}.")


def _unused(key: str, pooling: str) -> bool:
    parts = key.split(".")
    return parts[-1] in NOT_USED or (pooling != "pooled" and bool({"pooler", "head"} & set(parts)))
