"""Thresholds at each client from its own rows only: the simplest baseline.

A base method, FedAvg by default, trains one model. Each client then does what fairlearn's
``ThresholdOptimizer(constraints="demographic_parity", tol=target_ddp)`` does (Hardt, Price and
Srebro, NeurIPS 2016): by the scores, labels and groups of its held-out rows it takes the threshold
for each group, or the random choice between two, that classifies most of them correctly with a DDP
of at most `target_ddp`. Nothing is sent for this step.

The gap is within the limit on the held-out rows. These may be few: a client of 240 rows holds out
48, and a gap among them says little about the gap among new rows. It is the baseline for methods
that use other clients' rows.

Differs from fairlearn: it searches 1,000 rates, we all corners (`pfedfair.theory.cuts`); it refuses
a group with one label only, we do not. A client whose held-out rows are of one group keeps the
threshold 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from pfedfair.methods.base import Clients, State
from pfedfair.methods.composite import PostProcessing, scores
from pfedfair.rules import Rule, Thresholds
from pfedfair.theory.cuts import fair_cuts


@dataclass(frozen=True, kw_only=True)
class ThresholdLocal(PostProcessing):
    """A base method on most rows, then thresholds on the client's held-out rows."""

    dial = replace(PostProcessing.dial, retargets=("target_ddp",))

    def rules(self, server: State, own: State, clients: Clients) -> Sequence[Rule]:
        held, w = self.held_out(clients), server["w"]
        found = [fair_cuts(*scores(w, held, i), self.target_ddp) for i in range(len(held))]
        return [Thresholds(torch.from_numpy(cuts).to(server["w"])) for cuts in found]
