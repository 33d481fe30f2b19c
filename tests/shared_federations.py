"""Natural federations for tests, where there are any."""

import os
from pathlib import Path

import pytest

_there = Path(
    os.environ.get("PFEDFAIR_FEDERATIONS", Path(__file__).parents[2] / "shared" / "federations")
)
FEDERATIONS = _there if (_there / "README.md").is_file() else None
needs_federations = pytest.mark.skipif(
    FEDERATIONS is None, reason="needs the shared folder of federations (PFEDFAIR_FEDERATIONS)"
)
