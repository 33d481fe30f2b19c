"""Encoders, networks and rules as parts of a graph: the same arithmetic as here, node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from pfedfair.data.tables.basis import MISSING
from pfedfair.data.tables.cells import EMPTY as MISSING_WORDS
from pfedfair.data.tables.cells import WHOLE
from pfedfair.data.tables.encoder import MISSING as MISSING_CATEGORY
from pfedfair.data.tables.encoder import Encoder
from pfedfair.data.tables.piecewise import Piecewise
from pfedfair.export.graph import Graph
from pfedfair.models import MLP, Bias, Both, Network
from pfedfair.models.mlp import unfold
from pfedfair.rules import Likeliest, Rule, Thresholds

NOTHING = [*sorted(MISSING_WORDS), "NaN", "None", "<NA>"]  # texts that say that there is nothing


def spellings(words: Sequence[str], missing: int) -> dict[str, int]:
    """Return numbers of words, however a program may write them; `missing` is that of none."""
    found = dict.fromkeys(NOTHING, missing)
    for number, word in enumerate(words):
        more = [f"{word}.0"] if WHOLE.fullmatch(word) else []
        more += [word.lower(), word.upper()] if word in ("True", "False") else []
        found |= dict.fromkeys((word, *more), number)
    return found


def is_missing(graph: Graph, x: str) -> str:
    """Whether numbers are none, or not finite."""
    return graph.op("Or", graph.op("IsNaN", x), graph.op("IsInf", x))


def piecewise(graph: Graph, encoder: Piecewise) -> str:
    """`Piecewise.pack`, then `Basis.dense`."""
    basis, ramps = encoder.basis, len(encoder.basis.mean)
    cells = graph.joined(positions(graph, encoder))

    def of_inputs(inputs: slice) -> tuple[str, str]:
        """The positions of some inputs' columns, and these less where the inputs begin."""
        own = graph.constant(basis.column[inputs].numpy(), np.int64)
        found = graph.op("Gather", cells, own, axis=1)
        return found, graph.op("Sub", found, graph.constant(basis.start[inputs].numpy()[None]))

    parts = []
    if ramps:
        own, slopes = of_inputs(slice(ramps))
        slopes = graph.op("Clip", slopes, graph.constant(0), graph.constant(1))
        slopes = graph.op("Sub", slopes, graph.constant(basis.mean.numpy()[None]))
        slopes = graph.op("Mul", slopes, graph.constant(basis.scale.numpy()[None]))
        missing = graph.op("Equal", own, graph.constant(MISSING))
        parts.append(graph.op("Where", missing, graph.constant(0), slopes))
    if basis.width > ramps:
        own, off = of_inputs(slice(ramps, None))
        flags = graph.cast(graph.op("Equal", off, graph.constant(0)), "FLOAT")
        known = basis.known[basis.column[ramps:]].numpy()[None]
        beyond = graph.op("GreaterOrEqual", own, graph.constant(known))
        nowhere = graph.op("Or", graph.op("Equal", own, graph.constant(MISSING)), beyond)
        share = graph.constant(basis.share.numpy()[None])
        parts.append(graph.op("Add", flags, graph.op("Mul", graph.cast(nowhere, "FLOAT"), share)))
    return graph.joined(parts)


def positions(graph: Graph, encoder: Piecewise) -> list[str]:
    """`Piecewise.pack`, column by column."""
    found = []
    zero, one = graph.constant(0, np.float64), graph.constant(1, np.float64)
    for name, number in encoder.numbers.items():
        x, knots, at = graph.number(name), np.array(number.knots), zero
        if len(knots) > 1:  # numpy.interp
            over = graph.op("Sub", x, graph.constant(knots[None, :-1], np.float64))
            slope = graph.constant(1 / np.diff(knots)[None], np.float64)
            each = graph.op("Clip", graph.op("Mul", over, slope), zero, one)
            at = graph.op("ReduceSum", each, graph.constant([1], np.int64), keepdims=1)
        at = graph.op("Where", is_missing(graph, x), graph.constant(MISSING, np.float64), at)
        found.append(graph.cast(at, "FLOAT"))
    for name, column in encoder.categories.items():
        keys = spellings(column.names, int(MISSING))
        code = graph.looked_up(graph.text(name), keys, len(column.names))
        found.append(graph.cast(code, "FLOAT"))
    return found


def standard(graph: Graph, encoder: Encoder) -> str:
    """`Encoder.transform`."""
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
        each = graph.constant(np.arange(len(words))[None], np.int64)
        found.append(graph.cast(graph.op("Equal", code, each), "FLOAT"))
    return graph.joined(found)


def mlp(graph: Graph, network: MLP, theta: Tensor, x: str, s: str) -> str:
    """`MLP.logits`: layers, with S behind the inputs."""
    if network.groups == 2:
        x = graph.joined([x, graph.cast(s, "FLOAT")])
    elif network.groups:
        each = graph.constant(np.arange(network.groups)[None], np.int64)
        x = graph.joined([x, graph.cast(graph.op("Equal", s, each), "FLOAT")])
    for layer in network.layers:
        weight, bias = unfold(theta[None], layer)
        values = graph.constant(weight[0].numpy()), graph.constant(bias[0, 0].numpy())
        x = graph.op("Gemm", x, *values, transB=1)
        if layer is not network.layers[-1]:
            x = graph.op("Relu", x)
    return x


def bias(graph: Graph, network: Bias, theta: Tensor, x: str, s: str) -> str:
    """The same logits for everybody."""
    first = graph.op("Gather", x, graph.constant([0], np.int64), axis=1)
    nothing = graph.op("Mul", first, graph.constant(np.zeros((1, network.size))))
    return graph.op("Add", nothing, graph.constant(theta.numpy()[None]))


def both(graph: Graph, network: Both, theta: Tensor, x: str, s: str) -> str:
    each = [(net, row[0]) for net, row in network._parts(theta[None])]
    return graph.joined([NETWORKS[type(net)](graph, net, row, x, s) for net, row in each])


def likeliest(graph: Graph, rule: Rule, z: str, s: str, classes: int) -> tuple[str, str]:
    """The decision's number, and the chance of the second label's; z are the labels' logits."""
    if classes == 2:
        code = graph.cast(graph.op("Greater", z, graph.constant(0)), "INT64")
        return code, graph.cast(code, "FLOAT")
    return graph.op("ArgMax", z, axis=1, keepdims=1), ""


def thresholds(graph: Graph, rule: Rule, z: str, s: str, classes: int) -> tuple[str, str]:
    flat = graph.op("Squeeze", s, graph.constant([1], np.int64))
    own = graph.op("Gather", graph.constant(rule.numbers.numpy()), flat, axis=0)
    low, high, chance, below = (
        graph.op("Gather", own, graph.constant([k], np.int64), axis=1) for k in range(4)
    )
    sure = graph.op("GreaterOrEqual", z, high)
    under = graph.op("Where", graph.op("Less", z, low), below, chance)
    positive = graph.op("Where", sure, graph.constant(1), under)
    return graph.cast(graph.op("Greater", positive, graph.constant(0.5)), "INT64"), positive


Part = Callable[..., Any]
ENCODERS: dict[type, Part] = {Piecewise: piecewise, Encoder: standard}
NETWORKS: dict[type[Network], Part] = {MLP: mlp, Bias: bias, Both: both}
RULES: dict[type, Part] = {Likeliest: likeliest, Thresholds: thresholds}
