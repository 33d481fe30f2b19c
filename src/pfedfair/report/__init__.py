"""Renderers of any `pfedfair.studies.View`; they compute nothing."""

from pathlib import Path

from pfedfair._util import terminal as screen
from pfedfair._util.files import write_text
from pfedfair._util.text import escape_formulas
from pfedfair.report import document, history, markdown, refresh, terminal
from pfedfair.studies.page import Page
from pfedfair.studies.view import View

__all__ = ["history", "markdown", "show", "terminal", "write"]


def write(view: View, out: Path) -> list[Path]:
    """Write a view as Markdown, its numbers as CSV, and its pictures as PNG, SVG and PDF."""
    contents = {"report.md": markdown.text(view)}
    tables = view.files.items()
    contents |= {name: escape_formulas(frame).to_csv(index=False) for name, frame in tables}
    paths = [out / name for name in contents]
    for path in paths:
        write_text(path, contents[path.name])
    if view.pictures:
        from pfedfair.report import figures  # matplotlib takes a second to load

        for picture in view.pictures:
            paths += figures.save(figures.draw(picture), out / picture.name)
    return paths


def show(view: View, out: Path, quiet: bool, page: Page, html: Path | None = None) -> Path:
    """Write a view and its page to `out`, and print the view; return where the page is.

    The page is ``report.html``, or in the file `html`.
    """
    paths = [*write(view, out), refresh.write(page, html or out / document.NAME)]
    if not quiet:
        terminal.show(view, screen.console)
        results = [out / "results.parquet"] if (out / "results.parquet").exists() else []
        in_folder = paths if html is None else paths[:-1]
        names = ", ".join(path.name for path in (*results, *in_folder))
        screen.say(f"Written to {out}: {names}")
        if html is not None:
            screen.say(f"The page is {html}.")
    return paths[-1]
