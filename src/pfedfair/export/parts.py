"""Encoders, networks and rules as parts of an ONNX graph: the same arithmetic, node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from pfedfair.data.tables.basis import MISSING
from pfedfair.data.tables.cells import MISSING as MISSING_WORDS
from pfedfair.data.tables.cells import WHOLE
from pfedfair.data.tables.encoder import MISSING as MISSING_CATEGORY
from pfedfair.data.tables.encoder import Encoder
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.export.graph import Graph
from pfedfair.models import MLP, Bias, Both, Network
from pfedfair.models.mlp import unfold
from pfedfair.rules import Likeliest, Rule, Thresholds

NOTHING = MISSING_WORDS  # texts of missing values


def spellings(words: Sequence[str], missing: int) -> dict[str, int]:
    """Return the numbers of texts in all their spellings; `missing` is that of a missing value."""
    numbers = dict.fromkeys(NOTHING, missing)
    for number, word in enumerate(words):
        variants = [f"{word}.0"] if WHOLE.fullmatch(word) else []
        variants += [word.lower(), word.upper()] if word in ("True", "False") else []
        numbers |= dict.fromkeys((word, *variants), number)
    return numbers


def is_missing(graph: Graph, x: str) -> str:
    """Return whether numbers are missing or not finite."""
    return graph.op("Or", graph.op("IsNaN", x), graph.op("IsInf", x))


def piecewise(graph: Graph, encoder: Piecewise) -> str:
    """Add the nodes of `Piecewise.pack`, then `Basis.dense`."""
    basis, hinges = encoder.basis, len(encoder.basis.mean)
    cells = graph.joined(positions(graph, encoder))

    def of_inputs(inputs: slice) -> tuple[str, str]:
        """Return the positions of inputs' columns, and their offsets from the inputs' knots."""
        columns = graph.constant(basis.column[inputs].numpy(), np.int64)
        position = graph.op("Gather", cells, columns, axis=1)
        start = graph.constant(basis.start[inputs].numpy()[None])
        return position, graph.op("Sub", position, start)

    parts = []
    if hinges:
        position, slopes = of_inputs(slice(hinges))
        slopes = graph.op("Clip", slopes, graph.constant(0), graph.constant(1))
        slopes = graph.op("Sub", slopes, graph.constant(basis.mean.numpy()[None]))
        slopes = graph.op("Mul", slopes, graph.constant(basis.scale.numpy()[None]))
        missing = graph.op("Equal", position, graph.constant(MISSING))
        parts.append(graph.op("Where", missing, graph.constant(0), slopes))
    if basis.width > hinges:
        position, offset = of_inputs(slice(hinges, None))
        flags = graph.cast(graph.op("Equal", offset, graph.constant(0)), "FLOAT")
        known = basis.known[basis.column[hinges:]].numpy()[None]
        unseen = graph.op("GreaterOrEqual", position, graph.constant(known))
        missing = graph.op("Equal", position, graph.constant(MISSING))
        unknown = graph.cast(graph.op("Or", missing, unseen), "FLOAT")
        share = graph.constant(basis.share.numpy()[None])
        parts.append(graph.op("Add", flags, graph.op("Mul", unknown, share)))
    return graph.joined(parts)


def positions(graph: Graph, encoder: Piecewise) -> list[str]:
    """Add the nodes of `Piecewise.pack`, column by column."""
    found = []
    zero, one = graph.constant(0, np.float64), graph.constant(1, np.float64)
    for name, number in encoder.numbers.items():
        x, knots, at = graph.number(name), np.array(number.knots), zero
        if len(knots) > 1:  # numpy.interp
            over = graph.op("Sub", x, graph.constant(knots[None, :-1], np.float64))
            slope = graph.constant(1 / np.diff(knots)[None], np.float64)
            shares = graph.op("Clip", graph.op("Mul", over, slope), zero, one)
            at = graph.op("ReduceSum", shares, graph.constant([1], np.int64), keepdims=1)
        at = graph.op("Where", is_missing(graph, x), graph.constant(MISSING, np.float64), at)
        found.append(graph.cast(at, "FLOAT"))
    for name, column in encoder.categories.items():
        keys = spellings(column.names, int(MISSING))
        code = graph.looked_up(graph.text(name), keys, len(column.names))
        found.append(graph.cast(code, "FLOAT"))
    return found


def standard(graph: Graph, encoder: Encoder) -> str:
    """Add the nodes of `Encoder.transform`."""
    found, flags = [], {}
    for name, mean in encoder.mean.items():
        x = graph.number(name)
        flags[name] = is_missing(graph, x)
        moved = graph.op("Sub", x, graph.constant(mean, np.float64))
        scaled = graph.op("Div", moved, graph.constant(encoder.scale[name], np.float64))
        scaled = graph.op("Where", flags[name], graph.constant(0, np.float64), scaled)
        found.append(graph.cast(scaled, "FLOAT"))
    found += [graph.cast(flags[name], "FLOAT") for name in encoder.gaps]
    for name, words in encoder.categories.items():
        none = words.index(MISSING_CATEGORY) if MISSING_CATEGORY in words else -1
        code = graph.looked_up(graph.text(name), spellings(words, none), -1)
        codes = graph.constant(np.arange(len(words))[None], np.int64)
        found.append(graph.cast(graph.op("Equal", code, codes), "FLOAT"))
    return graph.joined(found)


def mlp(graph: Graph, network: MLP, theta: Tensor, x: str, s: str) -> str:
    """Add the nodes of `MLP.logits`: layers, with S after the inputs."""
    if network.groups == 2:
        x = graph.joined([x, graph.cast(s, "FLOAT")])
    elif network.groups:
        groups = graph.constant(np.arange(network.groups)[None], np.int64)
        x = graph.joined([x, graph.cast(graph.op("Equal", s, groups), "FLOAT")])
    for layer in network.layers:
        weight, bias = unfold(theta[None], layer)
        values = graph.constant(weight[0].numpy()), graph.constant(bias[0, 0].numpy())
        x = graph.op("Gemm", x, *values, transB=1)
        if layer is not network.layers[-1]:
            x = graph.op("Relu", x)
    return x


def bias(graph: Graph, network: Bias, theta: Tensor, x: str, s: str) -> str:
    """Add the same logits for all rows."""
    first = graph.op("Gather", x, graph.constant([0], np.int64), axis=1)
    zeros = graph.op("Mul", first, graph.constant(np.zeros((1, network.size))))
    return graph.op("Add", zeros, graph.constant(theta.numpy()[None]))


def both(graph: Graph, network: Both, theta: Tensor, x: str, s: str) -> str:
    each = [(net, row[0]) for net, row in network._parts(theta[None])]
    return graph.joined([NETWORKS[type(net)](graph, net, row, x, s) for net, row in each])


def likeliest(graph: Graph, rule: Rule, z: str, s: str, classes: int) -> tuple[str, str]:
    """Return the decision's number, and the chance of the second label; z are labels' logits."""
    if classes == 2:
        code = graph.cast(graph.op("Greater", z, graph.constant(0)), "INT64")
        return code, graph.cast(code, "FLOAT")
    return graph.op("ArgMax", z, axis=1, keepdims=1), ""


def thresholds(graph: Graph, rule: Rule, z: str, s: str, classes: int) -> tuple[str, str]:
    flat = graph.op("Squeeze", s, graph.constant([1], np.int64))
    of_group = graph.op("Gather", graph.constant(rule.numbers.numpy()), flat, axis=0)
    low, high, chance, below = (
        graph.op("Gather", of_group, graph.constant([k], np.int64), axis=1) for k in range(4)
    )
    above_high = graph.op("GreaterOrEqual", z, high)
    under = graph.op("Where", graph.op("Less", z, low), below, chance)
    positive = graph.op("Where", above_high, graph.constant(1), under)
    return graph.cast(graph.op("Greater", positive, graph.constant(0.5)), "INT64"), positive


Part = Callable[..., Any]
ENCODERS: dict[type, Part] = {Piecewise: piecewise, Encoder: standard}
NETWORKS: dict[type[Network], Part] = {MLP: mlp, Bias: bias, Both: both}
RULES: dict[type, Part] = {Likeliest: likeliest, Thresholds: thresholds}
