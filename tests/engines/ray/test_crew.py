"""Work on a real Ray cluster of our own: what is lost is done again, and nothing is left behind."""

import time
from contextlib import closing, suppress
from pathlib import Path

import pieces
import psutil
import pytest

from pfedfair.engines.ray import gate
from pfedfair.engines.ray.broker import TIMES, Order
from pfedfair.engines.ray.crew import events

pytest.importorskip("ray")


def listeners(family):
    for one in family:
        with suppress(psutil.Error):
            for found in one.net_connections("tcp"):
                if found.status == "LISTEN":
                    yield one.name(), found.laddr.ip.removeprefix("::ffff:")


def left(family):
    """Who of them is still there after some seconds."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        there = [one for one in family if one.is_running() and one.status() != "zombie"]
        if not there:
            return []
        time.sleep(0.1)
    return there


def test_lost_work_is_done_again_and_a_cluster_leaves_nothing_behind(tmp_path):
    words = ["plain", "dies-once", "waits", "dies"]  # the last ends it all, but dies only slowly
    todo = [(f"{word} {tmp_path / word}".encode(), "rows") for word in words]
    settings = gate.check_cluster("local")
    order = Order("local", settings, f"{pieces.__name__}:do", todo, {"rows": b"a b c"}, {"v": 1}, 2)
    assert settings["RAY_AUTH_TOKEN"] not in repr(order)
    reports, family, folder = [], [], None
    with closing(events(order)) as each:
        for kind, *more in each:
            reports.append((kind, *more))
            if kind == "done" and folder is None:
                family = [one for one in psutil.Process().children(recursive=True) if ours(one)]
                lines = [word for one in psutil.process_iter() for word in cmdline(one)]
                assert not any(settings["RAY_AUTH_TOKEN"] in word for word in lines)
                heard = list(listeners(family))
                assert {"gcs_server", "raylet"} <= {name for name, _ in heard}
                assert {ip for _, ip in heard} == {"127.0.0.1"}
                own = [word for one in family for word in cmdline(one)]
                log = next(word for word in own if word.startswith("--log_dir="))
                folder = Path(log.partition("=")[2]).parents[1]
                assert folder.exists()
    assert not left(family)
    assert not folder.exists()
    happened = [one for one in reports if len(one) == 3]  # the others are of no single piece
    done = {n: content for kind, content, n in happened if kind == "done"}
    assert done[0][:3] == ("plain", b"a b c", {"v": 1})
    assert done[1][0] == "dies-once"
    assert done[2][0] == "waits"
    assert [part for kind, *parts in reports if kind == "parts" for part in parts][-1] == {2: 0.75}
    again = [n for kind, why, n in happened if kind == "again"]
    assert (again.count(1), again.count(3)) == (1, TIMES - 1)
    assert [n for kind, why, n in happened if kind == "lost"] == [3]
    for word, times in (("plain", 1), ("dies-once", 2), ("dies", TIMES)):
        assert len((tmp_path / word).read_text().split()) == times


def ours(process):
    """Python itself has one, which stays as long as we do."""
    return not any("resource_tracker" in word for word in cmdline(process))


def cmdline(process):
    with suppress(psutil.Error):
        return process.cmdline()
    return []
