"""The server's page: rounds, and which sites are present, missing and refused.

It is written at each log message. It shows names, states and the log, which contains a site's
metrics only if the site has chosen to share them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

from pfedfair._util.limits import parse_json
from pfedfair.engines.flower import log
from pfedfair.engines.site.checkpoint import NAME as CHECKPOINT

if TYPE_CHECKING:
    from pfedfair.engines.flower.conduct import Conductor

PAGE = "report.html"
LINES = 200  # of the log
TITLE = "{method} on Flower"


@contextmanager
def shown(conductor: Conductor) -> Iterator[None]:
    """Write the page of a run while it is conducted, and when it has ended."""
    handler = Writer(conductor)
    log.addHandler(handler)
    error = ""
    try:
        yield
    except Exception as stopped:
        error = str(stopped)
        raise
    finally:
        log.removeHandler(handler)
        with suppress(Exception):  # the page must not stop the run
            handler.write(finished=not error, error=error)


class Writer(logging.Handler):
    """Keep the last lines of the log; write the page at each message."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(logging.INFO)
        self.conductor, self.lines = conductor, list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines = [*self.lines, record.getMessage().removeprefix("pfedfair: ")][-LINES:]
        try:
            self.write()
        except Exception:  # the page must not stop the run
            self.handleError(record)

    def write(self, finished: bool = False, error: str = "") -> None:
        from pfedfair.report.refresh import write
        from pfedfair.studies.page import of_server

        settings, known = self.conductor.settings, self.conductor.participants
        done, numbered = read_progress(settings.out)
        silent = {site for site, node in known.nodes.items() if node in known.silent}
        names = list(dict.fromkeys([*numbered, *known.nodes, *known.refused]))
        sites = []
        for name in names:
            if name in known.refused and name not in known.nodes:
                sites.append((name, "refused", known.refused[name]))
            elif name not in known.nodes:
                sites.append((name, "missing", "it is not connected"))
            elif name in silent:
                sites.append((name, "missing", "it did not answer the last time"))
            else:
                sites.append((name, "present", ""))
        for k in range(settings.sites - len(names)):
            sites.append((f"site {len(names) + k + 1}", "missing", "it has not come yet"))
        title = TITLE.format(method=type(settings.algorithm).__name__)
        page = of_server(title, done, settings.rounds, sites, self.lines, finished, error)
        write(page, settings.out / PAGE)


def read_progress(folder: Path) -> tuple[int, list[str]]:
    """Return the number of rounds done and the names of the sites, from the checkpoint.

    A checkpoint that cannot be read counts as none: the page must not stop the run.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return 0, []
    try:
        with safe_open(path, framework="pt") as file:
            about = parse_json(file.metadata()["about"])
        return int(about["done"]), [str(site["name"]) for site in about["places"]]
    except Exception:
        return 0, []
