"""What columns are, which are left out, and what is noted."""

from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from made_tables import bank, kdd_census

import pfedfair as pff
from pfedfair.data.tables import dates
from pfedfair.data.tables.encoder import fit
from pfedfair.data.tables.formats import DateFormat
from pfedfair.data.tables.piecewise import Piecewise
from shared_federations import FEDERATIONS, needs_federations

N = 240
RNG = np.random.default_rng(0)


def made(frame=None, n=N, **options):
    columns = {"y": np.arange(n) % 2, "s": np.where(np.arange(n) // 2 % 2, "m", "f")}
    frame = pd.DataFrame(frame or {}).assign(**columns)
    return pff.from_frame(frame, "y", "s", **options)


def kind(cells, **options):
    """What a column is: number, category, date, or left out."""
    data = made({"c": cells}, len(cells), **options)
    if data.numeric == ("c",):
        return "number"
    if list(data.categorical) == ["c"]:
        return "category"
    names = [*data.numeric, *data.categorical]
    return "date" if names else "left out"


numbers = RNG.normal(size=N)
few = RNG.integers(0, 9, N)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (numbers, "number"),
        (few, "number"),
        (np.where(few, numbers, np.nan), "number"),
        (np.where(few, numbers, np.inf), "number"),
        (pd.Series(few).astype("Int64").where(few > 0), "number"),
        ([str(x) for x in numbers], "number"),
        (["unknown", *map(str, numbers[1:])], "number"),
        (["unknown" if x < 2 else str(x) for x in few], "number"),
        (["red" if x < 2 else str(x) for x in few], "category"),
        ([f"0{x}" for x in few], "category"),
        (few > 4, "category"),
        (pd.Series(few > 4).astype(object).where(few > 0), "category"),
        (["", *(["true", "FALSE", "FALSE"] * N)[: N - 1]], "category"),
        (pd.Series(few).astype("category"), "category"),
        ([f"town {x}" for x in few], "category"),
        (pd.date_range("2020-01-01", periods=N), "date"),
        (pd.date_range("2020-01-01", periods=N).astype(str), "date"),
        (pd.date_range("2020-01-01 10:00", periods=N, freq="7h", tz="Europe/Rome"), "date"),
        (pd.to_timedelta(few, unit="h"), "number"),
        ([f"person {i}" for i in range(N)], "left out"),
        (np.arange(N) + 10_000, "left out"),
        (RNG.permutation(10**6)[:N] + 10**9, "left out"),
        (RNG.permutation(90_000)[:N] + 10_000, "number"),  # such as an income
        ([None] * N, "left out"),
        (np.full(N, np.nan), "left out"),
    ],
    ids=str,
)
def test_what_a_column_is(cells, expected):
    assert kind(cells) == expected


def test_codes_are_categories_if_you_say_so():
    assert kind(few, categorical=["c"]) == "category"
    assert kind(few.astype(float), categorical=["c"]) == "category"
    assert kind([f"person {i}" for i in range(N)], keep=["c"]) == "category"
    assert kind(np.arange(N) + 10_000, keep=["c"]) == "number"


def test_identifiers_are_named():
    data = made({"id": [f"person {i}" for i in range(N)], "x": numbers})
    assert data.numeric == ("x",)
    (note,) = data.notes
    assert note == (
        "Left out: 'id' has another value in nearly every row, like a name; keep takes a column "
        "all the same."
    )
    assert made({"x": numbers}).notes == ()  # numbers with a fraction are no identifiers
    assert len(made({"x": few}).numeric) == 1


