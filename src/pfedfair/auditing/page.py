"""The page of an audit: every group of every client, and what the intervals show of the gaps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line, read_json, read_parquet
from pfedfair.auditing.view import HEADS, verdicts, wide
from pfedfair.metrics.criteria import MEASURES
from pfedfair.metrics.intervals import FEWEST
from pfedfair.runs.card import versions
from pfedfair.studies import words
from pfedfair.studies.page.about import About, hashes
from pfedfair.studies.page.document import Page, column, counts
from pfedfair.studies.view import View

CARD = "audit.json"  # columns, labels, groups and notes of audit.parquet
GAP = "ddp"
MANY = 300  # clients; of more, three measures of each
SHORT = ("accuracy", "selection_rate", GAP)


def page(
    frame: pd.DataFrame, about: Mapping[str, Any], view: View, folder: Path | None = None
) -> Page:
    """Return the page; `about` is the card."""
    columns = about["columns"]
    first = frame[frame["prediction"].isin([columns["prediction"], columns["score"]])]
    totals = wide(first[first["group"] == ""])
    by_client = totals[totals["client"] != ""]
    sites = by_client if len(by_client) else totals
    overall = totals.iloc[0]
    names = [str(name) or "all rows" for name in sites["client"]]
    rates = first[(first["group"] != "") & (first["measure"] == "selection_rate")]
    what = f"{columns['prediction']}, by {' x '.join(columns['sensitive'])}"
    first_verdict, *verdict = verdicts(overall)
    arm: dict[str, Any] = {"method": columns["prediction"], "level": "", "target": None}
    arm |= {"words": columns["prediction"], "constant": None, "verdict": None}
    arm["why"] = [None] * len(sites)
    arm["rows"] = counts(sites[f"{GAP}_people"])
    for name, source in (("gap", GAP), ("accuracy", "accuracy")):
        arm |= {f"{name}{end}": column(sites[f"{source}{end}"]) for end in words.ENDS}
    return Page(
        kind="audit",
        title=f"Audit of {what}",
        sentence=f"Decisions of {what}: {first_verdict}",
        more=[*_clients(by_client), *verdict][:4],
        gap=GAP,
        groups=about["groups"],
        labels=about["labels"],
        positive=about["labels"][-1],
        parts=[{
            "name": f"{len(names):,} clients" if len(by_client) else "all rows",
            "sites": {"name": names, "role": None, "n_train": None,
                      "n_test": counts(sites["accuracy_people"])},
            "arms": [arm], "chosen": 0, "tradeoff": None, "tables": [],
        }],
        details=_details(rates, [str(name) for name in sites["client"]]),
        warnings=list(view.cautions),
        about=_about(about, folder),
        audit={"rows": _rows(frame, len(by_client))},
    )  # fmt: skip


def _clients(frame: pd.DataFrame) -> list[str]:
    """Return a sentence on how many clients clearly have a gap."""
    if not len(frame):
        return []
    small = frame[f"{GAP}_people"].between(1, FEWEST - 1)
    none = frame[GAP].isna()
    clear = (frame[f"{GAP}_low"] > 0) & ~small & ~none
    text = f"Of {len(frame):,} clients {clear.sum():,} clearly have a gap (DDP)"
    if clear.any():
        worst = frame[clear].sort_values(f"{GAP}_low").iloc[-1]
        text += f", most clearly {worst['client']}: {words.interval(worst, GAP)}"
    unclear = int((~clear & ~small & ~none).sum())
    text += f"; {unclear:,} may have one" if unclear else ""
    text += f"; {small.sum():,} have {words.TOO_FEW}" if small.any() else ""
    text += f"; {none.sum():,} have rows of one group only" if none.any() else ""
    return [f"{text}."]


def _details(rates_of: pd.DataFrame, sites: Sequence[str]) -> list[dict[str, Any] | None]:
    """Return the groups' rates at each client."""
    empty: dict[str, Any] = dict.fromkeys(("changed", "scores", "thresholds", "cost", "local"))
    by_client = dict(iter(rates_of.groupby("client", sort=False)))
    details: list[dict[str, Any] | None] = []
    for name in sites if len(sites) <= MANY else ():
        rows = by_client.get(name, rates_of.iloc[:0])
        rates = [
            {"group": row.group, "train": None, "rows": row.people, "rate": row.value,
             "low": row.low, "high": row.high,
             **dict.fromkeys(("before", "before_low", "before_high"))}
            for row in rows.itertuples()
        ]  # fmt: skip
        details.append({"rates": rates, **empty, "rule": [], "facts": []})
    return details or [None] * len(sites)


def _rows(frame: pd.DataFrame, clients: int) -> list[dict[str, Any]]:
    """Return a row for each number of the audit."""
    if clients > MANY:
        frame = frame[(frame["client"] == "") | frame["measure"].isin(SHORT)]
    headings = {name: heading.replace("\n", " ") for name, heading in HEADS.items()}
    headings |= {name: name.upper() for name in MEASURES}
    return [
        {"client": row.client, "group": row.group, "measure": row.measure,
         "name": headings.get(str(row.measure), row.measure), "prediction": row.prediction,
         "value": row.value, "low": row.low, "high": row.high, "rows": row.people}
        for row in frame.itertuples()
    ]  # fmt: skip


def _about(about: Mapping[str, Any], folder: Path | None) -> About:
    columns = about["columns"]
    rows = [(name, " x ".join(value) if isinstance(value, list | tuple) else str(value))
            for name, value in columns.items() if value]  # fmt: skip
    data = [("rows", f"{about['rows']:,}"), *rows, ("labels", ", ".join(about["labels"]))]
    command = [("command", about["command"])] if about["command"] else []
    parts = [("Data", data), ("Versions", list(versions().items())), ("Make it again", command)]
    return parts + ([] if folder is None else hashes(folder))


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """Read the files of `Audit.save`: numbers, calibration, and the card."""
    if not (folder / CARD).exists():
        raise InputError(f"{folder} has no {CARD}: run the audit again.")
    about: dict[str, Any] = read_json(folder / CARD)
    tenths = pd.DataFrame()
    if (folder / "calibration.csv").exists():
        try:
            tenths = pd.read_csv(folder / "calibration.csv", dtype={"group": str})
        except ValueError as error:
            raise InputError(f"{folder / 'calibration.csv'} cannot be read "
                             f"({first_line(error)}).") from error  # fmt: skip
    return read_parquet(folder / "audit.parquet"), tenths, about
