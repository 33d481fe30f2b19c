"""What `compare` shows, and `report` of any folder with results."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from pfedfair.studies import parts, scores
from pfedfair.studies.study import Study
from pfedfair.studies.view import View

PLAIN = Study(title="Comparison", table=parts.summary_table, pictures=parts.by_role)
SCORED = replace(scores.STUDY, title="Trade-off scores", pictures=parts.by_role)


def view(results: pd.DataFrame) -> View:
    """A summary and the trade-off picture; where there are validation rows, scores instead."""
    protocols = set(results["protocol"])
    scored = "validation" in protocols and len(protocols) > 1
    return (SCORED if scored else PLAIN).view(results)
