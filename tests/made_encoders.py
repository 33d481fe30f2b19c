"""Encoders with random weights, saved as transformers does, and images of random colours."""

import json

import numpy as np
import torch
import transformers
from PIL import Image

transformers.logging.disable_progress_bar()
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32}
SMALL = {"size": {"shortest_edge": 36}, "crop_size": {"height": 32, "width": 32}}
BIT = {"image_processor_type": "BitImageProcessor", **SMALL}
WORDS = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
WORDS |= {"intermediate_size": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def save(model, folder, processor=BIT):
    """Save a model and how its images are prepared; return the model."""
    transformers.logging.set_verbosity_error()
    model.eval().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return model


def tiny(folder, seed=0):
    """Save a DINOv2 that takes a millisecond."""
    torch.manual_seed(seed)
    config = transformers.Dinov2Config(**TINY, patch_size=8, mlp_ratio=2)
    return save(transformers.Dinov2Model(config), folder)


def pictures(folder, count, seed=0, size=(40, 48), ending="png"):
    """Write images 000.png, 001.png, ... of random colours."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), dtype=np.uint8))
        coarse.resize(size, Image.Resampling.BILINEAR).save(folder / f"{number:03}.{ending}")
    return folder
