"""Libraries in C: used if they are ours, of this time, and not switched off."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pfedfair import _native
from pfedfair._native import kernel
from pfedfair.methods.newton import lookup

LIBRARIES = {"_kernel": kernel, "_lookup": lookup}
each = pytest.mark.parametrize(("name", "module"), LIBRARIES.items(), ids=LIBRARIES)


def test_they_can_be_switched_off():
    names = [module.__name__ for module in LIBRARIES.values()]
    code = f"import {', '.join(names)}; print(*({', '.join(f'{n}.LIBRARY' for n in names)},))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PFEDFAIR_KERNEL": "0", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "None None\n"


@each
def test_a_library_that_is_not_ours_is_not_used(name, module, tmp_path):
    assert module.load(tmp_path) is None
    (tmp_path / f"{name}.so").write_text("no library")
    assert module.load(tmp_path) is None
    other = Path(sys.modules["_ctypes"].__file__)  # a library with other functions
    shutil.copy(other, tmp_path / f"{name}.so")
    assert module.load(tmp_path) is None


@each
def test_a_library_of_another_time_is_not_used(name, module, monkeypatch):
    if module.LIBRARY is None:
        pytest.skip("it was not built, is switched off, or is not for here")
    assert module.load(_native.FOLDER) is not None
    monkeypatch.setattr(module, "INTERFACE", -1)
    assert module.load(_native.FOLDER) is None


def test_arguments_are_checked_without_assertions():
    """`python -O` leaves assertions out: what a server sends must not reach C unchecked."""
    refusals = (
        "tests/_native/test_kernel.py::test_arguments_that_do_not_fit_are_refused",
        "tests/methods/newton/test_lookup.py::test_shapes_that_do_not_fit_are_refused",
        "tests/_util/test_noise.py::test_an_epsilon_without_noise_is_refused",
    )
    optimised = [sys.executable, "-O", "-W", "ignore", "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*optimised, "-o", "filterwarnings=", *refusals],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout or kernel.LIBRARY is None


@pytest.mark.parametrize("folder", ["_native", "_util"])
def test_there_are_no_assertions_beside_c_and_noise(folder):
    for path in (Path(_native.__file__).parents[1] / folder).glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], path.name