@pytest.mark.parametrize("of", ["y", "s"])
@pytest.mark.parametrize("words", [("a", "b"), (0, 1), (1.0, 0.0), (True, False), (None, "b")])
def test_a_copy_of_the_label_or_of_s_is_left_out(of, words):
    half = {"y": np.arange(N) % 2, "s": np.arange(N) // 2 % 2}[of]
    cells = pd.Series([words[z] for z in half])
    named = {"y": "the label", "s": "'s'"}[of]
    data = made({"copy": cells, "x": numbers})
    assert data.numeric == ("x",)
    assert not data.categorical
    assert f"'copy' is a copy of {named}" in data.notes[-1]
    kept = made({"copy": cells, "x": numbers}, keep=["copy"])
    assert "copy" in (*kept.numeric, *kept.categorical)
    slip = cells.copy()
    slip[0] = words[1 - half[0]]
    data = made({"copy": slip, "x": numbers})
    assert ("copy" in (*data.numeric, *data.categorical)) == (None in words)  # nothing but empty
    unlike = cells.where(np.arange(N) % 20 > 0, pd.Series([words[1 - z] for z in half]))
    data = made({"copy": unlike, "x": numbers})
    assert "copy" in (*data.numeric, *data.categorical)


def test_an_empty_cell_does_not_hide_a_copy_nor_do_several_columns():
    y, s = np.arange(N) % 2, np.arange(N) // 2 % 2
    blank = pd.Series(y).astype(object).where(np.arange(N) > 2)
    data = made({"outcome": blank, "x": numbers})
    assert "'outcome' is a copy of the label" in data.notes[-1]
    frame = pd.DataFrame({"y": np.arange(N) // 4 % 2, "sex": s, "race": y, "x": numbers})
    frame["both"] = frame["sex"].astype(str) + "-" + frame["race"].astype(str)
    data = pff.from_frame(frame, "y", "sex,race")
    assert "'both' is a copy of S" in data.notes[-1]


def test_capitals_and_spaces_do_not_hide_a_copy():
    """As several people typed it; words that mean something else are another column."""
    half = np.arange(N) // 2 % 2
    typed = [["Male", "MALE", " male"], ["female", "Female", "FEMALE "]]
    cells = [typed[z][i % 3] for i, z in enumerate(half)]
    data = made({"gender": cells, "x": numbers})
    assert not data.categorical
    assert "'gender' is a copy of 's'" in data.notes[-1]
    other = [f"{word} {i % 3}" for i, word in enumerate(cells)]
    assert list(made({"gender": other, "x": numbers}).categorical) == ["gender"]


def test_a_column_that_tells_s_or_the_label_in_more_words_is_named():
    """No copy: it may know more. But a model that looks at it knows S."""
    half = np.arange(N) // 2 % 2
    title = [("Mr", "Sir")[i // 4 % 2] if z else ("Mrs", "Miss")[i // 4 % 2]
             for i, z in enumerate(half)]  # fmt: skip
    data = made({"title": title, "x": numbers})
    assert list(data.categorical) == ["title"]
    assert data.notes == (
        "'title' determines 's': with each of its values there is one of 's'. drop='title' if "
        "the model should not know it.",
    )
    title[0] = "Mr" if half[0] == 0 else "Mrs"  # once is enough to doubt it
    assert made({"title": title, "x": numbers}).notes == ()
    few = pd.Series(title).where(np.arange(N) < 10, "other")  # too few to say so
    assert made({"title": few, "x": numbers}).notes == ()


def test_a_rare_flag_beside_a_rare_label_is_no_copy():
    y, flag = np.zeros(N, int), np.zeros(N, int)
    y[:3], flag[4:6] = 1, 1  # they agree in 98 % of the rows
    frame = pd.DataFrame({"y": y, "s": np.arange(N) % 2, "flag": flag, "x": numbers})
    assert "flag" in pff.from_frame(frame, "y", "s").numeric


def test_empty_cells_and_words_are_counted():
    cells = {
        c: np.where(np.arange(N) < 10 * (k + 1), np.nan, numbers) for k, c in enumerate("abcdef")
    }
    cells["g"] = ["unknown", "", "?", *map(str, numbers[3:])]
    empty, words = made(cells).notes
    assert empty.startswith("212 missing values (f 60, e 50, d 40, c 30 and 3 other columns): ")
    assert "count as empty (g 1)" in words


def test_dates_become_parts_and_predict_as_they_train():
    days = pd.date_range("2019-01-01", periods=N, freq="37h")
    data = made({"day": days.astype(str), "x": numbers})
    assert data.numeric == ("day (year)", "x")
    assert list(data.categorical) == ["day (month)", "day (weekday)", "day (hour)"]
    assert "Dates are taken apart into year, month, weekday and hour: 'day'." in data.notes
    for encoding in ("piecewise", "standard"):
        made_so = made({"day": days.astype(str), "x": numbers}, encoding=encoding)
        encoder = fit(made_so, [np.arange(N)])
        inputs = encoder.transform(made_so.frame)
        np.testing.assert_array_equal(encoder.transform(made_so.frame.assign(day=days)), inputs)
        assert np.isfinite(encoder.transform(made_so.frame.assign(day=None))).all()
    with pytest.raises(pff.InputError, match="lack the column 'day', an input"):
        encoder.transform(made_so.frame.drop(columns="day"))


def test_a_part_of_a_table_says_no_more_than_it_can():
    """A site's column may be empty, and its dates of one month."""
    days = pd.date_range("2020-01-01", periods=N, freq="h").normalize()
    data = made({"e": np.full(N, np.nan), "d": days, "i": np.arange(N)}, part=True)
    assert data.numeric == ("e", "d (year)", "i")
    assert list(data.categorical) == ["d (month)", "d (weekday)"]


@pytest.mark.parametrize(
    ("frame", "label", "sensitive"),
    [(bank(), "y", "marital"), (kdd_census(), "income", "SEX")],
    ids=["bank", "kdd"],
)
def test_tables_like_known_ones_train_as_they_come(frame, label, sensitive, tmp_path):
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    data = pff.load(path, label, sensitive)
    federation = data.federate(pff.partition.dirichlet_shares(3))
    assert isinstance(federation.encoder, Piecewise)
    assert not any("Left out" in note for note in data.notes)
    assert federation.table.inputs(slice(None)).isfinite().all()
    run = pff.train(federation, pff.methods.FedAvg(rounds=3), network="linear")
    rows = frame.drop(columns=[label])
    assert len(run.personal_model(0).decide(rows, rows[sensitive])) == len(frame)


def test_a_kdd_table_has_its_blanks_flagged_and_its_towns_cut():
    data = pff.from_frame(kdd_census(), "income", "SEX")
    encoder = Piecewise.fit(data, np.arange(len(data)))
    assert encoder.categories["GRINST"].names == ("California", "Utah")
    assert encoder.categories["GRINST"].empty > 0.3
    assert 0 < encoder.categories["town"].other < 0.5
    assert encoder.numbers["WKSWORK"].empty > 0
    assert "missing values (MIGMTR1 1,376, GRINST 1,321" in data.notes[0]


@needs_federations
def test_the_four_hospitals_load_with_no_option_but_the_columns():
    data = pff.load(FEDERATIONS / "heart-4-hospitals.csv", "disease", "sex")
    assert len(data) == 920
    assert data.notes[0].startswith("1,759 missing values (ca 611, thal 486, slope 309")
    federation = data.federate(pff.partition.by_column("hospital"))
    assert len(federation) == 4
    run = pff.train(federation, pff.methods.FedAvg(rounds=20), network="linear")
    assert run.table()["accuracy"].mean() > 0.7


@needs_federations
def test_the_states_load_with_codes_as_categories():
    path = FEDERATIONS / "acs-income-39-states.parquet"
    frame = pd.read_parquet(path).groupby("STATE").head(1125)
    codes = ["COW", "OCCP", "POBP", "RELP", "RAC1P", "MAR"]
    data = pff.from_frame(frame, "INCOME_ABOVE_50K", "SEX", drop=["STATE"], categorical=codes)
    encoder = Piecewise.fit(data, np.arange(len(data)))
    assert len(encoder.categories["OCCP"].names) > 300
    assert encoder.width > 500
    assert encoder.pack(data.frame).nbytes == 4 * len(frame) * 9


WORDS = ["2024-01-31", "2023-12-01 10:30", "2024-02-29T23:59:00+02:00", "2024/03/05", "odd", None]


@pytest.mark.parametrize("kind", [object, "str"])
@pytest.mark.parametrize("part", dates.PARTS)
def test_dates_are_read_once_for_each_word(kind, part):
    cells = pd.Series(WORDS * 3 + [WORDS[0]], index=range(5, 24), dtype=kind, name="day")
    found = dates.part_of(cells, part)
    assert (found.index == cells.index).all()
    for cell, value in zip(cells, found, strict=True):
        if cell not in WORDS[:4]:
            assert pd.isna(value)
            continue
        time = datetime.fromisoformat(cell.replace("/", "-").removesuffix("+02:00"))
        day = time.timetuple().tm_yday
        expected = {"year": time.year + (day - 1) / 366, "month": time.month, "hour": time.hour,
                    "weekday": dates.DAYS[time.weekday()]}[part]  # fmt: skip
        assert value == expected
    assert DateFormat().read(cells).values.isna().sum() == 6
