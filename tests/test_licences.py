"""The licences of what is installed, without a network."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def licences():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import licences
    finally:
        sys.path.pop(0)
    return licences


def test_every_package_that_a_user_gets_has_a_licence_that_we_accept(licences):
    assert licences.doubts() == {}
    found = licences.needed()
    assert {"torch", "numpy", "flwr", "ray", "transformers", "onnx"} <= set(found)
    assert len(found) > 50  # and what these need
    assert set(licences.ACCEPTED) <= set(found)  # the list has nobody who is gone


@pytest.mark.parametrize(
    ("said", "fine"),
    [
        ("MIT", True), ("BSD-3-Clause", True), ("Apache 2.0", True), ("MIT AND GPL-3.0", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False), ("MPL-2.0", False),
        ("Proprietary", False), ("", False), ("AGPL-3.0-only", False), ("UNKNOWN", False),
        ("LIMITED", False),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_unknown_or_copyleft_is_not_accepted(licences, said, fine):
    assert licences.permissive(said) is fine
