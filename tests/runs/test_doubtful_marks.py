"""Few new rows with points for decimals, where training had commas."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.runs.decisions import decide_file, reader_of
from pfedfair.runs.model import read_model


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    k = rng.integers(12_000, size=n) / 4
    text = pd.Series(k).map(lambda v: f"{v:,.2f}".translate(str.maketrans(",.", ".,")))
    frame = pd.DataFrame({"k": text, "s": rng.choice(["f", "m"], n), "y": (k > 1500).astype(int)})
    frame.to_csv(tmp_path / "rows.csv", index=False, sep=";")
    data = pff.load(tmp_path / "rows.csv", label="y", sensitive="s")
    federation = data.federate(pff.partition.together(), seed=0)
    pff.train(federation, pff.make("newton", {"rounds": 2}, data)).save(tmp_path / "run")
    return tmp_path


def decide(folder, cells, force=False):
    pd.DataFrame({"k": cells, "s": "f"}).to_csv(folder / "new.csv", index=False)
    reader = reader_of(read_model(folder / "run"), force=force)
    decide_file(reader, reader.open(folder / "new.csv"), folder / "out.parquet")
    return pd.read_parquet(folder / "out.parquet")


def test_no_row_is_decided_by_a_number_that_may_be_another(folder):
    with pytest.raises(pff.InputError, match=r"no number like 1\.234,5 as in training"):
        decide(folder, ["0.25", "1.125", "2.750"])
    found = decide(folder, ["0.25", "1.125", "7"])
    assert (found["decision"].astype(str) == "").tolist() == [True, True, False]
    forced = decide(folder, ["0.25", "1.125", "7"], force=True)["score"]
    assert forced[0] == forced[1] != forced[2]
    alone = decide(folder, ["1.125", "7"])
    assert (alone["problem"].astype(str) == "").all()
