"""Secure sums between real processes: what passes over the wire, and who is lost."""

import json

import numpy as np
import pytest
import torch
from flower_sites import Consortium, only, supernode
from safetensors.torch import load_file
from tap import Tap

import pfedfair as pff
from made_people import people
from pfedfair.engines.flower.processes import Processes, free_ports
from pfedfair.engines.site.masking import Scale, quantise
from pfedfair.engines.site.settings import make_algorithm


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_sites_model_is_on_the_wire_and_one_that_was_killed_is_left_out(tmp_path):
    """Four SuperNodes; the last is killed (kill -9) once the first sum is there."""
    data = pff.from_frame(
        people(sizes=(90, 80, 130, 70)), "hired", "sex", drop=["site"], encoding="standard"
    )
    consortium = Consortium(data.federate(pff.partition.by_column("site"), seed=3), tmp_path)
    limits = {"wait": 60.0, "round-timeout": 60.0, "poll": 0.3, "min-sites": 3}
    config = consortium.settings("fedavg", **limits, **{"secure-sum": True})
    (port,) = free_ports(1)
    with Processes(tmp_path / "flower") as processes:
        processes.superlink(port)
        tap = Tap(port)
        for i in range(4):
            supernode(processes, f"node{i}", consortium.site(i), tap.port)
        status = processes.run(config)
        log = tmp_path / "out-fedavg" / "server.log"
        while "round 1 of 2" not in (log.read_text() if log.exists() else ""):
            with pytest.raises(TimeoutError):
                processes.wait(status, 0.3)
        processes.stop("node3", how=9)
        report = processes.wait(status, 280)
    tap.close()
    assert list(report["lacking"]) == ["site 3"]
    assert "the sum is without site 'site 3'" in log.read_text()
    run = {"seed": 0, **config}
    expected = only(consortium, run, [[0, 1, 2, 3], [0, 1, 2]])
    found = load_file(tmp_path / "out-fedavg" / "model.safetensors")["w"]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    heard, start = tap.everything(), only(consortium, run, [])
    assert start.numpy().tobytes() in heard  # what the server sends is found
    algorithm = make_algorithm(config)
    for i in range(4):
        own = only(consortium, run, [[i]])  # its model after the first round
        way = own.double() - start.double()
        scale = Scale(algorithm.sums, algorithm.states.models)
        steps = quantise({"w": own}, {"w": start}, scale, 1, 4)[1:]
        for numbers in (own.numpy(), own.double().numpy(), way.numpy(), way.float().numpy(), steps):
            data = np.ascontiguousarray(numbers).tobytes()
            assert not any(data[at : at + 16] in heard for at in range(0, len(data) - 15, 8))
    kept = json.loads((tmp_path / "state0" / "added-up.json").read_text())
    assert list(map(len, kept.values())) == [4, 3]
