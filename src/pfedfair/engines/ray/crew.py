"""Start a broker process, receive its events, and stop it."""

import os
import signal
import tempfile
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from shutil import rmtree
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair.engines.ray import broker
from pfedfair.engines.ray.broker import Order

START = 180.0  # seconds for a cluster to be joined
PATIENCE = 15.0  # seconds for a broker to stop
STEP = 0.5
MEMBER = "run this command on one of its machines, with the Ray and the Python that it runs on"


def events(order: Order) -> Generator[tuple[Any, ...]]:
    """Yield the events of a broker, or ``("wait",)`` if there is none for a while.

    The iterator must be closed: this cancels all work, and stops a cluster that we started.
    """
    if order.local:
        order = replace(order, folder=tempfile.mkdtemp(prefix="pff", dir=_short()))
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=broker.main, args=(there, order), daemon=False)
    try:
        process.start()
    except BaseException:  # such as Ctrl-C: a child without an order ends by itself
        _remove(order.folder)
        raise
    there.close()
    opened, waited = False, 0.0
    try:
        while True:
            if not here.poll(STEP):
                waited += STEP
                if not opened and waited > START:
                    raise InputError(f"The cluster did not let us in within {START:g} s.")
                yield ("wait",)
                continue
            try:
                event = here.recv()
            except (EOFError, ConnectionResetError):
                event = None if opened else ("closed", "it did not let us in")
            if event is None:
                return
            if event[0] == "closed":
                raise InputError(f"The cluster cannot be joined ({event[1]}): {MEMBER}.")
            if event[0] == "bug":
                raise RuntimeError(f"In the process that speaks to the cluster:\n{event[1]}")
            opened = True
            yield event
    finally:
        _stop(process, here, opened)
        _remove(order.folder)


def _remove(folder: str) -> None:
    if folder:
        rmtree(folder, ignore_errors=True)


def _stop(process: Any, here: Any, opened: bool) -> None:
    with suppress(OSError):
        here.send("stop")
    if not opened:
        process.terminate()  # it is joining: Ray stops what it has started
    try:
        wait([process.sentinel], PATIENCE)
    finally:
        with suppress(ProcessLookupError):  # its remaining children are in its process group,
            os.killpg(process.pid, signal.SIGKILL)  # which exists until it is joined
        process.kill()
        process.join(PATIENCE)
        here.close()
        process.close()


def _short() -> str | None:
    """Return a folder with a short name, for Ray's sockets, whose paths have a maximum length."""
    return "/tmp" if Path("/tmp").is_dir() else None
