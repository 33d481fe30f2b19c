"""Columns that may name persons, and notes on them."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair._util.errors import in_a_command

N = 3000
PHRASE = "determine the label: if they are persons, say "


def table(seed=0, persons=600):
    """Persons with several rows, whose label is that of all of their rows."""
    rng = np.random.default_rng(seed)
    person = rng.integers(0, persons, N)
    y = rng.integers(0, 2, persons)[person]
    x = rng.normal(size=N) + y
    numbers = rng.permutation(10**6)[:persons][person]
    return pd.DataFrame({"patient": numbers, "x": x, "s": rng.integers(0, 2, N), "y": y})


def suspicions(frame, **options):
    return [note for note in pff.from_frame(frame, "y", "s", **options).notes if PHRASE in note]


@pytest.mark.parametrize("seed", range(3))
def test_a_column_of_persons_is_named(seed):
    frame = table(seed)
    values = frame["patient"].nunique()
    (note,) = suspicions(frame)
    assert note.startswith(f"Values of column 'patient' repeat (3,000 rows, {values} values) and")
    assert note.endswith("as rows of a person on both sides of a split make accuracy look better "
                         "than it is.")  # fmt: skip
    assert "say person='patient'" in note
    with in_a_command():
        assert "say --person patient" in suspicions(frame)[0]
    words = frame.assign(patient=[f"p-{n}" for n in frame["patient"]])
    assert len(suspicions(words)) == len(suspicions(frame, drop="patient")) == 1
    floats = frame.assign(patient=frame["patient"].astype(float).where(np.arange(N) > 20))
    assert "(2,979 rows" in suspicions(floats)[0]
    assert not suspicions(frame, person="patient")


@pytest.mark.parametrize("seed", range(3))
def test_other_columns_are_not_taken_for_persons(seed):
    rng, frame = np.random.default_rng(seed), table(seed)
    y = frame["y"].to_numpy()
    income = np.sort(rng.integers(0, 4000, N))
    others = {
        "unique": rng.permutation(N) + 10**6,
        "few": rng.integers(0, 15, N) * 2 + y,  # a category that determines the label
        "chance": rng.integers(0, 600, N),
        "nearly": np.where(rng.random(N) < 0.02, rng.permutation(frame["patient"]),
                           frame["patient"]),
        "number": np.round(rng.normal(size=N), 3),
        "pairs": rng.integers(0, 10**6, N),  # a few repeat, by chance
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
        "skewed": np.where(rng.random(N) < 0.5, 2 * 10**6 + y, 10**6 + frame["patient"]),
    }  # fmt: skip
    for name, column in others.items():
        assert not suspicions(frame.drop(columns="patient").assign(**{name: column})), name
    threshold = frame.drop(columns="patient").assign(income=income, y=(income > 2000).astype(int))
    assert not suspicions(threshold)  # a copy of the label on another scale, and no person


@pytest.mark.parametrize(("positive", "enough"), [(1, False), (30, True)])
def test_labels_that_are_nearly_all_alike_are_little_evidence(positive, enough):
    """That a thousand times three rows have the same label is chance if hardly any has another."""
    person = np.arange(N) % 1000
    frame = table().assign(patient=(person * 7919) % 10_007, y=(person < positive).astype(int))
    assert bool(suspicions(frame)) is enough


def test_a_dropped_column_may_hold_anything():
    frame = table().drop(columns="patient").assign(odd=[[k] for k in range(N)])
    assert not suspicions(frame, drop="odd")


def test_persons_are_no_input_and_must_be_known():
    frame = table()
    data = pff.from_frame(frame, "y", "s", person="patient")
    assert "patient" not in (*data.numeric, *data.categorical)
    assert data.excluded["patient"] == "says whose a row is"
    assert len(np.unique(data.persons)) == frame["patient"].nunique()
    missing = frame.assign(patient=frame["patient"].astype(float).where(np.arange(N) > 1))
    with pytest.raises(pff.InputError, match="column of persons, 'patient', has 2 missing values"):
        pff.from_frame(missing, "y", "s", person="patient")
    with pytest.raises(pff.InputError, match="no column 'pateint' for the persons: did you mean"):
        pff.from_frame(frame, "y", "s", person="pateint")
    with pytest.raises(pff.InputError, match=r"'s' cannot be both the sensitive .* the persons"):
        pff.from_frame(frame, "y", "s", person="s")


def test_test_rows_of_persons_who_train_are_counted():
    frame = table()
    data = pff.from_frame(frame[:2000], "y", "s", person="patient", test=frame[2000:])
    known = frame["patient"][2000:].isin(frame["patient"][:2000]).sum()
    assert f"{known:,} rows for the test are of persons who have training rows, too" in " ".join(
        data.notes
    )
    other = frame[2000:].assign(patient=np.arange(1000) + 10**7)
    assert not pff.from_frame(frame[:2000], "y", "s", person="patient", test=other).notes
