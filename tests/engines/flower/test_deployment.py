"""Real processes on loopback: a SuperLink, SuperNodes, and all that passes between them."""

import numpy as np
import pytest
import torch
from flower_sites import Consortium, supernode
from safetensors.torch import load_file
from tap import Tap

import pfedfair as pff
from made_people import people
from pfedfair.engines import local
from pfedfair.engines.flower.processes import Processes, free_ports
from pfedfair.engines.site.settings import make_algorithm
from pfedfair.runs import choose_network

METHODS = ("pfedfair", "transport")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """Two rounds of two methods at once, on two sites; return what was left of them."""
    home = tmp_path_factory.mktemp("deployed")
    data = pff.from_frame(people(sizes=(90, 130)), "hired", "sex", drop=["site"])
    consortium = Consortium(data.federate(pff.partition.by_column("site"), seed=3), home)
    (port,) = free_ports(1)
    with Processes(home) as processes:
        processes.superlink(port)
        tap = Tap(port)
        for i in range(2):
            folder = str(home / f"sites-{i}")
            config = consortium.site(i) | {"state-dir": folder, "audit-dir": str(home / f"sent{i}")}
            supernode(processes, f"node{i}", config, tap.port)
        results = {}
        for method in METHODS:
            limits = {"wait": 120.0, "round-timeout": 120.0, "poll": 0.3}
            config = consortium.settings(method, name=method, **limits)
            results[method] = (processes.run(config), config)
        for method, (status, _) in results.items():
            report = processes.wait(status, 240)
            assert report["done"], (method, report)
    tap.close()
    return consortium, {m: config for m, (_, config) in results.items()}, tap


@pytest.fixture(scope="module")
def expected(deployed):
    consortium, configs, _ = deployed
    found = {}
    for method, config in configs.items():
        algorithm = make_algorithm(config)
        network = choose_network(consortium.federation, algorithm)
        found[method] = local.fit(consortium.federation, algorithm, network, seed=0)
    return found


def personal(home, i, method):
    return load_file(home / f"sites-{i}" / method / "model.safetensors")["theta"][0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", METHODS)
def test_weights_are_those_of_the_stacked_engine(deployed, expected, method):
    consortium, *_ = deployed
    w = load_file(consortium.folder / f"out-{method}" / "model.safetensors")["w"]
    torch.testing.assert_close(w, expected[method].w, atol=1e-5, rtol=0)
    for i in range(2):
        theta = personal(consortium.folder, i, method)
        torch.testing.assert_close(theta, expected[method].theta[i], atol=1e-5, rtol=0)


@pytest.mark.timeout(600)
def test_no_row_label_group_or_personal_weight_is_on_the_wire(deployed, expected):
    consortium, _, tap = deployed
    federation, wire = consortium.federation, tap.everything()
    for method in METHODS:  # the tap hears: the global model passes it
        w = load_file(consortium.folder / f"out-{method}" / "model.safetensors")["w"]
        if method != "transport":  # its last round leaves w as it was
            assert w.numpy().tobytes() in wire, method
    frame, table = consortium.frame, federation.table
    for i, rows in enumerate(federation.partition.train):
        name = federation.partition.names[i]
        assert name.encode() in wire  # sites have names
        for what, codes in (("label", federation.data.y), ("group", federation.data.s)):
            for kind in ("i1", "i4", "i8", "f4", "f8"):
                assert codes[rows].astype(kind).tobytes() not in wire, (what, name)
        for row in rows[:40]:
            raw = frame.iloc[row][["a", "b", "c"]].to_numpy(float)
            for value in raw:
                assert value.tobytes() not in wire
                assert repr(float(value)).encode() not in wire
            assert table.x[row].numpy().tobytes() not in wire
            assert table.inputs(slice(row, row + 1)).numpy().tobytes() not in wire
        for method in METHODS:
            theta, w = expected[method].theta[i].numpy(), expected[method].w.numpy()
            own = theta != w
            if method == "transport":  # what is a client's own is its rule
                rule = expected[method].rules[i].numbers.numpy()
                assert rule.astype("f4").tobytes() not in wire
                assert rule.astype("f8").tobytes() not in wire
            if method in ("fedavg-kde", "transport"):
                assert not own.any()  # its personal model is the global one
                continue
            spans = [k for k in range(0, len(w) - 3) if own[k : k + 4].all()]
            assert spans
            for k in spans[:: max(1, len(spans) // 150)]:
                assert theta[k : k + 4].tobytes() not in wire, method


def test_a_site_can_read_afterwards_what_it_has_sent(deployed):
    from safetensors import safe_open

    consortium, *_ = deployed
    names = set()
    for path in (consortium.folder / "sent0").iterdir():
        with safe_open(path, framework="pt") as file:
            names |= {(file.metadata()["sent"].split('"')[3], name) for name in file.keys()}  # noqa: SIM118
    assert {kind for kind, _ in names} == {"train"}
    assert {"arrays.w", "arrays.held", "arrays.trained"} <= {name for _, name in names}
    assert np.all([p.stat().st_size for p in (consortium.folder / "sent0").iterdir()])
