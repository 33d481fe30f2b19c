"""The same row has the same decision, whatever the file and the route.

Each test trains on one kind of cells in one format and decides on the same rows by every route of
`ways`. ``-k "thousands"`` selects kinds by their names.
"""

from collections import Counter

import pytest
import ways
from kinds import CONTRADICTIONS, KINDS, SAME
from ways import RefusedError, Trainer, by_file, failures

pytestmark = pytest.mark.filterwarnings("ignore")
both = [pytest.param(kind, trained, id=f"{kind.name}, trained on {trained}")
        for kind in KINDS for trained in kind.trained]  # fmt: skip


@pytest.fixture(scope="session")
def trainer(tmp_path_factory):
    return Trainer(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize(("kind", "trained"), both)
def test_the_same_decision_by_every_route(kind, trained, trainer, tmp_path, pfedfair):
    wrong = failures(kind, trained, trainer, tmp_path, pfedfair)
    if wrong:
        pytest.fail("\n".join([f"{kind}, trained on {trained}", *wrong]), pytrace=False)


@pytest.mark.parametrize("route", ["csv", "parquet", "xlsx"])
@pytest.mark.parametrize("kind", CONTRADICTIONS, ids=str)
def test_cells_that_contradict_training_are_refused_unless_forced(
    kind, route, trainer, tmp_path, pfedfair
):
    run = trainer.prepare(kind, "csv")
    with pytest.raises(RefusedError, match=r"\bk\b"):
        by_file(run, route, tmp_path, pfedfair)
    found = by_file(run, route, tmp_path, pfedfair, "--force")
    assert len(found) == (ways.SHEET if route == "xlsx" else len(run.rows))
    assert (found["decision"] != "").all()
    assert "k" in found.attrs["said"].replace("--keep", "")


def test_kinds_have_names_of_their_own_and_seldom_allow_a_refusal():
    names = Counter(kind.name for kind in [*KINDS, *CONTRADICTIONS])
    assert max(names.values()) == 1
    assert len(KINDS) >= 80
    expected = Counter(kind.expected(trained, route) for kind in KINDS
                       for trained in kind.trained for route in ways.ROUTES[trained])  # fmt: skip
    assert expected[SAME] > 0.85 * expected.total()
