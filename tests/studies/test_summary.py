import pandas as pd
import pytest
from made_up import two_methods

from pfedfair.studies.summary import fairest, over_clients, paired, summary


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
