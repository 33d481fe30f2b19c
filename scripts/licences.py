"""Look at the licences of all packages that pfedfair brings, as installed: nothing is downloaded.

    python scripts/licences.py

Packages are those of the core and of every extra for users, and what they need in turn. A licence
must be a permissive one; a package with another one must be in `ACCEPTED`, with the reason.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
OWN, DEVELOPERS = "pfedfair", "dev"
PERMISSIVE = re.compile(
    r"\b(MIT|MIT-CMU|BSD|0?BSD-[023]-Clause|Apache|ISC|PSF|PSF-2\.0|Python Software Foundation|"
    r"Python-2\.0|Unlicense|Zlib|HPND|CC0|BSL-1\.0|Boost|Historical Permission)\b",
    re.IGNORECASE,
)
COPYLEFT = re.compile(r"\b[AL]?GPL|General Public|Mozilla|MPL|EUPL|CeCILL|SSPL|\bEPL|Eclipse", re.I)
ACCEPTED = {
    "certifi": "MPL-2.0: a list of certificates, used as it is",
    "pathspec": "MPL-2.0: used as it is, by Flower",
    "tqdm": "MPL-2.0 and MIT: used as it is",
}


def licence(name: str) -> str:
    """What an installed package says of its licence."""
    about = metadata.metadata(name)
    expression = about.get("License-Expression")
    if expression:
        return expression
    task = [c for c in about.get_all("Classifier") or () if c.startswith("License ::")]
    if task:
        return "; ".join(kind.split(" :: ")[-1] for kind in task)
    return (about.get("License") or "").strip().split("\n")[0]


def permissive(said: str) -> bool:
    return PERMISSIVE.search(said) is not None and COPYLEFT.search(said) is None


def needed() -> list[str]:
    """Names of the packages of the core and the users' extras, and all that these need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    first = [
        *project["dependencies"],
        *(r for k, v in extras.items() if k != DEVELOPERS for r in v),
    ]
    found: dict[tuple[str, str], None] = {}
    waiting = [Requirement(text) for text in first]
    while waiting:
        one = waiting.pop()
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        for extra in ("", *one.extras):
            if name != OWN and (name, extra) not in found:
                found[name, extra] = None
                waiting += _of(name, extra)
    return sorted({name for name, _ in found})


def _of(name: str, extra: str) -> Iterator[Requirement]:
    try:
        texts = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return
    for one in map(Requirement, texts):
        if one.marker is None or one.marker.evaluate({"extra": extra}):
            yield one


def doubts() -> dict[str, str]:
    """Packages whose licence is unknown or copyleft, and not accepted; and what it says."""
    found = {}
    for name in needed():
        try:
            said = licence(name)
        except metadata.PackageNotFoundError:
            found[name] = "it is not installed"
            continue
        if not permissive(said) and name not in ACCEPTED:
            found[name] = said or "it says nothing"
    return found


if __name__ == "__main__":
    for name in needed():
        print(f"{name}: {ACCEPTED.get(name) or licence(name)}")
    if found := doubts():
        sys.exit("Not accepted: " + "; ".join(f"{name} ({said})" for name, said in found.items()))
