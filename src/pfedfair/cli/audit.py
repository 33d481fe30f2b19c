"""The command that measures decisions of any model: audit."""

from pathlib import Path
from typing import Annotated

import typer

from pfedfair import report
from pfedfair._util import terminal
from pfedfair.auditing import audit as measure
from pfedfair.cli import options
from pfedfair.cli.options import Quiet, Text, unfold


@unfold
def audit(
    file: Annotated[Path, typer.Argument(help="A .csv or .parquet file, a row per decision.")],
    *,
    label: Annotated[str, "The column with what was right."],
    prediction: Annotated[str, "The column with the decisions, in the words of the label."],
    sensitive: Annotated[
        str,
        "The column with the groups to compare; several columns with commas between make a group "
        "of every combination.",
    ],
    client: Annotated[Text, "The column that says which client a row belongs to."] = None,
    score: Annotated[
        Text, "A column of scores: adds AUC, and calibration if they are chances."
    ] = None,
    against: Annotated[Text, "A second column of decisions, to compare row by row."] = None,
    positive: Annotated[
        Text, "The label that counts as positive; the last one if left out."
    ] = None,
    out: Annotated[
        Path | None, "Folder for audit.parquet, audit.csv, audit.md and the page, report.html."
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure how decisions of any model differ between groups, with intervals.

    Example: pfedfair audit decisions.csv --label hired --prediction model --sensitive sex
    """
    if out is not None:
        options.new_folder(out)
    with terminal.notes(quiet):
        found = measure(
            file,
            label=label,
            prediction=prediction,
            sensitive=sensitive,
            client=client,
            score=score,
            against=against,
            positive=positive,
        )
    paths = found.save(out, options.command_line()) if out is not None else []
    if not quiet:
        report.terminal.show(found.view(), terminal.console)
        if paths:
            names = ", ".join(path.name for path in paths)
            terminal.say(f"Written to {out}: {names}")
