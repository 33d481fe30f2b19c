"""The process that speaks Ray: it hands out work, gives lost work out again, and tells its parent.

A process of its own, as Ray takes over the one that it is in: signals, threads, settings that are
read once, and an end without a word when the cluster is lost. Work, data and results are bytes to
it, so that it loads nothing but Ray.
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

AT_ONCE = 1000  # pieces of work that wait at the cluster, if nobody says how many
TIMES = 4  # that a piece is tried while its machines are lost
IDLE = 600.0  # seconds without any machine, in which a cloud would have started one
SPACE = b"pfedfair"  # of the cluster's small memory: how far each piece is


@dataclass(frozen=True)
class Order:
    """What a broker is to do.

    `function`, as ``module:name``, is called at a worker with a piece's bytes, the name of the data
    that it needs and a function that fetches them, `same`, the worker's address, and whom to tell
    the part that is done; it returns a word and what belongs to it. The pieces are numbered from 0;
    `data` has the bytes that many of them share.
    """

    address: str
    settings: dict[str, str] = field(repr=False)
    function: str
    pieces: Sequence[tuple[bytes, str]]  # each with the name of its data
    data: dict[str, bytes]
    same: Any
    at_once: int | None = None  # on a cluster of our own, its CPUs
    folder: str = ""  # of a cluster of our own

    @property
    def local(self) -> bool:
        return self.address == LOCAL


def main(parent: Connection, order: Order) -> None:
    """Do an order: what happens is sent to the parent; whatever it sends, or its end, is a stop."""
    os.setsid()  # Ctrl-C in a terminal is for the parent
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)  # so is the terminal; Ray writes to it as it likes
    os.environ.update(SETTINGS | order.settings)
    if order.local or _only_here(order.address):  # this is how Ray is told to stay on loopback
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"):  # we have been told both
        os.environ.pop(name, None)
    import ray

    try:
        with suppress(BrokenPipeError):
            try:
                _join(order)
            except Exception as error:  # Ray raises many kinds
                parent.send(("closed", _words(error)))
                return
            parent.send(("open",))
            try:
                for told in _all(parent, order):
                    parent.send(told)
            except Exception:
                parent.send(("bug", traceback.format_exc()))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ray.shutdown()
        if order.folder:
            shutil.rmtree(order.folder, ignore_errors=True)


def _only_here(address: str) -> bool:
    """Whether a cluster is on loopback and nowhere else; Ray takes this machine's other name."""
    host, _, port = address.rpartition(":")
    if host not in ("localhost", "127.0.0.1", "[::1]"):
        return False
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("192.0.2.1", 9))  # nothing is sent: it only tells who we would be
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


def _all(parent: Connection, order: Order) -> Iterator[tuple[Any, ...]]:
    """Do all pieces; yield what happens."""
    import ray
    from ray import cloudpickle, exceptions

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # who has no pfedfair can say so
    remote = ray.remote(num_cpus=1, max_retries=0)(at_worker)
    data = {name: ray.put(content) for name, content in order.data.items()}
    path = sys.path if order.local else []
    job = ray.get_runtime_context().get_job_id()
    waiting, tried = deque(range(len(order.pieces))), [0] * len(order.pieces)
    running: dict[Any, int] = {}
    most = AT_ONCE if order.local or order.at_once is None else order.at_once
    watch = Watch(job)
    try:
        while (waiting or running) and not parent.poll():
            while waiting and len(running) < most:
                n = waiting.popleft()
                piece, name = order.pieces[n]
                key = f"{job}/{n}".encode()
                held = (name, [data[name]])  # in a list: fetched only by who asks
                ref = remote.remote(order.function, piece, held, order.same, key, path)
                running[ref] = n
            ready, _ = ray.wait(list(running), timeout=0.25)
            for ref in ready:
                n = running.pop(ref)
                try:
                    yield (*ray.get(ref), n)
                except exceptions.RayTaskError as error:  # of the function's own: it has no bugs
                    yield "broken", _words(error), n
                    return
                except exceptions.RayError as error:  # its process or its machine is no more
                    tried[n] += 1
                    if tried[n] == TIMES:
                        yield "lost", _words(error), n
                        return
                    waiting.append(n)
                    yield "again", _words(error), n
            yield from watch.look(running.values(), bool(ready))
            if watch.alone:
                yield "nobody", f"{IDLE / 60:g}"
                return
    finally:
        for ref in running:
            with suppress(Exception):
                ray.cancel(ref, force=True)
        watch.forget()


class Watch:
    """How far the pieces are, and whether anybody is there to do them."""

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

        with suppress(Exception):  # a cluster that is lost ends this process by itself
            keys = {f"{self.job}/{n}".encode(): n for n in pieces}
            found = memory().internal_kv_multi_get(list(keys), namespace=SPACE, timeout=5)
            parts = {keys[key]: float(part) for key, part in found.items()}
            if parts:
                yield "parts", parts
            if ray.cluster_resources().get("CPU", 0) >= 1:
                self.seen = now

    @property
    def alone(self) -> bool:
        return time.monotonic() - self.seen > IDLE

    def forget(self) -> None:
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
    """Do a piece of work; what goes wrong in it is an answer like others."""
    import importlib

    import ray
    from ray.experimental.internal_kv import _internal_kv_put as put

    here = ray.util.get_node_ip_address()
    sys.path += [one for one in path if one not in sys.path and Path(one).exists()]
    module, _, name = function.partition(":")
    try:
        work: Callable[..., tuple[str, Any]] = getattr(importlib.import_module(module), name)
    except ImportError as error:
        return "unready", f"{here} cannot load {module.partition('.')[0]} ({error})"
    told = time.monotonic()

    def tell(part: float) -> None:
        nonlocal told
        if time.monotonic() - told > 0.5:
            told = time.monotonic()
            with suppress(Exception):  # a bar that stands still is no reason to stop
                put(key, f"{part}".encode(), True, namespace=SPACE)

    ref = held[1][0]
    return work(piece, held[0], lambda: ray.get(ref), same, here, tell)


def _words(error: Exception) -> str:
    """The sentence that says most: of an error at a worker the last, of Ray's own the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if "Traceback" in str(error):
        return lines[-1].rstrip(".")
    return lines[0].partition(". ")[0].rstrip(".")
