"""Send messages to Flower's nodes and collect their answers within a time limit."""

import time
from collections.abc import Collection, Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from pfedfair.engines.flower import log
from pfedfair.engines.flower.sizes import MAX_BYTES, pull
from pfedfair.engines.site.settings import Settings

UNDELIVERED = (3, 4, 5)  # Flower's codes for messages that were lost, or whose node has gone
GRACE = 5.0  # seconds: the time limit is ours, not Flower's time to live


def ask_nodes(
    grid: Grid,
    contents: Mapping[int, RecordDict],
    kind: str,
    settings: Settings,
    group: str = "",
    optional: Collection[int] = (),
    max_bytes: int = MAX_BYTES,
) -> dict[int, Message]:
    """Send every node its content; return the answers by node, some of which may be errors.

    An answer of more than `max_bytes` is an error. The nodes in `optional` are not waited for. A
    message that was not fetched in time is not delivered later. An error of Flower's, not of the
    site's, is no answer.
    """
    nodes, lifetime = list(contents), settings.round_timeout + GRACE
    messages = [
        Message(contents[node], dst_node_id=node, message_type=kind, ttl=lifetime, group_id=group)
        for node in nodes
    ]
    pushed = zip(grid.push_messages(messages), nodes, strict=False)
    pending = {number: node for number, node in pushed if number}
    answers: dict[int, Message] = {}
    end = time.monotonic() + settings.round_timeout
    while any(node not in optional for node in pending.values()) and time.monotonic() < end:
        for answer in pull(grid, list(pending), max_bytes):
            node = pending.pop(answer.metadata.reply_to_message_id, None)
            if node is None:
                continue
            if answer.has_error() and answer.error.code in UNDELIVERED:
                log.warning("pfedfair: node %d: %s", node, answer.error.reason)
            else:
                answers[node] = answer
        if any(node not in optional for node in pending.values()):
            time.sleep(settings.poll)
    return answers
