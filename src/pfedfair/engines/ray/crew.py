"""Start a broker, listen to it, and leave nothing behind."""

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

START = 180.0  # seconds in which a cluster has to let us in
PATIENCE = 15.0  # seconds for a broker to put everything away
STEP = 0.5
MEMBER = "run this command on one of its machines, with the Ray and the Python that it runs on"


def answers(order: Order) -> Generator[tuple[Any, ...]]:
    """Yield what happens at the cluster, or nothing for a while ``("wait",)``.

    The iterator has to be closed: then all work is taken back, and a cluster of our own is stopped.
    """
    if order.local:
        order = replace(order, folder=tempfile.mkdtemp(prefix="pff", dir=_short()))
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=broker.main, args=(there, order), daemon=False)
    try:
        process.start()
    except BaseException:  # Ctrl-C, say: a child that was not told what to do ends by itself
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
                told = here.recv()
            except (EOFError, ConnectionResetError):
                told = None if opened else ("closed", "it did not let us in")
            if told is None:
                return
            if told[0] == "closed":
                raise InputError(f"The cluster cannot be joined ({told[1]}): {MEMBER}.")
            if told[0] == "bug":
                raise RuntimeError(f"In the process that speaks to the cluster:\n{told[1]}")
            opened = True
            yield told
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
        process.terminate()  # it is in Ray's hands, which take back what they have started
    try:
        wait([process.sentinel], PATIENCE)
    finally:
        with suppress(ProcessLookupError):  # whom it started and who has not heard: all are in its
            os.killpg(process.pid, signal.SIGKILL)  # group, which is known until it is joined
        process.kill()
        process.join(PATIENCE)
        here.close()
        process.close()


def _short() -> str | None:
    """A folder with a short name: Ray's sockets lie in it, whose names may not be long."""
    return "/tmp" if Path("/tmp").is_dir() else None
