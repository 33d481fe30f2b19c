"""Which sites there are, where they are now, and who is not let in."""

import time

from flwr.app import RecordDict
from flwr.serverapp import Grid

from pfedfair._util.errors import InputError
from pfedfair.engines.flower import log
from pfedfair.engines.flower.post import ask
from pfedfair.engines.flower.sizes import check_text
from pfedfair.engines.site.bounds import impossible
from pfedfair.engines.site.checkpoint import Checkpoint, Place
from pfedfair.engines.site.identifiers import without
from pfedfair.engines.site.schema import Description, difference
from pfedfair.engines.site.settings import Settings


class Roster:
    """The sites of a run. Before the first round there is no state yet, and nobody has a place."""

    def __init__(self, grid: Grid, settings: Settings) -> None:
        self.grid = grid
        self.settings = settings
        self.known: dict[int, Description | None] = {}  # nodes that were asked for a description
        self.nodes: dict[str, int] = {}  # where each site is now
        self.refused: dict[str, str] = {}
        self.failed: dict[int, str] = {}  # nodes that cannot take part, and why

    def meet(self, state: Checkpoint | None) -> set[int]:
        """Ask nodes that are new for a description; return the nodes that are there."""
        registered = {node.node_id: node.name for node in self.grid.get_nodes()}
        online = set(registered)
        new = {node: RecordDict() for node in online if node not in self.known}
        if not new:
            return online
        limit, poll = self.settings.round_timeout, self.settings.poll
        for node, answer in ask(self.grid, new, "query.describe", limit, poll).items():
            self.known[node] = None
            if answer.has_error():
                self.failed[node] = str(answer.error.reason)
                log.error("pfedfair: node %d cannot take part: %s", node, answer.error.reason)
                continue
            try:
                text = str(answer.content.config_records["config"]["description"])
                found = Description.from_json(check_text(text))
            except Exception as error:
                log.error("pfedfair: node %d has no readable description: %r", node, error)
                continue
            if registered[node] not in ("", found.site):  # whose key it is, the server knows
                why = f"its key is registered as '{registered[node]}', it calls itself"
                self.failed[node] = f"{why} '{found.site}'"
                log.error("pfedfair: node %d is refused: %s", node, self.failed[node])
                continue
            self.known[node] = found
            if state is None or self.seat(state, found):
                before = self.nodes.get(found.site)
                if before is not None:
                    log.warning("pfedfair: site '%s' is now node %d, it was node %d",
                                found.site, node, before)  # fmt: skip
                self.nodes[found.site] = node
        return online

    def seat(self, state: Checkpoint, found: Description) -> bool:
        """Give a site that comes late, or back, its place; say why not if it cannot have one."""
        schema = state.schema
        why = impossible(found) or difference(schema.agreed, without(found, schema.left))
        known = [place for place in state.places if place.name == found.site]
        if why is None and not known and self.settings.algorithm.keeps_clients:
            why = "this method cannot take in sites after the first round"
        if why is not None:
            self.refuse(found.site, why)
            return False
        for place in known:
            place.rows = found.rows
            return True
        state.places.append(Place(found.site, found.rows))
        log.info("pfedfair: site '%s' joins as number %d", found.site, len(state.places) - 1)
        return True

    def refuse(self, site: str, why: str) -> None:
        self.refused[site] = why
        self.nodes.pop(site, None)
        log.error("pfedfair: site '%s' is refused: %s", site, why)

    def seated(self, state: Checkpoint) -> dict[int, int]:
        """Nodes of the sites that can be reached, by the sites' numbers."""
        return {
            number: self.nodes[place.name]
            for number, place in enumerate(state.places)
            if place.name in self.nodes
        }

    def gather(
        self, state: Checkpoint | None = None, everybody: bool = False, least: int | None = None
    ) -> None:
        """Wait until all sites are there; after `wait` seconds `least` will do, fewer not.

        In the midst of a run `least` will do at once, unless it is to be `everybody`. It is
        `min_sites` if left out.
        """
        midst = state is not None and not everybody
        settings = self.settings
        least = settings.min_sites if least is None else least
        wanted = settings.sites if state is None else len(state.places)
        end = time.monotonic() + settings.wait
        told = -1
        while True:
            online = self.meet(state)
            for node in set(self.known) - online:
                del self.known[node]  # should it return, it is asked again
            if state is None and len(online) >= settings.sites and online <= set(self.failed):
                why = self.failed[min(online)]
                raise InputError(f"All {len(online)} sites are here and none can take part: {why}")
            gone = [site for site, node in self.nodes.items() if node not in online]
            for site in gone:
                log.warning("pfedfair: site '%s' has gone", site)
                del self.nodes[site]
            here = len(self.nodes if state is None else self.seated(state))
            if here >= wanted or (midst and here >= least):
                return
            if time.monotonic() >= end:
                break
            if here != told:
                log.info("pfedfair: %d of %d sites are here, waiting", here, wanted)
                told = here
            time.sleep(settings.poll)
        if here >= least:
            log.warning("pfedfair: going on with %d of %d sites", here, wanted)
            return
        names = ", ".join(sorted(self.nodes)) or "none"
        turned_away = "".join(f" Site '{s}' was refused: {w}." for s, w in self.refused.items())
        raise InputError(
            f"After {settings.wait:g} seconds {here} of at least {least} sites are "
            f"here ({names}): start the others, then start the run again.{turned_away}"
        )
