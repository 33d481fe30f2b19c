"""Small real computations: a table of our own with clients of unequal size."""

import gc
import sys

import pytest
import torch
from hypothesis import settings
from rich.console import Console

import pfedfair as pff
from made_people import people
from pfedfair import cli
from pfedfair._util import terminal
from pfedfair.studies.page import slider

# A busy machine is no failure, and the same code has the same outcome every time.
settings.register_profile("patient", deadline=None, derandomize=True)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices on a busy machine: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pfedfair(monkeypatch, capsys, tmp_path):
    """Run a command in this process; return its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(slider, "MOST", slider.LEAST)  # each target of a page takes time

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["pfedfair", *map(str, arguments)])
        monkeypatch.setattr(terminal, "console", Console())
        monkeypatch.setattr(terminal, "errors", Console(stderr=True))
        try:
            cli.main()
            code = 0
        except SystemExit as stop:
            code = stop.code
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="session")
def table() -> pff.Dataset:
    """With the inputs that tests of algorithms compute with; tables of your own have ramps."""
    return pff.from_frame(people(), "hired", "sex", drop=["site"], encoding="standard")


@pytest.fixture(scope="session")
def federation(table) -> pff.Federation:
    return table.federate(pff.partition.by_column("site", validation=0.2), seed=3)


@pytest.fixture(scope="session")
def compas() -> pff.Federation:
    return pff.load("compas").federate(pff.partition.fixed_shares())


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    return path


def pytest_collection_modifyitems(items):
    """Begin with the longest file, so that other processes do the rest meanwhile."""
    items.sort(key=lambda item: "test_faults" not in item.nodeid)


def pytest_collection_finish():
    """All modules are loaded, and stay: spare the collector of garbage half a second each time."""
    gc.freeze()
