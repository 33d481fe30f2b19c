"""The commands of pfedfair flower, as typed."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

import made_faces
from pfedfair._util.errors import InputError
from pfedfair.cli import flower as commands
from pfedfair.cli.flower import app
from pfedfair.engines.flower import require

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("flwr", "ray"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in ("flwr", "ray") else find(name, *a)
from pfedfair.cli import main

for typed in sys.stdin.read().splitlines():
    sys.argv = ["pfedfair", *typed.split()]
    try:
        main()
    except SystemExit as stop:
        print(f"{typed}: exit code {stop.code}")
    else:
        print(f"{typed}: exit code 0")
"""
FLOWER = (
    "flower demo", "flower simulate compas", "flower init x", "flower join x y --site z",
    "flower admit x y", "flower revoke x y", "flower update x y", "flower rotate x",
    "flower renew x --ca-key y", "flower status x", "flower start-run x",
)  # fmt: skip
TRAIN = "train compas --method fedavg --rounds 1"


def pfedfair(*arguments, wait=300, code="from pfedfair.cli import main; main()", typed=None):
    env = os.environ | {"NO_COLOR": "1", "COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=typed,
        capture_output=True,
        text=True,
        env=env,
        timeout=wait,
    )


@pytest.fixture(scope="module")
def without():
    """One process without Flower and Ray, in which one command after the other is typed."""
    return pfedfair(code=WITHOUT, typed="\n".join((*FLOWER, TRAIN)))


@pytest.mark.parametrize("command", FLOWER)
def test_without_the_extra_the_commands_say_what_to_install(without, command):
    assert f"{command}: exit code 2\n" in without.stdout, without.stderr
    assert without.stderr.count("pip install 'pfedfair[flower]'") == len(FLOWER)


def test_without_the_extra_everything_else_works(without):
    assert f"{TRAIN}: exit code 0\n" in without.stdout, without.stderr


def test_what_a_module_needs_is_named():
    with pytest.raises(InputError, match=r"'no_such_module': pip install 'pfedfair\[flower\]'"):
        require("no_such_module")


there = all(find_spec(name) for name in ("flwr", "ray"))
flower = pytest.mark.skipif(not there, reason="needs Flower")


def typed(*words):
    """Type a command of pfedfair flower in this process; return what it printed."""
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@flower
def test_a_consortium_as_its_operators_type_it(tmp_path, monkeypatch):
    """From init to revoke; one line is the same at all ends."""
    monkeypatch.chdir(tmp_path)
    assert "1. At the server   send server/consortium.json to every site" in typed(
        "init", "all", "--host", "fl.example", "--days", "20"
    )
    server, public = Path("all/server"), Path("all/server/consortium.json")
    for name, port in (("a", 9094), ("b", 9095)):
        out = typed("join", name, public, "--site", name, "--port", port)
        assert f"Send {name}/{name}.csr to the server's operator" in out
        script = Path(name, "start-supernode.sh").read_text()
        assert "--superlink fl.example:8443 " in script
        assert f"--port {port} " in script
    (own,) = re.findall("SHA256:.*", out)
    before = public.read_bytes()
    with pytest.raises(InputError, match=r"by telephone, then say --yes"):  # nobody can answer
        typed("admit", server, "a/a.csr", "b/b.csr")
    assert public.read_bytes() == before
    out = typed("admit", server, "a/a.csr", "b/b.csr", "--yes")
    assert f"{own}  b" in out
    assert "Sites: a, b." in out
    (total,) = re.findall("All keys together: (.*)", out)
    for name in "ab":
        assert f"All keys together: {total}" in typed("update", name, public, "--yes")
    for folder in (server, "a", "b"):
        assert f"All keys together: {total} " in typed("status", folder)
    assert "a/a.csr" in typed("rotate", "a")
    assert "Sites: a, b." in typed("admit", server, "a/a.csr", "--replace", "--yes")
    assert "The site has its new key" in typed("update", "a", public, "--yes")
    assert "Sites: a." in typed("revoke", server, "b")
    assert "revoked: b" in typed("update", "a", public, "--yes")
    assert "Warning: server.pem is valid until" in typed("status", server)
    assert "Warning" not in typed("renew", server, "--ca-key", "all/offline/ca.key")
    assert typed("update", "a", public) == "Taken in.\n"  # no key is another: no question


