"""Start Flower's processes on this machine, and stop every one of them again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil
import tomli_w

from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic, read_json
from pfedfair.engines.ray import token_settings

SETTINGS = {
    "FLWR_TELEMETRY_ENABLED": "0",  # no telemetry
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONUTF8": "1",  # whatever the machine's language is
}
APP = Path(str(files("pfedfair") / "engines" / "flower" / "app"))
CONNECTION = "here"
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def environment(home: Path) -> dict[str, str]:
    """Return the environment of every Flower process: its files in `home`, no telemetry.

    A simulation starts Ray, which listens on all interfaces and runs the code of any client. So it
    requires a token, and joins no other cluster.
    """
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", "")])
    local = {"FLWR_HOME": str(home), "PATH": path, "RAY_ADDRESS": "local"}
    return {**os.environ, **SETTINGS, **token_settings(), **local}


def free_ports(n: int) -> list[int]:
    """Return unused ports of loopback."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def write_toml(path: Path, values: Mapping[str, Any]) -> None:
    with atomic(path) as temporary:
        temporary.write_text(tomli_w.dumps(values), encoding="utf-8")


def connection(port: int, tls: Path | None) -> dict[str, Any]:
    """Return the settings of Flower's command line for a SuperLink on loopback."""
    trust = {"insecure": True} if tls is None else {"root-certificates": str(tls / "ca.pem")}
    where = {"address": f"127.0.0.1:{port}", **trust}
    return {"superlink": {"default": CONNECTION, CONNECTION: where}}


class Processes:
    """Flower processes with a common home; leaving the block stops them all."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Processes:
        if threading.current_thread() is threading.main_thread():
            self.before = {how: signal.signal(how, _interrupt) for how in ENDS}
        return self

    def __exit__(self, *error: object) -> None:
        for how in self.before:
            signal.signal(how, signal.SIG_IGN)  # all are stopped without interruption
        try:
            self.stop()
        finally:
            for how, handler in self.before.items():
                signal.signal(how, handler)

    def start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=environment(self.home), cwd=self.home,
                start_new_session=True,  # Ctrl-C is for us; we stop them
            )  # fmt: skip
        self.running[name] = process
        return process

    def stop(self, *names: str, how: int = signal.SIGTERM) -> None:
        """Stop the named processes, or all, and whatever they have started."""
        chosen = [self.running.pop(name) for name in names or list(self.running)]
        stop_all([process.pid for process in chosen], how)
        for process in chosen:
            process.wait(timeout=30)

    def log(self, name: str) -> str:
        path = self.logs / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def superlink(self, port: int, *options: str) -> subprocess.Popen[bytes]:
        """Start a SuperLink without TLS on loopback; wait until it listens."""
        self.connect(port)
        command = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port)]
        process = self.start("superlink", [*command, *options])
        self.listen(port, process)
        return process

    def listen(self, port: int, process: subprocess.Popen[bytes], wait: float = 180) -> None:
        """Wait until a SuperLink listens."""
        end = time.monotonic() + wait
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.1)
        raise InputError(f"The SuperLink did not start, see {self.logs / 'superlink.log'}.")

    def connect(self, port: int, tls: Path | None = None) -> None:
        """Configure Flower's command line for a SuperLink."""
        write_toml(self.home / "config.toml", connection(port, tls))

    def flwr(self, *arguments: str, wait: float = 180) -> str:
        """Run one of Flower's own commands; return what it printed."""
        done = subprocess.run(
            ["flwr", *arguments], env=environment(self.home), cwd=self.home, timeout=wait,
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise InputError(f"flwr {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def run(
        self, config: Mapping[str, Any], app: Path = APP, federation: str | None = None
    ) -> Path:
        """Submit a run; return the file to which it writes how it ended."""
        out = Path(str(config["out"]))
        out.mkdir(parents=True, exist_ok=True)
        status = out / "status.json"
        status.unlink(missing_ok=True)
        settings = self.home / f"run-{out.name}.toml"
        write_toml(settings, config)
        options = ["--federation-config", federation] if federation else []
        self.flwr("run", str(app), CONNECTION, "--run-config", str(settings), *options)
        return status

    def ended(self) -> str | None:
        """Return Flower's status details of the last run if it has ended, else None."""
        run = json.loads(self.flwr("list", CONNECTION, "--limit", "1", "--format", "json"))["runs"]
        over = bool(run) and str(run[0]["status"]).startswith("finished")
        return str(run[0]["status-details"]) if over else None

    def wait(self, status: Path, wait: float) -> dict[str, Any]:
        """Wait until a run has ended; return its status."""
        end = time.monotonic() + wait
        while time.monotonic() < end:
            if status.exists():
                return dict(read_json(status))
            link = self.running.get("superlink")
            if link is not None and link.poll() is not None:
                raise InputError(f"The SuperLink has ended, see {self.logs / 'superlink.log'}.")
            time.sleep(0.2)
        raise TimeoutError(f"The run did not end within {wait:g} s, see {self.logs}.")


def stop_all(pids: Sequence[int], how: int = signal.SIGTERM, patience: float = 10) -> None:
    """Stop processes and all their descendants: by the signal `how` first, then by SIGKILL."""
    families = [found for found in map(family, pids) if found]
    parents = [found[0] for found in families]
    children = [one for found in families for one in found[1:]]
    for processes, signal_, awaited, seconds in (
        (parents, how, parents, patience),
        (children, signal.SIGTERM, children, 1.0),
        (parents + children, signal.SIGKILL, children, patience),
    ):
        for process in processes:
            with suppress(psutil.NoSuchProcess):  # nor is it sent to another of the same number
                process.send_signal(signal_)
        end = time.monotonic() + seconds
        while any(map(alive, awaited)) and time.monotonic() < end:
            time.sleep(0.02)


def family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; an empty list if it does not exist."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def alive(process: psutil.Process) -> bool:
    """Whether a process runs, and is no zombie."""
    with suppress(psutil.NoSuchProcess):
        gone = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return process.is_running() and process.status() not in gone
    return False
