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


def extras() -> dict[str, list[str]]:
    """What the core ("") and each extra for users asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = {"": project["dependencies"]} | project["optional-dependencies"]
    return {name: texts for name, texts in found.items() if name != DEVELOPERS}


def graph(*names: str) -> dict[str, set[str]]:
    """Packages of these extras, and all that they need, by what needs them; ours is the first."""
    asked = extras()
    found: dict[str, set[str]] = {OWN: set()}
    seen, waiting = set[tuple[str, str]](), [(OWN, text) for name in names for text in asked[name]]
    while waiting:
        by, text = waiting.pop()
        one = Requirement(text)
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name == OWN:
            waiting += [(OWN, text) for extra in one.extras for text in asked[extra]]
            continue
        found[by].add(name)
        found.setdefault(name, set())
        for extra in {"", *one.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            waiting += [(name, text) for text in _of(name, extra)]
    return found


def needed() -> list[str]:
    """Names of the packages of the core and the users' extras, and all that these need."""
    return sorted(set(graph(*extras())) - {OWN})


def _of(name: str, extra: str) -> Iterator[str]:
    try:
        texts = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return
    for text in texts:
        marker = Requirement(text).marker
        if marker is None or marker.evaluate({"extra": extra}):
            yield text


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
