"""The sums of two sets of sites at nearly the same model differ by the numbers of a few sites."""

import json

import pytest
import torch
from secure_sites import Cohort

from pfedfair.engines.site.policy import PolicyError

ALL = range(5)


def open_sum(folder, state, within, **settings):
    """Open the sum of some of five sites at a state of the server."""
    cohort = Cohort([torch.ones(3)] * 5, folder, 4, [settings] * 5)
    for i, site in enumerate(cohort.sites):
        site.state_digest = state
        cohort.masked(i)
    return cohort.opened(list(within))


def policy(folder, limit):
    path = folder / "policy.toml"
    path.write_text(f"cohorts-per-day = {limit}\n")
    return {"policy": str(path)}


def test_a_model_that_moves_a_little_does_not_open_one_site_after_another(tmp_path):
    """By default one site may be lost and come back, and no other one on that day."""
    for state, within in (("w", ALL), ("w + 1e-6", ALL), ("w + 2e-6", ALL[:4]), ("w + 3e-6", ALL)):
        assert len(open_sum(tmp_path, state, within)) == len(within)
    words = "This site's policy has cohorts-per-day = 2; the run asks for one more."
    for lost in ALL[:4]:
        with pytest.raises(PolicyError, match=words):
            open_sum(tmp_path, f"w without {lost}", [i for i in ALL if i != lost])
    assert len(open_sum(tmp_path, "w + 4e-6", ALL[:4])) == 4


@pytest.mark.parametrize(("limit", "sets"), [(1, 1), (3, 3)])
def test_the_policy_says_how_many_sets(tmp_path, limit, sets):
    asked = [ALL, *([i for i in ALL if i != lost] for lost in ALL)]
    settings = policy(tmp_path, limit)
    for n, within in enumerate(asked[:sets]):
        open_sum(tmp_path, f"{n}", within, **settings)
    with pytest.raises(PolicyError, match=f"cohorts-per-day = {limit}"):
        open_sum(tmp_path, "another", asked[sets], **settings)


def test_other_weights_are_another_set(tmp_path):
    """Σ wᵢxᵢ less w times Σ xᵢ is about few sites, too."""
    settings = policy(tmp_path, 1)
    open_sum(tmp_path, "w", ALL, **settings)
    book = tmp_path / "0" / "ledger.json"
    known = json.loads(book.read_text())
    known["cohorts"][0][2][1] = 2
    book.write_text(json.dumps(known))
    with pytest.raises(PolicyError, match="cohorts-per-day = 1"):
        open_sum(tmp_path, "w + 1e-6", ALL, **settings)


def test_a_refused_sum_counts_as_none(tmp_path):
    """The same state with others is refused, as before, and uses up no set of the day."""
    open_sum(tmp_path, "w", ALL)
    for lost in ALL[1:]:
        with pytest.raises(PolicyError, match="was added up before with other sites"):
            open_sum(tmp_path, "w", [i for i in ALL if i != lost])
    assert len(json.loads((tmp_path / "0" / "ledger.json").read_text())["cohorts"]) == 1
