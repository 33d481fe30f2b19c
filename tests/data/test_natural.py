"""States of the American Community Survey and hospitals of the heart study, as files have them."""

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from pfedfair.data.datasets.acs import CODES
from pfedfair.engines.site.rows import read_site
from shared_federations import FEDERATIONS, needs_federations

RNG = np.random.default_rng(0)


def census(n, state):
    """Rows as the Census Bureau writes them; a few are not in ACSIncome."""
    frame = pd.DataFrame(
        {
            "RT": "P", "ST": state, "AGEP": RNG.integers(15, 90, n), "COW": RNG.integers(1, 9, n),
            "SCHL": RNG.integers(1, 25, n), "MAR": RNG.integers(1, 6, n),
            "OCCP": RNG.integers(10, 60, n) * 10, "POBP": RNG.integers(1, 9, n),
            "RELP": RNG.integers(0, 18, n), "WKHP": RNG.integers(1, 80, n),
            "SEX": RNG.integers(1, 3, n), "RAC1P": RNG.integers(1, 10, n),
            "PINCP": RNG.integers(0, 100_000, n), "PWGTP": RNG.integers(1, 30, n),
        }
    )  # fmt: skip
    frame.loc[0, ["WKHP", "COW"]] = np.nan  # a person without work
    return frame


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "2018" / "1-Year").mkdir(parents=True)
    for number in (1, 6):
        path = tmp_path / "2018" / "1-Year" / f"psam_p{number:02}.csv"
        census(300, number).to_csv(path, index=False)
    return tmp_path


def test_files_of_the_census(folder):
    data = pff.load("acs", folder=folder)
    raw = pd.concat(map(pd.read_csv, sorted(folder.rglob("*.csv"))))
    adults = raw[(raw["AGEP"] > 16) & (raw["PINCP"] > 100) & (raw["WKHP"] > 0)]
    assert len(data) == len(adults)
    assert data.y.sum() == (adults["PINCP"] > 50_000).sum()
    assert data.group_names == ("female", "male")
    assert data.s.sum() == (adults["SEX"] == 1).sum()
    assert set(data.frame["STATE"]) == {"AL", "CA"}
    assert set(data.categorical) >= set(CODES)
    assert "STATE" not in data.categorical
    plan = pff.partition.choose("fixed", data)
    assert plan == pff.partition.by_column("STATE")
    assert plan.split(data, 0).names == ("AL", "CA")


def test_a_column_that_is_coded_otherwise_in_a_state(folder):
    path = next(iter(folder.rglob("psam_p06.csv")))
    frame = pd.read_csv(path).assign(ST=2)
    frame.assign(RAC1P=frame["RAC1P"].clip(upper=2)).to_csv(
        path.with_name("psam_p02.csv"), index=False
    )
    (note,) = (n for n in pff.load("acs", folder=folder).notes if "RAC1P" in n)
    assert note == "RAC1P has 2 codes or fewer in AK and 9 elsewhere: they may mean other things."


def test_rows_of_each_client(folder):
    data = pff.load("acs", folder=folder)
    part = pff.partition.by_column("STATE", rows=50).split(data, 0)
    assert [len(rows) for rows in part.train] == pytest.approx([50, 50], abs=1)
    assert sum(map(len, part.train + part.test)) == len(data)
    most = pff.partition.by_column("STATE", rows=10_000).split(data, 0)
    assert [len(r) for r in most.test] == [len(r) for r in
        pff.partition.by_column("STATE").split(data, 0).test]  # fmt: skip


def test_what_is_not_there(tmp_path, folder):
    with pytest.raises(pff.InputError, match="Say where acs is: folder=FOLDER, with its rows"):
        pff.load("acs")
    with pytest.raises(pff.InputError, match="There is no file or folder"):
        pff.load("acs", folder=tmp_path / "nowhere")
    with pytest.raises(pff.InputError, match="has its own label"):
        pff.load("acs", "PINCP")
    (tmp_path / "empty").mkdir()
    with pytest.raises(pff.InputError, match=r"psam_pNN.csv, or one file .* it has none"):
        pff.load("acs", folder=tmp_path / "empty")
    with pytest.raises(pff.InputError, match="has its own label"):
        pff.load("acs", "PINCP", folder=folder)
    assert len(pff.load("acs", folder)) == len(pff.load("acs", folder=folder))
    (tmp_path / "acs.csv").write_text("AGEP,SEX\n1,2\n")
    with pytest.raises(pff.InputError, match="lacks the column SCHL"):
        pff.load("acs", folder=tmp_path / "acs.csv")
    with pytest.raises(pff.InputError, match=r"processed.cleveland.data"):
        pff.load("heart", folder=tmp_path / "empty")


def test_the_four_files_of_the_heart_study(tmp_path):
    rows = {"cleveland": 30, "hungarian": 20, "va": 25}
    for name, n in rows.items():
        cells = [",".join(["63", str(i % 2), "1", "145", "?", "1", "2", "150", "0", "2.3", "3", "?",
                           "6", str(i % 5)]) for i in range(n)]  # fmt: skip
        (tmp_path / f"processed.{name}.data").write_text("\n".join(cells) + "\n")
    data = pff.load("heart", folder=tmp_path)
    assert len(data) == sum(rows.values())
    assert data.y.mean() == pytest.approx(0.8)
    assert data.group_names == ("female", "male")
    names = pff.partition.choose("fixed", data).split(data, 0).names
    assert names == ("Budapest", "Cleveland", "Long Beach")


@needs_federations
def test_the_real_ones():
    heart = pff.load("heart", folder=FEDERATIONS)
    assert (len(heart), int(heart.y.sum())) == (920, 509)
    part = pff.partition.choose("fixed", heart).split(heart, 0)
    assert len(part.names) == 4


def test_sites_are_the_clients_that_a_data_set_has(folder):
    run = {"seed": 0, "data": "acs", "partition": "fixed", "folder": str(folder)}
    found = [read_site({"partition-id": k, "num-partitions": 2}, run) for k in (0, 1)]
    assert [site.name for site in found] == ["AL", "CA"]
    assert {site.client for site in found} == {"STATE"}
