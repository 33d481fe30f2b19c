"""One client with all rows, for centralised training."""

from dataclasses import dataclass, replace

import numpy as np

from pfedfair.data.dataset import Dataset
from pfedfair.partition.base import Partition, Plan, deal, hold_out


@dataclass(frozen=True)
class Together(Plan):
    """One client with all rows, of which a part `test` is held out for the test.

    With `paper` it has as many rows of each group as all clients of the paper's plan in total, to
    train and to test.
    """

    test: float = 0.25
    validation: float = 0.0
    paper: bool = False

    column = None
    words = "together"

    def split(self, data: Dataset, seed: int) -> Partition:
        plan = data.paper_plan
        if self.paper and plan is not None and not plan.scaled:
            counts = plan.n_under * np.array(plan.under) + plan.n_over * np.array(plan.over)
            dealt = deal(data, counts[None], plan.test_fraction, self.validation, seed)
            names, pool = ("everybody",), dealt.test[0]
            return replace(dealt, names=names, pool=pool, shared_conditional=False)
        rows = {"everybody": np.arange(len(data))}
        return hold_out(data, rows, self.test, self.validation, seed)
