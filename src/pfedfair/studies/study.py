"""A table or a figure: its runs, and the view of their results."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from pfedfair._util.errors import known
from pfedfair.data.tables.models import settings_of
from pfedfair.experiments import FRONTIER, Source, Spec
from pfedfair.methods.defaults import make, of_few_rows, trainer
from pfedfair.partition import Plan
from pfedfair.studies import arms, cautions, parts, summary, words
from pfedfair.studies.rows import BASES, CONSTANT, METHOD, SETTINGS, Level, levels, model_of
from pfedfair.studies.view import Picture, Table, View

Files = Callable[[pd.DataFrame, pd.DataFrame, Sequence[Table]], dict[str, pd.DataFrame]]
ON_PIXELS = "pixels"  # the section of settings of networks on pixels
ROWS = 12_000  # of all clients, where Adult has 20 or 50 of them


def main_result(results: pd.DataFrame) -> tuple[str, ...]:
    """Return the main result on the first data set and partition."""
    first = next(summary.parts(summary.held_out(results)))
    return (arms.sentence(arms.arms(first), summary.gap_of(first)),)


class Cell(NamedTuple):
    """A row of a table at one level, on one data set; a run for each seed.

    With many `clients`, each makes as many steps as in tuning. With `validated`, runs are measured
    on validation rows too. With `pixels` the inputs are images of that size; with `images`,
    embeddings of those rows only that have images.
    """

    plan: Plan
    row: str
    level: Level
    clients: int | None = None
    validated: bool = False
    pixels: int | None = None
    images: bool = False

    def spec(self, source: Source, seed: int, protocol: str | None, rounds: int | None) -> Spec:
        method, dataset = METHOD.get(self.row, self.row), source.name
        is_frontier = self.row == FRONTIER
        if is_frontier:
            method = trainer(dataset)
        if self.images:
            source = replace(source, with_images=True)
        if self.pixels:
            source = replace(source, encoder=None, scaling=None, pixels=self.pixels)
            dataset = ON_PIXELS
        if model := model_of(self.row):
            source = replace(source, model=model)
        if self.row in BASES:
            dataset = settings_of(source.name, source.model)
        small = of_few_rows(dataset, method, ROWS // self.clients) if self.clients else {}
        short = {} if rounds is None else {"rounds": rounds}
        of_row = SETTINGS.get(self.row, {})
        algorithm = make(method, of_row | small | self.level | short, dataset)
        return Spec(
            source, self.plan, method if is_frontier else self.row, algorithm, seed, protocol,
            validated=self.validated, frontier=is_frontier,
        )  # fmt: skip


def cells_of(
    rows: Iterable[str],
    plan: Plan,
    clients: int | None = None,
    etas: Sequence[float] = (),
    validated: bool = False,
) -> list[Cell]:
    """Return the cells of rows at every level, or at one level without etas."""
    each = [(row, level) for row in rows for level in levels(row, etas)]
    return [Cell(plan, row, level, clients, validated) for row, level in each]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table or a figure.

    `cells` returns what is run on a data set. `table` is made from the results of one data set and
    partition, and their rows of `summary.summary`, with a heading that names these; `pictures` from
    all of them; `files` from the tables too. `legend` explains the numbers, given the gap.
    `answer` is the main result and the lines that complete it.
    """

    title: str
    cells: Callable[[str], Iterable[Cell]] = lambda dataset: ()
    table: Callable[[pd.DataFrame, pd.DataFrame], Table]
    pictures: Callable[[pd.DataFrame, pd.DataFrame], Iterable[Picture]] = lambda results, rows: ()
    files: Files = lambda results, rows, tables: {}
    legend: Callable[[str], tuple[str, ...]] = parts.usual_legend
    answer: Callable[[pd.DataFrame], tuple[str, ...]] = main_result
    datasets: tuple[str, ...] = ("adult", "compas")
    tidy: Callable[[pd.DataFrame], pd.DataFrame] = lambda results: results
    elsewhere: tuple[str, ...] = ()  # data sets that are supported, too, but not bundled
    in_paper: bool = True
    most_seeds: int | None = None  # that it shows

    def specs(
        self,
        datasets: Sequence[str | Source],
        seeds: int,
        protocol: str | None = None,
        rounds: int | None = None,
        methods: Sequence[str] = (),
    ) -> list[Spec]:
        """Return all runs, or those of the named methods; `rounds` replaces the tuned number."""
        sources = [Source(one) if isinstance(one, str) else one for one in datasets]
        cells = [(source, cell) for source in sources for cell in self.cells(source.name)]
        rows = list(dict.fromkeys(cell.row for _, cell in cells))
        shown = {known("row of this study", name, rows) for name in methods}
        return [
            cell.spec(source, seed, protocol, rounds)
            for source, cell in cells
            if not shown or cell.row in {*shown, CONSTANT}
            for seed in range(min(seeds, self.most_seeds or seeds))
        ]

    def view(self, results: pd.DataFrame) -> View:
        """Return the view of results; pictures and files are of held-out rows only."""
        results = self.tidy(results)
        held, gap = summary.held_out(results), summary.gap_of(results)
        rows = summary.summary(held)
        clients = summary.by_client(held[held["method"] != FRONTIER])
        tables = []
        for part in summary.parts(results):
            table = self.table(part, summary.rows_of(rows, part))
            tables.append(replace(table, heading=words.heading(part) + table.heading))
        files = {"summary.csv": rows, "clients.csv": clients}
        files = {name: frame.drop(columns="model") for name, frame in files.items()}
        sentence, *more = self.answer(results)
        shown = View(
            title=self.title,
            tables=(*tables, *(parts.client_table(part, gap) for part in summary.parts(clients))),
            pictures=tuple(self.pictures(held, rows)),
            legend=self.legend(gap),
            files=files | self.files(held, rows, tables),
            sentence=sentence,
            more=tuple(more),
        )
        shown = shown.noting(parts.collapsed(results), cautions.COLLAPSED)
        return shown.noting(parts.few_rows(held), cautions.FEW)
