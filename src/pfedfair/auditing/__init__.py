"""Measure decisions that any model made: differences between groups, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from pfedfair._util.files import write_json, write_parquet, write_text
from pfedfair._util.text import escape_formulas
from pfedfair.auditing import measures, pairs
from pfedfair.auditing.notes import remarks
from pfedfair.auditing.page import CARD, page, read
from pfedfair.auditing.rows import Rows, columns_of
from pfedfair.auditing.rows import read as read_rows
from pfedfair.auditing.view import view
from pfedfair.data.tables.cells import canonical
from pfedfair.metrics.intervals import FEWEST
from pfedfair.report import markdown
from pfedfair.report.document import NAME, Report
from pfedfair.studies.view import View

if TYPE_CHECKING:
    from fairlearn.metrics import MetricFrame

__all__ = ["Audit", "audit", "saved"]


@dataclass(frozen=True, eq=False)
class Audit:
    """Result of `audit`.

    Attributes
    ----------
    frame
        A row for each client, group, column of decisions and measure: `value`, the ends `low` and
        `high` of its 95 % interval (a noise floor has none), the number of rows it is computed from
        (`people`), and whether they are `enough` to report it. An empty client is all rows, an
        empty group all groups.
    calibration
        Per group and tenth of the scores: rows, mean score, rate of the positive label. Empty
        without scores that are probabilities.
    notes
        Rows that were left out, groups with too few rows and odd values, in sentences.
    """

    frame: pd.DataFrame
    calibration: pd.DataFrame
    notes: tuple[str, ...]
    rows: Rows
    columns: dict[str, Any]
    attributes: pd.DataFrame

    def __repr__(self) -> str:
        all_groups = self.frame[(self.frame["client"] == "") & (self.frame["group"] == "")]
        first = all_groups.drop_duplicates("measure").set_index("measure")["value"]
        numbers = ", ".join(f"{name} {first[name]:.3f}" for name in ("accuracy", "ddp", "eo"))
        clients = f", {len(self.rows.clients)} clients" if self.rows.has_clients else ""
        return (
            f"Audit of {len(self.rows.y)} rows, {len(self.rows.groups)} groups{clients}: {numbers}"
        )

    def table(self, group: str = "") -> pd.DataFrame:
        """Return the values of all groups, or of one, by client (rows) and measure (columns)."""
        first = self.frame["prediction"].isin([self.columns["prediction"], self.columns["score"]])
        shown = self.frame[first & (self.frame["group"] == group)]
        wide = shown.pivot(index="client", columns="measure", values="value")
        return wide.loc[list(dict.fromkeys(shown["client"])), list(dict.fromkeys(shown["measure"]))]

    def metric_frame(self) -> MetricFrame:
        """Return fairlearn's `MetricFrame` of the same rows, by group, and by client if there are.

        Labels are codes, and the positive one is the largest. Needs fairlearn.
        """
        from fairlearn import metrics as fairlearn
        from sklearn.metrics import accuracy_score

        rows, positive = self.rows, len(self.rows.labels) - 1

        def count(y: Any, _: Any) -> int:
            return len(y)

        def selection_rate(y: Any, decided: Any) -> float:
            return float(fairlearn.selection_rate(y, decided, pos_label=positive))

        functions: dict[str, Any] = {"accuracy": accuracy_score, "selection_rate": selection_rate}
        functions["count"] = count
        if positive == 1:
            functions["true_positive_rate"] = fairlearn.true_positive_rate
            functions["false_positive_rate"] = fairlearn.false_positive_rate
        clients = None
        if self.columns["client"]:
            names = pd.Series(rows.clients, dtype=object).to_numpy()[rows.client]
            clients = pd.DataFrame({self.columns["client"]: names})
        return fairlearn.MetricFrame(
            metrics=functions,
            y_true=rows.y,
            y_pred=rows.decided,
            sensitive_features=self.attributes.map(canonical),
            control_features=clients,
        )

    def view(self) -> View:
        """Return the view that `pfedfair audit` shows."""
        return view(self.frame, self.calibration, self.notes, self.rows.labels[-1], self.columns)

    def card(self, command: str = "") -> dict[str, Any]:
        """Return the description of the numbers: columns, labels, groups, notes, the command."""
        return {
            "columns": self.columns,
            "labels": list(self.rows.labels),
            "groups": list(self.rows.groups),
            "rows": len(self.rows.y),
            "notes": list(self.notes),
            "command": command,
        }

    def report(self, path: str | Path | None = None) -> Report:
        """Return the page, which a notebook shows; write it to `path`, if that is given."""
        shown = self.view()
        report = Report(page(self.frame, self.card(), shown), shown)
        if path is not None:
            report.save(path)
        return report

    def save(self, folder: str | Path, command: str = "") -> list[Path]:
        """Write ``audit.parquet``, ``.csv``, ``.md``, ``.json`` and the page, ``report.html``.

        And ``calibration.csv``, if there is a calibration. `command` is the command line.
        """
        folder = Path(folder)
        texts = {
            "audit.csv": escape_formulas(self.frame).to_csv(index=False),
            "audit.md": markdown.text(self.view()),
        }
        if len(self.calibration):
            texts["calibration.csv"] = escape_formulas(self.calibration).to_csv(index=False)
        write_parquet(folder / "audit.parquet", self.frame)
        for name, text in texts.items():
            write_text(folder / name, text)
        write_json(folder / CARD, self.card(command))
        return [*(folder / name for name in ("audit.parquet", *texts, CARD)), rewrite(folder)]


def saved(folder: Path) -> Report:
    """Return the report of an audit that `Audit.save` wrote to a folder."""
    frame, tenths, about = read(folder)
    shown = view(frame, tenths, about["notes"], about["labels"][-1], about["columns"])
    return Report(page(frame, about, shown, folder), shown)


def rewrite(folder: Path) -> Path:
    """Write the page of an audit's folder again."""
    return saved(folder).save(folder / NAME)


