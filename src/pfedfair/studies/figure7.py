"""Figure 7: the mean client's trade-off over eta."""

from functools import partial

from pfedfair.data import FACES
from pfedfair.studies import parts
from pfedfair.studies.curves import over_eta
from pfedfair.studies.study import Study

STUDY = Study(
    title="Figure 7: mean trade-off over eta",
    cells=over_eta,
    table=partial(parts.summary_table, what="figure7"),
    pictures=lambda results, rows: [parts.trade_off("figure7", results, rows, ("mean",))],
    elsewhere=FACES,
)
