"""What commands do with pages: make one of a folder, write it while they work, open it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pandas as pd

from pfedfair import auditing, report
from pfedfair._util import terminal
from pfedfair._util.errors import InputError
from pfedfair._util.files import read_json, read_parquet
from pfedfair.experiments import Spec, read_results
from pfedfair.experiments.grid import CARD
from pfedfair.report.document import NAME, Report, open_page, report_of
from pfedfair.report.refresh import Live
from pfedfair.runs import Run, load_run
from pfedfair.runs.callbacks import Callback, Training
from pfedfair.runs.model import read_model
from pfedfair.studies import STUDIES, View, arms, comparison, judgement, one_run, summary
from pfedfair.studies.judgement import Judgement
from pfedfair.studies.page import Page, of_results, of_run, slider
from pfedfair.studies.page.messages import of_copies

IsLive = Annotated[bool, "Write the page, report.html, while the work goes on, and open it."]
GOING_ON = "The work is going on; this page looks for news by itself."


def saved(folder: Path, sent: Path | None = None, quiet: bool = False) -> Report:
    """The report of any folder: of train, compare, reproduce, audit, or of a site on Flower."""
    site = (folder / "run.json").exists() and not (folder / "results.parquet").exists()
    if sent is not None and not site:
        raise InputError("--sent is for the folder of a site's model on Flower: leave it out.")
    if (folder / "results.parquet").exists() or not folder.is_dir():
        return _of_results(folder, quiet)
    if (folder / "audit.parquet").exists():
        return auditing.saved(folder)
    if site:
        found = report_of(load_run(folder))
        if sent is None:
            return found
        return Report(replace(found.page, sent=of_copies(sent)), found.view)
    return _of_results(folder, quiet)  # it says what is missing


def _of_results(folder: Path, quiet: bool) -> Report:
    results = read_results(folder)
    card = folder / CARD
    about: dict[str, Any] = read_json(card) if card.exists() else {}
    part, notes = str(about.get("part")), about.get("notes", ())
    if part == "train":
        return _of_train(folder, results, quiet)
    study = part in STUDIES
    view = (STUDIES[part].view if study else comparison)(results).noting(notes)
    kind, command = "study" if study else "comparison", about.get("command", "")
    return Report(of_results(results, view, kind, folder, command), view)


def _of_train(folder: Path, results: pd.DataFrame, quiet: bool) -> Report:
    """Return the report of a folder that train wrote; of an older version it has fewer parts."""
    rules = read_parquet(folder / "rules.parquet")
    try:
        run = load_run(folder)
    except InputError:
        view = one_run.of_models(read_model(folder), results, rules)
        return Report(replace(of_results(results, view, "comparison", folder), kind="run"), view)
    judged = judgement.of_run(run, results, rules)
    return of_one_run(run, judged, one_run.of_run(run, judged), folder, quiet)


def of_one_run(run: Run, judged: Judgement, view: View, folder: Path, quiet: bool) -> Report:
    """Return the report of a run whose folder has, or gets, its decisions for other targets."""
    short = not slider.targets_of(run) or (folder / slider.NAME).exists()
    with terminal.progress("other targets", 1.0, quiet or short) as advance:
        page = of_run(run, judged, view, folder, advance)
    return Report(page, view)


def opened(path: Path, quiet: bool) -> None:
    """Open a page, or say that there is no browser."""
    if not open_page(path) and not quiet:
        terminal.say(f"There is no browser here: open {path} in one.")


class Watch(Callback):
    """Writes the page of a run while it trains."""

    def __init__(self, out: Path, title: str) -> None:
        self.title, self.last = title, ""
        self.live = Live(out / NAME, self.page)

    def page(self) -> Page:
        more = [GOING_ON, *([self.last] if self.last else [])]
        return Page(kind="run", title=self.title, sentence="Training is going on.", more=more)

    def on_train_begin(self, training: Training) -> None:
        self.live.update(0, training.rounds, "training begins")

    def on_round_end(self, training: Training, metrics: Any) -> None:
        if metrics:
            numbers = ", ".join(f"{name} {value:.3f}" for name, value in metrics.items()
                             if name != "round")  # fmt: skip
            self.last = (
                f"After round {training.round}, on training rows, mean of clients: {numbers}."
            )
        done, of = training.round, training.rounds
        self.live.update(done, of, f"{done} of {of} rounds")

    def on_train_fail(self, error: BaseException) -> None:
        """Leave the folder as it was: a corrected command may have it."""
        for name in (NAME, CARD):
            (self.live.path.parent / name).unlink(missing_ok=True)


def watch_runs(
    specs: Sequence[Spec], out: Path, runs: Path, kind: str, title: str
) -> Callable[[float, float, int], None]:
    """Write the page of many runs while they are done: all that is finished so far."""

    def page() -> Page:
        files = [runs / f"{spec.key}.parquet" for spec in specs]
        done = [read_parquet(path) for path in files if path.exists()]
        if not done:
            return Page(kind=kind, title=title, sentence="No run is finished yet.", more=[GOING_ON])
        results = pd.concat(done, ignore_index=True)
        first = next(summary.parts(summary.held_out(results)))
        sentence = arms.sentence(arms.arms(first), summary.gap_of(first))
        view = View(title=title, tables=(), sentence=f"So far: {sentence}", more=(GOING_ON,))
        return replace(of_results(results, view, kind), title=title)

    live = Live(out / NAME, page)

    def tell(work: float, of: float, finished: int) -> None:
        live.update(work, of, f"{finished} of {len(specs)} runs")

    return tell


def write(found: Report, out: Path, quiet: bool, html: Path | None = None) -> Path:
    """Write and show a report."""
    return report.show(found.view, out, quiet, found.page, html)