def audit(
    table: pd.DataFrame | str | Path,
    *,
    label: str,
    prediction: str,
    sensitive: str | Sequence[str],
    client: str | None = None,
    score: str | None = None,
    against: str | None = None,
    positive: Any = None,
) -> Audit:
    """Measure decisions that any model made, over all rows and for each client.

    Parameters
    ----------
    table
        A data frame, or the path of a CSV or Parquet file.
    label, prediction
        Columns with the true labels and the decisions, with the same values.
    sensitive
        The column with the groups to compare; several (a list, or separated by commas) make a
        group of every combination that occurs.
    client
        The column with each row's client.
    score
        A column of scores: the higher, the likelier the positive label. If they are probabilities,
        from 0 to 1, their calibration is measured.
    against
        A second column of decisions, to be compared row by row.
    positive
        The positive label; by default the largest number, or the last in the alphabet.

    Examples
    --------
    >>> table = pd.DataFrame({"sex": list("ffffmmmm"), "hired": [0, 0, 1, 1] * 2})
    >>> table["model"] = [0, 0, 0, 1, 0, 1, 1, 1]
    >>> audit(table, label="hired", prediction="model", sensitive="sex")
    Audit of 8 rows, 2 groups: accuracy 0.750, ddp 0.500, eo 0.500
    """
    attributes = columns_of(sensitive)
    columns = {"label": label, "prediction": prediction, "sensitive": attributes, "client": client}
    columns |= {"score": score, "against": against}
    frame, rows = read_rows(table, columns, positive)
    parts = [measures.of_decisions(rows, prediction, rows.decided)]
    tenths = pd.DataFrame()
    if rows.score is not None and score is not None:
        parts.append(measures.tidy(rows, score, measures.of_scores(rows)))
        if "calibration" in set(parts[-1]["measure"]):
            tenths = measures.calibration(rows)
    if rows.second is not None and against is not None:
        parts.append(measures.of_decisions(rows, against, rows.second))
        parts.append(pairs.compare(rows, prediction, against))
    measured = pd.concat(parts, ignore_index=True)
    measured["enough"] = measured["people"] >= FEWEST
    groups = frame.loc[rows.numbers, attributes].reset_index(drop=True)
    notes = (*rows.notes, *remarks(rows, prediction))
    return Audit(measured, tenths, notes, rows, columns, groups)
