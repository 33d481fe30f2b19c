"""Grids of runs: what is done, what is kept, and what is refused."""

import shutil
import subprocess
import sys

import pandas as pd
import pytest
from grids import grid

import pfedfair as pff
import pfedfair.experiments.grid as grid_module
from pfedfair.experiments import Source, Spec, read_results, run_experiment, spec


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
    with pytest.raises(pff.InputError, match="is not an experiment of pfedfair"):
        run_experiment(grid(), tmp_path, jobs=1)
    with pytest.raises(pff.InputError, match="jobs must be at least 1"):
        run_experiment(grid(), tmp_path / "new", jobs=0)


@pytest.mark.parametrize("jobs", [1, 2])
def test_after_a_failure_the_corrected_command_has_the_folder(tmp_path, jobs):
    """One run is done, one diverges: the folder is free, and what was done is not done again."""
    plan, source, out = pff.partition.fixed_shares(), Source("compas"), tmp_path / "out"

    def specs(alpha):
        worse = pff.methods.FedAvg(rounds=2, optimiser="sgd", alpha=alpha)
        return [
            Spec(source, plan, "constant", pff.methods.Constant(), 0),
            Spec(source, plan, "fedavg", worse, 0),
        ]

    with pytest.raises(pff.InputError, match="Training diverged"):
        run_experiment(specs(1e30), out, jobs=jobs)
    kept = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("[!.]*.parquet")}
    assert len(kept) <= 1
    results = run_experiment(specs(0.01), out, jobs=1)
    assert set(results["method"]) == {"constant", "fedavg"}
    assert all(path.stat().st_mtime_ns == before for path, before in kept.items())
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(specs(0.02), out, jobs=1)  # it has results now


def test_a_folder_of_yours_called_runs_is_not_ours(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "notes.txt").write_text("notes")
    with pytest.raises(pff.InputError, match="is not an experiment of pfedfair"):
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
        spec.LOADED.clear()
        source = Source(str(csv), "hired", "sex")
        return [Spec(source, plan, "constant", pff.methods.Constant(), 0)]

    run_experiment(specs(), tmp_path / "out", jobs=1)
    run_experiment(specs(), tmp_path / "out", jobs=1)
    pd.read_csv(csv).iloc[1:].to_csv(csv, index=False)
    with pytest.raises(pff.InputError, match="holds another experiment"):
        run_experiment(specs(), tmp_path / "out", jobs=1)


def test_bad_runs_are_refused_before_anything_is_written(tmp_path):
    too_many = pff.partition.fixed_shares(9, rows=900)
    bad = [Spec(Source("compas"), too_many, "constant", pff.methods.Constant(), 0)]
    for specs, message in ((bad, "compas has 4069"), (grid() + grid(), "asked for twice")):
        with pytest.raises(pff.InputError, match=message):
            run_experiment(specs, tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_two_commands_in_one_folder_do_not_mix(reference, tmp_path):
    """The second is refused with a sentence; the lock dies with the first, however it ends."""
    code = (
        "import sys, time; from pathlib import Path; from pfedfair._util.files import exclusive\n"
        "with exclusive(Path(sys.argv[1])):\n"
        "    print('held', flush=True); time.sleep(60)\n"
    )
    out = shutil.copytree(reference, tmp_path / "out")
    before = (out / "results.parquet").read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(out / "runs")], stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(pff.InputError, match=r"Another command is at work in .*: wait for its"):
            run_experiment(grid(), out, jobs=1)
        first.kill()
    run_experiment(grid(), out, jobs=1)
    assert (out / "results.parquet").read_bytes() == before


FORGED = {
    "too good": (lambda f: f.assign(accuracy=1.2), "'accuracy' must be between 0 and 1"),
    "words": (lambda f: f.assign(accuracy="high"), "'accuracy' must be between 0 and 1"),
    "ends": (lambda f: f.assign(ddp_low=0.9, ddp_high=0.1), "ends before it begins"),
    "method": (lambda f: f.assign(method="pfedfair"), "not the run .*another method"),
    "seed": (lambda f: f.assign(seed=9), "not the run that its name says .another seed"),
    "config": (lambda f: f.assign(config="{}"), "not the run .*another config"),
    "empty": (lambda f: f.head(0), "no rows"),
    "column": (lambda f: f.drop(columns="ddp"), "has no column 'ddp'"),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_run_is_not_believed(reference, tmp_path, how):
    change, words = FORGED[how]
    out = shutil.copytree(reference, tmp_path / "out")
    path = out / "runs" / f"{grid()[0].key}.parquet"
    change(pd.read_parquet(path)).to_parquet(path)
    with pytest.raises(pff.InputError, match=words) as why:
        run_experiment(grid(), out, jobs=1)
    assert path.name in str(why.value)


def test_results_that_lost_a_bit_or_cannot_be_are_not_shown(reference, tmp_path):
    out = shutil.copytree(reference, tmp_path / "out")
    path = out / "results.parquet"
    content = path.read_bytes()
    at = len(content) // 8  # among the numbers, not in the list of columns at the end
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(pff.InputError, match="is not a readable Parquet file"):
        read_results(out)
    path.write_bytes(content)
    pd.read_parquet(path).assign(npr_s0=-1.0).to_parquet(path)
    with pytest.raises(pff.InputError, match="cannot be believed: 'npr_s0'"):
        read_results(out)


@pytest.mark.parametrize("method", ["transport", "threshold-local", "pooled"])
def test_runs_that_differ_in_their_target_train_once_and_give_the_same_bytes(
    tmp_path, monkeypatch, method
):
    """One by one, each run trains; in one experiment, the first of each seed does."""
    name = "compas-additive" if method == "pooled" else "compas"  # it looks at columns its own way
    plan, source = pff.partition.fixed_shares(2), Source(name)
    levels = [{"target_ddp": 0.02}, {"target_ddp": 0.2}]
    levels += [{"target_ddp": 0.1, "confidence": 0.9}] if method == "transport" else []
    quick = {} if method == "pooled" else {"rounds": 8}
    specs = [
        Spec(source, plan, method, pff.make(method, quick | level, "compas"), seed)
        for level in levels
        for seed in (0, 1)
    ]
    times = []
    real = grid_module.train
    monkeypatch.setattr(grid_module, "train", lambda *a, **b: times.append(1) or real(*a, **b))
    for one in specs:
        run_experiment([one], tmp_path / one.key, jobs=1, runs=tmp_path / "apart")
    assert len(times) == len(specs)
    assert len(grid_module.group(specs)) == 2
    times.clear()
    run_experiment(specs, tmp_path / "together", jobs=1)
    assert len(times) == 2
    for one in specs:
        each = [pd.read_parquet(tmp_path / where / f"{one.key}.parquet").drop(columns="seconds")
                for where in ("apart", "together/runs")]  # fmt: skip
        pd.testing.assert_frame_equal(*each, check_exact=True)


def test_the_frontier_and_methods_without_penalty_share_a_training(tmp_path):
    fedavg = pff.make("fedavg", {"rounds": 2})
    named = [("fedavg", False), ("fedavg-kde", False), ("fedavg", True)]
    plan = pff.partition.fixed_shares(2)
    specs = [Spec(Source("compas"), plan, name, fedavg, 0, frontier=best) for name, best in named]
    assert grid_module.group(specs) == [tuple(specs)]
    found = run_experiment(specs, tmp_path / "out", jobs=1)
    assert found["method"].unique().tolist() == ["fedavg", "fedavg-kde", "frontier"]
    two = [found.loc[found["method"] == name, "accuracy"].tolist() for name, _ in named[:2]]
    assert two[0] == two[1]
