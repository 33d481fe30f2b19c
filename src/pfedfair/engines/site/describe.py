"""Describe a site's table to the server, before the first round."""

import logging
from pathlib import Path

import numpy as np

from pfedfair._util.errors import InputError
from pfedfair._util.files import atomic
from pfedfair.engines.site.ledger import Ledger
from pfedfair.engines.site.policy import permitted
from pfedfair.engines.site.rare_values import training_rows
from pfedfair.engines.site.rows import Site, read_site
from pfedfair.engines.site.schema import Description, describe
from pfedfair.engines.site.settings import Config

log = logging.getLogger("pfedfair")
NAME = "described.npy"


def describe_site(node: Config, run: Config) -> Description:
    """Describe the table of the site with these settings, if its policy allows the run."""
    policy, _ = permitted(node, run)
    site = read_site(node, run)
    Ledger(site.folder, policy).admit()
    least = policy.least_people
    found = describe(site.data, site.train, site.name, site.place, site.client, least)
    excluded = len(site.train) - found.rows
    if excluded:
        log.warning(
            "pfedfair: %d rows are not trained on: their label or group has fewer than %d "
            "rows here (least-people in the policy)", excluded, least,
        )  # fmt: skip
    if not policy.repeat_description:
        _check_changes(site, site.folder / NAME, least)
    return found


def _check_changes(site: Site, path: Path, least: int) -> None:
    """Refuse to describe a table in which few rows have changed: this would reveal them."""
    rows = np.sort(site.row_keys[training_rows(site.data, site.train, least)])
    if path.exists():
        before = np.load(path, allow_pickle=False)
        row_keys, codes = np.unique(np.concatenate([before, rows]), return_inverse=True)
        each = [np.bincount(c, minlength=len(row_keys)) for c in np.split(codes, [len(before)])]
        changed = int(np.abs(each[0] - each[1]).sum())
        if 0 < changed < least:
            raise InputError(
                f"The table has changed by {changed} rows since it was described last, fewer than "
                f"least-people = {least} in the policy: a new description would reveal them. "
                "Change more rows at a time, or set repeat-description = true."
            )
        if not changed:
            return
    with atomic(path) as temporary:
        np.save(temporary, rows)
