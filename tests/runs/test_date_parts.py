"""Columns that are called like parts of dates, by train, predict and Python."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.runs.decisions import decide_file, reader_of
from pfedfair.runs.model import read_model

N = 400


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=N).round(2), "s": rng.choice(["f", "m"], N),
        "site": rng.choice(["A", "B"], N), "paid (hour)": rng.choice(["q", "r", "t"], N),
        "d": rng.choice(pd.date_range("2023-01-01", periods=700).strftime("%Y-%m-%d"), N),
    })  # fmt: skip
    score = frame["x"] + 2 * (frame["paid (hour)"] == "q") + (frame["d"] > "2024") - 1
    return frame.assign(y=(rng.random(N) < 1 / (1 + np.exp(-score))).astype(int))


def saved(frame, folder):
    frame.to_csv(folder / "rows.csv", index=False)
    data = pff.load(folder / "rows.csv", label="y", sensitive="s")
    federation = data.federate(pff.partition.by_column("site"), seed=0)
    run = pff.train(federation, pff.make("newton", {"rounds": 2}, data))
    run.save(folder / "run")
    return run


def decided(folder, name="rows.csv"):
    reader = reader_of(read_model(folder / "run"), client="A")
    decide_file(reader, reader.open(folder / name), folder / "out.parquet")
    return pd.read_parquet(folder / "out.parquet")["score"].to_numpy()


@pytest.mark.parametrize("beside", [None, "words", "number"])
def test_a_column_of_words(frame, tmp_path, beside):
    if beside:
        paid = {"words": np.where(frame["x"] > 0, "hi", "lo"), "number": frame["x"] * 3}
        frame["paid"] = paid[beside]
    run = saved(frame, tmp_path)
    right = run.personal_model("A").score_samples(frame)
    assert decided(tmp_path) == pytest.approx(right, abs=1e-6)
    assert "paid (hour)" not in run.card["columns"]["left_out"]
    again = pff.load_model(tmp_path / "run", client="A").score_samples(frame)
    assert again == pytest.approx(right, abs=1e-6)


def test_new_rows_with_a_column_that_hides_a_part(frame, tmp_path):
    run = saved(frame, tmp_path)
    right = run.personal_model("A").score_samples(frame)
    more = frame.assign(**{"d (month)": "7", "d (year)": 1900})
    more.to_csv(tmp_path / "more.csv", index=False)
    assert run.personal_model("A").score_samples(more) == pytest.approx(right, abs=1e-6)
    assert decided(tmp_path, "more.csv") == pytest.approx(right, abs=1e-6)
