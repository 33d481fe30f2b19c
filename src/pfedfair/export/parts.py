"""Encoders, networks and rules as parts of a graph: the same arithmetic as here, node by node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from pfedfair.data.tables.cells import EMPTY as EMPTY_WORDS
from pfedfair.data.tables.cells import WHOLE
from pfedfair.data.tables.encoder import MISSING, Encoder
from pfedfair.data.tables.piecewise import EMPTY, Piecewise
from pfedfair.export.graph import Graph
from pfedfair.models import MLP, Bias, Both, Network
from pfedfair.models.desk import unfold
from pfedfair.rules import Likeliest, Rule, Thresholds

NOTHING = [*sorted(EMPTY_WORDS), "NaN", "None", "<NA>"]  # texts that say that there is nothing


def spellings(words: Sequence[str], empty: int) -> dict[str, int]:
    """Numbers of words, however a program may write them; `empty` that of none."""
    found = dict.fromkeys(NOTHING, empty)
    for number, word in enumerate(words):
        more = [f"{word}.0"] if WHOLE.fullmatch(word) else []
        more += [word.lower(), word.upper()] if word in ("True", "False") else []
        found |= dict.fromkeys((word, *more), number)
    return found


def absent(graph: Graph, x: str) -> str:
    """Whether numbers are none, or not finite."""
    return graph.op("Or", graph.op("IsNaN", x), graph.op("IsInf", x))


def piecewise(graph: Graph, encoder: Piecewise) -> str:
    """`Piecewise.pack`, then `Piecewise.unpack`."""
    places = []
    for name, number in encoder.numbers.items():
        x = graph.number(name)
        knots = np.array(number.knots)
        nowhere = absent(graph, x)
        zero, one = graph.constant(0, np.float64), graph.constant(1, np.float64)
        if len(knots) > 1:  # numpy.interp
            over = graph.op("Sub", x, graph.constant(knots[None, :-1], np.float64))
            slope = graph.constant(1 / np.diff(knots)[None], np.float64)
            ramps = graph.op("Clip", graph.op("Mul", over, slope), zero, one)
            axis = graph.constant([1], np.int64)
            place = graph.op("ReduceSum", ramps, axis, keepdims=1)
        else:
            place = zero
        place = graph.op("Where", nowhere, graph.constant(EMPTY, np.float64), place)
        places.append(graph.cast(place, "FLOAT"))
    for name, levels in encoder.categories.items():
        keys = spellings(levels.names, int(EMPTY))
        code = graph.looked_up(graph.text(name), keys, len(levels.names))
        places.append(graph.cast(code, "FLOAT"))
    packed = graph.joined(places)
    column, low, mean, scale = (part.numpy() for part in encoder._parts)
    ramps_, found = len(mean), []

    def part(columns: np.ndarray, begins: np.ndarray) -> str:
        chosen = graph.op("Gather", packed, graph.constant(columns, np.int64), axis=1)
        return graph.op("Sub", chosen, graph.constant(begins[None]))

    if ramps_:
        slopes = part(column[:ramps_], low[:ramps_])
        slopes = graph.op("Clip", slopes, graph.constant(0), graph.constant(1))
        slopes = graph.op("Sub", slopes, graph.constant(mean[None]))
        slopes = graph.op("Mul", slopes, graph.constant(scale[None]))
        chosen = graph.op("Gather", packed, graph.constant(column[:ramps_], np.int64), axis=1)
        empty = graph.op("Equal", chosen, graph.constant(EMPTY))
        found.append(graph.op("Where", empty, graph.constant(0), slopes))
    if len(column) > ramps_:
        flags = graph.op("Equal", part(column[ramps_:], low[ramps_:]), graph.constant(0))
        found.append(graph.op("Add", graph.cast(flags, "FLOAT"), _shares(graph, encoder, packed)))
    return graph.joined(found)


def _shares(graph: Graph, encoder: Piecewise, packed: str) -> str:
    """What flags of levels are where a cell is empty, or of no level that has one."""
    column, numbers = encoder._parts[0][len(encoder._parts[2]) :].numpy(), len(encoder.numbers)
    ends, share = (part.numpy() for part in encoder._levels)
    own = np.maximum(column - numbers, 0)
    cells = graph.op("Gather", packed, graph.constant(column, np.int64), axis=1)
    beyond = ends[own][None] if len(ends) else np.full((1, len(own)), np.inf)
    far = graph.op("GreaterOrEqual", cells, graph.constant(beyond))
    nowhere = graph.op("Or", graph.op("Equal", cells, graph.constant(EMPTY)), far)
    return graph.op("Mul", graph.cast(nowhere, "FLOAT"), graph.constant(share[None]))


def standard(graph: Graph, encoder: Encoder) -> str:
    """`Encoder.transform`."""
    found, flags = [], {}
    for name, mean in encoder.mean.items():
        x = graph.number(name)
        flags[name] = absent(graph, x)
        moved = graph.op("Sub", x, graph.constant(mean, np.float64))
        scaled = graph.op("Div", moved, graph.constant(encoder.scale[name], np.float64))
        scaled = graph.op("Where", flags[name], graph.constant(0, np.float64), scaled)
        found.append(graph.cast(scaled, "FLOAT"))
    found += [graph.cast(flags[name], "FLOAT") for name in encoder.gaps]
    for name, levels in encoder.categories.items():
        none = levels.index(MISSING) if MISSING in levels else -1
        code = graph.looked_up(graph.text(name), spellings(levels, none), -1)
        each = graph.constant(np.arange(len(levels))[None], np.int64)
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
