"""Tables 2 and 3: twenty and fifty clients on Adult, fixed and drawn shares of S, eta = 0.9."""

from functools import partial

from pfedfair.partition import dirichlet_mixture, fixed_shares
from pfedfair.studies import parts
from pfedfair.studies.curves import METHODS
from pfedfair.studies.study import Study, cells_of

CLIENTS = (20, 50)


def _study(what: str, shares: str) -> Study:
    plan = fixed_shares if shares == "fixed" else dirichlet_mixture
    return Study(
        title=f"Table {what[-1]}: 20 and 50 clients, {shares} shares",
        cells=lambda dataset: [c for n in CLIENTS for c in cells_of(METHODS, plan(n), n)],
        table=partial(parts.summary_table, what=what),
        pictures=parts.by_role,
        datasets=("adult",),
    )


TABLE2, TABLE3 = _study("table2", "fixed"), _study("table3", "Dirichlet")
