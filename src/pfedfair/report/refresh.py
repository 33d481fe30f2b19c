"""A page that is rewritten while the work goes on, and reloads itself."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pfedfair._util.files import write_text
from pfedfair.report.document import open_page
from pfedfair.studies.page import Page

EVERY = 2.0  # seconds between two versions, at least
SHARE = 0.05  # of the time that may be spent on them
REFRESH = 3  # seconds after which a browser reloads


class Live:
    """Write a page repeatedly: `update` may be called at any time.

    `make` returns the current page; it is called at most every two seconds, and less often if it
    is slow.
    """

    def __init__(
        self, path: Path, make: Callable[[], Page], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path, self.make, self.clock = path, make, clock
        self.began = self.next = clock()
        self.opened = False

    def update(self, done: float, of: float, words: str) -> bool:
        """Write the page if it is due; return whether it was written."""
        now = self.clock()
        if now < self.next:
            return False
        remaining = self._remaining(done / of if of else 0.0, now)
        live = {"done": round(done, 3), "of": round(of, 3), "words": f"{words}{remaining}"}
        page = replace(self.make(), live=live | {"refresh": REFRESH, "finished": False})
        write(page, self.path)
        spent = self.clock() - now
        self.next = now + max(EVERY, spent / SHARE)
        if not self.opened:
            self.opened = True
            open_page(self.path)
        return True

    def _remaining(self, part: float, now: float) -> str:
        if part < 0.02 or now - self.began < 1:
            return ""
        seconds = (now - self.began) * (1 - part) / part
        if seconds >= 90:
            return f", about {seconds / 60:.0f} min left"
        return f", about {max(seconds, 1):.0f} s left"


def write(page: Page, path: Path) -> Path:
    """Write a page to a file; return its path."""
    from pfedfair.report.page import render

    write_text(path, render(page.to_json()))
    return path
