"""Convert between named tensors and Flower's records."""

from collections.abc import Iterator, MutableMapping, Sequence

import torch
from flwr.app import Array, ArrayRecord, Message, RecordDict

from pfedfair.engines.flower.sizes import too_large
from pfedfair.methods import State

PROPOSED = "state-"  # begins the names of a server's proposed states


def pack(state: State) -> ArrayRecord:
    return ArrayRecord({name: Array(tensor.numpy()) for name, tensor in state.items()})


def unpack(record: ArrayRecord) -> State:
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def read_training(answer: Message, max_bytes: int) -> tuple[State, int]:
    """Return the tensors of an answer to ``train``, and how many rounds the site has done."""
    arrays = answer.content.array_records["arrays"]
    if sum(len(array.data) for array in arrays.values()) > max_bytes:
        raise ValueError(too_large(max_bytes))
    return unpack(arrays), int(str(answer.content.metric_records["metrics"]["rounds"]))


def pack_states(states: Sequence[State]) -> dict[str, ArrayRecord]:
    return {f"{PROPOSED}{k:03d}": pack(state) for k, state in enumerate(states)}


def read_states(message: Message) -> list[State]:
    """Return the states that a server proposes, in their order."""
    records = message.content.array_records
    return [unpack(records[name]) for name in sorted(records) if name.startswith(PROPOSED)]


class NodeMemory(MutableMapping[str, State]):
    """States in the memory of a SuperNode, which Flower keeps between two messages."""

    def __init__(self, records: RecordDict) -> None:
        self.records = records

    def __getitem__(self, name: str) -> State:
        return unpack(self.records.array_records[name])

    def __setitem__(self, name: str, state: State) -> None:
        self.records[name] = pack(state)

    def __delitem__(self, name: str) -> None:
        del self.records[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.records.array_records))

    def __len__(self) -> int:
        return len(self.records.array_records)
