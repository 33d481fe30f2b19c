"""The bundled tables; README.md beside this file says where each comes from."""

from __future__ import annotations

import io
from importlib.resources import files


def open_bundled(name: str) -> io.BytesIO:
    return io.BytesIO((files(__package__) / name).read_bytes())
