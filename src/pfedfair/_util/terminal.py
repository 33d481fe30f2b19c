"""Output in the terminal: progress with an estimate, notes, one sentence for an error."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

from rich import progress as widgets
from rich.console import Console
from rich.markup import escape

from pfedfair._util.text import sanitise

console = Console()
errors = Console(stderr=True)


def say(text: str) -> None:
    """Print a text without interpreting markup."""
    console.print(sanitise(text), highlight=False, markup=False, soft_wrap=True)


@contextmanager
def progress(what: str, total: float, quiet: bool) -> Iterator[Callable[[float, str], None]]:
    """Show a bar with an estimate of the time left."""
    done = (widgets.BarColumn(), widgets.TaskProgressColumn())
    times = (widgets.TimeElapsedColumn(), "left:", widgets.TimeRemainingColumn())
    columns = ("{task.description}", *done, "{task.fields[note]}", *times)
    shown = widgets.Progress(*columns, console=errors, disable=quiet, speed_estimate_period=120)
    with shown as bar:
        task = bar.add_task(escape(sanitise(what)), total=total, note="")
        yield lambda done, note: bar.update(task, completed=min(done, total), note=note)
        bar.update(task, completed=total)


@contextmanager
def image_progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar once the first image is read or embedded, only if stderr is a terminal."""
    with ExitStack() as shown:
        bars: list[Callable[[float, str], None]] = []

        def on_work(done: int, total: int) -> None:
            if not bars:
                bar = progress(f"{total:,} images", total, quiet=not sys.stderr.isatty())
                bars.append(shown.enter_context(bar))
            bars[0](done, f"{done}/{total} images")

        yield on_work


@contextmanager
def notes(quiet: bool) -> Iterator[None]:
    """Show each distinct warning once, as a note, instead of Python's two lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        if not quiet:
            console.print(f"[yellow]Note:[/] {escape(sanitise(text))}")


def fail(message: str, code: int) -> NoReturn:
    errors.print(f"[red]Error:[/] {escape(sanitise(message))}", highlight=False, soft_wrap=True)
    sys.exit(code)
