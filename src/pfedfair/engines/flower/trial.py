"""Flower on one machine: a simulation of many sites, and a small deployment."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file

from pfedfair._util.errors import InputError
from pfedfair.data import Dataset, from_frame
from pfedfair.data.tables.encoder import fit
from pfedfair.engines import local
from pfedfair.engines.flower import consortium, membership, provision
from pfedfair.engines.flower.processes import Processes, free_ports, write_toml
from pfedfair.engines.site.rows import as_sites
from pfedfair.federation import Federation, encoded
from pfedfair.methods import Method
from pfedfair.methods.phases import sends_models_only
from pfedfair.partition import Plan, fixed_shares
from pfedfair.runs import choose_network, load_model
from pfedfair.runs.predictor import Predictor

Report = Callable[[str], None]
TIMEOUT = 24 * 3600.0  # seconds
TOOK = re.compile(r"pfedfair: train took ([\d.]+) s, ([\d.]+) s after its process began")
SILENCE = 60.0  # seconds without a log message, after which Flower is asked for the run's status


@dataclass(frozen=True)
class Outcome:
    """The results of a trial: the sites' tables, and seconds for each round, also of `local`.

    `difference` is the largest difference of a weight from that of the local engine,
    `changed_decisions` the share of held-out rows on which the two decide differently. `at_sites`
    are seconds of the slowest site in a mean round of training: of its work, and of the start of
    its process.
    """

    table: pd.DataFrame
    seconds: list[float]
    stacked_seconds: float
    difference: float
    changed_decisions: float
    at_sites: tuple[float, float] | None = None


def simulate(
    federation: Federation,
    where: dict[str, Any],
    method: str,
    algorithm: Method,
    seed: int,
    out: Path,
    local_rounds: int = 1,
    report: Report = lambda text: None,
    secure_sum: bool = False,
) -> Outcome:
    """Run all clients of a data set on Flower's simulation runtime; `where` has its settings."""
    federation = as_sites(federation, str(where.get("client") or ""))
    out = out.absolute()
    config = run_config(federation, method, algorithm, seed, out / "server") | where
    config |= {"blind": not federation.table.task.aware, "state-dir": str(out / "sites")}
    config |= {"local-rounds": local_rounds, "poll": 0.1, "secure-sum": secure_sum}
    with Processes(out / "flower") as processes:
        (port,) = free_ports(1)
        processes.superlink(port, "--simulation")
        clients = f"num-supernodes={len(federation)} client-resources-num-cpus=1"
        path = processes.run(config, federation=clients)
        status = follow(processes, path, out / "server" / "server.log", report)
    folders = [out / "sites" / name / "model" for name in federation.partition.names]
    return outcome(federation, algorithm, seed, folders, out / "server", status)


def run_config(
    federation: Federation, method: str, algorithm: Method, seed: int, out: Path
) -> dict[str, Any]:
    """Return the settings common to simulations and deployments."""
    hidden = ",".join(map(str, federation.data.hidden))
    about = {"method": method, "algorithm": json.dumps(algorithm.to_dict()), "hidden": hidden}
    return about | {"seed": seed, "sites": len(federation), "out": str(out)}


def follow(processes: Processes, path: Path, log: Path, report: Report) -> dict[str, Any]:
    """Wait for the end of a run; report its server's log; return the status in the file `path`."""
    read, end, look = 0, time.monotonic() + TIMEOUT, time.monotonic() + SILENCE
    status = None
    while status is None:
        try:
            status = processes.wait(path, 0.5)
        except TimeoutError:
            if time.monotonic() > end:
                raise InputError(f"The run did not end, see {processes.logs}.") from None
        if status is None and time.monotonic() > look:
            why = processes.ended()  # it may have crashed without a status
            if why is not None and not path.exists():
                raise InputError(f"The run failed: {why}")
            look = time.monotonic() + SILENCE
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        for line in lines[read:]:
            if line.startswith("pfedfair: "):
                report(line.removeprefix("pfedfair: "))
        if len(lines) > read:
            read, look = len(lines), time.monotonic() + SILENCE
    if not status["done"]:
        raise InputError(f"The run failed: {status['error']}")
    return status


def outcome(
    federation: Federation,
    algorithm: Method,
    seed: int,
    folders: list[Path],
    server: Path,
    status: dict[str, Any],
) -> Outcome:
    """Collect the sites' tables and compare with the local engine."""
    tables = [pd.read_parquet(folder / "clients.parquet") for folder in folders]
    table = pd.concat(tables, ignore_index=True)
    table.insert(1, "role", federation.partition.roles)
    began = time.perf_counter()
    network = choose_network(
        federation, algorithm, "linear" if algorithm.supports.linear_only else None
    )
    with local.one_thread():  # as at a site
        fitted = local.fit(federation, algorithm, network, seed)
    seconds = time.perf_counter() - began
    theta = torch.stack([load_file(f / "model.safetensors")["theta"][0] for f in folders])
    w = load_file(server / "model.safetensors")["w"]
    apart = max(float((theta - fitted.theta).abs().max()), float((w - fitted.w).abs().max()))
    differ, (x, _, s, *_) = [], federation.table
    encoder = federation.table.encoder
    for i, rows in enumerate(federation.partition.test):
        local_predictor = Predictor(network, fitted.theta[i], fitted.rules[i])
        site_predictor = replace(load_model(folders[i], 0).predictor, key=local_predictor.key)
        local_decisions, site_decisions = (
            predictor.decide(x[rows], s[rows], encoder)
            for predictor in (local_predictor, site_predictor)
        )
        differ.append((local_decisions != site_decisions).double())
    every = torch.cat(differ)
    changed = float(every.mean()) if len(every) else 0.0
    return Outcome(table, [float(s) for s in status["seconds"]], seconds, apart, changed)


