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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from pfedfair.errors import InputError

SETTINGS = {
    "FLWR_TELEMETRY_ENABLED": "0",  # nothing is reported to anybody
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
APP = Path(str(files("pfedfair") / "engines" / "flower" / "app"))
CONNECTION = "here"
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def environment(home: Path) -> dict[str, str]:
    """The environment of every Flower process: its files in `home`, nothing sent to anybody."""
    here = str(Path(sys.executable).parent)
    path = os.pathsep.join([here, os.environ.get("PATH", "")])
    return {**os.environ, **SETTINGS, "FLWR_HOME": str(home), "PATH": path}


def free_ports(n: int) -> list[int]:
    """Ports of loopback that nobody uses now."""
    sockets = [socket.socket() for _ in range(n)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def toml(values: Mapping[str, Any]) -> str:
    """Settings as TOML, also on one line as ``--node-config`` has them."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return repr(value)
        if "'" in str(value) or "\n" in str(value):
            raise InputError(f"A setting must not have quotes or line breaks in it: {value}.")
        return f"'{value}'"

    return "\n".join(f"{key}={text(value)}" for key, value in values.items())


class Processes:
    """Flower processes with a common home; leaving the block stops them all."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""
        self.tls: Path | None = None
        self.before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Processes:
        if threading.current_thread() is threading.main_thread():
            self.before = {how: signal.signal(how, _interrupt) for how in ENDS}
        return self

    def __exit__(self, *error: object) -> None:
        for how in self.before:
            signal.signal(how, signal.SIG_IGN)  # nothing comes between: all are stopped
        try:
            self.stop()
        finally:
            for how, handler in self.before.items():
                signal.signal(how, handler)

    def start(self, name: str, command: list[str], **more: str) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self.home) | more,
                cwd=self.home,
                start_new_session=True,  # Ctrl-C is for us; we stop them
            )
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
        return path.read_text(errors="replace") if path.exists() else ""

    # --- Flower's own commands -----------------------------------------------------------------

    def superlink(
        self, port: int, tls: Path | None = None, *options: str, wait: float = 180
    ) -> subprocess.Popen[bytes]:
        """Start a SuperLink on loopback, with the keys in `tls`; wait until it listens."""
        command = ["flower-superlink", "--host", "127.0.0.1", "--port", str(port), *options]
        if tls is None:
            command.append("--insecure")
        else:
            command += ["--ssl-ca-certfile", str(tls / "ca.pem")]
            command += ["--ssl-certfile", str(tls / "server.pem")]
            command += ["--ssl-keyfile", str(tls / "server.key")]
        self.address, self.tls = f"127.0.0.1:{port}", tls
        self.connect()
        process = self.start("superlink", command)
        self.listen(port, process, wait)
        return process

    def listen(self, port: int, process: subprocess.Popen[bytes], wait: float = 180) -> None:
        """Wait until a SuperLink listens."""
        end = time.monotonic() + wait
        while time.monotonic() < end and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                return
            time.sleep(0.1)
        raise InputError(f"The SuperLink did not start, see {self.logs / 'superlink.log'}.")

    def connect(self) -> None:
        """Tell Flower's command line where the SuperLink is."""
        where: dict[str, Any] = {"address": self.address}
        where |= (
            {"insecure": True} if self.tls is None
            else {"root-certificates": str(self.tls / "ca.pem")}
        )  # fmt: skip
        text = f"[superlink]\ndefault = '{CONNECTION}'\n\n[superlink.{CONNECTION}]\n{toml(where)}\n"
        (self.home / "config.toml").write_text(text)

    def supernode(
        self, name: str, config: Mapping[str, Any], key: Path | None = None, address: str = ""
    ) -> subprocess.Popen[bytes]:
        (port,) = free_ports(1)
        command = ["flower-supernode", "--superlink", address or self.address, "--host"]
        command += ["127.0.0.1", "--port", str(port), "--node-config"]
        command.append(toml(config).replace("\n", " "))
        if self.tls is None:
            command.append("--insecure")
        else:
            command += ["--root-certificates", str(self.tls / "ca.pem")]
        if key is not None:
            command += ["--auth-supernode-private-key", str(key)]
        return self.start(name, command)

    def flwr(self, *arguments: str, wait: float = 180) -> str:
        """Run one of Flower's own commands; return what it printed."""
        done = subprocess.run(
            ["flwr", *arguments],
            env=environment(self.home),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=wait,
        )
        if done.returncode:
            raise InputError(f"flwr {arguments[0]} failed: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def run(
        self, config: Mapping[str, Any], app: Path = APP, federation: str | None = None
    ) -> Path:
        """Submit a run; return the file in which it says how it ended."""
        out = Path(str(config["out"]))
        out.mkdir(parents=True, exist_ok=True)
        status = out / "status.json"
        status.unlink(missing_ok=True)
        settings = self.home / f"run-{out.name}.toml"
        settings.write_text(toml(config) + "\n")
        more = ["--federation-config", federation] if federation else []
        self.flwr("run", str(app), CONNECTION, "--run-config", str(settings), *more)
        return status

    def ended(self) -> str | None:
        """What Flower says of the last run, if it has ended."""
        run = json.loads(self.flwr("list", CONNECTION, "--limit", "1", "--format", "json"))["runs"]
        over = bool(run) and str(run[0]["status"]).startswith("finished")
        return str(run[0]["status-details"]) if over else None

    def wait(self, status: Path, wait: float) -> dict[str, Any]:
        """Wait until a run has ended; return what it says."""
        end = time.monotonic() + wait
        while time.monotonic() < end:
            if status.exists():
                return dict(json.loads(status.read_text()))
            for name, process in self.running.items():
                if process.poll() is not None and name == "superlink":
                    raise InputError(f"The SuperLink has ended, see {self.logs / f'{name}.log'}.")
            time.sleep(0.2)
        raise TimeoutError(f"The run did not end within {wait:g} s, see {self.logs}.")


def stop_all(pids: list[int], how: int = signal.SIGTERM, patience: float = 10) -> None:
    """End processes and all their descendants: `how` first, then SIGKILL for who is left."""
    family = {pid for parent in pids for pid in (parent, *descendants(parent))}
    born = {pid: _born(pid) for pid in family}

    def left(some: Iterable[int], seconds: float) -> list[int]:
        """Who is still there after a while; never another process of the same number."""
        end = time.monotonic() + seconds
        while True:
            there = [pid for pid in some if alive(pid) and _born(pid) == born[pid]]
            if not there or time.monotonic() >= end:
                return there
            time.sleep(0.02)

    for pid in pids:
        _signal(pid, how)
    left(pids, patience)
    for how, some, seconds in (
        (signal.SIGTERM, family - set(pids), 1.0),
        (signal.SIGKILL, family, patience),
    ):
        for pid in left(some, 0):
            _signal(pid, how)
        left(family - set(pids), seconds)


def descendants(pid: int) -> list[int]:
    """Children of a process, and theirs (on Linux; elsewhere none are known)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, left = [], [pid]
    while left:
        left += (new := children.get(left.pop(), []))
        found += new
    return found


def _signal(pid: int, how: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def _born(pid: int) -> str:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"
