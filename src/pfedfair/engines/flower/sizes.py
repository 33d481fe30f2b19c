"""Limit the size of an answer while Flower fetches it, before anything is unpacked.

The SuperLink stores an answer in chunks of some megabytes, and Flower's grid joins all of them in
memory. Here the chunks are counted as they arrive, and the fetch ends when there are too many. The
proxy limits the size of a single chunk (``client_max_body_size``).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flwr.app import Error, Message
from flwr.serverapp import Grid

from pfedfair._util.errors import InputError
from pfedfair._util.limits import parse_json
from pfedfair.engines.flower import internals
from pfedfair.methods import State

FAILED = 2  # Flower's code for an error in a ClientApp
MAX_BYTES = 64 * 2**20  # of an answer
MAX_TEXT = 8 * 2**20  # characters of a description
UNLIMITED = "This version of Flower fetches answers in a way whose size cannot be limited."
MAX_PARTS = 100_000  # lists and objects in it: small ones need many times their size in memory


def max_bytes(state: State) -> int:
    """Return how large an answer to a server state may be: four times its size, or 64 MB."""
    return max(MAX_BYTES, 4 * sum(tensor.nbytes for tensor in state.values()))


def pull(grid: Grid, numbers: Sequence[str], limit: int) -> Iterator[Message]:
    """Fetch the answers that have arrived; replace one of more than `limit` bytes by an error."""
    if isinstance(grid, internals.InMemoryGrid) or not type(grid).__module__.startswith("flwr."):
        yield from grid.pull_messages(list(numbers))  # in one process nothing is fetched
        return
    client: Any = getattr(grid, "_runtime_client", None)
    if not hasattr(client, "PullObject"):
        raise InputError(UNLIMITED)
    for number in numbers:
        with _counted(client, limit) as sizes:
            for answer in grid.pull_messages([number]):
                if sum(sizes) > limit:
                    answer.error = Error(FAILED, too_large(limit))
                elif answer.has_content() and not sizes:
                    raise InputError(UNLIMITED)
                yield answer


@contextmanager
def _counted(client: Any, limit: int) -> Iterator[list[int]]:
    """Yield the sizes of the pieces that are fetched in the block; end the fetch above `limit`."""
    fetch = client.PullObject
    sizes: list[int] = []

    def fetch_and_count(request: Any) -> Any:
        if sum(sizes) > limit:
            raise internals.ObjectPullError(request.object_id, "enough")
        found = fetch(request)
        sizes.append(len(found.object_content))
        if sum(sizes) > limit:
            raise internals.ObjectPullError(request.object_id, "it is too large")
        return found

    client.PullObject = fetch_and_count
    try:
        yield sizes
    finally:
        del client.PullObject


def check_text(text: str) -> str:
    """Return the text of a description or an answer, if it can be parsed in bounded memory."""
    if len(text) > MAX_TEXT or text.count("[") + text.count("{") > MAX_PARTS:
        raise ValueError(too_large(MAX_TEXT))
    parse_json(text)  # refuses deep nesting
    return text


def too_large(limit: int) -> str:
    return f"its answer has more than {limit / 2**20:.0f} MB and was not read."
