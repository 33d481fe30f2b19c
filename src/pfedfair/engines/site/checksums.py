"""Tensors in a file with a checksum, which detects a single flipped bit.

The checksum covers names, types, shapes, numbers and metadata, so it does not depend on the layout
of the file. It is no signature: anyone who can write the file can write another checksum.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from pfedfair._util.files import atomic
from pfedfair._util.limits import parse_json, regular


def write(
    path: Path,
    tensors: Mapping[str, Tensor],
    about: Mapping[str, Any] | None = None,
    private: bool = False,
) -> None:
    """Write tensors and metadata; a `private` file can be read by its owner only."""
    copies = {name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    words = json.dumps(dict(about or {}))
    with atomic(path) as temporary:
        if private:
            temporary.touch(mode=0o600)
        save_file(copies, temporary, metadata={"about": words, "sha256": _sum(copies, words)})


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the metadata; raise if the file is not as it was written."""
    with safe_open(regular(path), framework="pt") as file:
        metadata = file.metadata() or {}
        # Copies: the checked tensors are those that are used, even if the file changes.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    if metadata.get("sha256") != _sum(tensors, metadata.get("about", "")):
        raise ValueError("its checksum does not fit: a bit was lost, or another program wrote it")
    return tensors, dict(parse_json(metadata["about"]))


def about(path: Path) -> dict[str, Any]:
    """Return the metadata only, unchecked."""
    with safe_open(regular(path), framework="pt") as file:
        return dict(parse_json((file.metadata() or {})["about"]))


def _sum(tensors: Mapping[str, Tensor], words: str) -> str:
    found = hashlib.sha256(words.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
