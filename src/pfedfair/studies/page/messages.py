"""What left each site: messages, bytes, epsilon; of a run in one process, what would leave it."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line
from pfedfair.engines.local import Sent
from pfedfair.methods import Method
from pfedfair.methods.phases import total_rounds

Left = dict[str, Any]
WOULD = (
    "All clients were trained in one process. This is what would leave each site if it had a place "
    "of its own, as on Flower."
)
NOTHING = "Nothing would leave a site: every client trains by itself."
ROWS = "This method needs all rows in one place: the rows themselves would leave every site."
NEVER = "Rows, labels of people, groups of people and personal models do not leave a site."
KEPT = (
    "Read from the copies of its answers that the site kept (audit-dir). If it adds noise, its own "
    "log says with which epsilon."
)


def left(algorithm: Method, sent: Sequence[Sent]) -> Left | None:
    """What each client of a run would have sent; None if the run did not count it."""
    if algorithm.place == "pooled":
        return {"words": [ROWS], "rows": []}
    if not total_rounds(algorithm.phases):
        return {"words": [NOTHING], "rows": []}
    if not sent:
        return None
    rows = [
        {
            "what": _what(one.tensors, algorithm),
            "messages": one.messages,
            "bytes": one.bytes,
            "epsilon": _noise(one.tensors, algorithm),
        }
        for one in sent
    ]
    return {"words": [WOULD, NEVER], "rows": rows}


def _noise(tensors: Sequence[str], algorithm: Method) -> float | None:
    """The epsilon of the phase that sends these tensors, if there is noise on them."""
    sends = (p for p in algorithm.phases if set(tensors) <= set(p.states.message.__annotations__))
    return next((phase.noise for phase in sends if phase.noise), None)


def _what(tensors: Sequence[str], algorithm: Method) -> str:
    known = {name for phase in algorithm.phases for name in phase.states.models}
    models = [name for name in tensors if name in known]
    others = [name for name in tensors if name not in known]
    sums = f"sums and counts over all its people ({', '.join(others)})" if others else ""
    return " and ".join(filter(None, ["the model after its steps" if models else "", sums]))


def kept_copies(folder: Path) -> Left:
    """What a site's own copies of its answers tell: by kind of message, how many and how large."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, list[int]] = defaultdict(list)
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                told = json.loads((file.metadata() or {}).get("sent", "{}"))
                tensors = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(f"{path} cannot be read ({first_line(error)}).") from error
        kind = str(told.get("kind", "message"))
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        rest = {key: value for key, value in told.items() if key not in ("kind", "round")}
        found[kind].append(size + len(json.dumps(rest)) if rest else size)
    if not found:
        raise InputError(f"{folder} has no copies of messages: name the site's audit-dir.")
    rows = [
        {"what": kind, "messages": len(sizes), "bytes": sum(sizes), "epsilon": None}
        for kind, sizes in found.items()
    ]
    return {"words": [KEPT, NEVER], "rows": rows}