def site_tables(data: Dataset, plan: Plan, seed: int) -> Federation:
    """Return a data set as sites would have it: tables of inputs, a label and S, both 0 or 1."""
    part = plan.split(data, seed)
    inputs = [*data.numeric, *data.categorical]
    frame = data.frame[[c for c in inputs if c != plan.column]].assign(label=data.y, group=data.s)
    table = from_frame(frame, "label", "group", data.name, encoding=data.encoding)
    table = replace(table, hidden=data.hidden)
    encoder = fit(table, part.train)
    return encoded(table, replace(part, data=table), encoder, True, seed)


def demo(
    data: Dataset,
    method: str,
    algorithm: Method,
    sites: int,
    seed: int,
    folder: Path,
    report: Report = lambda text: None,
    secure_sum: bool = False,
) -> Outcome:
    """Set up a deployment with TLS and site authentication on loopback, run it, stop it."""
    federation = site_tables(data, fixed_shares(sites), seed)
    folder, (inside, *ports) = folder.absolute(), free_ports(sites + 1)
    server, names = folder / "server", [f"site-{i + 1}" for i in range(sites)]
    about: dict[str, Any] = {"host": "127.0.0.1", "inside": inside, "proxied": False}
    set_up(folder, dict(zip(names, ports, strict=True)), **about, secure_sum=secure_sum)
    part, frame = federation.partition, federation.data.frame
    for i, name in enumerate(names):
        frame.iloc[part.train[i]].to_parquet(folder / name / "site.parquet")
        frame.iloc[part.test[i]].to_parquet(folder / name / "test.parquet")
        about = {"site": name, "data": "site.parquet", "test": "test.parquet", "label": "label"}
        about |= {"sensitive": "group", "state-dir": "state", "audit-dir": "sent"}
        about |= {"encoding": data.encoding, "policy": "policy.toml"}
        about |= {"key": membership.KEY, "peers": consortium.FILE}
        write_toml(folder / name / "site.toml", about)
        if not sends_models_only(algorithm.phases):
            policy = {"exact-counts": True, "secure-sum": secure_sum}
            write_toml(folder / name / "policy.toml", policy)
    if not sends_models_only(algorithm.phases):
        report("these sites' policy allows counts of rows without noise, which the method sends")
    config = run_config(federation, method, algorithm, seed, server / "run")
    write_toml(server / "run.toml", config | {"poll": 0.3, "secure-sum": secure_sum})
    with Processes(folder / "flower") as processes:
        report("starting the SuperLink, with TLS and site authentication")
        processes.connect(inside, server / "tls")
        link = processes.start("superlink", [str(server / "start-superlink.sh")])
        processes.listen(inside, link)
        report(f"starting {sites} SuperNodes, each with its rows and its key")
        for name in names:
            processes.start(name, [str(folder / name / "start-supernode.sh")])
        _script(processes, server / "run.sh")
        run = server / "run"
        status = follow(processes, run / "status.json", run / "server.log", report)
        logs = [processes.log(name) for name in names]
    federation = as_sites(replace(federation, partition=replace(part, names=tuple(names))))
    folders = [folder / name / "state" / "model" for name in names]
    found = outcome(federation, algorithm, seed, folders, server / "run", status)
    return replace(found, at_sites=seconds_at_sites(logs))


def seconds_at_sites(logs: Sequence[str]) -> tuple[float, float] | None:
    """Return the mean over rounds of the slowest site's seconds of work and of start-up."""
    each = [[(float(a), float(b)) for a, b in TOOK.findall(log)] for log in logs]
    slowest = [max(messages, key=sum) for messages in zip(*each, strict=False)]
    if not slowest:
        return None
    work, start = (sum(each) / len(slowest) for each in zip(*slowest, strict=True))
    return work, start


def set_up(folder: Path, sites: Mapping[str, int], **options: Any) -> None:
    """Set up a server and sites, by the ports of their SuperNodes, as a consortium would do it."""
    provision.init(folder, **options)
    server = folder / "server"
    public = server / consortium.FILE
    requests = [provision.join(folder / name, public, name, port) for name, port in sites.items()]
    membership.register(server, membership.with_requests(server, requests))
    for name in sites:
        found, _ = membership.with_update(folder / name, public)
        membership.update(folder / name, found)


def _script(processes: Processes, path: Path, wait: float = 180) -> None:
    """Run a script to its end."""
    name = path.stem
    process = processes.start(name, [str(path)])
    try:
        code = process.wait(timeout=wait)
    except subprocess.TimeoutExpired:
        raise InputError(f"{path.name} took more than {wait:g} s: {processes.log(name)}") from None
    if code:
        raise InputError(f"{path.name} failed: {processes.log(name).strip()}")
    processes.running.pop(name)
