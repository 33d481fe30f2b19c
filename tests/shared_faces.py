"""The face images and embeddings for tests, where there are any."""

import os
from pathlib import Path

import pytest

_there = Path(os.environ.get("PFEDFAIR_FACES", Path(__file__).parents[2] / "shared" / "faces"))
FACES = _there if (_there / "README.md").is_file() else None
needs_faces = pytest.mark.skipif(
    FACES is None, reason="needs the shared folder of faces (PFEDFAIR_FACES)"
)
