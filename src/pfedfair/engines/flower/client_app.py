"""A site's answers to the server's messages, on Flower.

``query.describe``: describe the table. ``train``: take part in a round. ``train.finish``: make the
personal model, save it, measure it. A site sends the description's aggregates, the method's
message, and a confirmation that the model is saved. An error is sent without its text, which may
contain rows: the text is in the site's log.

In a secure sum there are four more kinds of messages, see `partner`.
"""

import json
from collections.abc import Mapping, MutableMapping
from typing import Any, cast

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pfedfair._util.limits import parse_json
from pfedfair.engines.flower import mods
from pfedfair.engines.flower.mods import Handler
from pfedfair.engines.flower.partner import Partner
from pfedfair.engines.flower.records import NodeMemory, pack, read_states, unpack
from pfedfair.engines.site.describe import describe_site
from pfedfair.engines.site.masking import MASKED
from pfedfair.engines.site.policy import PolicyError
from pfedfair.engines.site.work import Work, accept

app = ClientApp()
MODS: list[Any] = [mods.guard_mod, mods.audit_mod]  # the first is the outermost


def errors_as_answers(handle: Handler) -> Handler:
    """Turn an exception into an answer, so that the audit keeps a copy of it."""

    def safe(message: Message, context: Context) -> Message:
        try:
            return handle(message, context)
        except Exception as error:
            return mods.failed(message, error)

    return safe


@app.query("describe", mods=MODS)
@errors_as_answers
def describe(message: Message, context: Context) -> Message:
    found = describe_site(context.node_config, context.run_config)
    config = ConfigRecord({"description": found.to_json()})
    return Message(RecordDict({"config": config}), reply_to=message)


@app.query("keys", mods=MODS)
@errors_as_answers
def make_keys(message: Message, context: Context) -> Message:
    return _answer(message, _partner(context).keys(_order(message)))


@app.query("shares", mods=MODS)
@errors_as_answers
def make_shares(message: Message, context: Context) -> Message:
    return _answer(message, _partner(context).shares(_order(message)))


@app.query("sign", mods=MODS)
@errors_as_answers
def sign_survivors(message: Message, context: Context) -> Message:
    return _answer(message, _partner(context).sign(_order(message)))


@app.query("unmask", mods=MODS)
@errors_as_answers
def unmask(message: Message, context: Context) -> Message:
    return _answer(message, _partner(context).unmask(_order(message)))


@app.query("sketch", mods=MODS)
@errors_as_answers
def sketch(message: Message, context: Context) -> Message:
    return _answer(message, _partner(context).sketch(_order(message)))


@app.train(mods=MODS)
@errors_as_answers
def train(message: Message, context: Context) -> Message:
    """Do one or several rounds; send the method's message of the last, masked in a secure sum."""
    work = _work(message, context)
    if work.secure:
        numbers, shapes, done = _partner(context).train_masked(_order(message), work)
        answer = _answer(message, {"forms": shapes})
        answer.content["arrays"] = pack({MASKED: numbers})
    else:
        sent, done = work.train()
        answer = Message(RecordDict({"arrays": pack(sent)}), reply_to=message)
    answer.content["metrics"] = MetricRecord({"rounds": done})
    return answer


@app.query("vote", mods=MODS)
@errors_as_answers
def vote(message: Message, context: Context) -> Message:
    """Say which of the server's proposed states is best on the site's rows."""
    config = ConfigRecord({"best": _work(message, context).vote(read_states(message))})
    return Message(RecordDict({"config": config}), reply_to=message)


@app.train("finish", mods=MODS)
@errors_as_answers
def finish(message: Message, context: Context) -> Message:
    """Make the personal model; save and measure it at the site."""
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
    """Return a message's order in a secure sum."""
    text = message.content.config_records["config"].get("secure")
    if not isinstance(text, str):
        raise PolicyError("This site takes part only in secure sums in this run.")
    return dict(parse_json(text))


def _answer(message: Message, content: Mapping[str, Any]) -> Message:
    config = ConfigRecord({"secure": json.dumps(content)})
    return Message(RecordDict({"config": config}), reply_to=message)


def _work(message: Message, context: Context) -> Work:
    order = message.content.config_records["config"]
    server = unpack(message.content.array_records.get("arrays") or ArrayRecord())
    return accept(order, server, context.node_config, context.run_config, NodeMemory(context.state))
