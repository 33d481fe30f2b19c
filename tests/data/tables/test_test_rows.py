"""Test rows from a separate table."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.data.tables.encoder import fit

RNG = np.random.default_rng(0)


def made(n, **change):
    frame = pd.DataFrame(
        {
            "x": RNG.normal(size=n),
            "town": RNG.choice(["a", "b"], n),
            "s": np.arange(n) % 2,
            "y": np.arange(n) // 2 % 2,
            "site": np.where(np.arange(n) % 3, "north", "south"),
        }
    )
    return frame.assign(**change)


TRAIN, TEST = made(240), made(60)


@pytest.mark.parametrize("plan", [pff.partition.by_column("site"), pff.partition.together()])
def test_the_train_table_trains_and_the_test_table_tests(plan):
    federation = pff.from_frame(TRAIN, "y", "s", test=TEST).federate(plan)
    part = federation.partition
    np.testing.assert_array_equal(np.sort(np.concatenate(part.train)), np.arange(240))
    np.testing.assert_array_equal(part.pool, np.arange(240, 300))
    train_only = pff.from_frame(TRAIN, "y", "s")
    rows = np.sort(np.concatenate(part.train))
    fitted = fit(train_only, [rows], plan.column)
    assert federation.encoder == fitted  # nothing is learnt of the test


def test_files_in_different_formats(tmp_path):
    TRAIN.to_csv(tmp_path / "train.csv", index=False, sep=";")
    TEST.astype({"s": str, "y": str}).to_parquet(tmp_path / "test.parquet")
    for test in (tmp_path / "test.parquet", str(tmp_path / "test.parquet"), TEST):
        data = pff.load(tmp_path / "train.csv", "y", "s", test=test)
        np.testing.assert_array_equal(data.held, np.arange(300) >= 240)
        np.testing.assert_array_equal(data.s, [*TRAIN["s"], *TEST["s"]])
        assert data.notes == ()


def test_what_a_column_is_the_training_rows_say():
    odd = TEST.assign(x=["word"] * 30 + ["1.5"] * 30)
    with pytest.raises(pff.InputError, match=r"test: x is 'word', no number .* 30 of 60 cells"):
        pff.from_frame(TRAIN, "y", "s", test=odd)
    data = pff.from_frame(TRAIN, "y", "s", test=TEST.assign(x=["NA"] * 30 + [" 1.50 "] * 30))
    assert data.numeric == ("x",)
    assert data.frame["x"].iloc[-1] == 1.5


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (TEST.assign(y=2), "rows for the test have the label '2', the training rows do not"),
        (TEST.assign(s=["m"] * 30 + ["f"] * 30), "have the group 'f', 'm', the training rows"),
        (TEST.drop(columns="y"), "no column 'y' in the table for the test"),
        (TEST.iloc[:0], "The table for the test has no rows"),
        (TEST.set_axis(list("xxsyt"), axis=1), "more than one column 'x'"),
    ],
)
def test_labels_and_groups_must_agree(test, message):
    with pytest.raises(pff.InputError, match=message):
        pff.from_frame(pd.concat([TRAIN] * 2), "y", "s", test=pd.concat([test] * 2))


def test_what_the_test_lacks_is_noted():
    data = pff.from_frame(TRAIN, "y", "s", test=TEST.query("y == 1").drop(columns="town"))
    assert "The rows for the test lack 'town': their cells count as empty." in data.notes
    assert "No row for the test has the label '0'." in data.notes
    data = pff.from_frame(TRAIN, "y", "s", test=TEST.assign(more=1))
    assert data.notes == ("Only the rows for the test have 'more': no input.",)


def test_clients_without_rows_to_train_or_to_test():
    there = TEST.query("site == 'north'")
    federation = pff.from_frame(TRAIN, "y", "s", test=there).federate(
        pff.partition.by_column("site")
    )
    with pytest.raises(
        pff.InputError, match=r"'south' has no held-out rows .*: add some, or leave"
    ):
        pff.train(federation, pff.methods.FedAvg(rounds=1)).table()
    new = TEST.assign(site="new")
    data = pff.from_frame(TRAIN, "y", "s", test=pd.concat([TEST, new]))
    with pytest.raises(
        pff.InputError, match=r"'new' .* no training rows .60 are for the test., at"
    ):
        data.federate(pff.partition.by_column("site"))
    part = data.federate(pff.partition.by_column("site", min_rows=1)).partition
    assert part.names == ("north", "south")
    assert len(part.pool) == 60


def test_the_numbers_are_those_of_the_test_table():
    """The accuracy on them, counted by hand from the model's own predictions."""
    federation = pff.from_frame(TRAIN, "y", "s", test=TEST).federate(pff.partition.together())
    run = pff.train(federation, pff.methods.FedAvg(rounds=5), network="linear")
    table = run.table()
    assert table["n_test"].tolist() == [60]
    decided = run.personal_model(0).predict(TEST, TEST["s"])
    assert table["accuracy"].iloc[0] == pytest.approx((decided == TEST["y"]).mean())
