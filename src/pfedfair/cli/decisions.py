"""Commands that use a run's models: predict, export."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pfedfair._util import terminal
from pfedfair._util.errors import InputError, known
from pfedfair.cli import options
from pfedfair.cli.options import Quiet, Text, unfold
from pfedfair.data.tables.sink import check_output
from pfedfair.engines.local import one_thread
from pfedfair.export import FORMATS, default_output
from pfedfair.runs import decisions, draws
from pfedfair.runs.model import read_model
from pfedfair.runs.shapes import read_shapes

Folder = Annotated[Path, typer.Argument(help="A folder that train --out or personalise wrote.")]
Client = Annotated[Text, "The client whose model it is, by its name."]


@unfold
def predict(
    run: Folder,
    input: Annotated[Path, "Rows to decide on, in any format that train reads, without labels."],
    output: Annotated[Path, "Where the decisions go, .csv or .parquet."],
    client: Client = None,
    client_column: Annotated[Text, "The column that says which client a row belongs to."] = None,
    id: Annotated[
        Text,
        "The column that identifies a person: a randomised decision is then the same every time. "
        "Without it a draw follows from a row's inputs, and how many equal rows came before.",
    ] = None,
    key: Annotated[Text, "A secret to make random draws from; the run's if left out."] = None,
    keep_columns: Annotated[
        Text,
        "Columns to copy to the output, with commas between; or all. One called like a column of "
        "the output, such as score, is written as input.score.",
    ] = None,
    force: Annotated[
        bool,
        "Decide on rows with cells that contradict training too, as if these cells were missing.",
    ] = False,
    strict: Annotated[
        bool, "Write nothing if a column has moved since training, or a row has a warning."
    ] = False,
    overwrite: Annotated[bool, "Write over an output that is there."] = False,
    quiet: Quiet = False,
) -> None:
    """Predict with a client's model; write decision, score, chance, rule and problem of each row.

    Example: pfedfair predict runs/first --client 1 --input new.csv --output out.csv --id id
    """
    check_output(output, overwrite, input)
    secret = draws.key_from_text(key) if key is not None else None
    reader = decisions.reader_of(
        read_model(run), client, client_column, id, secret, force=force, strict=strict
    )
    with terminal.notes(quiet):
        if keep_columns is not None:
            every = reader.open(input).table.columns if keep_columns == "all" else None
            reader = replace(reader, keep=tuple(every or options.names(keep_columns)))
        opened = reader.open(input)  # may refuse: no bar yet
    with terminal.progress(f"{input.name}", 1.0, quiet) as advance, one_thread():
        summary = decisions.decide_file(reader, opened, output, lambda done: advance(done, ""))
    if quiet:
        return
    from pfedfair import report  # what is not shown need not be loaded
    from pfedfair.studies import one_run

    model = reader.any
    whose = f"client {model.name}" if client_column is None else "every client"
    table = summary.table(model.group_names, model.label_names)
    view = one_run.decided(table, model, f"{input.name}, by the model of {whose}", summary.drawn)
    for shift in summary.shifts:
        terminal.say(f"Warning: {shift}.")
    report.terminal.show(view, terminal.console)
    for note in (*reader.notes(), *summary.notes()):
        terminal.say(f"Note: {note}")
    terminal.say(f"Saved to {output}: {summary.rows:,} rows")


@unfold
def export(
    run: Folder,
    client: Client = None,
    to: Annotated[str, f"{', '.join(FORMATS)}."] = "onnx",
    output: Annotated[Path | None, "The file; by default one in RUN, called as the client."] = None,
    overwrite: Annotated[bool, "Write over a file that is there."] = False,
    quiet: Quiet = False,
) -> None:
    """Write a client's model for other programs: onnx (a graph), or scorecard (points on a page).

    Example: pfedfair export runs/first --client 1 --to onnx
    """
    ending, write = FORMATS[known("format", to, FORMATS)]
    saved = read_model(run)
    (model,) = decisions.reader_of(saved, client).models.values()
    path = output or default_output(run, model.name, ending)
    if path.exists() and (path.is_dir() or not overwrite):
        raise InputError(f"{path} exists: choose another --output, or say --overwrite.")
    written = write(model, path, read_shapes(run))
    if not quiet:
        terminal.say(f"Saved: {', '.join(map(str, written))}")
