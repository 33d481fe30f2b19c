"""What a secure sum costs: processor seconds and bytes, beside a plain average.

    python scripts/measure_secure.py  # Adult's network, 5 and 20 sites, medians of 5 rounds

The project's own code at the sites and at the server, without Flower's messages in between. Keys
and shares are made once for 20 rounds. Training, and the model that the server sends, cost the same
with and without, and are left out.
"""

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import pfedfair as pff
from pfedfair.engines.flower.partner import MAX_SUMS, Partner
from pfedfair.engines.flower.records import pack, unpack
from pfedfair.engines.flower.secure import Cohort, SecureSum
from pfedfair.engines.site.masking import MASKED
from pfedfair.methods.base import average
from pfedfair.runs import choose_network

ROUNDS = 5


class Costs:
    """Processor seconds and bytes of the sites, and seconds of the server, of what is going on."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = defaultdict(list)
        self.at_sites = self.sent = 0.0

    def during(self, what: str, work: Callable[[], Any], sites: int) -> Any:
        self.at_sites, self.sent, began = 0.0, 0, time.process_time()
        made = work()
        whole = time.process_time() - began
        self.found[f"{what}, site"].append(self.at_sites / sites)
        self.found[f"{what}, server"].append(whole - self.at_sites)
        self.found[f"{what}, kB of a site"].append(self.sent / sites / 1000)
        return made

    def at_site(self, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        made = work()
        self.at_sites += time.process_time() - began
        return made


def answer(told: Mapping[str, Any], **more: Any) -> SimpleNamespace:
    """An answer as the server reads it."""
    config = {"config": {"secure": json.dumps(told)}}
    content = SimpleNamespace(config_records=config, **more)
    return SimpleNamespace(content=content, has_error=lambda: False)


def secure(models: list[Tensor], w: Tensor, folder: Path, lost: int) -> dict[str, float]:
    """The costs of sums over some sites' models, of which the last are lost on the way."""
    sites, costs, algorithm = len(models), Costs(), pff.methods.FedAvg(rounds=MAX_SUMS)
    partners = [Partner({}, {}) for _ in models]
    places = [SimpleNamespace(name=f"site {i}", rows=1000) for i in range(sites)]
    state: Any = SimpleNamespace(sites=places, server={"w": w}, done=0, key="key")
    settings: Any = SimpleNamespace(
        phase=lambda done: algorithm, rounds=MAX_SUMS, local_rounds=1, secure_threshold=0,
        min_sites=3, far=10.0, max_change=10.0,
    )  # fmt: skip

    def ask(state: Any, kind: str, contents: Mapping[int, Any]) -> dict[int, Any]:
        found = {}
        for i, content in contents.items():
            text = content.config_records["config"]["secure"]
            step = getattr(partners[i], kind.removeprefix("query."))
            told = costs.at_site(lambda step=step, text=text: step(json.loads(text)))
            found[i] = answer(told)
            costs.sent += len(text) + len(json.dumps(told))
        return found

    def train(state: Any, kind: str, orders: Mapping[int, dict[str, str]]) -> dict[int, Any]:
        found = {}
        for i, order in orders.items():
            work: Any = SimpleNamespace(
                source=SimpleNamespace(folder=folder / f"{i}"), state_digest=f"{state.done}",
                n_rows=1000, phase=algorithm, server={"w": w},
                train=lambda i=i: ({"w": models[i]}, 1), order_digest=made.order_digest,
            )  # fmt: skip
            text = order["secure"]
            numbers, forms, done = costs.at_site(
                lambda i=i, text=text, work=work: partners[i].train_masked(json.loads(text), work)
            )
            costs.sent += len(text) + numbers.nbytes
            if i < sites - lost:
                arrays = {"arrays": pack({MASKED: numbers})}
                counted = {"metrics": {"rounds": done}}
                found[i] = answer({"forms": forms}, array_records=arrays, metric_records=counted)
        return found

    participants: Any = SimpleNamespace(
        ask=ask, order=train, successes=lambda state, answers: answers
    )
    expected = torch.stack(models[: sites - lost]).double().mean(0)
    for _ in range(ROUNDS):
        made = SecureSum(settings, participants, state)
        cohort: Cohort = costs.during("keys", lambda m=made: m.prepare(list(range(sites))), sites)
        total = costs.during("sum", lambda m=made, c=cohort: m.make(c), sites)
        assert float((total.stacked["w"][0].double() - expected).abs().max()) < 1e-6
        state.done += 1
    return {what: median(each) for what, each in costs.found.items()}


def plain(models: list[Tensor]) -> dict[str, float]:
    """The costs of an average of numbers that the server sees."""
    sites, costs = len(models), Costs()

    def work() -> Tensor:
        sent = [costs.at_site(lambda one=one: pack({"w": one})) for one in models]
        costs.sent = sum(len(array.data) for one in sent for array in one.values())
        return average(torch.stack([unpack(one)["w"] for one in sent]), torch.ones(sites))

    for _ in range(ROUNDS):
        costs.during("sum", work, sites)
    return {what: median(each) for what, each in costs.found.items()}


def main() -> None:
    torch.set_num_threads(1)
    federation = pff.load("adult").federate(pff.partition.fixed_shares(5))
    size = choose_network(federation, pff.make("fedavg", {}, "adult")).size
    generator = torch.Generator().manual_seed(0)
    print(f"{size} weights; processor seconds, and kB that a site sends and is sent")
    for sites in (5, 20):
        w = torch.randn(size, generator=generator)
        models = [w + 0.01 * torch.randn(size, generator=generator) for _ in range(sites)]
        with tempfile.TemporaryDirectory() as folder:
            cases = {
                "plain": plain(models),
                "secure": secure(models, w, Path(folder) / "a", 0),
                "secure, one lost": secure(models, w, Path(folder) / "b", 1),
            }
        for name, found in cases.items():
            for what, value in found.items():
                print(f"{sites:2} sites  {name:17} {what:20} {value:8.4f}", flush=True)


if __name__ == "__main__":
    main()
