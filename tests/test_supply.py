"""What is installed: files of hashes, and bills of materials, without a network."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINNED = re.compile(r"([a-z0-9.-]+)(?:\[[a-z, ]+\])?==([^ ]+)(?: ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


@pytest.fixture(scope="module")
def scripts():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return {name: import_module(name) for name in ("licences", "hashes", "sbom")}
    finally:
        sys.path.pop(0)


def read(name):
    """Versions by package, of a file and of those that it includes."""
    found = {}
    for line in (ROOT / "requirements" / name).read_text("utf-8").splitlines():
        if line.startswith("-r "):
            found |= read(line.removeprefix("-r "))
        elif pinned := PINNED.fullmatch(line):
            found[pinned[1]] = pinned[2]
        else:  # no name of an index, no address
            assert HASH.fullmatch(line) or line == "# By scripts/hashes.py.", line
    return found


def test_there_is_a_file_of_hashes_for_each_extra_with_all_that_it_needs(scripts):
    extras = [name or "core" for name in scripts["licences"].extras()]
    assert {path.stem for path in (ROOT / "requirements").glob("*.txt")} == {*extras, "torch"}
    for name in scripts["licences"].extras():
        needed = scripts["licences"].graph("", name).keys() - {"pfedfair"}
        found = read(f"{name or 'core'}.txt") | read("torch.txt")
        assert needed <= found.keys()


def test_versions_with_hashes_are_those_of_the_constraints(scripts):
    lines = (ROOT / "constraints.txt").read_text("utf-8").lower().replace("_", "-").splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    for path in (ROOT / "requirements").glob("*.txt"):
        found = read(path.name)
        assert found
        assert {n: v for n, v in found.items() if tested.get(n, v) != v} == {}


def test_the_bill_of_materials_has_every_package_and_what_it_needs(scripts, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sbom.py", str(tmp_path)])
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    scripts["sbom"].main()
    assert len(list(tmp_path.iterdir())) == len(scripts["licences"].extras())
    bill = json.loads((tmp_path / "flower.cdx.json").read_text("utf-8"))
    names = {one["name"]: one for one in bill["components"]}
    assert names.keys() == scripts["licences"].graph("", "flower").keys() - {"pfedfair"}
    assert all(one["licenses"] and one["version"] in one["purl"].replace("%2B", "+")
               for one in names.values())  # fmt: skip
    needs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert names["flwr"]["purl"] in needs[bill["metadata"]["component"]["bom-ref"]]
    assert names["cryptography"]["purl"] in needs[names["flwr"]["purl"]]
