"""Real processes that die, lie or do not fit, in one run that comes to a good end."""

import re
import signal
import time

import pandas as pd
import pytest
import torch
from flower_sites import Consortium, only, supernode
from safetensors.torch import load_file

import pfedfair as pff
from made_people import people
from pfedfair.engines.flower.processes import APP, Processes, alive, family, free_ports
from pfedfair.engines.site.checkpoint import Checkpoint

EVIL = """
import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.clientapp import ClientApp

from pfedfair.engines.flower import client_app


class Evil(ClientApp):
    def __call__(self, message, context):
        answer = client_app.app(message, context)
        if context.node_config.get("evil") and "arrays" in answer.content:
            w = answer.content["arrays"]["w"].numpy()
            odd = int(message.metadata.group_id) % 2
            w = w * np.float32("nan") if odd else (w * 1e6).astype("f4")
            answer.content["arrays"] = ArrayRecord({"w": Array(w)})
        return answer


app = Evil()
"""


def until(what, seconds=200):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return
        time.sleep(0.1)
    pytest.fail(f"nothing happened in {seconds} s")


def done(out):
    state = Checkpoint.load(out)
    return state.done if state else 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_survives_its_server_a_site_a_liar_and_a_stranger(tmp_path, record_property):
    data = pff.from_frame(people(sizes=(80, 90, 60, 60)), "hired", "sex", drop=["site"])
    consortium = Consortium(data.federate(pff.partition.by_column("site"), seed=3), tmp_path)
    stranger = tmp_path / "train3.parquet"
    pd.read_parquet(stranger).rename(columns={"b": "weight"}).to_parquet(stranger)
    app = tmp_path / "evil-app"
    app.mkdir()
    (app / "evil.py").write_text(EVIL)
    text = (APP / "pyproject.toml").read_text()
    text = text.replace("pfedfair.engines.flower.client_app:app", "evil:app")
    (app / "pyproject.toml").write_text(text)
    config = consortium.settings("fedavg-kde", rounds=6, wait=60.0, poll=0.3)
    config |= {"min-sites": 1, "round-timeout": 30.0}
    out = tmp_path / "out-fedavg-kde"
    (port,) = free_ports(1)
    with Processes(tmp_path) as processes:
        processes.superlink(port, "--database", str(tmp_path / "link.db"))
        for i, more in enumerate([{}, {}, {"evil": True}, {"test": "", "test-part": 0.0}]):
            supernode(processes, f"node{i}", consortium.site(i) | more, port)
        processes.run(config, app)

        until(lambda: done(out) == 1)
        began = time.monotonic()
        processes.stop("superlink", how=signal.SIGKILL)  # in the midst of round 2
        assert done(out) == 1
        processes.superlink(port, "--database", str(tmp_path / "link.db"))
        status = processes.run(config, app)

        until(lambda: done(out) == 2)
        record_property("superlink", time.monotonic() - began)
        seen = processes.log("node1").count("Receiving: train message")
        until(lambda: processes.log("node1").count("Receiving: train message") > seen)
        began = time.monotonic()
        processes.stop("node1", how=signal.SIGKILL)
        until(lambda: done(out) == 3)
        record_property("supernode", time.monotonic() - began)
        supernode(processes, "node1", consortium.site(1), port)
        report = processes.wait(status, 240)
        left = [one for p in processes.running.values() for one in family(p.pid)]
    assert report["done"], report
    assert not any(map(alive, left))

    log = (out / "server.log").read_text()
    assert "site 'site 3' is refused: column 'b' is missing" in log
    assert "the answer of site 'site 2' is refused: 'w' has" in log  # NaN
    assert "the answer of site 'site 2' is refused: 'w' moved by" in log
    assert "site 'site 1' did not answer (limit 30 s)" in log
    assert re.search(r"site 'site 1' (is now node|has gone)", log)
    rounds = dict(re.findall(r"round (\d) of 6 with ([^,]+(?:, site \d)*), ", log))
    who = [[int(i) for i in re.findall(r"site (\d)", rounds[str(t)])] for t in range(1, 7)]
    assert who[0] == [0, 1]
    assert who[-1] == [0, 1]  # the one that was killed is back
    assert [0] in who
    w = load_file(out / "model.safetensors")["w"]
    expected = only(consortium, {"seed": 0, **config}, who, [0, 1, 2])
    torch.testing.assert_close(w, expected, atol=1e-5, rtol=0)
    for i in (0, 1):
        assert (tmp_path / f"state{i}" / "model" / "run.json").exists()
