"""Clients of any data set, with random parts of each group."""

from dataclasses import dataclass

import numpy as np

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset
from pfedfair.partition.base import Partition, Plan, deal


@dataclass(frozen=True)
class DirichletShares(Plan):
    """Deal each group's rows to the clients in parts that a symmetric Dirichlet draws.

    For any data and any number of groups. With a small `concentration` clients differ widely.
    A part `test` of the rows is the held-out pool.
    """

    clients: int
    concentration: float = 5.0
    test: float = 0.25
    validation: float = 0.0

    column = None
    words = "drawn shares"

    def __post_init__(self) -> None:
        if not 0 < self.test < 1:
            raise InputError(f"test must be between 0 and 1, got {self.test:g}.")
        if not 0 < (each := self.concentration) < float("inf"):
            raise InputError(f"concentration must be a positive number, got {each:g}.")
        super().__post_init__()

    def split(self, data: Dataset, seed: int) -> Partition:
        rng = seeds.generator(seed, seeds.PARTITION, 1)
        groups, part = len(data.group_names), self.test / (1 - self.test)
        size = np.bincount(data.s, minlength=groups)
        dealt = np.maximum((1 - self.test) * size - self.clients, 0)  # the rest is for the test
        if data.held is not None:
            dealt = np.bincount(data.s[~data.held], minlength=groups)
            tests = np.maximum(np.bincount(data.s[data.held], minlength=groups) - self.clients, 0)
            part = float((tests / np.maximum(dealt, 1)).min())
        parts = rng.dirichlet(np.full(self.clients, self.concentration), len(size))
        counts = np.floor(parts * dealt[:, None]).astype(int).T
        return deal(data, counts, part, self.validation, seed)
