"""A whole run without any framework: plain dictionaries in the place of messages."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines import local
from pfedfair.engines.site import cache, ledger
from pfedfair.engines.site import describe as described
from pfedfair.engines.site.rounds import make_network
from pfedfair.engines.site.rows import as_sites, read_site
from pfedfair.engines.site.schema import agree, describe
from pfedfair.engines.site.secrets import seed_for
from pfedfair.engines.site.settings import model_folder
from pfedfair.engines.site.work import accept
from pfedfair.methods.target import targeted
from pfedfair.runs import choose_network

WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("flwr", "ray", "psutil", "filelock", "tomli_w"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from pfedfair.engines.site import checkpoint, work
"""


def test_no_framework_is_imported():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(params=["standard", "piecewise"])
def nodes(table, tmp_path, request):
    """Three sites' settings, and the federation that they are together."""
    table = replace(table, encoding=request.param)
    federation = as_sites(table.federate(pff.partition.by_column("site"), seed=3), "site")
    found = []
    for i, name in enumerate(federation.partition.names):
        for kind in ("train", "test"):
            rows = getattr(federation.partition, kind)[i]
            table.frame.iloc[rows].to_parquet(tmp_path / f"{kind}{i}.parquet")
        about = {"site": name, "label": "hired", "sensitive": "sex", "drop": "site"}
        about["encoding"] = request.param
        about |= {"data": str(tmp_path / f"train{i}.parquet"), "state-dir": str(tmp_path / name)}
        found.append(about | {"test": str(tmp_path / f"test{i}.parquet")})
    return found, federation


def conduct(nodes, algorithm):
    """Conduct a run of three sites to its end; return the server's state and the sites' work."""
    run = {"seed": 0, "name": "model", "algorithm": json.dumps(algorithm.to_dict())}
    sites = [read_site(node, run) for node in nodes]
    schema, refused = agree([describe(s.data, s.train, s.name, 0, "") for s in sites])
    assert not refused
    sizes = torch.tensor([float(len(site.train)) for site in sites])
    w = make_network(schema, algorithm).init(seeds.generator(0, seeds.INIT))
    server, held = {"w": w}, [{} for _ in nodes]
    order = {"key": "ab", "local-rounds": 1, "max-change": 10.0, "schema": schema.to_json()}

    def work(i, t, phase=""):
        asked = order | {"round": t, "number": i, "phase": phase}
        return accept(asked, server, nodes[i], run, held[i])

    t = 0
    for phase in algorithm.phases:
        server = phase.start_server(server, sizes)
        for _ in range(phase.rounds):
            sent = [work(i, t, phase.name).train()[0] for i in range(3)]
            messages = {name: torch.stack([one[name] for one in sent]) for name in sent[0]}
            server = phase.server_round(server, messages, sizes)
            t += 1
    done = [work(i, t) for i in range(3)]
    for one in done:
        assert set(one.finish()) == {"accuracy", "ddp"}
    return server, done


@pytest.mark.parametrize(
    "algorithm",
    [
        pff.methods.PFedFair(eta=0.5, rounds=2, batch=30),
        targeted(pff.methods.Ditto(eta=0.5, rounds=2, batch=30), target_ddp=0.1),
    ],
    ids=lambda one: type(one).__name__,
)
def test_sites_and_a_loop_give_what_the_stacked_engine_gives(nodes, algorithm, tmp_path):
    nodes, federation = nodes
    server, _ = conduct(nodes, algorithm)
    network = choose_network(federation, algorithm)
    fitted = local.fit(federation, algorithm, network, seed=0)
    torch.testing.assert_close(server["w"], fitted.w, atol=1e-5, rtol=0)
    for i, node in enumerate(nodes):
        theta = load_file(tmp_path / node["site"] / "model" / "model.safetensors")["theta"][0]
        torch.testing.assert_close(theta, fitted.theta[i], atol=1e-5, rtol=0)


def test_a_sites_secret_is_in_no_file_but_its_own(nodes):
    """The noise on private counts comes from it: the model's card has the run's public seed."""
    algorithm = pff.methods.Transport(rounds=1, agree=1, epsilon=1.0, bins=20, batch=40)
    _, done = conduct(nodes[0], algorithm)
    for work in done:
        secret = (work.source.folder / "secret").read_text()
        assert work.clients.seed == seed_for(bytes.fromhex(secret), "run ab") != 0
        card = (work.source.folder / "model" / "run.json").read_text()
        assert json.loads(card)["seed"] == 0
        assert secret not in card
        assert str(work.clients.seed) not in card


@pytest.mark.parametrize(
    ("order", "run"),
    [({"key": "../ab"}, {}), ({"key": "model"}, {}), ({}, {"name": "../x"}), ({}, {"name": ".."})],
)
def test_a_server_cannot_lead_a_site_out_of_its_folder(nodes, order, run):
    order = {"round": 0, "phase": "train", "key": "ab"} | order
    run = {"seed": 0, "name": "model", "method": "fedavg"} | run
    with pytest.raises(pff.InputError, match="is not a plain word"):
        accept(order, {}, nodes[0][0], run, {})


def test_a_run_cannot_have_the_name_of_a_sites_own_file(nodes, tmp_path):
    """Its model would be a folder of that name, and the site could not write the file."""
    algorithm = pff.methods.Transport(rounds=1, agree=1, epsilon=1.0, bins=20, batch=40)
    conduct(nodes[0], algorithm)
    folder = tmp_path / nodes[0][0]["site"]
    names = {path.name for path in folder.iterdir() if path.is_file()}
    names |= {ledger.NAME, "ledger.lock", "added-up.json", cache.NAME, described.NAME, "Secret"}
    assert {"secret", "ledger.json", "ledger.lock"} <= names
    for name in names:
        with pytest.raises(pff.InputError, match=r"plain word|site's own file"):
            model_folder({"name": name})
    assert model_folder({"name": "model"}) == "model"
    assert model_folder({"name": "spring_2027-b"}) == "spring_2027-b"
