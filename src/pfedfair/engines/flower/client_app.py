"""What a site does with the server's messages, on Flower.

``query.describe``: describe the table. ``train``: take part in a round. ``train.finish``: make the
personal model, keep it, measure it. What goes back to the server: the description's aggregates; the
algorithm's own message; that the model is there. An error goes back without its text, which may
speak of rows: the text is in the site's own log.

In a secure sum a round is four messages, see `partner`.
"""

import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, cast

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import Mod

from pfedfair.engines.flower import mods
from pfedfair.engines.flower.partner import Partner
from pfedfair.engines.flower.records import Held, pack, unpack
from pfedfair.engines.site.describe import tell as tell_of
from pfedfair.engines.site.masking import MASKED
from pfedfair.engines.site.policy import PolicyError
from pfedfair.engines.site.work import Work

app = ClientApp()
MODS: list[Mod] = [
    mods.guard_mod,
    mods.audit_mod,
]  # the first is the outermost


def quietly(work: Callable[[Message, Context], Message]) -> Callable[[Message, Context], Message]:
    """Turn an error into an answer, of which a copy is kept as of all others."""

    def careful(message: Message, context: Context) -> Message:
        try:
            return work(message, context)
        except Exception as error:
            return mods.failed(message, error)

    return careful


@app.query("describe", mods=MODS)
@quietly
def tell(message: Message, context: Context) -> Message:
    found = tell_of(context.node_config, context.run_config)
    about = ConfigRecord({"description": found.to_json()})
    return Message(RecordDict({"config": about}), reply_to=message)


@app.query("keys", mods=MODS)
@quietly
def make_keys(message: Message, context: Context) -> Message:
    return _told(message, _partner(context).keys(_order(message)))


@app.query("shares", mods=MODS)
@quietly
def deal_shares(message: Message, context: Context) -> Message:
    return _told(message, _partner(context).shares(_order(message)))


@app.query("unmask", mods=MODS)
@quietly
def unmask(message: Message, context: Context) -> Message:
    return _told(message, _partner(context).unmask(_order(message)))


@app.train(mods=MODS)
@quietly
def train(message: Message, context: Context) -> Message:
    """Do one or several rounds; send the algorithm's message of the last, masked if so agreed."""
    work = _work(message, context)
    if work.secure:
        numbers, forms, done = _partner(context).masked(_order(message), work)
        answer = _told(message, {"forms": forms})
        answer.content["arrays"] = pack({MASKED: numbers})
    else:
        sent, done = work.train()
        answer = Message(RecordDict({"arrays": pack(sent)}), reply_to=message)
    answer.content["metrics"] = MetricRecord({"rounds": done})
    return answer


@app.train("finish", mods=MODS)
@quietly
def finish(message: Message, context: Context) -> Message:
    """Make the personal model; keep and measure it at the site."""
    found = _work(message, context).finish()
    shared = found if bool(context.node_config.get("share-metrics", False)) else {}
    return Message(RecordDict({"metrics": MetricRecord({"done": 1, **shared})}), reply_to=message)


def _partner(context: Context) -> Partner:
    if "sum" not in context.state:
        context.state["sum"] = ConfigRecord()
    return Partner(
        cast(MutableMapping[str, Any], context.state.config_records["sum"]), context.node_config
    )


def _order(message: Message) -> dict[str, Any]:
    """What a message says of a secure sum."""
    told = message.content.config_records["config"].get("secure")
    if not isinstance(told, str):
        raise PolicyError("This site takes part in secure sums alone in this run.")
    return dict(json.loads(told))


def _told(message: Message, told: Mapping[str, Any]) -> Message:
    config = ConfigRecord({"secure": json.dumps(told)})
    return Message(RecordDict({"config": config}), reply_to=message)


def _work(message: Message, context: Context) -> Work:
    order = message.content.config_records["config"]
    server = unpack(message.content.array_records["arrays"])
    return Work(order, server, context.node_config, context.run_config, Held(context.state))
