"""How large an answer may be: looked at while Flower fetches it, before anything is unpacked.

An answer lies at the SuperLink in pieces of some megabytes, and Flower's grid puts all of them
together in memory. Here the pieces are counted as they come, and one too many ends it. How large a
single piece may be is the proxy's to say (``client_max_body_size``).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.app import ArrayRecord, Error, Message
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError

from pfedfair.methods import State

FAILED = 2  # Flower's code for an error in a ClientApp
MOST = 64 * 2**20  # bytes of an answer
MOST_TEXT = 8 * 2**20  # of a description
MOST_PARTS = 100_000  # lists and objects in it: small ones need many times their size in memory


def allowed(state: State) -> int:
    """How many bytes may come back for a state of the server: some times its own, or 64 MB."""
    return max(MOST, 4 * sum(tensor.nbytes for tensor in state.values()))


def pull(grid: Grid, numbers: Sequence[str], most: int) -> Iterator[Message]:
    """Fetch the answers that are there; one of more than `most` bytes is an error in its place."""
    client: Any = getattr(grid, "_runtime_client", None)
    if client is None:  # in one process nothing is fetched
        yield from grid.pull_messages(list(numbers))
        return
    for number in numbers:
        with _counted(client, most) as over:
            for answer in grid.pull_messages([number]):
                if over:
                    answer.error = Error(FAILED, too_large(most))
                yield answer


@contextmanager
def _counted(client: Any, most: int) -> Iterator[list[bool]]:
    fetch, seen = client.PullObject, 0
    over: list[bool] = []

    def fetch_and_count(request: Any) -> Any:
        nonlocal seen
        if over:
            raise ObjectPullError(request.object_id, "enough")
        found = fetch(request)
        seen += len(found.object_content)
        if seen > most:
            over.append(True)
            raise ObjectPullError(request.object_id, "it is too large")
        return found

    client.PullObject = fetch_and_count
    try:
        yield over
    finally:
        del client.PullObject


def check_arrays(record: ArrayRecord, most: int) -> None:
    if sum(len(array.data) for array in record.values()) > most:
        raise ValueError(too_large(most))


def check_text(text: str) -> str:
    """Return a description's text, if it is short enough to be read."""
    if len(text) > MOST_TEXT or text.count("[") + text.count("{") > MOST_PARTS:
        raise ValueError(too_large(MOST_TEXT))
    return text


def too_large(most: int) -> str:
    return f"its answer has more than {most / 2**20:.0f} MB and was not read."
