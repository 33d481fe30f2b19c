"""The server's page: who is there, and no number that a site has not chosen to share."""

import json
import logging
import re

import pandas as pd
import pytest
from flower_sites import Consortium

import pfedfair as pff
from pfedfair._util.errors import InputError
from pfedfair.engines.flower import log, page
from pfedfair.engines.flower.conduct import Conductor
from pfedfair.engines.site.settings import Settings
from pfedfair.studies.page.messages import of_copies


def document(path):
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@pytest.fixture
def consortium(table, tmp_path) -> Consortium:
    return Consortium(table.federate(pff.partition.by_column("site"), seed=3), tmp_path)


@pytest.fixture(autouse=True)
def info_level():
    """As Flower sets its logger when it runs an app."""
    before = log.level
    log.setLevel(logging.INFO)
    yield
    log.setLevel(before)


def conduct(grid):
    conductor = Conductor(grid, Settings.read(grid.run_config))
    with page.shown(conductor):
        return conductor.run()


def test_names_states_and_shared_numbers_only(consortium):
    grid = consortium.grid("fedavg", **{"min-sites": 2})
    grid.add(100, consortium.site(0, **{"share-metrics": True}))
    grid.add(102, consortium.site(2, sensitive="colour"))  # another table: it is refused
    state = conduct(grid)
    found = document(consortium.folder / "out-fedavg" / "report.html")
    assert found["kind"] == "server"
    assert found["live"]["finished"]
    assert found["server"]["rounds"] == found["server"]["of"] == state.done == 2
    states = {site["name"]: site["state"] for site in found["server"]["sites"]}
    assert states == {"site 0": "present", "site 1": "present", "site 2": "refused"}
    assert "refused: site 2" in found["sentence"]
    for i, shared in ((0, True), (1, False)):
        own = pd.read_parquet(consortium.folder / f"state{i}" / "model" / "clients.parquet")
        number = f"accuracy {own['accuracy'].iloc[0]:.3f}"
        lines = [line for line in found["server"]["log"] if f"'site {i}' has its model" in line]
        assert len(lines) == 1
        assert (number in lines[0]) == shared
        assert ("accuracy" in lines[0]) == shared


def test_a_run_that_stops_says_so_on_its_page(consortium):
    grid = consortium.grid("fedavg", wait=0.05)
    del grid.contexts[101], grid.contexts[102]
    with pytest.raises(InputError):
        conduct(grid)
    found = document(consortium.folder / "out-fedavg" / "report.html")
    assert found["sentence"].startswith("The run stopped: After 0.05 seconds 1 of at least")
    assert [site["state"] for site in found["server"]["sites"]] == ["present", "missing", "missing"]


def test_a_site_has_copies_of_what_it_sent(consortium):
    folder = consortium.folder / "sent"
    grid = consortium.grid("fedavg", rounds=3)
    grid.add(100, consortium.site(0, **{"audit-dir": str(folder)}))
    conduct(grid)
    rows = {row["what"]: row for row in of_copies(folder)["rows"]}
    run = pff.load_run(consortium.folder / "state0" / "model")
    assert rows["train"]["messages"] == 3
    assert 3 * 4 * run.network.size <= rows["train"]["bytes"] < 3 * 4 * run.network.size + 3 * 99
    assert rows["train-finish"]["messages"] == rows["query-describe"]["messages"] == 1
    assert run.report().document["kind"] == "run"  # of the site's own folder
    with pytest.raises(pff.InputError, match="has no copies of messages: name the site's audit"):
        of_copies(consortium.folder / "nowhere")
    next(folder.glob("*.safetensors")).write_bytes(b"half a file")
    with pytest.raises(pff.InputError, match="cannot be read"):
        of_copies(folder)
