"""Every table and figure, the paper's and ours: its runs and its view in one file."""

from pfedfair.studies import (
    figure3,
    figure4,
    figure5,
    figure6,
    figure7,
    many_clients,
    models,
    scores,
    states,
    stress,
    table1,
    table4,
    table5,
    targets,
)  # fmt: skip
from pfedfair.studies.comparisons import comparison
from pfedfair.studies.study import Study
from pfedfair.studies.view import Column, Picture, Table, View

__all__ = ["STUDIES", "Column", "Picture", "Study", "Table", "View", "comparison"]

STUDIES: dict[str, Study] = {
    "table1": table1.STUDY,
    "table2": many_clients.TABLE2,
    "table3": many_clients.TABLE3,
    "table4": table4.STUDY,
    "table5": table5.STUDY,
    "figure3": figure3.STUDY,
    "figure4": figure4.STUDY,
    "figure5": figure5.STUDY,
    "figure6": figure6.STUDY,
    "figure7": figure7.STUDY,
    "scores": scores.STUDY,
    "targets": targets.STUDY,
    "stress": stress.STUDY,
    "states": states.STUDY,
    "models": models.STUDY,
}
