"""What a site tells of its table, before the first round."""

import logging
from pathlib import Path

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic
from pfedfair.engines.site.ledger import Ledger
from pfedfair.engines.site.policy import Policy
from pfedfair.engines.site.rare_values import trained_on
from pfedfair.engines.site.rows import Site, read_site
from pfedfair.engines.site.schema import Description, describe
from pfedfair.engines.site.settings import Config, make_algorithm

log = logging.getLogger("pfedfair")
NAME = "described.npy"


def tell(node: Config, run: Config) -> Description:
    """Describe the table of the site with these settings, if its policy allows the run."""
    policy = Policy.of(node)
    policy.check_run(run)
    policy.check_method(make_algorithm(run))
    site = read_site(node, run)
    Ledger(site.folder, policy).admit()
    least = policy.least_people
    found = describe(site.data, site.train, site.name, site.place, site.client, least)
    left = len(site.train) - found.rows
    if left:
        log.warning(
            "pfedfair: %d people are not trained on: their label or group has fewer than %d "
            "people here (least-people in the policy)", left, least,
        )  # fmt: skip
    if not policy.repeat_description:
        _check_changes(site, site.folder / NAME, least)
    return found


def _check_changes(site: Site, path: Path, least: int) -> None:
    """Refuse to tell of a table that has changed by few rows: the difference would tell of them."""
    rows = np.sort(site.marks[trained_on(site.data, site.train, least)])
    if path.exists():
        before = np.load(path, allow_pickle=False)
        marks, codes = np.unique(np.concatenate([before, rows]), return_inverse=True)
        each = [np.bincount(c, minlength=len(marks)) for c in np.split(codes, [len(before)])]
        changed = int(np.abs(each[0] - each[1]).sum())
        if 0 < changed < least:
            raise InputError(
                f"The table has changed by {changed} rows since it was described last, fewer than "
                f"least-people = {least} in the policy: a new description would tell of them. "
                "Change more rows at a time, or set repeat-description = true."
            )
        if not changed:
            return
    with atomic(path) as beside:
        np.save(beside, rows)
