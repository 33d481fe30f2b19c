"""A gap of at most 0.05 at every client, then at most 0.02, then a client that was not there."""

import tempfile

import pfedfair as pff

data = pff.load("compas")
federation = data.federate(pff.partition.fixed_shares(), seed=0)
run = pff.train(federation, pff.make("transport", {"target_ddp": 0.05}, "compas"), seed=0)
print(run.rules().round(3))

strict = run.retarget(target_ddp=0.02)  # no training, no messages
print(strict.rules().round(3))

people = data.frame.iloc[federation.partition.pool[:400]].drop(columns=data.label_column)
people["race"] = people["race"].where(people["race"] == "Caucasian", "Non-Caucasian")
with tempfile.TemporaryDirectory() as folder:
    run.save(folder)
    model = pff.personalise(folder, people, target_ddp=0.05)  # without labels
decided = model.predict(people, sensitive_features=people["race"])
print(
    people.assign(positive=decided == "charged again").groupby("race")["positive"].mean().round(3)
)
