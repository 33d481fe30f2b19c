"""The messages of each site: number, bytes, epsilon; for a run in one process, simulated."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfedfair._util.errors import InputError
from pfedfair._util.files import first_line
from pfedfair._util.limits import parse_json, regular
from pfedfair.engines.local import Sent
from pfedfair.methods import Method
from pfedfair.methods.phases import total_rounds

Part = dict[str, Any]
SIMULATED = (
    "All clients were trained in one process. This is what each site would send from its own "
    "machine, as on Flower."
)
NOTHING = "Nothing would leave a site: every client trains locally."
ROWS = "This method requires all rows in one place: the rows themselves would leave every site."
NEVER = "Rows, their labels and groups, and personal models do not leave a site."
COPIES = (
    "Read from the site's own copies of its answers (audit-dir). If it adds noise, its log has the "
    "epsilon."
)


def of_run(algorithm: Method, sent: Sequence[Sent]) -> Part | None:
    """Return the messages that each client would send; None if the run did not count them."""
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
    return {"words": [SIMULATED, NEVER], "rows": rows}


def _noise(tensors: Sequence[str], algorithm: Method) -> float | None:
    """Return the epsilon of the phase that sends these tensors, if it adds noise."""
    sends = (p for p in algorithm.phases if set(tensors) <= set(p.states.message.__annotations__))
    return next((phase.noise for phase in sends if phase.noise), None)


def _what(tensors: Sequence[str], algorithm: Method) -> str:
    known = {name for phase in algorithm.phases for name in phase.states.models}
    models = [name for name in tensors if name in known]
    others = [name for name in tensors if name not in known]
    sums = f"sums and counts over all its rows ({', '.join(others)})" if others else ""
    return " and ".join(filter(None, ["the model after its steps" if models else "", sums]))


def of_copies(folder: Path) -> Part:
    """Return the number and size of the messages of each kind that a site has copies of."""
    from safetensors import SafetensorError, safe_open

    sizes_of: dict[str, list[int]] = defaultdict(list)
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(regular(path), framework="pt") as file:
                sent = parse_json((file.metadata() or {}).get("sent", "{}"))
                tensors = [file.get_tensor(name) for name in file.keys()]  # noqa: SIM118
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(f"{path} cannot be read ({first_line(error)}).") from error
        kind = str(sent.get("kind", "message"))
        size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        rest = {key: value for key, value in sent.items() if key not in ("kind", "round")}
        sizes_of[kind].append(size + len(json.dumps(rest)) if rest else size)
    if not sizes_of:
        raise InputError(f"{folder} has no copies of messages: name the site's audit-dir.")
    rows = [
        {"what": kind, "messages": len(sizes), "bytes": sum(sizes), "epsilon": None}
        for kind, sizes in sizes_of.items()
    ]
    return {"words": [COPIES, NEVER], "rows": rows}