class Terminal(StringIO):
    def isatty(self):
        return True


@flower
@pytest.mark.parametrize("answer", ["", "n", "no", "maybe"])
def test_without_a_yes_nothing_is_done(monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    with pytest.raises(InputError, match=r"Nothing was changed\."):
        commands._compare(["SHA256:x  a"], "Right?", False, False)


@flower
def test_a_yes_at_the_terminal_goes_on(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    commands._compare(["SHA256:x  a"], "Right?", False, True)
    assert "SHA256:x  a" in capsys.readouterr().out  # quiet or not, one must see what to compare


@flower
@pytest.mark.timeout(600)
def test_demo_as_a_newcomer_types_it(tmp_path):
    done = pfedfair("flower", "demo", "--rounds", "1", "--out", str(tmp_path / "demo"), wait=500)
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("round 1 of 1 with site-1, site-2, site-3", "site-3", "Seconds per message round",
                  "The stacked engine did all of it in", "is stopped again"):  # fmt: skip
        assert words in done.stdout
    apart = done.stdout.split("weight is ")[1].split()[0]
    assert float(apart) < 1e-4  # rounding, which Adam makes visible
    assert not processes_of(tmp_path)


@flower
@pytest.mark.timeout(600)
def test_simulate_gives_the_stacked_engines_weights(tmp_path):
    options = "--sensitive male,race --merge-groups --criterion eo --partition dirichlet "
    options += "--encoding piecewise"
    done = pfedfair("flower", "simulate", "compas", "--method", "fedavg-kde", *options.split(),
                    "--rounds", "2", "--clients", "3", "--out", str(tmp_path / "sim"),
                    wait=500)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    apart = done.stdout.split("weight is ")[1].split()[0]
    assert float(apart) < 1e-4  # rounding, which Adam makes visible
    assert not processes_of(tmp_path)


@flower
@pytest.mark.parametrize("option", ["--scaling whiten", "--pixels 16", "--model mlp", "--weight w"])
def test_simulate_refuses_what_sites_do_not_use(option):
    done = CliRunner().invoke(
        app, ["simulate", "compas", "--method", "fedavg", *option.split()], catch_exceptions=True
    )
    assert isinstance(done.exception, InputError)
    assert f"leave out {option.split()[0]}, or use pfedfair train." in str(done.exception)


@flower
@pytest.mark.parametrize("skip", [True, False])
def test_simulate_tells_sites_to_skip_missing_images(skip, tmp_path, monkeypatch):
    from pfedfair.engines.flower import trial

    told = []
    monkeypatch.setattr(trial, "simulate", lambda federation, where, *rest: told.append(where))
    asked = ["--data", str(made_faces.celeba(tmp_path)), "--partition", "together", "--quiet"]
    asked += ["--skip-missing"] * skip
    done = CliRunner().invoke(app, ["simulate", "celeba", "--method", "fedavg", *asked])
    assert done.exit_code == 0, done.exception
    assert told[0]["skip-missing"] is skip


@flower
@pytest.mark.timeout(300)
def test_ctrl_c_stops_everything_that_was_started(tmp_path):
    code = "from pfedfair.cli import main; main()"
    command = [sys.executable, "-c", code, "flower", "demo", "--out", str(tmp_path / "demo")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as demo:
        end = time.monotonic() + 200
        while not any("flower-supernode" in p for p in processes_of(tmp_path)):
            assert time.monotonic() < end
            assert demo.poll() is None, demo.communicate()
            time.sleep(0.2)
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=90)
    assert demo.returncode == 130
    assert "Interrupted." in errors
    assert "Finished runs are kept" not in errors
    assert not processes_of(tmp_path)


def processes_of(folder):
    """Command lines of processes that work in a folder."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(one.cwd()).is_relative_to(folder):
                found.append(" ".join(one.cmdline()))
    return found
