"""A site's states between rounds: on the site's disk, and in its process's memory.

A state is stored under the number of rounds that it has seen. The last two are stored: a server
that crashed asks for its last round again. The newer of disk and memory is used.

Answers with noise are stored as well, the last two, on disk only. The same question gets the same
answer again: anew, it would have other noise, and the mean of many answers has little.
"""

import logging
from collections.abc import Iterable, MutableMapping
from pathlib import Path

from pfedfair._util.files import first_line
from pfedfair.engines.site import checksums
from pfedfair.methods import State

log = logging.getLogger("pfedfair")
MAX_STATES = 2
Memory = MutableMapping[str, State]  # by "run/own-000007"


def recall(folder: Path, memory: Memory, key: str, done: int) -> tuple[State, int] | None:
    """Return the newest state of run `key` that has seen at most `done` rounds, and how many."""
    on_disk = {_rounds(path.stem): path for path in (folder / key).glob("own-*.safetensors")}
    held = {_rounds(name): name for name in memory if name.startswith(f"{key}/")}
    for rounds in sorted((r for r in {*on_disk, *held} if r <= done), reverse=True):
        if rounds in held:
            return memory[held[rounds]], rounds
        try:
            return checksums.read(on_disk[rounds])[0], rounds
        except Exception as error:  # the one before is better than none
            log.error("pfedfair: %s cannot be read: %s", on_disk[rounds], first_line(error))
    return None


def remember(folder: Path, memory: Memory, key: str, done: int, own: State) -> None:
    """Store a state; delete all but the last few of the run, and in memory those of other runs."""
    name = f"own-{done:06d}"
    checksums.write(folder / key / f"{name}.safetensors", own)
    memory[f"{key}/{name}"] = own
    of_this_run = [name for name in memory if name.startswith(f"{key}/")]
    for name in [name for name in memory if name not in _newest(of_this_run, done)]:
        del memory[name]
    paths = {path.stem: path for path in (folder / key).glob("own-*.safetensors")}
    for name in paths.keys() - _newest(paths, done):
        paths[name].unlink()


def stored_answer(folder: Path, key: str, t: int, question: str) -> tuple[State, int] | None:
    """Return the answer with noise to the same question in round t, and how many rounds it did."""
    path = folder / key / f"answer-{t:06d}.safetensors"
    if not path.exists():
        return None
    try:
        sent, about = checksums.read(path)
    except Exception as error:
        log.error("pfedfair: %s cannot be read: %s", path, first_line(error))
        return None
    return (sent, int(about["done"])) if about["question"] == question else None


def store_answer(folder: Path, key: str, t: int, question: str, sent: State, done: int) -> None:
    """Store an answer with noise to a question in round t; delete all but the last few."""
    about = {"question": question, "done": done}
    checksums.write(folder / key / f"answer-{t:06d}.safetensors", sent, about, private=True)
    paths = {path.stem: path for path in (folder / key).glob("answer-*.safetensors")}
    for name in paths.keys() - _newest(paths, t):
        paths[name].unlink()


def _newest(names: Iterable[str], done: int) -> set[str]:
    """Return the last few names, but none of rounds that are to be repeated."""
    return set(sorted(name for name in names if _rounds(name) <= done)[-MAX_STATES:])


def _rounds(name: str) -> int:
    return int(name.rpartition("-")[2])
