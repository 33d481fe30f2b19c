import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pfedfair.paper import table1
from pfedfair.report import tables

PLAN = json.dumps({"kind": "FixedShares"})


def results(shift=0.02, seeds=4):
    """Two methods, two clients; b is `shift` more accurate than a at every seed."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(seeds):
        level = rng.normal(0.8, 0.04)  # a hard or an easy split, the same for both methods
        for method, plus in (("a", 0.0), ("b", shift)):
            for client, role in (("1", "underrepresented"), ("2", "overrepresented")):
                noise = rng.normal(0, 0.001)
                rows.append(
                    {"dataset": "d", "method": method, "eta": 0.9, "seed": seed, "client": client,
                     "config": json.dumps({"m": method, "eta": 0.9}), "partition": PLAN,
                     "protocol": "pool",
                     "role": role, "accuracy": level + plus + noise, "ddp": 0.05 - plus,
                     "npr_s0": 0.8, "npr_s1": 0.85}
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_pairing_by_seed_sees_what_separate_intervals_hide():
    frame = results()
    summary = tables.summary(frame).set_index("method")
    gap = summary.loc["b", "mean_accuracy"] - summary.loc["a", "mean_accuracy"]
    assert summary.loc["a", "mean_accuracy_half"] > gap  # seeds differ by more than methods do
    mean, low, high = tables.paired(frame, "b", "a", "mean_accuracy")
    assert low < 0.02 < high
    assert low > 0.015
    assert mean == pytest.approx(gap)


def test_verdicts():
    frame = results()
    assert "holds: b has higher mean accuracy than a: +2.0 points" in tables.verdict(
        frame, ("b", "a", "mean_accuracy")
    )
    assert "does not hold" in tables.verdict(frame, ("a", "b", "mean_accuracy"))
    assert "holds: b has lower mean DDP than a: -0.020" in tables.verdict(
        frame, ("b", "a", "mean_ddp")
    )
    assert "open" in tables.verdict(results(shift=0.0), ("a", "b", "mean_accuracy"))
    assert "open" in tables.verdict(results(seeds=1), ("b", "a", "mean_accuracy"))


def test_markdown_has_a_row_per_method_with_intervals():
    text = tables.markdown(tables.summary(results()))
    lines = text.splitlines()
    assert len(lines) == 4
    assert "±" in lines[2]
    assert "half" not in lines[0]


def test_table1_figures_are_the_papers():
    adult = table1.printed("adult").set_index(["method", "client"])
    assert len(adult) == 35
    assert adult.loc[("pfedfair", "1"), "accuracy"] == pytest.approx(0.847)
    assert adult.loc[("fedavg-kde", "1"), "ddp"] == 0.104


def test_everything_fits_in_80_columns():
    frame = results(seeds=3)
    frame = pd.concat([frame, frame.assign(dataset="e")]).replace({"a": "pfedme-kde"})
    frame["accuracy_low"] = frame["ddp_low"] = 0.7812
    frame["accuracy_high"] = frame["ddp_high"] = 0.8912
    frame = frame.assign(n_train=2400, share_s1=0.1667)
    console = Console(width=80, file=io.StringIO())
    one = frame[frame["dataset"] == "d"]
    console.print(tables.client_grid(one, "title", None))
    console.print(tables.summary_grid(one, "title"))
    console.print(tables.run_grid(one.head(2), "title"))
    for gap in ("eo", "eopp"):  # two more gaps, in the place of shares and rates
        one = one.assign(**{gap: 0.8, f"{gap}_low": 0.7812, f"{gap}_high": 0.8912})
    console.print(tables.run_grid(one.head(2), "title", ["ddp", "eo", "eopp"]))
    text = console.file.getvalue()
    assert "…" not in text
    assert "EOPP" in text
    assert "pfedme-kde" in text
    for number in (".781, .891]", "[78.1, 89.1]", "0.17", " 0.9 ", "2400"):
        assert number in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_are_not_markup():
    frame = results(seeds=2).replace({"1": "[/x]", "2": "[bold]"})
    console = Console(width=80, file=io.StringIO())
    console.print(tables.client_grid(frame, "title", None))
    assert "client [/x]" in console.file.getvalue()


def test_five_clients_fit_in_80_columns():
    frame = pd.concat([results(seeds=3).assign(client=c) for c in "12345"])
    frame = frame.drop_duplicates(["method", "seed", "client"]).replace({"a": "fedavg-kde"})
    console = Console(width=80, file=io.StringIO())
    console.print(tables.client_grid(frame, "title", table1.printed("adult")))
    assert "…" not in console.file.getvalue()
    assert "81.9 .104" in console.file.getvalue()
