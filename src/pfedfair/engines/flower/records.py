"""Tensors by name, as Flower's records and back."""

from collections.abc import Iterator, MutableMapping

import torch
from flwr.app import Array, ArrayRecord, RecordDict

from pfedfair.methods import State


def pack(state: State) -> ArrayRecord:
    return ArrayRecord({name: Array(tensor.numpy()) for name, tensor in state.items()})


def unpack(record: ArrayRecord) -> State:
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


class Held(MutableMapping[str, State]):
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
