"""What a malicious server reads of a site's rows in one message, by weights that it has crafted.

    python scripts/measure_rows.py  # a minute

All hidden units look in one direction and differ in where they begin to fire. So two neighbours
differ by the people in between: where there is one, the difference of their updates is her row.
The server knows how such people are distributed, from others of the same population, and asks for
one plain step on all rows at once: what makes it easiest. The site runs the project's own code.
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import torch

import pfedfair as pff
from pfedfair.engines.site.rounds import make_network
from pfedfair.engines.site.rows import federate_site, read_site
from pfedfair.engines.site.schema import Schema, agree, describe
from pfedfair.engines.site.work import accept
from pfedfair.federation import Table
from pfedfair.methods import State
from pfedfair.models import MLP
from pfedfair.models.base import with_group

ROWS = 3750
NEAR = 0.05  # of every input: the row is known
OPEN = "hidden = 1000000\nmessages-per-day = 1000\nruns-per-day = 1000\n"


def people(table: Table, rows: slice) -> np.ndarray:
    """What the first layer is given, ``(n, inputs)``."""
    x = with_group(table.inputs(rows)[None], table.s[None, rows], table.task.groups)
    return x[0].double().numpy()


def crafted(network: MLP, public: np.ndarray, units: int, rng: np.random.Generator) -> torch.Tensor:
    """Weights that part people by one number; of fewer units than people, the highest of them."""
    (first, fan_in, _), (second, *_) = network.layers
    direction = rng.normal(size=fan_in) / np.sqrt(fan_in)
    places = np.sort(public @ direction)
    share = np.arange(units) / units if units > ROWS else 1 - np.arange(units, 0, -1) / ROWS
    edges = np.quantile(places, share.clip(0, 1))
    w = np.zeros(network.size)
    w[first : first + fan_in * units] = np.tile(direction, units)
    w[first + fan_in * units : second] = -edges
    w[second : second + units] = (-1.0) ** np.arange(units)  # so that they cancel in the score
    return torch.from_numpy(w.astype(np.float32))


def read(network: MLP, before: torch.Tensor, after: torch.Tensor) -> np.ndarray:
    """The rows that the server thinks it sees, ``(units, inputs)``."""
    (first, fan_in, units), (second, *_) = network.layers
    way = (after.double() - before.double()).numpy()
    signs = (-1.0) ** np.arange(units)
    weights = way[first : first + fan_in * units].reshape(units, fan_in) * signs[:, None]
    biases = way[first + fan_in * units : second] * signs
    inputs, ones = (np.diff(x, axis=0, append=np.zeros_like(x[:1])) for x in (weights, biases))
    with np.errstate(all="ignore"):
        return np.asarray(inputs / ones[:, None])


def attack(folder: Path, units: int, policy: str, noise: dict[str, float]) -> str:
    (folder / "policy.toml").write_text(policy)
    node = {"data": str(folder / "site.parquet"), "label": "income", "sensitive": "sex",
            "test-part": 0.0, "state-dir": str(folder / "state"), "site": "a",
            "policy": str(folder / "policy.toml")}  # fmt: skip
    algorithm = pff.methods.FedAvg(rounds=1, batch=10**9, optimiser="sgd", alpha=1.0)
    run = {"seed": 0, "name": "m", "algorithm": json.dumps(algorithm.to_dict()), **noise}
    site = read_site(node, run)
    made, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    schema = Schema(made.encoder, made.labels, made.groups, made.columns, (units,), True)
    network = make_network(schema, algorithm)
    assert isinstance(network, MLP)
    other = read_site(node | {"data": str(folder / "public.parquet"), "site": "b"}, run)
    public = people(federate_site(other, schema).table, slice(None))
    w = crafted(network, public, units, np.random.default_rng(0))
    order = {"round": 0, "phase": "train", "number": 0, "key": "ab", "schema": schema.to_json(),
             "local-rounds": 1, "max-change": 10.0}  # fmt: skip
    server: State = {"w": w}
    try:
        work = accept(order, server, node, run, {})
        sent, _ = work.train()
    except pff.InputError as error:
        return f"refused: {error}"
    guesses, true = read(network, w, sent["w"]), people(work.clients.table, slice(None))
    found = set()
    for guess in guesses[np.isfinite(guesses).all(1)]:
        near = np.abs(true - guess).max(1)
        if near.min() < NEAR:
            found.add(true[near.argmin()].tobytes())
    alike = np.unique(true, axis=0)
    return f"{len(found):,} rows of {len(true):,} ({len(alike):,} different ones)"


def people_of_adult(folder: Path) -> None:
    """The rows of a site, and others of the same population, which the server knows."""
    data = pff.load("adult")
    frame = data.frame[[*data.numeric, *data.categorical, "income", "sex"]]
    frame = frame.sample(frac=1, random_state=0)
    frame.iloc[:ROWS].to_parquet(folder / "site.parquet")
    frame.iloc[ROWS : 8 * ROWS].to_parquet(folder / "public.parquet")


def main() -> None:
    noisy = {"clip": 1.0, "epsilon": 0.5, "delta": 1e-5}
    tries: list[tuple[str, str, int, dict[str, float]]] = [
        ("no limit", OPEN, 16384, {}),
        ("no limit", OPEN, 2048, {}),
        ("the default", "", 16384, {}),
        ("the default", "", 128, {}),
        ("the default", "", 64, {}),
        ("no limit, clip 1 and epsilon 0.5", OPEN, 16384, noisy),
    ]
    for policy, text, units, noise in tries:
        with tempfile.TemporaryDirectory() as place:
            people_of_adult(Path(place))
            print(f"{policy}, {units:,} units: {attack(Path(place), units, text, noise)}")


if __name__ == "__main__":
    main()
