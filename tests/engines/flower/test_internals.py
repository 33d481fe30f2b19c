"""Every internal of Flower that we use is in one list, which is checked when a program starts."""

import ast
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from flower_sites import LocalGrid
from flwr.app import Context, RecordDict

import pfedfair
from pfedfair.engines.flower import internals, server_app, signing
from pfedfair.engines.flower.internals import ATTRIBUTES, MODULES

DOCUMENTED = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy"}
SOURCE = Path(pfedfair.__file__).parent


def test_this_version_of_flower_has_all_of_them():
    internals.check()
    assert getattr(internals, "Fab").__name__ == "Fab"  # noqa: B009  (by the module's __getattr__)


def test_no_other_internal_is_imported():
    found = {
        node.module
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "flwr"
    }
    assert found == DOCUMENTED


@pytest.mark.parametrize("name", [*MODULES, *(".".join(pair) for pair in ATTRIBUTES)])
def test_what_a_version_lacks_is_named_in_one_sentence(name, monkeypatch):
    name, _, attribute = name.partition(".")
    module = sys.modules[MODULES[name]]
    if attribute:
        monkeypatch.setattr(module, name, SimpleNamespace())
    else:
        monkeypatch.delattr(module, name)
    whole = f"{MODULES[name]}.{name}" + f".{attribute}" * bool(attribute)
    with pytest.raises(pfedfair.InputError) as refusal:
        internals.check()
    words = str(refusal.value)
    assert words.startswith("Flower 1.")
    assert f" has no {whole}, which pfedfair uses: install flwr" in words
    if not attribute:
        with pytest.raises(pfedfair.InputError, match="has no"):
            getattr(internals, name)


def test_a_module_that_has_gone_is_named_too(monkeypatch):
    monkeypatch.setitem(sys.modules, MODULES["Fab"], None)
    with pytest.raises(pfedfair.InputError, match=r"no flwr\.supercore\.fab\.Fab, which"):
        internals.check()


def test_a_server_does_not_start_on_another_version(monkeypatch, tmp_path):
    monkeypatch.delattr(sys.modules[MODULES["Fab"]], "Fab")
    context = Context(1, 1, {}, RecordDict(), {"out": str(tmp_path)})
    with pytest.raises(pfedfair.InputError, match="which pfedfair uses"):
        server_app.conduct(LocalGrid({}), context, tmp_path)
    assert "which pfedfair uses" in (tmp_path / "status.json").read_text("utf-8")
    for name in (signing.BUNDLE, "link.db"):
        (tmp_path / name).touch()
    monkeypatch.setenv("FLWR_HOME", "")
    with pytest.raises(pfedfair.InputError, match="which pfedfair uses"):
        signing.start_run(tmp_path)
