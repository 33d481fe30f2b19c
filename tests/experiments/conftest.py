import pytest
from grids import grid

from pfedfair.experiments import run_experiment


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    out = tmp_path_factory.mktemp("reference") / "out"
    run_experiment(grid(), out, jobs=1)
    return out
