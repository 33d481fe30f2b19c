"""Flower mods of a site: keep a copy of every answer; do not send the texts of errors."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch
from flwr.app import Context, Error, Message
from safetensors.torch import save_file

from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic
from pfedfair.engines.flower import log
from pfedfair.engines.flower.records import unpack
from pfedfair.engines.flower.sizes import FAILED
from pfedfair.engines.local import flush_denormal
from pfedfair.engines.site.policy import PolicyError

Handler = Callable[[Message, Context], Message]


def audit_mod(message: Message, context: Context, call_next: Handler) -> Message:
    """Keep a copy of every answer in the folder ``audit-dir``, if the site's settings name one."""
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
        with atomic(Path(folder) / name) as temporary:
            save_file(tensors, temporary, metadata={"sent": json.dumps(words)})
    return answer


def guard_mod(message: Message, context: Context, call_next: Handler) -> Message:
    """Do not send the text of an error to the server; log how long the answer took.

    The text may contain rows and folders: it goes to the site's log. What may leave the site is a
    fixed sentence, or the line of the site's policy that a run violates.
    """
    began = time.time()
    try:
        torch.set_num_threads(int(context.node_config.get("threads", 1)))
        with flush_denormal():
            return call_next(message, context)
    except Exception as error:
        return failed(message, error)
    finally:
        started = psutil.Process().create_time()
        log.info(
            "pfedfair: %s took %.2f s, %.2f s after its process began",
            message.metadata.message_type, time.time() - began, began - started,
        )  # fmt: skip


def failed(message: Message, error: Exception) -> Message:
    """Log an error; return the answer to the message that caused it."""
    expected = isinstance(error, InputError)
    log.error("pfedfair: %s", error if expected else repr(error), exc_info=not expected)
    reason = f"{'InputError' if expected else 'Error'} at the site; its own log says more."
    if isinstance(error, PolicyError):
        reason = str(error)
    return Message(Error(code=FAILED, reason=reason), reply_to=message)
