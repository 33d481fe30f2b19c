"""Send messages to sites and collect their answers, for as long as they may take and no longer."""

import time
from collections.abc import Collection, Mapping

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from pfedfair.engines.flower import log
from pfedfair.engines.flower.sizes import FAILED, MOST, pull

__all__ = ["FAILED", "ask"]
UNDELIVERED = (3, 4, 5)  # and for messages that were lost, or whose node has gone
LATER = 5.0  # seconds: whoever answers too late is told so by us, not by Flower


def ask(
    grid: Grid,
    contents: Mapping[int, RecordDict],
    kind: str,
    timeout: float,
    poll: float,
    group: str = "",
    optional: Collection[int] = (),
    most: int = MOST,
) -> dict[int, Message]:
    """Send every node its content; return the answers by node, some of which may be errors.

    One of more than `most` bytes is an error.
    Nobody waits for the nodes in `optional`. A message that was not fetched in time is not
    delivered later. What is an error of Flower's and not of the site's is no answer.
    """
    nodes, lasts = list(contents), timeout + LATER
    messages = [
        Message(contents[node], dst_node_id=node, message_type=kind, ttl=lasts, group_id=group)
        for node in nodes
    ]
    pushed = zip(grid.push_messages(messages), nodes, strict=False)
    pending = {number: node for number, node in pushed if number}
    answers: dict[int, Message] = {}
    end = time.monotonic() + timeout
    while any(node not in optional for node in pending.values()) and time.monotonic() < end:
        for answer in pull(grid, list(pending), most):
            node = pending.pop(answer.metadata.reply_to_message_id, None)
            if node is None:
                continue
            if answer.has_error() and answer.error.code in UNDELIVERED:
                log.warning("pfedfair: node %d: %s", node, answer.error.reason)
            else:
                answers[node] = answer
        if any(node not in optional for node in pending.values()):
            time.sleep(poll)
    return answers
