"""The sites of a run: which are connected, which are refused, and the messages to them."""

import time
from collections.abc import Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from pfedfair._util.errors import InputError
from pfedfair.engines.flower import log
from pfedfair.engines.flower.exchange import ask_nodes
from pfedfair.engines.flower.records import pack
from pfedfair.engines.flower.sizes import check_text, max_bytes
from pfedfair.engines.site.bounds import impossible
from pfedfair.engines.site.checkpoint import Checkpoint, Participant
from pfedfair.engines.site.identifiers import drop_columns
from pfedfair.engines.site.schema import Description, difference
from pfedfair.engines.site.settings import Settings
from pfedfair.methods.phases import keeps_clients, phase_at

Answers = dict[int, Message]  # by the sites' numbers


class Participants:
    """The sites of a run; before the first round there is no checkpoint, and none has a number."""

    def __init__(self, grid: Grid, settings: Settings) -> None:
        self.grid = grid
        self.settings = settings
        self.described: dict[int, Description | None] = {}  # by node; None: not usable
        self.nodes: dict[str, int] = {}  # the current node of each site
        self.refused: dict[str, str] = {}  # sites, and why
        self.failed: dict[int, str] = {}  # nodes that cannot take part, and why
        self.silent: set[int] = set()  # nodes that did not answer the last message

    def wait(
        self, state: Checkpoint | None = None, require_all: bool = False, least: int | None = None
    ) -> None:
        """Wait until all sites are connected; after `wait` seconds, accept `least` of them.

        During a run `least` sites suffice at once, unless `require_all` is set. The default of
        `least` is `min_sites`.
        """
        settings = self.settings
        least = settings.min_sites if least is None else least
        wanted = settings.sites if state is None else len(state.sites)
        enough = least if state is not None and not require_all else wanted
        end = time.monotonic() + settings.wait
        reported = -1
        while True:
            online = self._discover(state)
            self._forget_absent(online)
            if state is None and len(online) >= settings.sites and online <= set(self.failed):
                why = self.failed[min(online)]
                raise InputError(f"All {len(online)} sites are here and none can take part: {why}")
            here = len(self.nodes if state is None else self.connected(state))
            if here >= min(wanted, enough):
                return
            if time.monotonic() >= end:
                break
            if here != reported:
                log.info("pfedfair: %d of %d sites are here, waiting", here, wanted)
                reported = here
            time.sleep(settings.poll)
        if here >= least:
            log.warning("pfedfair: going on with %d of %d sites", here, wanted)
            return
        names = ", ".join(sorted(self.nodes)) or "none"
        refused = "".join(f" Site '{s}' was refused: {w}." for s, w in self.refused.items())
        raise InputError(
            f"After {settings.wait:g} seconds {here} of at least {least} sites are "
            f"here ({names}): start the others, then start the run again.{refused}"
        )

    def connected(self, state: Checkpoint) -> dict[int, int]:
        """Return the nodes of the connected sites, by the sites' numbers."""
        return {
            number: self.nodes[site.name]
            for number, site in enumerate(state.sites)
            if site.name in self.nodes
        }

    def order(
        self,
        state: Checkpoint,
        kind: str,
        extra: Mapping[int, Mapping[str, str]] | None = None,
        arrays: Mapping[str, ArrayRecord] | None = None,
    ) -> Answers:
        """Send the server's state to all connected sites, or to those in `extra`, with these.

        With `arrays` these are sent instead of the state.
        """
        settings, arrays = self.settings, arrays or {"arrays": pack(state.server)}
        phase, _ = phase_at(settings.algorithm.phases, state.done)
        order: dict[str, Any] = {"round": state.done, "key": state.name}
        order |= {"phase": phase.name if phase else ""}
        order |= {"schema": state.schema.to_json(), "max-change": settings.max_change}
        order |= {"local-rounds": settings.local_rounds}
        contents = {}
        for number in self.connected(state):
            if extra is None or number in extra:
                added = extra[number] if extra else {}
                config = ConfigRecord({**order, "number": number, **added})
                contents[number] = RecordDict({**arrays, "config": config})
        return self.ask(state, kind, contents)

    def ask(self, state: Checkpoint, kind: str, contents: Mapping[int, RecordDict]) -> Answers:
        """Send each site its content; return the answers within `round-timeout`."""
        nodes = {i: node for i, node in self.connected(state).items() if i in contents}
        sent, limit = set(nodes.values()), self.settings.round_timeout
        silent = self.silent & sent
        optional = silent if len(silent) < len(nodes) else set()
        by_node = {node: contents[number] for number, node in nodes.items()}
        found = ask_nodes(
            self.grid, by_node, kind, self.settings, str(state.done + 1), optional,
            max_bytes(state.server),
        )  # fmt: skip
        for number, node in nodes.items():
            if node not in found:
                name = state.sites[number].name
                log.error("pfedfair: site '%s' did not answer (limit %g s)", name, limit)
        # A dead site is not waited for twice in a row; a slow one is asked again later.
        self.silent = (self.silent - sent) | (sent - {*found, *optional})
        return {number: found[node] for number, node in nodes.items() if node in found}

    def successes(self, state: Checkpoint, answers: Answers) -> Answers:
        """Log the errors among the answers; return the others, sorted by number."""
        found = {}
        for number, answer in sorted(answers.items()):
            if answer.has_error():
                name = state.sites[number].name
                log.error("pfedfair: site '%s' failed: %s", name, answer.error.reason)
            else:
                found[number] = answer
        return found

    def refuse(self, site: str, why: str) -> None:
        self.refused[site] = why
        self.nodes.pop(site, None)
        log.error("pfedfair: site '%s' is refused: %s", site, why)

    def _discover(self, state: Checkpoint | None) -> set[int]:
        """Ask new nodes for a description; return all nodes that are online."""
        registered = {node.node_id: node.name for node in self.grid.get_nodes()}
        new = {node: RecordDict() for node in registered if node not in self.described}
        if not new:
            return set(registered)
        for node, answer in ask_nodes(self.grid, new, "query.describe", self.settings).items():
            self.described[node] = None
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
            if registered[node] not in ("", found.site):  # the key's owner is known to the server
                why = f"its key is registered as '{registered[node]}', it calls itself"
                self.failed[node] = f"{why} '{found.site}'"
                log.error("pfedfair: node %d is refused: %s", node, self.failed[node])
                continue
            self.described[node] = found
            if state is None or self._admit(state, found):
                before = self.nodes.get(found.site)
                if before is not None:
                    log.warning("pfedfair: site '%s' is now node %d, it was node %d",
                                found.site, node, before)  # fmt: skip
                self.nodes[found.site] = node
        return set(registered)

    def _admit(self, state: Checkpoint, found: Description) -> bool:
        """Give a site that joins or returns during the run its number, or refuse it."""
        schema = state.schema
        why = impossible(found) or difference(schema.agreed, drop_columns(found, schema.left))
        known = [site for site in state.sites if site.name == found.site]
        if why is None and not known and keeps_clients(self.settings.algorithm.phases):
            why = "this method cannot take in sites after the first round"
        if why is not None:
            self.refuse(found.site, why)
            return False
        if known:
            known[0].rows = found.rows
        else:
            state.sites.append(Participant(found.site, found.rows))
            log.info("pfedfair: site '%s' joins as number %d", found.site, len(state.sites) - 1)
        return True

    def _forget_absent(self, online: set[int]) -> None:
        for node in set(self.described) - online:
            del self.described[node]  # if it returns, it is asked again
        for site in [site for site, node in self.nodes.items() if node not in online]:
            log.warning("pfedfair: site '%s' has gone", site)
            del self.nodes[site]
