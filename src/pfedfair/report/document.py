"""The report of a run: one document as a page, as Markdown, in a notebook."""

import os
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from pfedfair._util.files import write_text
from pfedfair._util.notebook import block
from pfedfair.report import markdown
from pfedfair.runs import Run
from pfedfair.studies import judgement, one_run
from pfedfair.studies.cautions import cautions
from pfedfair.studies.page import Page, of_run
from pfedfair.studies.page.run import results_of
from pfedfair.studies.page.slider import NAME as TARGETS
from pfedfair.studies.view import View

NAME = "report.html"
HEIGHT = 720  # pixels of a page inside a notebook


@dataclass(frozen=True, eq=False)
class Report:
    """A page, and the view of the same numbers for the other renderers."""

    page: Page
    view: View

    def __repr__(self) -> str:
        return f"<Report: {self.page.sentence}>"

    @cached_property
    def document(self) -> dict[str, Any]:
        """The content of the page, as JSON has it."""
        return self.page.to_json()

    @cached_property
    def html(self) -> str:
        """The page: one file, which needs no network."""
        from pfedfair.report.page import render

        return render(self.document)

    @property
    def text(self) -> str:
        """The report as Markdown."""
        return markdown.text(replace(self.view, title=self.view.title or self.page.title))

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, or to ``report.html`` in a folder; return where it is."""
        path = Path(path)
        path = path / NAME if path.is_dir() or not path.suffix else path
        write_text(path, self.html)
        return path

    def _repr_html_(self) -> str:
        """Return the page in a sandboxed frame: it cannot access the notebook."""
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html)}" width="100%" '
            f'height="{HEIGHT}" style="border:0" title="{escape(self.page.title)}"></iframe>'
        )


def report_of(
    run: Run,
    path: str | Path | None = None,
    protocol: str | None = None,
    advance: Callable[[float, str], None] = lambda done, note: None,
) -> Report:
    """Return the report of a run; write it to `path`, if that is given."""
    results = results_of(run, protocol)
    rules = run.rules(str(results["protocol"].iloc[0]))
    judged = judgement.of_run(run, results, rules)
    shown = one_run.of_run(run, judged)
    folder = run.folder if run.folder and (run.folder / TARGETS).exists() else None
    page = of_run(run, judged, shown, folder, advance)
    report = Report(page, shown)
    if path is not None:
        report.save(path)
    return report


def small(run: Run) -> str:
    """Return the HTML of a run in a notebook: the sentence, warnings, and a small table."""
    results = results_of(run)
    judged = judgement.of_run(run, results, run.rules(str(results["protocol"].iloc[0])))
    notes = [text for _, text in cautions(judged, run.federation.data.group_names)]
    lines = [judged.sentence, *(f"Note: {note}" for note in notes)]
    return block(f"{run!r}".strip("<>"), lines, results[one_run.small_columns(results)])


def open_page(path: Path) -> bool:
    """Open a page in a browser, if there is a screen; return whether it was opened."""
    screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return screen and webbrowser.open(path.absolute().as_uri())
