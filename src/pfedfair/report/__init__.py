"""Renderers: they show any `pfedfair.studies.View`, and compute nothing."""

from pathlib import Path

from pfedfair import terminal as screen
from pfedfair.files import atomic
from pfedfair.report import history, markdown, terminal
from pfedfair.studies.view import View

__all__ = ["history", "markdown", "show", "terminal", "write"]


def write(view: View, out: Path) -> list[Path]:
    """Write a view as Markdown, its numbers as CSV, and its pictures as PNG, SVG and PDF."""
    contents = {"report.md": markdown.text(view)}
    contents |= {name: frame.to_csv(index=False) for name, frame in view.files.items()}
    paths = [out / name for name in contents]
    for path in paths:
        with atomic(path) as beside:
            beside.write_text(contents[path.name])
    if view.pictures:
        from pfedfair.report import figures  # matplotlib takes a second to load

        for picture in view.pictures:
            paths += figures.save(figures.draw(picture), out / picture.name)
    return paths


def show(view: View, out: Path, quiet: bool) -> None:
    """Write a view to `out`, and print it."""
    paths = write(view, out)
    if not quiet:
        terminal.show(view, screen.console)
        names = ", ".join(["results.parquet", *(path.name for path in paths)])
        screen.say(f"Written to {out}: {names}")
