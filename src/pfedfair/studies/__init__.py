"""Every table and figure, the paper's and ours: its runs and what is shown of them in one file."""

from pfedfair.studies import curves, many_clients, scores, stress, table1, targets
from pfedfair.studies.scores import comparison
from pfedfair.studies.study import Study
from pfedfair.studies.view import Column, Picture, Table, View

__all__ = ["STUDIES", "Column", "Picture", "Study", "Table", "View", "comparison"]

STUDIES: dict[str, Study] = {
    "table1": table1.STUDY,
    "table2": many_clients.TABLE2,
    "table3": many_clients.TABLE3,
    "figure3": curves.FIGURE3,
    "figure4": curves.FIGURE4,
    "figure5": curves.FIGURE5,
    "figure6": many_clients.FIGURE6,
    "figure7": curves.FIGURE7,
    "scores": scores.STUDY,
    "targets": targets.STUDY,
    "stress": stress.STUDY,
}
