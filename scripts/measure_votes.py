"""How often honest sites are suspected, voted on and left out, and how far they move.

    python scripts/measure_votes.py
    python scripts/measure_votes.py --methods fedavg newton

Adult and COMPAS by the paper's splits, and Adult by education (16 sites of 62 to 11,838 rows): the
checks of `pfedfair.engines.site.checks` and the votes of all clients, on the local engine.
"""

import argparse
import warnings
from collections.abc import Iterable

import torch

import pfedfair as pff
from pfedfair._util import seeds
from pfedfair.engines.flower.conduct import outvoted
from pfedfair.engines.local import flush_denormal
from pfedfair.engines.site import votes
from pfedfair.engines.site.checks import find_suspects, shorten_updates
from pfedfair.methods import Clients, Method, State
from pfedfair.methods.phases import Phase
from pfedfair.runs import choose_network

METHODS = ["fedavg", "fedavg-kde", "pfedfair", "newton", "transport"]


def left_out(
    method: Method, phase: Phase, server: State, good: dict[int, State], suspects: list[int],
    clients: list[Clients], own: list[State], sizes: torch.Tensor,
) -> int:  # fmt: skip
    """Return how many sites most clients are better off without."""

    def after(numbers: Iterable[int]) -> State:
        numbers = list(numbers)
        stacked = {k: torch.stack([good[i][k] for i in numbers]) for k in good[0]}
        return phase.server_round(server, stacked, sizes[numbers])

    sets = [{i} for i in suspects] + [set(suspects)] * (len(suspects) > 1)
    sets = [left for left in sets if 2 * len(left) < len(good)]
    proposals = [after(good), *(after(i for i in good if i not in left) for left in sets)]
    best = [votes.vote(method, phase, proposals, own[i], clients[i]) for i in good]
    return len(outvoted([best.count(k) for k in range(len(proposals))], sets))


@flush_denormal()
def watch(federation: pff.Federation, method: Method) -> dict[str, float]:
    """Train; return numbers of rounds and of sites, and the largest change of a model."""
    network = choose_network(federation, method, "linear" if method.supports.linear_only else None)
    numbers = range(len(federation))
    clients = [Clients(network, federation.table, [federation.partition.train[i]], [i], 0)
               for i in numbers]  # fmt: skip
    sizes = torch.from_numpy(federation.masses).float()
    rows = {i: len(federation.partition.train[i]) for i in numbers}
    server = {"w": network.init(seeds.generator(0, seeds.INIT))}
    own: list[State] = [{} for _ in numbers]
    found = dict.fromkeys(("rounds", "shortened", "votes", "left out", "moved"), 0.0)
    for phase in method.phases:
        server, states = phase.start_server(server, sizes), phase.states
        for i in numbers:
            own[i] = phase.start_clients(server, own[i], clients[i])
        for t in range(phase.rounds):
            good = {}
            for i in numbers:
                sent, own[i] = phase.client_round(server, own[i], clients[i], t)
                good[i] = {name: tensor[0] for name, tensor in sent.items()}
                if why := phase.impossible(good[i], server, [rows[i]]):
                    raise AssertionError(f"an honest answer is impossible: {why}")
                for name in states.models:
                    if name in good[i]:
                        way = (good[i][name] - server[name]).double().square().mean().sqrt()
                        found["moved"] = max(found["moved"], float(way))
            found["shortened"] += len(shorten_updates(good, server, states.models, rows)[1])
            why = find_suspects(good, server, states.models, states.grow_with_rows, rows)
            if why and (phase.trains or phase.decides):
                found["votes"] += 1
                found["left out"] += left_out(
                    method, phase, server, good, list(why), clients, own, sizes
                )
            found["rounds"] += 1
            stacked = {name: torch.stack([good[i][name] for i in numbers]) for name in good[0]}
            server = phase.server_round(server, stacked, sizes)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    methods = parser.parse_args().methods
    warnings.simplefilter("ignore")
    adult, compas = pff.load("adult"), pff.load("compas")
    plans = {
        "Adult, 5": (adult, pff.partition.fixed_shares(5)),
        "Adult, 20": (adult, pff.partition.fixed_shares(20)),
        "COMPAS, 5": (compas, pff.partition.fixed_shares(5)),
        "Adult by education": (adult, pff.partition.by_column("education")),
    }
    print(f"{'federation':<20}{'method':<12}rounds  shortened  votes  left out  largest change")
    for name, (data, plan) in plans.items():
        federation = data.federate(plan, seed=0)
        for method in methods:
            found = watch(federation, pff.make(method, {}, data))
            print(f"{name:<20}{method:<12}{found['rounds']:6.0f}{found['shortened']:11.0f}"
                  f"{found['votes']:7.0f}{found['left out']:10.0f}{found['moved']:16.3f}",
                  flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
