"""What a site keeps from round to round: on its own disk, and in the SuperNode's memory.

A state belongs to the number of rounds that it has seen. The last two are kept: a server that
crashed asks for its last round again. The newer of disk and memory wins.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from flwr.app import ConfigRecord, RecordDict
from safetensors.torch import load_file, save_file

from pfedfair.algorithms import State
from pfedfair.engines.flower.records import pack, unpack
from pfedfair.files import atomic, first_line

log = logging.getLogger("flwr")
KEPT = 2


def recall(folder: Path, memory: RecordDict, key: str, done: int) -> tuple[State, int] | None:
    """Return the newest state of run `key` that has seen at most `done` rounds, and how many."""
    on_disk = {_rounds(path.stem): path for path in (folder / key).glob("own-*.safetensors")}
    held = _held(memory, key)
    for rounds in sorted((r for r in {*on_disk, *held} if r <= done), reverse=True):
        if rounds in held:
            return unpack(memory.array_records[held[rounds]]), rounds
        try:
            return load_file(on_disk[rounds]), rounds
        except Exception as error:  # the one before will do better than none
            log.error("pfedfair: %s cannot be read: %s", on_disk[rounds], first_line(error))
    return None


def remember(folder: Path, memory: RecordDict, key: str, done: int, own: State) -> None:
    """Keep a state; forget all but the last few of the run."""
    with atomic(folder / key / f"own-{done:06d}.safetensors") as beside:
        save_file({name: tensor.contiguous() for name, tensor in own.items()}, beside)
    _held(memory, key)
    memory["own-key"] = ConfigRecord({"key": key})
    memory[f"own-{done:06d}"] = pack(own)
    names = [name for name in memory.array_records if name.startswith("own-")]
    for name in _forgotten(names, done):
        del memory[name]
    paths = {path.stem: path for path in (folder / key).glob("own-*.safetensors")}
    for name in _forgotten(paths, done):
        paths[name].unlink()


def _forgotten(names: Iterable[str], done: int) -> list[str]:
    """All but the last few, and those of rounds that are to be done again."""
    known = sorted(name for name in names if _rounds(name) <= done)
    return [name for name in names if name not in known[-KEPT:]]


def _held(memory: RecordDict, key: str) -> dict[int, str]:
    """Names of the states in memory by their rounds; those of another run are dropped."""
    names = [name for name in memory.array_records if name.startswith("own-")]
    if names and memory.config_records["own-key"]["key"] != key:
        for name in names:
            del memory[name]
        names = []
    return {_rounds(name): name for name in names}


def _rounds(name: str) -> int:
    return int(name.removeprefix("own-"))
