"""A client's scorer and rule in one ONNX graph, on raw columns.

Inputs are the columns: numbers as doubles, all others as text, each ``(n, 1)``; S, where the model
takes it, is the text of its column. Outputs are the `score` (before the rule), the `chance` of
the second label under the rule, and the `label` if the rule is not randomised. A randomised rule,
or one that is a table, is written next to the graph as JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic, write_json
from pfedfair.data.tables.cells import WHOLE
from pfedfair.data.task import outputs
from pfedfair.export.graph import Graph
from pfedfair.export.parts import ENCODERS, NETWORKS, RULES
from pfedfair.rules import Rule
from pfedfair.rules.thresholds import PARTS
from pfedfair.runs import PersonalModel

SUPPORTED = "linear, additive and perceptron models of columns can"


def write_onnx(model: PersonalModel, path: Path) -> list[Path]:
    """Write the graph, and the rule next to it if it is randomised or a table."""
    onnx_model, decides = build(model)
    rule_path = path.with_suffix(".rule.json")
    content = onnx_model.SerializeToString(deterministic=True)
    with atomic(path) as temporary:
        temporary.write_bytes(content)
    if decides:
        rule_path.unlink(missing_ok=True)  # of a graph that was here before
        return [path]
    write_json(rule_path, rule_of(model))
    return [path, rule_path]


def build(model: PersonalModel) -> tuple[Any, bool]:
    """Return the ONNX model, and whether its graph makes all decisions."""
    predictor, task = model.predictor, model.task
    network, rule, encoder = predictor.network, predictor.rule, model.encoder
    for part, supported, what in ((network, NETWORKS, "network"), (encoder, ENCODERS, "inputs")):
        if type(part) not in {*supported}:
            kind = network.words if what == "network" else "images and embeddings"
            raise InputError(f"The {what} of this model cannot be exported ({kind}): {SUPPORTED}.")
    graph = Graph()
    x = ENCODERS[type(encoder)](graph, encoder)
    s, known = _group(graph, model) if task.aware else ("", "")
    logits = NETWORKS[type(network)](graph, network, predictor.theta, x, s)
    width = outputs(task.classes)
    of_labels = (graph.constant([end], np.int64) for end in (0, width, 1))  # from, to, axis
    z = graph.op("Slice", logits, *of_labels)  # without an auxiliary head
    score = graph.op("Sigmoid", z) if width == 1 else graph.op("Softmax", z, axis=1)
    _number(graph, "score", score, known, width)
    decides = type(rule) in RULES and not rule.draws
    if type(rule) in RULES:
        code, chance = RULES[type(rule)](graph, rule, z, s, task.classes)
        if chance:
            _number(graph, "chance", chance, known, 1)
        if decides:
            if known:
                code = graph.op("Where", known, code, graph.constant(-1, np.int64))
            label = graph.named(code, model.label_names)
            axis = graph.constant([1], np.int64)
            graph.output("label", graph.op("Squeeze", label, axis), "STRING", "n")
    about = {
        "client": model.name,
        "labels": "\n".join(model.label_names),
        "groups": "\n".join(model.group_names),
        "sensitive": model.sensitive_column if task.aware else "",
        "rule": "\n".join(model.words()),
    }
    return graph.model(about, "\n".join(model.words())), decides


def _group(graph: Graph, model: PersonalModel) -> tuple[str, str]:
    """Return a row's group, the first where it is not known; and whether it is known."""
    keys = dict(model.groups_of)
    for word, z in model.groups_of.items():
        if WHOLE.fullmatch(word):
            keys.setdefault(f"{word}.0", z)
        if word in ("True", "False"):
            keys |= {word.lower(): z, word.upper(): z}
    code = graph.looked_up(graph.text(model.sensitive_column), keys, -1)
    zero = graph.constant(0, np.int64)
    return graph.op("Max", code, zero), graph.op("GreaterOrEqual", code, zero)


def _number(graph: Graph, name: str, value: str, known: str, width: int) -> None:
    """Add an output of numbers, NaN where S is not known."""
    if known:
        value = graph.op("Where", known, value, graph.constant(np.nan))
    if width == 1:
        value = graph.op("Squeeze", value, graph.constant([1], np.int64))
    graph.output(name, value, "FLOAT", *(["n"] if width == 1 else ["n", width]))


def rule_of(model: PersonalModel) -> dict[str, Any]:
    """Return the rule in words and numbers, for programs that make the random draws."""
    rule: Rule = model.predictor.rule
    about: dict[str, Any] = {
        **rule.to_dict(),
        "client": model.name,
        "labels": list(model.label_names),
        "groups": list(model.group_names),
        "words": model.words(),
        "lots": "Draw a random number from 0 to 1 for each row: the decision is the second label "
        "if it is below the chance. Draw once for each row identifier.",
    }
    table = rule.table()
    if not table:
        return about | {"numbers": rule.numbers.tolist()}
    thresholds = {group: {part: table[f"{part}_s{z}"] for part in PARTS}
                  for z, group in enumerate(model.group_names)}  # fmt: skip
    return about | {"thresholds": thresholds}
