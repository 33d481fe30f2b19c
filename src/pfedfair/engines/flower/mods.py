"""Flower's mods of a site: keep a copy of what is sent; clip and blur what is sent."""

import json
import time
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.clientapp.typing import ClientAppCallable
from safetensors.torch import save_file

from pfedfair.engines.flower import log
from pfedfair.engines.flower.post import FAILED
from pfedfair.engines.flower.records import unpack
from pfedfair.engines.site.privacy import stricter
from pfedfair.errors import InputError
from pfedfair.files import atomic


def audit_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """With ``audit-dir`` in the site's settings, keep every answer as it leaves, in that folder."""
    answer = call_next(message, context)
    folder = str(context.node_config.get("audit-dir") or "")
    if folder:
        kind = message.metadata.message_type.replace(".", "-")
        name = f"{time.time_ns()}-{kind}.safetensors"
        tensors: dict[str, Any] = {}
        words: dict[str, Any] = {"kind": kind, "round": message.metadata.group_id}
        if answer.has_error():
            words["error"] = answer.error.reason
        else:
            for record, arrays in answer.content.array_records.items():
                tensors |= {f"{record}.{k}": v for k, v in unpack(arrays).items()}
            words |= {name: dict(rest) for name, rest in answer.content.config_records.items()}
            words |= {name: dict(rest) for name, rest in answer.content.metric_records.items()}
        with atomic(Path(folder) / name) as beside:
            save_file(tensors, beside, metadata={"sent": json.dumps(words)})
    return answer


def privacy_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Clip the update, and add noise, as the run or the site says, whichever is stricter.

    Both are Flower's. Replacing all rows of a site changes a clipped update by twice the clipping
    norm at the most, so that is the noise's sensitivity, and epsilon is that of the whole site.
    """
    try:
        clip, epsilon, delta = stricter(context.run_config, context.node_config)
    except InputError as error:  # for this site's eyes
        log.error("pfedfair: %s", error)
        reason = "InputError in the site's privacy settings; its own log says more."
        return Message(Error(code=FAILED, reason=reason), reply_to=message)
    if clip <= 0:
        return call_next(message, context)
    if epsilon <= 0:
        message.content.config_records["config"]["clipping_norm"] = clip
        return fixedclipping_mod(message, context, call_next)
    log.info(
        "pfedfair: this answer keeps epsilon %g and delta %g for the whole site", epsilon, delta
    )
    return LocalDpMod(clip, 2 * clip, epsilon, delta)(message, context, call_next)
