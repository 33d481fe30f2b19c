"""A scikit-learn classifier that is fair at every client, in a pipeline and cross-validated."""

import numpy as np
import pandas as pd
import sklearn
from sklearn.model_selection import StratifiedKFold, cross_validate, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pfedfair as pff

rng = np.random.default_rng(0)
n = 4000
sex = rng.choice(["f", "m"], n)
people = pd.DataFrame({"score": rng.normal(size=n) + 0.8 * (sex == "m")})
people["years"] = rng.integers(0, 30, n)
people["sex"] = sex
people["site"] = np.where(rng.random(n) < np.where(sex == "m", 0.7, 0.3), "north", "south")
hired = np.where(people["score"] + rng.normal(size=n) > 0.5, "yes", "no")

# S and the clients may be columns of X, by name: then predict finds them there, too.
X, held, y, truth = train_test_split(people, hired, random_state=0)
clf = pff.FairFederatedClassifier("transport", target_ddp=0.05)
clf.fit(X, y, sensitive_features="sex", clients="site")
decided = held.assign(yes=clf.predict(held) == "yes", right=clf.predict(held) == truth)
print("rates of yes on new people, by client and group")
print(decided.groupby(["site", "sex"])["yes"].mean().unstack().round(3))
print("accuracy by client:", decided.groupby("site")["right"].mean().round(3).to_dict())

# Or they stand beside X, and scikit-learn routes them through pipelines and folds.
with sklearn.config_context(enable_metadata_routing=True):
    asked = {"sensitive_features": True, "clients": True}
    routed = pff.FairFederatedClassifier(target_ddp=0.05)
    routed = routed.set_fit_request(**asked).set_score_request(**asked)
    found = cross_validate(
        make_pipeline(StandardScaler(), routed),
        people[["score", "years"]],
        hired,
        params={"sensitive_features": people["sex"], "clients": people["site"]},
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    )
print("accuracy in three folds:", found["test_score"].round(3))
