"""COMPAS (ProPublica 2016): is a defendant charged again within two years?

11 inputs and S. The paper's shares (600/100) do not fit its totals (3,000 rows); 500/100 does.
"""

from pfedfair._util.errors import known
from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.data.datasets.files import read_bundled

COUNTS = ("juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count")


def compas(others: str = "all") -> Dataset:
    """Return the 6,172 filtered rows: Y = charged again, S = 1 for Caucasian.

    Parameters
    ----------
    others
        The group S = 0: "all" other defendants, as in the paper, or "african-american".
    """
    known("value of others", others, ["all", "african-american"])
    frame = read_bundled("compas.parquet")
    if others == "african-american":
        frame = frame[frame["race"].isin(["Caucasian", "African-American"])].reset_index(drop=True)
    frame["male"] = (frame["sex"] == "Male").astype("int64")
    return Dataset(
        name="compas" if others == "all" else "compas-two-races",
        frame=frame,
        y=frame["two_year_recid"].to_numpy("int64"),
        s=(frame["race"] == "Caucasian").to_numpy("int64"),
        numeric=("male", "age", *COUNTS),
        categorical={c: tuple(sorted(frame[c].unique())) for c in ("age_cat", "c_charge_degree")},
        label_names=("no new charge", "charged again"),
        group_names=("Non-Caucasian", "Caucasian"),
        label_column="two_year_recid",
        sensitive_column="race",
        hidden=(64, 64),
        settings="compas",
        paper_plan=PaperPlan((100, 500), (500, 100), n_under=1, n_over=4, test_fraction=1 / 5),
    )
