"""Sites without machines: a grid that calls the ClientApp in this process."""

import json
import tomllib
from pathlib import Path

import torch
from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from safetensors.torch import load_file

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines.flower import client_app
from pfedfair.engines.flower.processes import APP, Processes, free_ports, write_toml
from pfedfair.engines.site.rows import as_sites
from pfedfair.engines.site.schema import agree, describe
from pfedfair.engines.site.settings import make_algorithm
from pfedfair.federation import encoded
from pfedfair.methods import METHODS, Clients
from pfedfair.runs import choose_network


def defaults() -> dict:
    text = (APP / "pyproject.toml").read_text()
    return tomllib.loads(text)["tool"]["flwr"]["app"]["config"]


class LocalGrid(Grid):
    """Nodes by number: their settings, and what may happen to their answers."""

    def __init__(self, run_config: dict) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.run_config = run_config
        self.contexts: dict[int, Context] = {}
        self.spoil: dict = {}  # node: (kind, answer) -> answer, or None for no answer
        self.app = client_app.app
        self.waiting: dict[str, Message] = {}
        self.sent: list[Message] = []

    def add(self, node: int, config: dict, spoil=None) -> None:
        state = RecordDict()
        self.contexts[node] = Context(1, node, config, state, self.run_config)
        if spoil:
            self.spoil[node] = spoil

    def set_run(self, run) -> None: ...

    @property
    def run(self): ...

    def create_message(self, *args, **kwargs): ...

    def get_node_ids(self):
        return list(self.contexts)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            number = f"{len(self.sent)}-{node}"
            message.metadata.__dict__["_message_id"] = number
            self.sent.append(message)
            answer = self.app(message, self.contexts[node])
            if node in self.spoil:
                answer = self.spoil[node](message, answer)
            if answer is not None:
                self.waiting[number] = answer
            ids.append(number)
        return ids

    def pull_messages(self, message_ids):
        return [self.waiting.pop(number) for number in message_ids if number in self.waiting]

    def send_and_receive(self, messages, *, timeout=None): ...


POLICY = """
exact-counts = true
repeat-description = true
runs-per-day = 1000
messages-per-day = 10000
epsilon = 1000.0
"""


class Consortium:
    """A federation's clients as sites with files of their own, and a policy that allows all."""

    def __init__(self, federation: pff.Federation, folder: Path) -> None:
        self.federation, self.folder = as_sites(federation, "site"), folder
        self.frame = frame = federation.data.frame  # its numbers are pooled by the sites
        (folder / "policy.toml").write_text(POLICY)
        for i in range(len(federation)):
            frame.iloc[federation.partition.train[i]].to_parquet(folder / f"train{i}.parquet")
            frame.iloc[federation.partition.test[i]].to_parquet(folder / f"test{i}.parquet")

    def site(self, i: int, **more) -> dict:
        about = {
            "site": self.federation.partition.names[i],
            "data": str(self.folder / f"train{i}.parquet"),
            "test": str(self.folder / f"test{i}.parquet"),
            "label": "hired",
            "sensitive": "sex",
            "drop": "site",
            "encoding": self.federation.data.encoding,
            "state-dir": str(self.folder / f"state{i}"),
            "policy": str(self.folder / "policy.toml"),
        }
        return about | more

    def settings(self, method: str, options: dict | None = None, **more) -> dict:
        options = options or {}
        options = {"base.batch" if "base" in options else "batch": 30, **options}
        if "agree" in METHODS[method].settings:
            options = {"agree": 1, **options}
        given = {
            "method": method,
            "rounds": 2,
            "options": json.dumps(options),
            "sites": len(self.federation),
            "out": str(self.folder / f"out-{method}"),
            "wait": 5.0,
            "round-timeout": 5.0,
            "poll": 0.01,
        }
        return given | more

    def grid(self, method: str, spoil: dict | None = None, **more) -> LocalGrid:
        """All sites in this process; nodes are numbered from 100."""
        grid = LocalGrid(defaults() | self.settings(method, **more))
        for i in range(len(self.federation)):
            grid.add(100 + i, self.site(i), (spoil or {}).get(i))
        return grid

    def theta(self, i: int) -> torch.Tensor:
        return load_file(self.folder / f"state{i}" / "model" / "model.safetensors")["theta"][0]


def supernode(processes: Processes, name: str, config: dict, port: int) -> None:
    """Start a site whose SuperLink is at a port of loopback."""
    (own,) = free_ports(1)
    settings = processes.home / f"{name}.toml"
    write_toml(settings, config)
    command = ["flower-supernode", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
    command += ["--port", str(own), "--insecure", "--node-config", str(settings)]
    processes.start(name, command)


def only(consortium: Consortium, config: dict, who: list[list[int]], sites=None) -> torch.Tensor:
    """The global model after rounds in which only some of the sites took part.

    `sites` are those whose tables were accepted: the encoding is fitted on their rows.
    """
    federation = consortium.federation
    algorithm = make_algorithm(config)
    data, part = federation.data, federation.partition
    if sites is not None:
        found = [describe(data, part.train[i], part.names[i], 0, "site") for i in sites]
        federation = encoded(data, part, agree(found)[0].encoder, True)
    table, train = federation.table, part.train
    network = choose_network(federation, algorithm)
    sizes = torch.from_numpy(federation.sizes).float()
    w = network.init(seeds.generator(config["seed"], seeds.INIT))
    server = algorithm.start_server({"w": w}, sizes)
    for t, ids in enumerate(who):
        sent = []
        for i in ids:
            one = Clients(network, table, [train[i]], [i], config["seed"])
            sent.append(algorithm.client_round(server, {}, one, t)[0]["w"])
        server = algorithm.server_round(server, {"w": torch.cat(sent)}, sizes[ids])
    return server["w"]
