"""One site of five lies, in twelve ways: what the honest sites lose, or who is named.

    python benchmarks/liars.py
    python benchmarks/liars.py --methods newton transport --secure
    python benchmarks/liars.py --methods fedavg --lies "x -1.4" --liars 2

Adult, five sites, each message in one process. Accuracy and DDP are those of the four honest sites'
own models on their held-out rows: the mean accuracy that they lose against a run in which the
liar is honest, and the mean growth of their gap. A lie is caught if the run ends with a sentence.
"""

import argparse
import json
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import torch

sys.path.append(str(Path(__file__).parent.parent / "tests" / "engines" / "flower"))
from flower_sites import LocalGrid, defaults

import pfedfair as pff
from pfedfair.engines.flower import log
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.site.settings import Settings
from pfedfair.engines.site.work import Work
from pfedfair.methods import State

SITES = 5
ROUNDS = 40
METHODS = {
    "fedavg": {"alpha": 0.03},
    "fedavg-kde": {"alpha": 0.03, "eta": 0.5},
    "pfedfair": {"alpha": 0.03, "eta": 0.5},
    "newton": {},
    "transport": {"target_ddp": 0.05, "confidence": 0.0},
}
Lie = Callable[[State, State, torch.Generator], State]  # from a message and the server's state


def scaled(factor: float) -> Lie:
    """Multiply a model's change, or a sum, by a factor."""

    def lie(sent: State, server: State, rng: torch.Generator) -> State:
        before = {k: server[k] if is_model(k, v, server) else torch.zeros_like(v)
                  for k, v in sent.items()}  # fmt: skip
        return {k: (before[k] + factor * (v - before[k])).to(v.dtype) for k, v in sent.items()}

    return lie


def random(size: float) -> Lie:
    """Move in a random direction: the same one in all rounds."""

    def lie(sent: State, server: State, rng: torch.Generator) -> State:
        made = {}
        for name, value in sent.items():
            noise = torch.randn(value.shape, generator=rng, dtype=torch.float64)
            usual = 1.0 if is_model(name, value, server) else float(value.abs().double().mean())
            made[name] = (value.double() + size * usual * noise).to(value.dtype)
        return made

    return lie


def constant(number: float) -> Lie:
    return lambda sent, server, rng: {k: torch.full_like(v, number) for k, v in sent.items()}


def negative_curvature(sent: State, server: State, rng: torch.Generator) -> State:
    return {k: -v if k in ("hessian", "w") else v for k, v in sent.items()}


def is_model(name: str, value: torch.Tensor, server: State) -> bool:
    return name in server and server[name].shape == value.shape


def swapped(table: pd.DataFrame) -> pd.DataFrame:
    labels = sorted(table["label"].unique())
    return table.assign(label=table["label"].map(dict(zip(labels, labels[::-1], strict=True))))


def unfair(table: pd.DataFrame) -> pd.DataFrame:
    """Say that one group always has the label, and the other never."""
    labels = np.array(sorted(table["label"].unique()))
    return table.assign(
        label=labels[(table["sex"] == sorted(table["sex"].unique())[1]).astype(int)]
    )


MESSAGES: dict[str, Lie] = {
    "x -1.4": scaled(-1.4),
    "x -10": scaled(-10),
    "x -100": scaled(-100),
    "x 10": scaled(10),
    "x 1000": scaled(1000),
    "random": random(5.0),
    "zeros": constant(0.0),
    "1e308": constant(1e308),
    "NaN": constant(float("nan")),
    "negative": negative_curvature,
}
TABLES = {"swapped labels": swapped, "labels by group": unfair}


@contextmanager
def lying(lie: Lie | None, liars: int) -> Iterator[None]:
    """Have the liars' sites send something else than they should, past their own checks."""
    train = Work.train

    def trained(self: Work) -> tuple[State, int]:
        sent, done = train(self)
        if lie is not None and self.order.number < liars:
            sent = lie(sent, self.server, torch.Generator().manual_seed(0))
        return sent, done

    Work.train = trained  # type: ignore[method-assign]
    try:
        yield
    finally:
        Work.train = train  # type: ignore[method-assign]


