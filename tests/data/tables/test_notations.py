"""Formats of numbers and dates, as training rows show them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import pfedfair as pff
from pfedfair.data.tables.cells import factor
from pfedfair.data.tables.formats import DateFormat, NumberFormat, doubtful, infer

DAYS = [(1 + k % 12, 1 + k % 28) for k in range(200)]


def one(cells):
    """Return the format of a column and its values by it."""
    frame = pd.DataFrame({"k": cells})
    formats, _ = infer(frame, ["k"])
    return formats.columns.get("k"), formats.convert(frame)[0]["k"]


def arrow(values, kind):
    return pd.Series(pd.array(values, dtype=pd.ArrowDtype(kind)))


def test_american_dates_with_times_that_are_not_read_are_categories():
    form, _ = one([f"{month:02}/{day:02}/2024 10:00 PM" for month, day in DAYS])
    assert form is None
    form, times = one([f"{month:02}/{day:02}/2024 22:00" for month, day in DAYS])
    assert form == DateFormat("mdy")
    assert times.notna().all()


def test_times_of_a_zone_are_local_whether_minutes_are_written_or_not():
    form, times = one([f"2024-{m:02}-{d:02}T10" + "Z" * (k % 2) for k, (m, d) in enumerate(DAYS)])
    assert form == DateFormat()
    assert times.dt.tz is None
    assert set(times.dt.hour) == {10}


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("us", "Asia/Tokyo")])
def test_dates_of_arrow(kind):
    values = pa.array([17000 + k for k in range(9)] + [None], pa.int32()).cast(pa.date32())
    if kind != pa.date32():
        values = values.cast(pa.timestamp("s")).cast(pa.timestamp("us"))
        values = pa.compute.assume_timezone(values, kind.tz) if kind.tz else values.cast(kind)
    column = pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([values])))
    _, times = one(column)
    assert times.dtype.kind == "M"
    assert times[0] == pd.Timestamp("2016-07-18")
    assert times.isna().sum() == 1


def test_single_precision_is_written_briefly_by_every_type():
    values = [0.1, 0.5, None]
    single = pd.Series(values, dtype="float32")
    for column in (single, single.astype("category"), single.astype("Float32"),
                   arrow(values, pa.float32())):  # fmt: skip
        assert factor(column)[1] == ["0.1", "0.5"], column.dtype


def table(n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=n).round(2), "k": rng.integers(9, size=n),
        "d": pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(700, size=n), "D"),
        "b": rng.integers(2, size=n) > 0, "s": rng.choice(["f", "m"], n),
    })  # fmt: skip
    return frame.assign(y=(rng.random(n) < 1 / (1 + np.exp(-frame["x"]))).astype(int))


def test_tables_of_arrow_are_read_as_those_of_numpy():
    frame = table()
    right = pff.from_frame(frame, "y", "s")
    for other in (frame.convert_dtypes(dtype_backend="pyarrow"), frame.convert_dtypes()):
        data = pff.from_frame(other, "y", "s")
        assert data.numeric == right.numeric
        assert data.categorical == right.categorical
        assert data.notes == right.notes
        assert (data.y == right.y).all()


@pytest.mark.parametrize("drop", [(), ("d (month)",)])
def test_a_column_that_is_called_like_a_part_of_a_date_beside_it(drop):
    frame = table()
    frame["d (month)"] = np.where(frame["b"], "first", "second")
    with pytest.raises(pff.InputError, match=r"'d \(month\)' is called like the month of the date"):
        pff.from_frame(frame, "y", "s", drop=drop)
    data = pff.from_frame(frame, "y", "s", drop=["d"])
    assert "d (month)" in data.categorical


@pytest.mark.parametrize(
    "names", [("1", "2", "HQ"), ("31.01.2024", "12.02.2024"), ("1,037", "2,450")]
)
@pytest.mark.parametrize("tested", [False, True])
def test_clients_are_called_as_in_the_table(names, tested):
    frame = table(400).astype(str)
    frame["site"] = [names[-1] if k % 25 == 0 else names[k % (len(names) - 1)] for k in range(400)]
    test = {"test": frame.iloc[::2].assign(x="0.5")} if tested else {}
    data = pff.from_frame(frame, "y", "s", **test)
    part = pff.partition.by_column("site", min_rows=1).split(data, 0)
    assert set(part.names) == set(names)


@pytest.mark.parametrize("order", ["%d.%m.%Y", "%m/%d/%Y"])
def test_typed_dates_are_read_whatever_text_training_had(order):
    """Excel and Parquet yield dates and times as objects, perhaps among texts."""
    days = pd.Series(pd.date_range("2024-01-01", periods=40))
    text = days.dt.strftime(order)
    formats, _ = infer(pd.DataFrame({"k": text}), ["k"])
    mixed = days.astype(object).where(days.dt.day % 2 == 0, text)
    for cells in (days, days.astype(object), days.dt.date, mixed):
        found, odd = formats.convert(pd.DataFrame({"k": cells}))
        assert not odd
        assert (found["k"] == days).all()
    assert not formats.convert(pd.DataFrame({"k": days.dt.strftime("%Y-%m-%d")}))[1]
    gap = pd.Series([days[0].date(), None, "unknown"], dtype=object)
    found, odd = formats.convert(pd.DataFrame({"k": gap}))
    assert found["k"].isna().tolist() == [False, True, True]
    assert odd["k"].rows.tolist() == [False, False, True]


def test_a_cell_of_the_other_notation_makes_marks_doubtful():
    trained = pd.DataFrame(
        {"k": ["1.037,5", "2.450,25", "12,5"] * 9, "n": ["1.200", "950"] + [""] * 25}
    )
    formats, _ = infer(trained, ["k", "n"])
    assert formats.columns["n"] == NumberFormat(",", ".")
    new = pd.DataFrame({"k": ["0.25", "1.125", "7", "1.000,5"], "n": ["1.300", "7", "", "2.000"]})
    _, odd = formats.convert(new)
    assert list(odd) == ["k"]
    found = doubtful(formats, new, odd)
    assert found["k"].rows.tolist() == [False, True, False, True]
    assert found["n"].rows.tolist() == [True, False, False, True]
    assert "may be no number with '.' between thousands" in found["n"].words("n")
    assert found["k"].joined(odd["k"]).word == "0.25"
    unclear = pd.DataFrame({"k": ["n/k", "1.125", "7"], "n": ["1.300", "7", ""]})
    assert doubtful(formats, unclear, formats.convert(unclear)[1]) == {}


@pytest.mark.parametrize(("order", "other"), [("%d/%m/%Y", "%m/%d/%Y"), ("%m/%d/%Y", "%d/%m/%Y")])
def test_a_date_of_the_other_order_makes_others_doubtful(order, other):
    days = pd.Series(pd.date_range("2024-01-01", periods=60))
    formats, _ = infer(pd.DataFrame({"k": days.dt.strftime(order)}), ["k"])
    new = pd.to_datetime(pd.Series(["2024-12-25", "2024-12-05"]))
    rows = pd.DataFrame({"k": [*new.dt.strftime(other), None]})
    _, odd = formats.convert(rows)
    assert odd["k"].rows.tolist() == [True, False, False]
    assert doubtful(formats, rows, odd)["k"].rows.tolist() == [True, True, False]
    rows = pd.DataFrame({"k": [*new.dt.strftime(order), "n/k"]})
    assert doubtful(formats, rows, formats.convert(rows)[1]) == {}
