"""The provenance of a page's numbers: data, settings, seeds, versions, hashes, the command."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair._util.files import sha256
from pfedfair._util.notebook import abbreviate
from pfedfair.runs.callbacks import flat
from pfedfair.runs.card import versions
from pfedfair.studies import words

Rows = list[tuple[str, str]]
About = list[tuple[str, Rows]]
HASHED = ("results.parquet", "rules.parquet", "predictions.parquet", "model.safetensors",
          "targets.parquet", "audit.parquet", "run.json", "experiment.json")  # fmt: skip
PROTOCOLS = {
    "pool": "all held-out rows, weighted to each client's shares of the groups",
    "own": "each client's own held-out rows",
    "validation": "validation rows, for tuning",
}


def of_card(card: Mapping[str, Any], protocol: str, network: str) -> About:
    """Return the data, settings, versions and command of a run's card."""
    columns, data = card["columns"], card["data"]
    inputs = [*columns["numbers"], *columns["categories"]]
    use = "is an input, too" if columns["sensitive_is_input"] else "is not an input"
    left_out = [f"{name} ({why})" for name, why in columns["left_out"].items()]
    of_data = [
        ("data set", card["dataset"]),
        ("rows", f"{data['rows']:,}"),
        ("SHA-256 of the rows", str(data["sha256"])),
        ("inputs", data["inputs"] or abbreviate(list(map(str, inputs)), 20)),
        ("left out", abbreviate(left_out, 20)),
        ("label", str(columns["label"])),
        ("groups", f"{card['sensitive_column']} ({', '.join(card['group_names'])}), {use}"),
        ("clients", f"{len(card['clients']):,}"),
        ("measured on", PROTOCOLS.get(protocol, protocol)),
    ]
    settings = [(name, _text(value)) for name, value in flat(card["algorithm"]).items()]
    return [
        ("Data", [row for row in of_data if row[1]]),
        ("Settings", [("model", network), *settings, ("seed", str(card["seed"]))]),
        ("Versions", list(card["versions"].items())),
        ("Make it again", [("command", card["command"])] if card.get("command") else []),
    ]


def of_results(results: pd.DataFrame, command: str = "") -> About:
    """Return the data, settings, versions and command of results."""
    seeds = sorted(results["seed"].unique())
    protocols = [PROTOCOLS.get(one, one) for one in results["protocol"].unique()]
    of_data = [("part", words.heading(part)) for _, part in
               results.groupby(["dataset", "partition"], sort=False)]  # fmt: skip
    runs: Rows = []
    for (method, level), part in results.groupby(["method", "level"], sort=False):
        name = f"{method}, {words.level(str(level))}" if level else str(method)
        config = flat(json.loads(part["config"].iloc[0]))
        runs.append((name, ", ".join(f"{key} {_text(value)}" for key, value in config.items())))
    return [
        ("Data", [*of_data, ("measured on", "; ".join(protocols))]),
        ("Settings", [("seeds", abbreviate(list(map(str, seeds)), 20)), *runs]),
        ("Versions", list(versions().items())),
        ("Make it again", [("command", command)] if command else []),
    ]


def hashes(folder: Path) -> About:
    """Return the files of a folder with their hashes."""
    rows = []
    for name in HASHED:
        if (folder / name).exists():
            rows.append((name, sha256(folder / name)))
    return [("Files (SHA-256)", rows)]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
