"""Train pFedFair on COMPAS, look at every client, keep the models, and use one of them."""

import tempfile

import pfedfair as pff

data = pff.load("compas")
federation = data.federate(pff.partition.fixed_shares(), seed=0)
print(federation.describe())

run = pff.train(federation, pff.make("pfedfair", {"eta": 0.9}, "compas"), seed=0)
print(run.table()[["client", "role", "accuracy", "ddp", "ddp_low", "ddp_high"]].round(3))

with tempfile.TemporaryDirectory() as folder:
    run.save(folder)
    model = pff.load_model(folder, client="1")
people = data.frame.head(3)
print(model.predict(people, sensitive_features=["Caucasian", "Non-Caucasian", "Caucasian"]))
