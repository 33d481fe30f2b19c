"""What `compare` shows, and `report` of any folder with results."""

from __future__ import annotations

import pandas as pd

from pfedfair.studies import parts, scores, summary
from pfedfair.studies.view import View


def view(results: pd.DataFrame) -> View:
    """A summary and the trade-off picture; where there are validation rows, scores instead."""
    protocols = set(results["protocol"])
    if "validation" in protocols and len(protocols) > 1:
        return scores.view(results, "Trade-off scores", "tradeoff")
    rows = summary.summary(results)
    tables = [
        parts.summary_table(part, parts.rows_of(rows, part)) for part in summary.parts(results)
    ]
    picture = parts.trade_off("tradeoff", results, rows)
    return parts.view("Comparison", results, tables, [picture], rows=rows)
