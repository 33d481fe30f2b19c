"""The command that finds settings for a data set: tune."""

from pathlib import Path
from typing import Annotated

from pfedfair._util import terminal
from pfedfair._util.errors import InputError, known
from pfedfair._util.files import atomic
from pfedfair._util.text import escape_formulas
from pfedfair.cli import options
from pfedfair.cli.compare import run_with_progress
from pfedfair.cli.options import Cluster, DataOptions, Jobs, Quiet, unfold
from pfedfair.methods.defaults import section
from pfedfair.studies import tune as search

WHAT = ("settings", "changes", "small")


@unfold
def tune(
    data_options: DataOptions,
    methods: Annotated[str | None, "Names with commas between; all if left out."] = None,
    what: Annotated[
        str,
        "settings: the search. changes: one change at a time from pfedfair's settings. small: two "
        "ways for 20 and 50 small clients of adult to make as many steps.",
    ] = "settings",
    seeds: Annotated[int, "How many seeds: 100, 101, ..."] = 2,
    out: Annotated[Path, "Folder for the trials; a second call resumes."] = Path("runs/tune"),
    jobs: Jobs = None,
    cluster: Cluster = None,
    quiet: Quiet = False,
) -> None:
    """Find settings of methods for a data set, on validation rows, taken from the training rows.

    Every method gets up to twelve trials. OUT/tuned.toml has the best settings;
    give them to train and compare with --set.

    Example: pfedfair tune compas --methods fedavg-kde,pfedfair --out runs/tune
    """
    source, plan = data_options.source, data_options.plan()
    names = options.names(methods or "") or search.tuned_methods()
    if known("search", what, WHAT) == "settings":
        trials = search.searched(source, plan, names)
    elif section(data_options.dataset) == "own":
        raise InputError(f"--what {what} is for data sets with settings of their own.")
    else:
        changes = what == "changes"
        data = data_options.data
        trials = search.changes(data) if changes else search.small(data, names)
        if not changes and any(a == b for a, b in zip(trials[::2], trials[1::2], strict=True)):
            raise InputError(
                f"{data}'s clients are as small in tuning: there are no two ways to compare."
            )
    specs = search.specs(source, trials, options.at_least("--seeds", seeds))
    title = f"{len(trials)} trials on {data_options.data}"
    table = search.score(run_with_progress(specs, out, jobs, cluster, quiet, title))
    written = {"trials.csv": escape_formulas(table).to_csv(index=False)}
    if what == "settings":
        written["tuned.toml"] = search.toml(search.tuned_for(data_options.dataset, plan), table)
    for name, text in written.items():
        with atomic(out / name) as file:
            file.write_text(text, encoding="utf-8")
    if not quiet:
        terminal.say(written.get("tuned.toml") or search.describe(table))
        terminal.say(f"Written to {out}: {', '.join(written)}")
