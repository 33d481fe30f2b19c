"""Natural clients: the states of ACS, the hospitals of the heart study. Not in the paper.

Each client is measured on its own held-out rows. All methods that take a target have the same
ones.
"""

import pandas as pd

from pfedfair.partition import by_column
from pfedfair.studies import summary, targets, words
from pfedfair.studies.rows import CONSTANT, Level, at_target
from pfedfair.studies.study import Cell, Study
from pfedfair.studies.targets import CONFIDENCE, OURS, RIVALS, SLACK, TARGETS
from pfedfair.studies.view import Picture, Table

CLIENTS = {"acs": "STATE", "heart": "hospital"}
ROWS: dict[str, tuple[int | None, ...]] = {"acs": (250, 1125, None), "heart": (None,)}
SHOWN = (OURS, "threshold-local", "newton")  # in the picture
TARGET = 0.05
OWN = (
    "Every client is measured on its own held-out rows. The lead is of the mean accuracy here. one "
    "decision for all: clients whose model has one decision for all training rows.",
)
# The positions of states; other clients are drawn in a row.
MAP = """
AK .  .  .  .  .  .  .  .  .  .  ME
.  .  .  .  .  .  .  .  .  .  VT NH
.  WA ID MT ND MN IL WI MI NY RI MA
.  OR NV WY SD IA IN OH PA NJ CT .
.  CA UT CO NE MO KY WV VA MD DE .
.  .  AZ NM KS AR TN NC SC DC .  .
.  .  .  .  OK LA MS AL GA .  .  .
HI .  .  .  TX .  .  .  .  FL .  .
"""
PLACES = {
    name: (down, across)
    for down, line in enumerate(MAP.split("\n")[1:-1])
    for across, name in enumerate(line.split())
}


def cells(dataset: str) -> list[Cell]:
    """Return every method at every target, for each number of training rows of a client."""
    cells = []
    for rows in ROWS[dataset]:
        each: list[tuple[str, Level]] = [(CONSTANT, {}), ("newton", {})]
        each += [(m, at_target(m, t)) for m in (OURS, *RIVALS) for t in TARGETS]
        each += [(OURS, at_target(OURS, t) | {"confidence": CONFIDENCE}) for t in TARGETS]
        plan = by_column(CLIENTS[dataset], rows=rows)
        cells += [Cell(plan, row, level) for row, level in each]
    return cells


def states_table(part: pd.DataFrame, rows: pd.DataFrame) -> Table:
    """Return methods and targets against their results, and the clients that are exceptions."""
    return targets.target_table(part, rows, lines=within_target, natural=True)


def within_target(part: pd.DataFrame) -> list[str]:
    """Describe how many clients are within transport's target on average over seeds."""
    lines = []
    ours = part[part["method"] == OURS]
    for level, runs in ours.groupby("level", sort=False):
        target = float(runs["target_ddp"].iloc[0])
        mean = runs.groupby("client")["ddp"].mean().sort_values()
        collapsed = runs.groupby("client")["collapsed"].any()
        near = int((mean <= target + SLACK).sum())
        text = (
            f"{OURS} {level}: on average over seeds {int((mean <= target).sum())} of {len(mean)} "
            f"clients are within {target:g}, {near} within {target + SLACK:g}; the largest is "
            f"{words.rate(mean.iloc[-1])} ({mean.index[-1]})"
        )
        named = "none" if not collapsed.any() else ", ".join(collapsed.index[collapsed])
        lines.append(f"{text}; one decision for all: {named}.")
    return lines


def pictures(results: pd.DataFrame, rows: pd.DataFrame) -> list[Picture]:
    """Return a tile for each client: the mean gap over seeds of some methods, and the target."""
    has_target = results["target_ddp"].isna() | (results["target_ddp"] == TARGET)
    has_confidence = results["level"].str.endswith("%")
    shown = results[has_target & ~has_confidence & results["method"].isin(SHOWN)]
    drawn: list[Picture] = []
    for part in summary.parts(shown):
        dataset = str(part["dataset"].iloc[0])
        tiles = part.groupby(["client", "method"], sort=False)["ddp"].mean().reset_index()
        names = sorted(tiles["client"].unique())
        known = all(name in PLACES for name in names)
        at = {name: PLACES[name] if known else (0, k) for k, name in enumerate(names)}
        tiles["down"], tiles["across"] = zip(*tiles["client"].map(at), strict=True)
        labels = {"title": f"{words.setting(part)}: DDP by client; the line is {TARGET:g}"}
        number = f"-{len(drawn) + 1}" if len(ROWS[dataset]) > 1 else ""
        frames = {"tiles": tiles.assign(target=TARGET)}
        drawn.append(Picture(name=f"{dataset}{number}", kind="tiles", frames=frames, words=labels))
    return drawn


STUDY = Study(
    title="States: natural clients",
    cells=cells,
    table=states_table,
    pictures=pictures,
    legend=lambda gap: (*targets.LEGEND, *OWN),
    datasets=(),
    elsewhere=tuple(CLIENTS),
    in_paper=False,
)
