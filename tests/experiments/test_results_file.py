import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.experiments import COLUMNS, read_results
from pfedfair.experiments.results import LATER
from pfedfair.studies import comparison

DESIGN = [
    "dataset", "method", "eta", "lam", "gamma", "target_ddp", "seed", "client", "role", "n_train",
    "n_test", "share_s1", "accuracy", "ddp", "eo", "eopp", "npr_s0", "npr_s1", "accuracy_low",
    "accuracy_high", "ddp_low", "ddp_high", "eo_low", "eo_high", "eopp_low", "eopp_high",
    "protocol", "seconds",
]  # fmt: skip


def test_results_are_tidy(reference):
    results = pd.read_parquet(reference / "results.parquet")
    assert list(results.columns) == COLUMNS
    assert set(DESIGN) <= set(results.columns)
    assert len(results) == 3 * 2 * 5
    keys = ["dataset", "method", "eta", "seed", "client"]
    assert not results.duplicated(keys).any()
    fair = results[results["method"] == "pfedfair"]
    assert set(fair["lam"]) == {0.4}
    assert set(results["role"]) == {"underrepresented", "overrepresented"}
    assert (
        results["eopp"] <= results["eo"] + 1e-12
    ).all()  # one of those that it is the largest of


def test_seconds_are_kept_apart_and_filled_in(reference):
    assert pd.read_parquet(reference / "results.parquet")["seconds"].isna().all()
    results = read_results(reference)
    assert (results["seconds"] > 0).all()
    assert len(results) == 30


def test_results_of_an_earlier_version_are_read_and_shown(reference, tmp_path):
    before = pd.read_parquet(reference / "results.parquet").drop(columns=list(LATER))
    before.to_parquet(tmp_path / "results.parquet")
    view = comparison(read_results(tmp_path))
    assert view.tables[0].cells() == comparison(read_results(reference)).tables[0].cells()


def test_corrupt_results_are_named(reference, tmp_path):
    out = tmp_path / "corrupt"
    out.mkdir()
    with pytest.raises(pff.InputError, match=r"has no results.parquet"):
        read_results(out)
    (out / "results.parquet").write_bytes((reference / "results.parquet").read_bytes()[:-50])
    with pytest.raises(pff.InputError, match=r"results.parquet is not a readable Parquet file"):
        read_results(out)
    pd.DataFrame({"a": [1]}).to_parquet(out / "results.parquet")
    with pytest.raises(pff.InputError, match="has no column 'dataset'"):
        read_results(out)
