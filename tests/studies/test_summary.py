import numpy as np
import pandas as pd
import pytest

from made_up import results, two_methods
from pfedfair.experiments import RUN
from pfedfair.metrics import mean_interval
from pfedfair.studies import STUDIES
from pfedfair.studies.summary import ROLES, fairest, over_clients, over_seeds, paired, summary


def test_over_clients_knows_three_kinds_of_worst():
    run = pd.DataFrame(
        {
            "dataset": "d",
            "method": "m",
            "model": "mlp",
            "level": "",
            "eta": 0.0,
            "config": "{}",
            "partition": "{}",
            "protocol": "pool",
            "seed": 0,
            "client": ["1", "2", "3"],
            "role": ["underrepresented", "overrepresented", "overrepresented"],
            "accuracy": [0.80, 0.85, 0.90],
            "ddp": [0.01, 0.10, 0.12],
            "npr_s0": [0.7, 0.8, 0.9],
            "npr_s1": 0.8,
        }
    )
    (row,) = over_clients(run).to_dict("records")
    assert (row["worst_accuracy"], row["worst_ddp"]) == (0.80, 0.12)  # two different clients
    assert row["joint_worst_client"] == "2"  # error .15 + DDP .10
    assert row["mean_accuracy"] == pytest.approx(0.85)
    assert row["overrepresented_ddp"] == pytest.approx(0.11)
    assert row["overrepresented_npr_s0"] == pytest.approx(0.85)
    other = run.assign(config='{"lam": 0}')  # another run of the same method
    assert len(over_clients(pd.concat([run, other]))) == 2
    with pytest.raises(ValueError, match="two results for one client"):
        over_clients(pd.concat([run, run]))


def test_pairing_by_seed_sees_what_separate_intervals_hide():
    frame = two_methods()
    rows = summary(frame).set_index("method")
    gap = rows.loc["b", "mean_accuracy"] - rows.loc["a", "mean_accuracy"]
    assert rows.loc["a", "mean_accuracy_half"] > gap  # seeds differ by more than methods do
    mean, low, high = paired(over_clients(frame), "b", "a", "mean_accuracy")
    assert low < 0.02 < high
    assert low > 0.015
    assert mean == pytest.approx(gap)


def test_the_fair_end_of_a_curve_is_its_last_level():
    rows = [("a", 0.9, "3"), ("a", 0.0, "1"), ("b", 0.0, "tau 0.1"), ("b", 0.0, "tau 0.01")]
    runs = pd.DataFrame(rows, columns=["method", "eta", "config"])
    assert list(fairest(runs)["config"]) == ["3", "tau 0.01"]


def test_both_are_what_a_plain_loop_gives():
    frame = results(STUDIES["table1"].specs(["compas"], seeds=3)).sample(frac=1, random_state=0)
    frame["within"] = frame["ddp"] <= 0.2
    frame.loc[frame.index[::7], ["ddp", "npr_s0"]] = np.nan  # clients of one group
    rows = []
    for key, run in frame.groupby([*RUN, "seed"], sort=False, dropna=False):
        joint = run.iloc[int(np.argmax(run["ddp"].fillna(0) - run["accuracy"]))]
        row = dict(zip([*RUN, "seed"], key, strict=True))
        row |= {"worst_accuracy": run["accuracy"].min(), "worst_ddp": run["ddp"].max()}
        row |= {"mean_accuracy": run["accuracy"].mean(), "mean_ddp": run["ddp"].mean()}
        row |= {f"joint_worst_{name}": joint[name] for name in ("client", "accuracy", "ddp")}
        for role in ROLES:
            part = run[run["role"] == role]
            measures = ("accuracy", "ddp", "npr_s0", "npr_s1")
            row |= {f"{role}_{name}": part[name].mean() for name in measures}
        rows.append(row | {"within": run["within"].mean()})
    clients = over_clients(frame, ["within"])
    pd.testing.assert_frame_equal(clients, pd.DataFrame(rows), check_dtype=False)

    clients.loc[clients["seed"] == 2, "worst_ddp"] = np.nan  # one seed has none
    measures, rows = ["mean_accuracy", "worst_ddp"], []
    for key, group in clients.groupby(RUN, sort=False, dropna=False):
        row = dict(zip(RUN, key, strict=True))
        for name in measures:
            mean, low, _ = mean_interval(group[name].to_numpy())
            row |= {name: mean, f"{name}_half": mean - low}
        rows.append(row | {"seeds": group["seed"].nunique()})
    pd.testing.assert_frame_equal(over_seeds(clients, RUN, measures), pd.DataFrame(rows))
    with pytest.raises(ValueError, match="two results for one seed"):
        over_seeds(pd.concat([clients, clients]), RUN, measures)
