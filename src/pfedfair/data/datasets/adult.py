"""Adult (Becker and Kohavi 1996): does a person earn more than 50,000 dollars a year?

64 inputs and S, as in the code lineage of the paper: 6 numbers and the one-hots of 6 columns;
"?" is a category, the native country is left out.
"""

from pfedfair.data.dataset import Dataset, PaperPlan
from pfedfair.data.datasets.files import read_bundled

NUMERIC = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
CATEGORICAL = ("workclass", "education", "marital_status", "occupation", "relationship", "race")


def adult() -> Dataset:
    """Return all 48,842 rows: Y = income above 50K, S = 1 for men."""
    frame = read_bundled("adult.parquet")
    return Dataset(
        name="adult",
        frame=frame,
        y=(frame["income"] == ">50K").to_numpy("int64"),
        s=(frame["sex"] == "Male").to_numpy("int64"),
        numeric=NUMERIC,
        categorical={c: tuple(sorted(frame[c].unique())) for c in CATEGORICAL},
        label_names=("<=50K", ">50K"),
        group_names=("Female", "Male"),
        label_column="income",
        sensitive_column="sex",
        hidden=(256, 256, 256, 256),
        settings="adult",
        paper_plan=PaperPlan((400, 2000), (2000, 400), n_under=1, n_over=4, test_fraction=1 / 4),
    )
