"""The paper's two kinds of client, with random shares of S."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from pfedfair._util import seeds
from pfedfair._util.errors import InputError
from pfedfair.data.dataset import Dataset
from pfedfair.partition import base
from pfedfair.partition.base import Partition, Plan


@dataclass(frozen=True)
class DirichletMixture(Plan):
    """Draw each client's shares of S from one of two Dirichlet distributions.

    The two kinds of client (see `FixedShares`) have the given `means` of their share of the group
    that is the minority overall, exactly: draws are shifted to that mean. The paper's symmetric
    alphas 0.5 and 1 would have mean 1/2; `concentration` (the sum of the two Dirichlet parameters,
    for under- and overrepresented clients) says how close clients are to their mean.
    """

    clients: int = 20
    under_fraction: float = 0.2
    means: tuple[float, float] = (0.8, 0.2)
    concentration: tuple[float, float] = (20.0, 20.0)
    validation: float = 0.0
    rows: int | None = None

    column = None
    of_paper = True
    words = "Dirichlet shares"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 < mean < 1 for mean in self.means):
            first, second = self.means
            raise InputError(f"means must be between 0 and 1, got {first:g} and {second:g}.")
        if min(self.concentration) <= 0:
            raise InputError(f"concentration must be positive, got {min(self.concentration):g}.")

    def rows_each(self, data: Dataset) -> int:
        return base.rows_each(data, self.clients, self.rows)

    def split(self, data: Dataset, seed: int) -> Partition:
        under = round(self.clients * self.under_fraction)
        rng = seeds.generator(seed, seeds.PARTITION, 1)
        kinds = zip(self.means, self.concentration, (under, self.clients - under), strict=True)
        shares = np.concatenate([recentred_beta(m, c, n, rng) for m, c, n in kinds])
        counts = base.equal_clients(data, shares, self.rows)
        return base.deal(data, counts, base.paper_plan(data).test_fraction, self.validation, seed)


def recentred_beta(mean: float, concentration: float, n: int, rng: Generator) -> np.ndarray:
    """Draw from a beta distribution on [0, 1], shifted so that the average is `mean`."""
    draws = rng.beta(mean * concentration, (1 - mean) * concentration, n)
    for _ in range(100):  # a shift may push draws over an edge, where they are clipped
        if n == 0 or abs(draws.mean() - mean) < 1e-9:
            break
        draws = np.clip(draws + mean - draws.mean(), 0.0, 1.0)
    return np.asarray(draws)
