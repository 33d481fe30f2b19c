"""The page of an audit: every group of every client, and what can be told of the gaps."""

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
from pfedfair.studies.page.document import Page, column, whole
from pfedfair.studies.view import View

CARD = "audit.json"  # what audit.parquet does not say: columns, notes, labels
GAP = "ddp"
MANY = 300  # clients; of more, three measures of each
SHORT = ("accuracy", "selection_rate", GAP)


def page(
    frame: pd.DataFrame, about: Mapping[str, Any], view: View, folder: Path | None = None
) -> Page:
    """The page; `about` is what the card says."""
    columns = about["columns"]
    first = frame[frame["prediction"].isin([columns["prediction"], columns["score"]])]
    everybody = wide(first[(first["client"] == "") & (first["group"] == "")]).iloc[0]
    each = wide(first[(first["client"] != "") & (first["group"] == "")])
    sites = each if len(each) else wide(first[(first["client"] == "") & (first["group"] == "")])
    names = [str(name) or "everybody" for name in sites["client"]]
    people = first[(first["group"] != "") & (first["measure"] == "selection_rate")]
    arm: dict[str, Any] = {"method": columns["prediction"], "level": "", "target": None}
    arm |= {"words": columns["prediction"], "constant": None, "verdict": None}
    arm["why"] = [None] * len(sites)
    arm["people"] = whole(sites[f"{GAP}_people"])
    for name, source in (("gap", GAP), ("accuracy", "accuracy")):
        arm |= {f"{name}{end}": column(sites[f"{source}{end}"]) for end in words.ENDS}
    return Page(
        kind="audit",
        title=f"Audit of {columns['prediction']}, by {' x '.join(columns['sensitive'])}",
        sentence=_sentence(everybody, columns),
        more=[*_clients(each), *verdicts(everybody)[1:]][:4],
        gap=GAP,
        groups=about["groups"],
        labels=about["labels"],
        positive=about["labels"][-1],
        parts=[{
            "name": f"{len(names):,} clients" if len(each) else "everybody",
            "sites": {"name": names, "role": None, "n_train": None,
                      "n_test": whole(sites["accuracy_people"])},
            "arms": [arm], "chosen": 0, "tradeoff": None, "tables": [],
        }],
        details=_details(people, [str(name) for name in sites["client"]]),
        warnings=list(view.cautions),
        about=_about(about, folder),
        audit={"rows": _rows(frame, len(each))},
    )  # fmt: skip


def _sentence(row: pd.Series, columns: Mapping[str, Any]) -> str:
    """What can be told of all groups together."""
    (first, *_) = verdicts(row)
    return f"Decisions of {columns['prediction']}, by {' x '.join(columns['sensitive'])}: {first}"


def _clients(frame: pd.DataFrame) -> list[str]:
    """How many clients clearly have a gap."""
    if not len(frame):
        return []
    few = frame[f"{GAP}_people"].between(1, FEWEST - 1)
    none = frame[GAP].isna()
    clear = (frame[f"{GAP}_low"] > 0) & ~few & ~none
    told = f"Of {len(frame):,} clients {clear.sum():,} clearly have a gap (DDP)"
    if clear.any():
        worst = frame[clear].sort_values(f"{GAP}_low").iloc[-1]
        told += f", the surest {worst['client']}: {words.interval(worst, GAP)}"
    open_ones = int((~clear & ~few & ~none).sum())
    told += f"; of {open_ones:,} the rows do not tell" if open_ones else ""
    told += f"; {few.sum():,} have too few people to tell" if few.any() else ""
    told += f"; {none.sum():,} have people of one group only" if none.any() else ""
    return [f"{told}."]


def _details(people: pd.DataFrame, sites: Sequence[str]) -> list[dict[str, Any] | None]:
    """The groups' rates at each client."""
    empty: dict[str, Any] = dict.fromkeys(("changed", "scores", "thresholds", "cost", "alone"))
    by_client = dict(iter(people.groupby("client", sort=False)))
    found: list[dict[str, Any] | None] = []
    for name in sites if len(sites) <= MANY else ():
        rows = by_client.get(name, people.iloc[:0])
        rates = [
            {"group": row.group, "train": None, "people": row.people, "rate": row.value,
             "low": row.low, "high": row.high,
             **dict.fromkeys(("before", "before_low", "before_high"))}
            for row in rows.itertuples()
        ]  # fmt: skip
        found.append({"rates": rates, **empty, "rule": [], "facts": []})
    return found or [None] * len(sites)


def _rows(frame: pd.DataFrame, clients: int) -> list[dict[str, Any]]:
    """A row for each number of the audit."""
    if clients > MANY:
        frame = frame[(frame["client"] == "") | frame["measure"].isin(SHORT)]
    said = {name: head.replace("\n", " ") for name, head in HEADS.items()}
    said |= {name: name.upper() for name in MEASURES}
    return [
        {"client": row.client, "group": row.group, "measure": row.measure,
         "name": said.get(str(row.measure), row.measure), "prediction": row.prediction,
         "value": row.value, "low": row.low, "high": row.high, "people": row.people}
        for row in frame.itertuples()
    ]  # fmt: skip


def _about(about: Mapping[str, Any], folder: Path | None) -> About:
    columns = about["columns"]
    rows = [(name, " x ".join(value) if isinstance(value, list | tuple) else str(value))
            for name, value in columns.items() if value]  # fmt: skip
    data = [("rows", f"{about['rows']:,}"), *rows, ("labels", ", ".join(about["labels"]))]
    found: About = [("Data", data), ("Versions", list(versions().items()))]
    found.append(("Make it again", [("command", about["command"])] if about["command"] else []))
    return found + ([] if folder is None else hashes(folder))


def read(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    """What `Audit.save` wrote: numbers, calibration, and the card."""
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
