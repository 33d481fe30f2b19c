"""The server's page: rounds, and which sites are present, missing and refused.

It is written anew when something is logged, for whatever happens is. It shows names, states and the
log, where a site's numbers are only if the site has chosen to share them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

from pfedfair.engines.flower import log
from pfedfair.engines.site.checkpoint import NAME as CHECKPOINT

if TYPE_CHECKING:
    from pfedfair.engines.flower.conduct import Conductor

PAGE = "report.html"
LINES = 200  # of the log
TITLE = "{method} on Flower"


@contextmanager
def shown(conductor: Conductor) -> Iterator[None]:
    """Write the page of a run while it is conducted, and how it ended."""
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
        with suppress(Exception):  # a page is not worth a run
            handler.write(finished=not error, error=error)


class Writer(logging.Handler):
    """Keeps the log's last lines, and writes the page with each of them."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(logging.INFO)
        self.conductor, self.lines = conductor, list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines = [*self.lines, record.getMessage().removeprefix("pfedfair: ")][-LINES:]
        try:
            self.write()
        except Exception:  # a page is not worth a run
            self.handleError(record)

    def write(self, finished: bool = False, error: str = "") -> None:
        from pfedfair.report.refresh import write
        from pfedfair.studies.page import of_server

        settings, roster = self.conductor.settings, self.conductor.roster
        done, places = told(settings.out)
        silent = {site for site, node in roster.nodes.items() if node in self.conductor.silent}
        names = list(dict.fromkeys([*places, *roster.nodes, *roster.refused]))
        sites = []
        for name in names:
            if name in roster.refused and name not in roster.nodes:
                sites.append((name, "refused", roster.refused[name]))
            elif name not in roster.nodes:
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


def told(folder: Path) -> tuple[int, list[str]]:
    """How many rounds are done, and who has a place: what the checkpoint says without its models.

    A page is no reason to fail: a checkpoint that cannot be read says nothing.
    """
    path = folder / CHECKPOINT
    if not path.exists():
        return 0, []
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads(file.metadata()["about"])
        return int(about["done"]), [str(place["name"]) for place in about["places"]]
    except Exception:
        return 0, []
