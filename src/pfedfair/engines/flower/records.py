"""Tensors by name, as Flower's records and back."""

from __future__ import annotations

import torch
from flwr.app import Array, ArrayRecord

from pfedfair.algorithms import State


def pack(state: State) -> ArrayRecord:
    return ArrayRecord({name: Array(tensor.numpy()) for name, tensor in state.items()})


def unpack(record: ArrayRecord) -> State:
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def one_row(state: State) -> State:
    """The only row of a stack: what one site sends."""
    return {name: rows[0].clone() for name, rows in state.items()}
