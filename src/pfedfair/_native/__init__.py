"""Libraries in C that are built with the package, where there is a compiler.

They are in this folder; no other is searched. Without them, or with
``PFEDFAIR_KERNEL=0`` in the environment, PyTorch does the work, more slowly: see decision 23.
"""

import ctypes
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

FOLDER = Path(__file__).parent


def load(folder: Path, name: str, interface: int) -> ctypes.CDLL | None:
    """Return the library of this name in a folder, if it exists with this interface number."""
    if os.environ.get("PFEDFAIR_KERNEL") == "0":
        return None
    for path in (folder / f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES):
        if not path.is_file():
            continue
        try:
            library = ctypes.CDLL(str(path))
            library.pfedfair_interface.restype = ctypes.c_int64
            if library.pfedfair_interface() == interface:
                return library
        except (OSError, AttributeError):  # built for another system or version
            continue
    return None
