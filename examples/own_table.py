"""Your own table: one row per person, a label, a sensitive attribute, and a client column."""

import numpy as np
import pandas as pd

import pfedfair as pff

rng = np.random.default_rng(0)
n = 3000
sex = rng.choice(["f", "m"], n)
site = np.where(rng.random(n) < np.where(sex == "m", 0.7, 0.3), "north", "south")
score = rng.normal(size=n) + 0.6 * (sex == "m")
table = pd.DataFrame(
    {
        "score": score,
        "years": rng.integers(0, 30, n),
        "sex": sex,
        "site": site,
        "hired": (score + rng.normal(size=n) > 0.5).astype(int),
    }
)

data = pff.from_frame(table, label="hired", sensitive="sex", drop=["site"])
federation = data.federate(pff.partition.by_column("site"))
print(federation.describe())
for algorithm in (pff.methods.FedAvg(rounds=60), pff.methods.PFedFair(rounds=60, eta=0.9)):
    run = pff.train(federation, algorithm)
    print(type(algorithm).__name__)
    print(run.table()[["client", "accuracy", "ddp", "ddp_high"]].round(3))
