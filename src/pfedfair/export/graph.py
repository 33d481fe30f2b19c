"""Build an ONNX graph node by node."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from pfedfair._util.errors import InputError

OPSET, ML_OPSET, IR = 18, 3, 9  # old enough for the runtimes of recent years
ML = "ai.onnx.ml"


def library() -> Any:
    """Import onnx when it is needed: it is an extra."""
    try:
        import_module("onnx.helper")
        import_module("onnx.numpy_helper")
        return import_module("onnx")
    except ImportError as error:
        raise InputError(
            "Exporting needs the package onnx: pip install 'pfedfair[onnx]'."
        ) from error


class Graph:
    """Nodes in the order in which they are computed; every value has a name."""

    def __init__(self) -> None:
        self.onnx = library()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def number(self, name: str) -> str:
        """Add an input, a column of numbers, ``(n, 1)``; NaN is a missing value."""
        return self._input(name, self.onnx.TensorProto.DOUBLE)

    def text(self, name: str) -> str:
        """Add an input, a column of text, ``(n, 1)``; "" is a missing value."""
        return self._input(name, self.onnx.TensorProto.STRING)

    def constant(self, values: Any, kind: type = np.float32) -> str:
        name = f"constant {len(self.constants)}"
        array: np.ndarray = np.asarray(values, dtype=kind)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; return the name of what it computes."""
        name = f"{kind} {len(self.nodes)}"
        made = self.onnx.helper.make_node(kind, inputs, [name], name, domain=domain, **attributes)
        self.nodes.append(made)
        return name

    def cast(self, value: str, kind: str) -> str:
        return self.op("Cast", value, to=getattr(self.onnx.TensorProto, kind))

    def joined(self, parts: Sequence[str]) -> str:
        """Concatenate columns."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=1)

    def looked_up(self, value: str, keys: dict[str, int], default: int) -> str:
        """Add a lookup of the numbers of texts."""
        return self.op(
            "LabelEncoder", value, domain=ML, keys_strings=list(keys),
            values_int64s=list(keys.values()), default_int64=default,
        )  # fmt: skip

    def named(self, value: str, names: Sequence[str]) -> str:
        """Add a lookup of the texts of numbers, "" for any other number."""
        return self.op(
            "LabelEncoder", value, domain=ML, keys_int64s=list(range(len(names))),
            values_strings=list(names), default_string="",
        )  # fmt: skip

    def output(self, name: str, value: str, kind: str, *shape: str | int) -> None:
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name], f"out {name}"))
        kind_of = getattr(self.onnx.TensorProto, kind)
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind_of, shape))

    def model(self, about: dict[str, str], words: str) -> Any:
        """Return the checked model."""
        helper = self.onnx.helper
        graph = helper.make_graph(
            self.nodes, "pfedfair", self.inputs, self.outputs, self.constants, words
        )
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(ML, ML_OPSET)]
        made = helper.make_model(graph, opset_imports=sets, ir_version=IR, producer_name="pfedfair")
        helper.set_model_props(made, about)
        self.onnx.checker.check_model(made, full_check=True)
        return made

    def _input(self, name: str, kind: int) -> str:
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, ["n", 1]))
        return name
