"""Grids of runs: what is done, what is kept, and what is refused."""

import pandas as pd
import pytest
from grids import grid

import pfedfair as pff
from pfedfair.experiment import Source, Spec, load_source, run_experiment, spec


def test_what_is_finished_is_not_done_again(reference):
    before = {p: p.stat().st_mtime_ns for p in (reference / "runs").iterdir()}
    content = (reference / "results.parquet").read_bytes()
    run_experiment(grid(), reference, jobs=1)
    assert {p: p.stat().st_mtime_ns for p in (reference / "runs").iterdir()} == before
    assert (reference / "results.parquet").read_bytes() == content


def test_another_experiment_is_refused(reference, tmp_path):
    before = (reference / "experiment.json").read_bytes()
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(grid(rounds=4), reference, jobs=1)
    assert (reference / "experiment.json").read_bytes() == before
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(pff.InputError, match="is not an experiment of ours"):
        run_experiment(grid(), tmp_path, jobs=1)
    with pytest.raises(pff.InputError, match="jobs must be at least 1"):
        run_experiment(grid(), tmp_path / "new", jobs=0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_after_a_failure_the_corrected_command_has_the_folder(tmp_path, jobs):
    """One run is done, one diverges: the folder is free, and what was done is not done again."""
    plan, source, out = pff.partition.fixed_shares(), Source("compas"), tmp_path / "out"

    def specs(alpha):
        worse = pff.FedAvg(rounds=2, optimiser="sgd", alpha=alpha)
        return [
            Spec(source, plan, "constant", pff.Constant(), 0),
            Spec(source, plan, "fedavg", worse, 0),
        ]

    with pytest.raises(pff.InputError, match="Training diverged"):
        run_experiment(specs(1e30), out, jobs=jobs)
    kept = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*.parquet")}
    assert len(kept) <= 1
    results = run_experiment(specs(0.01), out, jobs=1)
    assert set(results["method"]) == {"constant", "fedavg"}
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(specs(0.02), out, jobs=1)  # it has results now


def test_a_folder_of_yours_called_runs_is_not_ours(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    with pytest.raises(pff.InputError, match="is not an experiment of ours"):
        run_experiment(grid(), tmp_path, jobs=1)


def test_corrupt_checkpoint_is_named(tmp_path):
    run_experiment(grid(), tmp_path / "out", jobs=1)
    victim = next((tmp_path / "out" / "runs").glob("compas-pfedfair-*"))
    victim.write_bytes(b"PAR1")
    with pytest.raises(pff.InputError, match="delete it and run"):
        run_experiment(grid(), tmp_path / "out", jobs=1)


def test_same_seed_twice_gives_identical_bytes(reference, tmp_path):
    run_experiment(grid(), tmp_path / "again", jobs=1)
    files = [d / "results.parquet" for d in (reference, tmp_path / "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_changed_file_is_another_experiment(csv, tmp_path):
    plan = pff.partition.by_column("site")

    def specs():
        spec._sha256.cache_clear()  # as in a new process
        load_source.cache_clear()
        source = Source(str(csv), "hired", "sex")
        return [Spec(source, plan, "constant", pff.Constant(), 0)]

    run_experiment(specs(), tmp_path / "out", jobs=1)
    run_experiment(specs(), tmp_path / "out", jobs=1)
    pd.read_csv(csv).iloc[1:].to_csv(csv, index=False)
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(specs(), tmp_path / "out", jobs=1)


def test_bad_runs_are_refused_before_anything_is_written(tmp_path):
    too_many = pff.partition.fixed_shares(9, rows=900)
    bad = [Spec(Source("compas"), too_many, "constant", pff.Constant(), 0)]
    for specs, message in ((bad, "compas has 4069"), (grid() + grid(), "asked for twice")):
        with pytest.raises(pff.InputError, match=message):
            run_experiment(specs, tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()
