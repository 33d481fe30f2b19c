"""Write a bill of materials for the core and each extra, in CycloneDX's JSON, as installed.

    python scripts/sbom.py FOLDER
    python scripts/sbom.py --check FOLDER

Nothing is downloaded: packages, versions, licences and what needs what are those of the
environment, and so of its platform. With --check the files are validated by CycloneDX's own
library, which `make sbom` installs apart.
"""

import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

VERSION = "1.6"  # of CycloneDX


def component(name: str) -> dict[str, Any]:
    """Return what the bill says of an installed package."""
    from licences import licence

    version = metadata.version(name)
    purl = f"pkg:pypi/{name}@{quote(version)}"
    found = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if text := licence(name):
        spdx = metadata.metadata(name).get("License-Expression")
        found["licenses"] = [{"expression": text} if spdx else {"license": {"name": text}}]
    return found


def bill(extra: str) -> dict[str, Any]:
    """Return the bill of the core and an extra; the core's own if that is ""."""
    from licences import OWN, graph

    needs = graph("", extra)
    every = {name: component(name) for name in sorted(needs)}
    refs = {name: about["bom-ref"] for name, about in every.items()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": VERSION,
        "version": 1,
        "metadata": {"component": every.pop(OWN)},
        "components": list(every.values()),
        "dependencies": [
            {"ref": refs[name], "dependsOn": [refs[other] for other in sorted(needs[name])]}
            for name in refs
        ],
    }


def check(folder: Path) -> None:
    """Validate the files by CycloneDX's schema."""
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    for path in sorted(folder.glob("*.cdx.json")):
        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(path.read_text("utf-8"))
        if error:
            sys.exit(f"{path}: {error}")


def main() -> None:
    folder = Path(sys.argv[-1])
    if "--check" in sys.argv:
        return check(folder)
    from licences import extras

    folder.mkdir(parents=True, exist_ok=True)
    for extra in extras():
        text = json.dumps(bill(extra), indent=1) + "\n"
        (folder / f"{extra or 'core'}.cdx.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
