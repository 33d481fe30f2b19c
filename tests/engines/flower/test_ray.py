"""A simulation starts Ray, which listens on all interfaces: others must not run code through it."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pfedfair.engines.flower import trial
from pfedfair.engines.flower.processes import Processes, environment, family, free_ports

STRANGER = """
import sys, ray

@ray.remote(num_cpus=0)
def leave_a_trace(path):
    open(path, "w").close()

ray.init(address=sys.argv[1], log_to_driver=False)
ray.get(leave_a_trace.remote(sys.argv[2]), timeout=30)
"""


def test_every_run_has_a_secret_of_its_own(tmp_path):
    one, two = environment(tmp_path), environment(tmp_path)
    assert one["RAY_AUTH_MODE"] == two["RAY_AUTH_MODE"] == "token"
    assert one["RAY_AUTH_TOKEN"] != two["RAY_AUTH_TOKEN"]
    assert len(one["RAY_AUTH_TOKEN"]) == 64


def test_no_secret_is_in_the_scripts_of_a_deployment(tmp_path):
    trial.set_up(tmp_path / "all", {"site-1": 9094})
    for path in (tmp_path / "all").rglob("*.sh"):
        assert "RAY_AUTH" not in path.read_text(), path


def test_nothing_else_starts_ray():
    """All ways to a simulation lead through `Processes`, which has the secret.

    Grids of runs have a cluster with a secret of its own, see tests/engines/ray.
    """
    root = Path(__file__).parents[3]
    ways = {"run_simulation(", "start_simulation(", "ray.init(", "ray start", '"--simulation"'}
    found = {
        str(path.relative_to(root))
        for folder in ("src", "tests", "scripts", "benchmarks", "examples", "docs")
        for path in (root / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".toml", ".md")
        and any(w in path.read_text() for w in ways)
    }
    here = "tests/engines/flower/test_ray.py"  # by Processes; and strangers, who want to join
    grids = {f"src/pfedfair/engines/ray/{name}.py" for name in ("broker", "gate")}
    grids.add("docs/cluster.md")  # whose words these are; it has the secret, too
    assert found == {"src/pfedfair/engines/flower/trial.py", here, *grids}
    text = (root / "src/pfedfair/engines/flower/trial.py").read_text()
    assert text.count("--simulation") == text.count('processes.superlink(port, "--simulation")')


def listening(pid: int, seconds: float = 120) -> tuple[psutil.Process, int]:
    """Ray's central process among the descendants, and the port that others join it by."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(psutil.Error):
            for one in family(pid):
                if one.name() == "gcs_server":
                    found = [c for c in one.net_connections("tcp") if c.status == "LISTEN"]
                    if found:
                        return one, found[0].laddr.port
        time.sleep(0.1)
    pytest.fail("Ray did not start.")


def joins(port: int, trace: Path, **known: str) -> subprocess.Popen:
    """Try to run a function in the cluster, from a process that has nothing of ours."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-c", STRANGER, f"127.0.0.1:{port}", str(trace)],
        env=plain | known,
        cwd=trace.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(600)
def test_a_stranger_cannot_run_code_through_a_simulation(tmp_path):
    pytest.importorskip("ray")
    config = {"data": "compas", "method": "fedavg", "rounds": 2, "poll": 0.1}
    config |= {"sites": 3, "min-sites": 2, "wait": 60.0}  # time for strangers: no third one comes
    config |= {"out": str(tmp_path / "out"), "state-dir": str(tmp_path / "sites")}
    (port,) = free_ports(1)
    with Processes(tmp_path) as processes:
        link = processes.superlink(port, "--simulation")
        clients = "num-supernodes=2 client-resources-num-cpus=1"
        status = processes.run(config, federation=clients)
        ray, gate = listening(link.pid)
        token = psutil.Process(link.pid).environ()["RAY_AUTH_TOKEN"]
        secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}

        known = joins(gate, tmp_path / "known", **secret)  # the strangers' code does work
        guess = secret | {"RAY_AUTH_TOKEN": "0" * 64}
        strangers = [joins(gate, tmp_path / "stranger"), joins(gate, tmp_path / "guess", **guess)]
        errors = [one.communicate(timeout=120)[1] for one in (known, *strangers)]
        assert (tmp_path / "known").exists(), errors[0]
        for one, words, name in zip(strangers, errors[1:], ("stranger", "guess"), strict=True):
            assert one.returncode != 0
            assert "uthentication" in words
            assert not (tmp_path / name).exists()
        assert ray.is_running()
        assert not status.exists()  # all this was while it ran

        session = next(Path(a.split("=")[1]) for a in ray.cmdline() if a.startswith("--log_dir="))
        lines = []
        for one in psutil.process_iter():
            with suppress(psutil.Error):
                lines += one.cmdline()
        assert not any(token in line for line in lines)
        assert processes.wait(status, 240)["done"]
    for folder in (tmp_path, session):
        for path in folder.rglob("*"):
            if path.is_file():
                assert token.encode() not in path.read_bytes(), path
