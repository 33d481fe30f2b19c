"""Answers that are too large are not read: Flower's own grid fetches them, piece by piece."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from flower_sites import LocalGrid
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.proto.message_pb2 import PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.run import Run
from flwr.superlink.grid.http_grid import (
    HttpGrid,
    message_to_proto,
    remove_content_from_message,
)

import pfedfair as pff
from pfedfair.engines.flower import sizes
from pfedfair.engines.flower.records import read_training

PIECE = 5 * 2**20


class Link:
    """What a SuperLink has to tell of one answer; its array's pieces are made when asked for."""

    def __init__(self, answer: Message, pieces: int) -> None:
        self.fetched = 0
        with no_object_id_recompute():
            answer.metadata.__dict__["_message_id"] = answer.object_id
            self.objects = {k: v.deflate() for k, v in get_all_nested_objects(answer).items()}
            self.tree = get_object_tree(answer)
            self.proto = message_to_proto(remove_content_from_message(answer))
        for i in range(pieces):
            self.tree.children.add(object_id=f"{i:064x}")

    def PullMessages(self, request):  # noqa: N802
        both = {"messages_list": [self.proto], "message_object_trees": [self.tree]}
        return PullAppMessagesResponse(**both)

    def PullObject(self, request):  # noqa: N802
        content = self.objects.get(request.object_id, None)
        if content is None:
            content = bytes(PIECE)
        self.fetched += len(content)
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request): ...  # noqa: N802


def grid_of(pieces):
    LocalGrid({})  # Flower wants to know in whose name messages are made
    asked = Message(RecordDict(), dst_node_id=7, message_type="train")
    asked.metadata.__dict__["_message_id"] = "asked"
    arrays = ArrayRecord({"w": Array(np.ones(5, dtype="f4"))})
    answer = Message(RecordDict({"arrays": arrays}), reply_to=asked)
    grid = HttpGrid(token="none")
    grid.set_run(Run.create_empty(1))
    grid._client = Link(answer, pieces)
    return grid


def test_an_answer_of_usual_size_comes_whole():
    grid = grid_of(pieces=0)
    (answer,) = sizes.pull(grid, ["asked"], sizes.MAX_BYTES)
    assert answer.content["arrays"]["w"].numpy().tolist() == [1.0] * 5
    assert "PullObject" not in vars(grid._client)  # as it was


def test_a_gigabyte_is_not_read():
    grid = grid_of(pieces=200)
    tracemalloc.start()
    try:
        (answer,) = sizes.pull(grid, ["asked"], sizes.MAX_BYTES)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.has_error()
    assert answer.error.reason == "its answer has more than 64 MB and was not read."
    assert answer.error.code == sizes.FAILED
    assert answer.metadata.reply_to_message_id == "asked"
    assert grid._client.fetched < sizes.MAX_BYTES + 8 * PIECE  # of a gigabyte
    assert peak < 100 * 2**20


def test_large_arrays_and_descriptions_are_refused_before_they_are_unpacked():
    record = ArrayRecord({"w": Array(np.zeros(300, dtype="f4"))})
    records = {"array_records": {"arrays": record}, "metric_records": {"metrics": {"rounds": 2}}}
    answer = SimpleNamespace(content=SimpleNamespace(**records))
    assert read_training(answer, 4096)[1] == 2
    with pytest.raises(ValueError, match="was not read"):
        read_training(answer, 1024)
    sizes.check_text('{"rows": 3}')
    for text in (" " * (sizes.MAX_TEXT + 1), "[" * 200_000):
        with pytest.raises(ValueError, match="more than 8 MB and was not read"):
            sizes.check_text(text)


def test_a_version_of_flower_whose_fetches_cannot_be_counted_is_refused(monkeypatch):
    """Before a piece is fetched if that is known, and else with the first answer."""
    grid = grid_of(pieces=0)
    fetch = grid._client.PullObject
    monkeypatch.setattr(HttpGrid, "_runtime_client", SimpleNamespace())
    with pytest.raises(pff.InputError, match="whose size cannot be limited"):
        list(sizes.pull(grid, ["asked"], sizes.MAX_BYTES))
    client = SimpleNamespace(PullObject=None)
    monkeypatch.setattr(HttpGrid, "_runtime_client", client)
    link = grid._client
    grid.pull_messages = lambda numbers: [_fetched_elsewhere(link, fetch)]
    with pytest.raises(pff.InputError, match="whose size cannot be limited"):
        list(sizes.pull(grid, ["asked"], sizes.MAX_BYTES))


def _fetched_elsewhere(link, fetch):
    fetch(SimpleNamespace(object_id=next(iter(link.objects))))
    return SimpleNamespace(has_content=lambda: True)
