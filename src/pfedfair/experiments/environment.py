"""What the bytes of results depend on: the software of a machine, and its processor."""

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pfedfair

PACKAGES = ("torch", "numpy", "scipy", "pandas")  # that numbers depend on


@cache
def software() -> dict[str, str]:
    """Return the versions of what computes, and a digest of our code: it changes in between."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    found |= {"pfedfair": pfedfair.__version__}
    found |= {package: version(package).partition("+")[0] for package in PACKAGES}
    return found | {"pfedfair's code": _code()}


def difference(theirs: dict[str, str], ours: dict[str, str]) -> str:
    """Describe the first difference; "" if there is none.

    >>> difference({"torch": "2.13.0"}, {"torch": "2.12.1"})
    'has torch 2.12.1, where the command was typed it is 2.13.0'
    >>> difference({"torch": "2.13.0"}, {"torch": "2.13.0"})
    ''
    """
    for name, wanted in theirs.items():
        if ours.get(name) != wanted:
            has = f"has {name} {ours.get(name)}"
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
