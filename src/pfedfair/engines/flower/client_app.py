"""What a site does with the server's messages, on Flower.

``query.describe``: describe the table. ``train``: take part in a round. ``train.finish``: make the
personal model, keep it, measure it. What goes back to the server: the description's aggregates; the
algorithm's own message; that the model is there. An error goes back without its text, which may
speak of rows: the text is in the site's own log.
"""

from collections.abc import Callable

import torch
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pfedfair.engines.flower import log
from pfedfair.engines.flower.mods import audit_mod, privacy_mod
from pfedfair.engines.flower.post import FAILED
from pfedfair.engines.flower.records import Held, pack, unpack
from pfedfair.engines.site.rows import read_site
from pfedfair.engines.site.schema import describe
from pfedfair.engines.site.work import Work
from pfedfair.engines.stacked import flush_denormal
from pfedfair.errors import InputError

app = ClientApp()


def quietly(work: Callable[[Message, Context], Message]) -> Callable[[Message, Context], Message]:
    """Log an error here; tell the server no more than that there was one."""

    def careful(message: Message, context: Context) -> Message:
        torch.set_num_threads(int(context.node_config.get("threads", 1)))
        try:
            with flush_denormal():
                return work(message, context)
        except Exception as error:
            kind = str(error) if isinstance(error, InputError) else repr(error)
            log.error("pfedfair: %s", kind, exc_info=not isinstance(error, InputError))
            reason = f"{type(error).__name__} at the site; its own log says more."
            return Message(Error(code=FAILED, reason=reason), reply_to=message)

    return careful


@app.query("describe", mods=[audit_mod])
@quietly
def tell(message: Message, context: Context) -> Message:
    site = read_site(context.node_config, context.run_config)
    found = describe(site.data, site.train, site.name, site.place, site.client)
    about = ConfigRecord({"description": found.to_json()})
    return Message(RecordDict({"config": about}), reply_to=message)


@app.train(mods=[audit_mod, privacy_mod])
@quietly
def train(message: Message, context: Context) -> Message:
    """Do one or several rounds; send the algorithm's message of the last."""
    work = _work(message, context)
    sent, done = work.train()
    numbers = MetricRecord({"num-examples": len(work.site.train), "rounds": done})
    return Message(RecordDict({"arrays": pack(sent), "metrics": numbers}), reply_to=message)


@app.train("finish", mods=[audit_mod])
@quietly
def finish(message: Message, context: Context) -> Message:
    """Make the personal model; keep and measure it at the site."""
    found = _work(message, context).finish()
    shared = found if bool(context.node_config.get("share-metrics", False)) else {}
    return Message(RecordDict({"metrics": MetricRecord({"done": 1, **shared})}), reply_to=message)


def _work(message: Message, context: Context) -> Work:
    order = message.content.config_records["config"]
    server = unpack(message.content.array_records["arrays"])
    return Work(order, server, context.node_config, context.run_config, Held(context.state))
