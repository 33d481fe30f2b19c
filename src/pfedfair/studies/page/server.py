"""The page of a server on Flower: rounds, and which sites are present. No number of any site."""

from collections.abc import Sequence
from typing import Any

from pfedfair.studies.page.document import Page

PRESENT, MISSING, REFUSED = "present", "missing", "refused"
REFRESH = 5  # seconds
PRIVATE = (
    "A site's accuracy and gap stay at the site, unless its setting is share-metrics: then they "
    "are in the log below."
)


def of_server(
    title: str,
    rounds: int,
    of: int,
    sites: Sequence[tuple[str, str, str]],
    log: Sequence[str],
    finished: bool = False,
    error: str = "",
) -> Page:
    """Return the page of a run across machines; `sites` are names, states and words."""
    here = sum(state == PRESENT for _, state, _ in sites)
    text = f"{rounds} of {of} rounds are done; {here} of {len(sites)} sites are present"
    for state in (MISSING, REFUSED):
        names = [name for name, found, _ in sites if found == state]
        text += f"; {state}: {', '.join(names)}" if names else ""
    if error:
        text = f"The run stopped: {error} {text}"
    live: dict[str, Any] = {
        "done": rounds, "of": of, "words": f"{rounds} of {of} rounds", "refresh": REFRESH,
        "finished": finished or bool(error),
    }  # fmt: skip
    each = [{"name": name, "state": state, "words": status} for name, state, status in sites]
    return Page(
        kind="server",
        title=title,
        sentence=f"{text}.",
        more=[PRIVATE],
        confidence=None,
        live=live,
        warnings=[("note", error)] if error else [],
        server={"rounds": rounds, "of": of, "sites": each, "log": list(log)},
    )
