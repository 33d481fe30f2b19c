"""The environment that the bytes of results depend on: a machine's software and processor."""

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pfedfair

PACKAGES = ("torch", "numpy", "scipy", "pandas")  # that numbers depend on


@cache
def software() -> dict[str, str]:
    """Return the versions of software, and a digest of our code, as it changes between versions."""
    versions = {"Python": ".".join(platform.python_version_tuple()[:2])}
    versions |= {"pfedfair": pfedfair.__version__}
    versions |= {package: version(package).partition("+")[0] for package in PACKAGES}
    return versions | {"pfedfair's code": _code()}


def difference(required: dict[str, str], installed: dict[str, str]) -> str:
    """Describe the first difference; "" if there is none.

    >>> difference({"torch": "2.13.0"}, {"torch": "2.12.1"})
    'has torch 2.12.1, where the command was typed it is 2.13.0'
    >>> difference({"torch": "2.13.0"}, {"torch": "2.13.0"})
    ''
    """
    for name, wanted in required.items():
        if installed.get(name) != wanted:
            has = f"has {name} {installed.get(name)}"
            return f"{has}, where the command was typed it is {wanted}"
    return ""


def processor() -> str:
    """Return the kind of processor, by which PyTorch chooses its kernels."""
    import torch

    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _code() -> str:
    root, digest = Path(pfedfair.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name, content = path.relative_to(root).as_posix(), path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]
