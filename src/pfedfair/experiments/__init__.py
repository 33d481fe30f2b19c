"""Grids of runs: a process pool or a cluster, a checkpoint per run, one tidy file of results.

An experiment is a list of `Spec`; those with the same training are a unit of work, which trains
once. Each finished run is a small Parquet file in ``DIR/runs``; the same command again skips these
runs. ``DIR/results.parquet`` concatenates these files in the order of the list, so it has the same
bytes however often the work was interrupted and however many processes or machines did it. Seconds
are not reproducible: they are in ``DIR/timings.parquet``, and `read_results` fills them in.
"""

from pfedfair.experiments.grid import claim, prepare, run_experiment
from pfedfair.experiments.results import COLUMNS, RUN, read_results, rows_of, write_results
from pfedfair.experiments.spec import FRONTIER, FRONTIER_LIMITS, Source, Spec, load_source

__all__ = [
    "COLUMNS", "FRONTIER", "FRONTIER_LIMITS", "RUN", "Source", "Spec", "claim", "load_source",
    "prepare", "read_results", "rows_of", "run_experiment", "write_results",
]  # fmt: skip
