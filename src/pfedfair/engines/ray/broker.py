"""The process that uses Ray: it submits work, resubmits lost work, and sends events to its parent.

It is a separate process because Ray takes over the one that it runs in: signals, threads, settings
that are read once, and an exit when the cluster is lost. Work, data and results are bytes to it, so
that it imports nothing but Ray.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pfedfair.engines.ray import LOCAL, SETTINGS

MAX_SUBMITTED = 1000  # pieces of work at the cluster, by default
TIMES = 4  # attempts at a piece whose machines are lost
IDLE = 600.0  # seconds without any machine, in which a cloud would have started one
SPACE = b"pfedfair"  # namespace of the pieces' progress in the cluster's key-value store


@dataclass(frozen=True)
class Order:
    """The work of a broker.

    `function`, as ``module:name``, is called at a worker with a piece's bytes, the name of the data
    that it needs and a function that fetches them, `same`, the worker's address, and a function
    that reports its progress; it returns the kind of an event and its content. The pieces are
    numbered from 0; `data` has the bytes that many of them share.
    """

    address: str
    settings: dict[str, str] = field(repr=False)
    function: str
    pieces: Sequence[tuple[bytes, str]]  # each with the name of its data
    data: dict[str, bytes]
    same: Any
    at_once: int | None = None  # CPUs of a cluster that we start
    folder: str = ""  # of a cluster that we start

    @property
    def local(self) -> bool:
        return self.address == LOCAL


def main(parent: Connection, order: Order) -> None:
    """Carry out an order; send events to the parent; stop at any message from it, or its end."""
    os.setsid()  # Ctrl-C in a terminal is for the parent
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)  # so is the terminal, to which Ray would write
    os.environ.update(SETTINGS | order.settings)
    if order.local or _only_here(order.address):  # keeps Ray on loopback
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"):  # both are in the order
        os.environ.pop(name, None)
    import ray

    try:
        with suppress(BrokenPipeError):
            try:
                _join(order)
            except Exception as error:  # Ray raises many kinds
                parent.send(("closed", _sentence(error)))
                return
            parent.send(("open",))
            try:
                for event in _run(parent, order):
                    parent.send(event)
            except Exception:
                parent.send(("bug", traceback.format_exc()))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ray.shutdown()
        if order.folder:
            shutil.rmtree(order.folder, ignore_errors=True)


def _only_here(address: str) -> bool:
    """Whether a cluster listens on loopback only; Ray would use this machine's other address."""
    host, _, port = address.rpartition(":")
    if host not in ("localhost", "127.0.0.1", "[::1]"):
        return False
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("192.0.2.1", 9))  # sends nothing: it finds this machine's address
        with socket.create_connection((out.getsockname()[0], int(port)), timeout=5):
            return False
    return True


def _join(order: Order) -> None:
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not order.local:
        ray.init(address=order.address, **quiet)
        return
    shared = 2 * sum(map(len, order.data.values())) + 200 * 2**20
    ray.init(
        address="local", num_cpus=order.at_once, num_gpus=0, include_dashboard=False,
        object_store_memory=shared, _temp_dir=order.folder, **quiet,
    )  # fmt: skip


def _run(parent: Connection, order: Order) -> Iterator[tuple[Any, ...]]:
    """Do all pieces; yield events."""
    import ray
    from ray import cloudpickle, exceptions

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # also for workers without pfedfair
    remote = ray.remote(num_cpus=1, max_retries=0)(at_worker)
    data = {name: ray.put(content) for name, content in order.data.items()}
    path = sys.path if order.local else []
    job = ray.get_runtime_context().get_job_id()
    waiting, tried = deque(range(len(order.pieces))), [0] * len(order.pieces)
    running: dict[Any, int] = {}
    most = MAX_SUBMITTED if order.local or order.at_once is None else order.at_once
    watch = Watch(job)
    try:
        while (waiting or running) and not parent.poll():
            while waiting and len(running) < most:
                n = waiting.popleft()
                piece, name = order.pieces[n]
                key = f"{job}/{n}".encode()
                held = (name, [data[name]])  # in a list: fetched only on demand
                ref = remote.remote(order.function, piece, held, order.same, key, path)
                running[ref] = n
            ready, _ = ray.wait(list(running), timeout=0.25)
            for ref in ready:
                n = running.pop(ref)
                try:
                    yield (*ray.get(ref), n)
                except exceptions.RayTaskError as error:  # raised by the function itself
                    yield "broken", _sentence(error), n
                    return
                except exceptions.RayError as error:  # its process or its machine is lost
                    tried[n] += 1
                    if tried[n] == TIMES:
                        yield "lost", _sentence(error), n
                        return
                    waiting.append(n)
                    yield "again", _sentence(error), n
            yield from watch.look(running.values(), bool(ready))
            if watch.is_idle:
                yield "idle", f"{IDLE / 60:g}"
                return
    finally:
        for ref in running:
            with suppress(Exception):
                ray.cancel(ref, force=True)
        watch.clear()


class Watch:
    """The progress of the pieces, and whether the cluster has a machine."""

    def __init__(self, job: str) -> None:
        self.job, self.next = job, 0.0
        self.seen = time.monotonic()  # when a machine was there

    def look(self, pieces: Any, moved: bool) -> Iterator[tuple[Any, ...]]:
        now = time.monotonic()
        if moved:
            self.seen = now
        if now < self.next:
            return
        self.next = now + 1.0
        import ray
        from ray.experimental.internal_kv import internal_kv_get_gcs_client as memory

        with suppress(Exception):  # if the cluster is lost, Ray ends this process
            keys = {f"{self.job}/{n}".encode(): n for n in pieces}
            found = memory().internal_kv_multi_get(list(keys), namespace=SPACE, timeout=5)
            parts = {keys[key]: float(part) for key, part in found.items()}
            if parts:
                yield "parts", parts
            if ray.cluster_resources().get("CPU", 0) >= 1:
                self.seen = now

    @property
    def is_idle(self) -> bool:
        return time.monotonic() - self.seen > IDLE

    def clear(self) -> None:
        from ray.experimental.internal_kv import internal_kv_get_gcs_client as memory

        with suppress(Exception):
            memory().internal_kv_del(f"{self.job}/".encode(), True, SPACE, timeout=5)


def at_worker(
    function: str,
    piece: bytes,
    held: tuple[str, list[Any]],
    same: Any,
    key: bytes,
    path: Sequence[str],
) -> tuple[str, Any]:
    """Do a piece of work; return an event, also if it cannot be done."""
    import importlib

    import ray
    from ray.experimental.internal_kv import _internal_kv_put as put

    here = ray.util.get_node_ip_address()
    sys.path += [folder for folder in path if folder not in sys.path and Path(folder).exists()]
    module, _, name = function.partition(":")
    try:
        work: Callable[..., tuple[str, Any]] = getattr(importlib.import_module(module), name)
    except ImportError as error:
        return "unready", f"{here} cannot load {module.partition('.')[0]} ({error})"
    reported = time.monotonic()

    def report(part: float) -> None:
        nonlocal reported
        if time.monotonic() - reported > 0.5:
            reported = time.monotonic()
            with suppress(Exception):  # progress must not stop the work
                put(key, f"{part}".encode(), True, namespace=SPACE)

    ref = held[1][0]
    return work(piece, held[0], lambda: ray.get(ref), same, here, report)


def _sentence(error: Exception) -> str:
    """Return the most informative line: the last of a worker's error, the first of Ray's own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if "Traceback" in str(error):
        return lines[-1].rstrip(".")
    return lines[0].partition(". ")[0].rstrip(".")