def write_tables(folder: Path, rows: int) -> None:
    """Write Adult's rows as five sites' tables, whose shares of S differ."""
    data = pff.load("adult")
    label, sex = np.array(data.label_names)[data.y], np.array(data.group_names)[data.s]
    used = [data.label_column, data.sensitive_column]
    frame = data.frame.drop(columns=used, errors="ignore").assign(label=label, sex=sex)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(frame))
    women = order[frame["sex"].to_numpy()[order] == sorted(frame["sex"].unique())[0]]
    men = order[frame["sex"].to_numpy()[order] != sorted(frame["sex"].unique())[0]]
    for i in range(SITES):
        share = 0.25 if i % 2 else 0.4
        k = int(rows * 1.5)
        own = np.concatenate([women[: int(k * share)], men[: k - int(k * share)]])
        women, men = women[int(k * share) :], men[k - int(k * share) :]
        own = rng.permutation(own)
        frame.iloc[own[:rows]].to_parquet(folder / f"train{i}.parquet")
        frame.iloc[own[rows:]].to_parquet(folder / f"test{i}.parquet")


def run(folder: Path, method: str, lie: str, secure: bool, liars: int = 1) -> dict[str, object]:
    """Conduct a run; return what the honest sites' own models are like, and what was said."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place)
        (out / "policy.toml").write_text(
            "exact-counts = true\nrepeat-description = true\nruns-per-day = 1000\n"
            "messages-per-day = 10000\nepsilon = 1000.0\n"
        )
        options = dict(METHODS[method])
        given = {
            "method": method, "options": json.dumps(options), "sites": SITES, "out": str(out / "o"),
            "wait": 5.0, "round-timeout": 60.0, "poll": 0.01, "secure-sum": secure, "min-sites": 3,
            "rounds": 10 if method in ("newton", "transport") else ROUNDS,
        }  # fmt: skip
        grid = LocalGrid(defaults() | given)
        for i in range(SITES):
            table = folder / f"train{i}.parquet"
            if i < liars and lie in TABLES:
                TABLES[lie](pd.read_parquet(table)).to_parquet(out / f"train{i}.parquet")
                table = out / f"train{i}.parquet"
            grid.add(100 + i, {
                "site": f"site {i}", "data": str(table), "test": str(folder / f"test{i}.parquet"),
                "label": "label", "sensitive": "sex", "state-dir": str(out / f"s{i}"),
                "encoding": "piecewise" if method in ("newton", "transport") else "standard",
                "policy": str(out / "policy.toml"),
            })  # fmt: skip
        said: list[str] = []
        ear = logging.Handler(logging.WARNING)
        ear.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
        log.addHandler(ear)
        error = ""
        try:
            with lying(MESSAGES.get(lie), liars):
                Conductor(grid, Settings.read(grid.run_config)).run()
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
        finally:
            log.removeHandler(ear)
        found: dict[str, object] = {"error": error, "said": said}
        each = []
        for i in range(liars, SITES):
            own = [*(out / f"s{i}").glob("*/clients.parquet")]
            each += [pd.read_parquet(path).iloc[0] for path in own]
        if each:
            found["accuracy"] = float(np.mean([one["accuracy"] for one in each]))
            found["ddp"] = float(np.mean([one["ddp"] for one in each]))
            found["models"] = len(each)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=[*METHODS])
    parser.add_argument("--lies", nargs="+", default=[*MESSAGES, *TABLES])
    parser.add_argument("--secure", action="store_true")
    parser.add_argument("--liars", type=int, default=1)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for logger in (log, logging.getLogger("pfedfair")):
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
    with tempfile.TemporaryDirectory() as place:
        write_tables(Path(place), args.rows)
        for method in args.methods:
            began = time.monotonic()
            usual = run(Path(place), method, "", args.secure, args.liars)
            print(f"{method:<11} honest          {usual.get('accuracy', 0):.3f} "
                  f"DDP {usual.get('ddp', 0):.3f} {time.monotonic() - began:.1f} s "
                  f"{usual['error']} {usual['said'][:3]}", flush=True)  # fmt: skip
            for lie in args.lies:
                found = run(Path(place), method, lie, args.secure, args.liars)
                said = " ".join([found["error"], *found["said"]])
                named = all(f"site 'site {i}'" in said for i in range(args.liars))
                words = f"{method:<11} {lie:<15}"
                if "accuracy" in found:
                    lost = usual["accuracy"] - found["accuracy"]
                    more = found["ddp"] - usual["ddp"]
                    bad = lost > 0.01 or more > 0.02
                    words += f" {found['accuracy']:.3f} DDP {found['ddp']:.3f} lost {lost:+.3f}"
                    words += f" gap {more:+.3f} {'BAD' if bad else 'ok '}"
                print(words, "named" if named else "-", found["error"][:90], flush=True)
                if args.verbose:
                    print("    ", found["said"][:4])


if __name__ == "__main__":
    main()
