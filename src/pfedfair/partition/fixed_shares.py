"""The paper's clients: two kinds, with fixed shares of S."""

from dataclasses import dataclass

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.partition import base
from pfedfair.partition.base import Partition, Plan


@dataclass(frozen=True)
class FixedShares(Plan):
    """Give the paper's fixed shares of S.

    Without `clients`: the paper's own plan of the data set (Adult: 1 client of 400 women and 2,000
    men, 4 of the inverse). With `clients`: equal sizes; the first `under_fraction` of the clients
    have `share` of the group that is the minority overall, the others the inverse.

    Parameters
    ----------
    validation
        The part of every client's training rows that is held out for tuning.
    rows
        Training rows of each client; by default as many in all as in the paper.
    """

    clients: int | None = None
    under_fraction: float = 0.2
    share: float = 0.8
    validation: float = 0.0
    rows: int | None = None

    column = None
    of_paper = True
    words = "fixed shares"

    def rows_each(self, data: Dataset) -> int | None:
        return self.clients and base.rows_each(data, self.clients, self.rows)

    def split(self, data: Dataset, seed: int) -> Partition:
        plan = base.paper_plan(data)
        if self.clients is None:
            counts = np.array([plan.under] * plan.n_under + [plan.over] * plan.n_over)
        else:
            under = round(self.clients * self.under_fraction)
            shares = np.repeat([self.share, 1 - self.share], [under, self.clients - under])
            counts = base.equal_clients(data, shares, self.rows)
        return base.deal(data, counts, plan.test_fraction, self.validation, seed)
