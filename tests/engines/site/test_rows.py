"""A site's rows."""

import stat
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import made_faces
import pfedfair as pff
from made_people import people
from pfedfair.data.tables.basis import MISSING
from pfedfair.data.tables.options import TableOptions
from pfedfair.data.tables.piecewise import Numbers
from pfedfair.engines.site.rows import federate_site, make_plan, read_site
from pfedfair.engines.site.schema import agree, describe

RUN = {"seed": 0}


def test_a_site_needs_data_and_a_partition_needs_a_number(tmp_path):
    with pytest.raises(pff.InputError, match="This site has no data"):
        read_site({}, RUN)
    adult = read_site({"data": "adult", "partition-id": 1, "num-partitions": 5}, RUN)
    plan = pff.load("adult").federate(pff.partition.fixed_shares()).partition
    np.testing.assert_array_equal(adult.train, plan.train[1])
    with pytest.raises(pff.InputError, match="partition-id must be between 0 and 4, got 7"):
        read_site({"data": "adult", "partition-id": 7, "num-partitions": 5}, RUN)
    people().to_csv(tmp_path / "p.csv", index=False)
    site = read_site(own_table(tmp_path) | {"drop": "site"}, RUN)
    assert site.name == "p"
    assert sorted([*site.test, *site.train]) == list(range(260))


def test_a_simulated_site_reads_the_table_as_the_command_does(tmp_path):
    frame = people()
    frame[:200].to_csv(tmp_path / "p.csv", index=False)
    frame[200:].to_csv(tmp_path / "test.csv", index=False)
    given = {"positive": "0", "bands": {"a": [0.5]}, "test": str(tmp_path / "test.csv")}
    options = TableOptions.parse(
        name=str(tmp_path / "p.csv"), label="hired", sensitive="a", **given
    )
    data = pff.load(options.name, "hired", "a", **given)
    run = RUN | options.to_config() | {"client": "site"}
    site = read_site({"partition-id": 0}, run)
    assert (site.data.label_names, site.data.group_names) == (data.label_names, data.group_names)
    np.testing.assert_array_equal(site.data.held, data.held)
    np.testing.assert_array_equal(site.train, data.federate("site").partition.train[0])


def test_the_training_rows_are_not_the_test_rows(tmp_path):
    people().to_csv(tmp_path / "p.csv", index=False)
    with pytest.raises(pff.InputError, match=r"The rows for the test, .*p\.csv, are those of"):
        read_site(own_table(tmp_path, test=str(tmp_path / "p.csv")), RUN)


def own_table(folder, **more):
    about = {"data": str(folder / "p.csv"), "label": "hired", "sensitive": "sex"}
    return about | {"state-dir": str(folder / "state")} | more


def test_rows_are_held_out_by_coins_of_the_site(tmp_path):
    """The server knows the run's seed and must not know the split; a row keeps its place."""
    people().to_csv(tmp_path / "p.csv", index=False)
    first = read_site(own_table(tmp_path), RUN)
    assert 40 < len(first.test) < 90  # 65 on average
    other = read_site(own_table(tmp_path), {"seed": 1})
    np.testing.assert_array_equal(first.test, other.test)  # whatever the run's seed
    secret = tmp_path / "state" / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    secret.unlink()
    assert set(read_site(own_table(tmp_path), RUN).test) != set(first.test)
    for part in (-0.1, 1.0):
        with pytest.raises(pff.InputError, match="test-part must be at least 0 and less than 1"):
            read_site(own_table(tmp_path, **{"test-part": part}), RUN)
    secret.write_text("none")
    with pytest.raises(pff.InputError, match="does not hold a secret: delete it"):
        read_site(own_table(tmp_path), RUN)


@pytest.mark.parametrize("row", [0, 17, 259])
def test_one_row_less_changes_no_other_rows_place(tmp_path, row):
    """Also where its cell is the only one that is empty, or no number."""
    frame = people().astype({"hired": object})
    frame.loc[row, ["a", "colour"]] = [None, "1e5"]
    frame["b"] = frame["b"].round(2).map(str)
    frame.loc[row, "b"] = "a word"
    places = []
    for part in (frame, frame.drop(index=row)):
        part.to_csv(tmp_path / "p.csv", index=False)
        site = read_site(own_table(tmp_path), RUN)
        places.append(np.isin(part.index, part.index[site.test]))
    np.testing.assert_array_equal(np.delete(places[0], row), places[1])


def visits(folder, **more):
    """A site's settings with a table of persons, and the table."""
    frame = people()
    patient = np.random.default_rng(0).integers(0, 90, len(frame))
    frame.assign(patient=patient).to_csv(folder / "p.csv", index=False)
    return own_table(folder, drop="site", person="patient", **more), patient


def test_a_sites_persons_are_on_one_side(tmp_path):
    own, patient = visits(tmp_path)
    site = read_site(own, RUN)
    assert not set(patient[site.train]) & set(patient[site.test])
    assert 30 < len(site.test) < 110  # 65 on average
    assert "patient" not in (*site.data.numeric, *site.data.categorical)
    frame = pd.read_csv(own["data"])
    frame.drop(index=17).to_csv(own["data"], index=False)
    fewer = read_site(own, RUN)
    assert set(frame.drop(index=17).index[fewer.test]) == set(site.test) - {17}


def test_a_simulated_sites_persons_are_those_of_the_command(tmp_path):
    own, patient = visits(tmp_path)
    data = pff.load(own["data"], "hired", "sex", person="patient", drop="site")
    expected = data.federate("site").partition
    for number in range(3):
        site = read_site({"partition-id": number}, RUN | own | {"client": "site"})
        np.testing.assert_array_equal(site.train, expected.train[number])
        np.testing.assert_array_equal(site.test, expected.test[number])
    train, test = (np.concatenate(rows) for rows in (expected.train, expected.test))
    assert not set(patient[train]) & set(patient[test])


def test_a_server_cannot_point_a_site_with_own_data_elsewhere(tmp_path):
    people().to_csv(tmp_path / "p.csv", index=False)
    own = own_table(tmp_path)
    run = RUN | {"data": "adult", "drop": "a", "label": "x"}
    assert "a" in read_site(own, run).data.numeric


def test_a_site_is_encoded_once_as_all_sites_are(tmp_path, monkeypatch):
    people().to_csv(tmp_path / "p.csv", index=False)
    own = own_table(tmp_path)
    site = read_site(own | {"encoding": "standard"}, RUN)
    schema, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    transform, fitted, calls = pff.data.Encoder.pack, pff.data.Encoder.fit, []
    monkeypatch.setattr(pff.data.Encoder, "fit", lambda *a, **k: calls.append("fit"))
    monkeypatch.setattr(
        pff.data.Encoder, "pack", lambda *a: calls.append("transform") or transform(*a)
    )
    made = federate_site(site, schema)
    assert calls == ["transform"]
    monkeypatch.setattr(pff.data.Encoder, "fit", fitted)
    whole = fitted(site.data, site.train)
    np.testing.assert_allclose(made.table.x, transform(whole, site.data.frame), 1e-6)
    assert made.table.task == schema.task


def test_one_client_with_all_rows_is_a_site_too():
    plan = make_plan({"partition": "together"}, 1, pff.load("compas"))
    assert plan == pff.partition.together()


def test_rows_beside_embeddings_that_are_called_test_are_for_the_test(tmp_path):
    table, array = made_faces.people()
    path = made_faces.write(tmp_path / "e.parquet", table, array)
    own = {"data": str(path), "label": "smiling", "sensitive": "male"}
    own["state-dir"] = str(tmp_path / "state")
    site = read_site(own, RUN)
    np.testing.assert_array_equal(site.test, np.flatnonzero(table["split"] == "test"))
    np.testing.assert_array_equal(site.train, np.flatnonzero(table["split"] == "train"))
    with pytest.raises(pff.InputError, match="leave out test-part"):
        read_site(own | {"test-part": 0.5}, RUN)
    test = made_faces.write(tmp_path / "t.parquet", table[:60], array[:60])
    held = read_site(own | {"test": str(test)}, RUN)
    np.testing.assert_array_equal(held.test, len(table) + np.arange(60))
    made_faces.write(path, table.assign(split="train"), array)
    alone = read_site(own, RUN)
    assert 30 < len(alone.test) < 90  # a quarter of 240, by coins
    assert any("All rows are for training by 'split'" in note for note in alone.data.notes)


def test_a_simulated_site_leaves_out_rows_without_a_label_if_asked(tmp_path):
    table, array = made_faces.people()
    table["smiling"] = table["smiling"].astype(float).where(np.arange(240) != 5)
    (tmp_path / "celeba").mkdir()
    made_faces.write(tmp_path / "celeba" / "e.parquet", table, array)
    run = RUN | {"data": "celeba", "folder": str(tmp_path), "partition": "together"}
    node = {"partition-id": 0, "num-partitions": 1}
    with pytest.raises(pff.InputError, match="skip_missing=True"):
        read_site(node, run | {"skip-missing": False})
    assert len(read_site(node, run | {"skip-missing": True}).data) == 239


def test_knots_of_the_servers_choice_do_not_single_anybody_out(tmp_path):
    """An input in which only one row differs is constant."""
    people().to_csv(tmp_path / "p.csv", index=False)
    site = read_site(own_table(tmp_path, drop="site", **{"test-part": 0.0}), RUN)
    schema, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    highest = float(np.sort(site.data.frame["a"])[-1])
    knots = Numbers((highest - 2e-6, highest - 1e-6), (0.0,), 0.0)
    crafted = replace(schema.encoder, numbers=schema.encoder.numbers | {"a": knots})
    for least, ends in ((1, 2), (10, 1)):
        made = federate_site(site, replace(schema, encoder=crafted), least)
        column = list(crafted.numbers).index("a")
        assert len(made.table.x[made.partition.train[0], column].unique()) == ends


def test_a_site_without_dates_reads_new_rows_with_them(tmp_path):
    """Its model has the parts of dates as inputs, as other sites have some."""
    frame = people()
    frame["d"] = np.where(np.arange(len(frame)) % 3 > 0, "31.12.2023", "01.02.2024")
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.assign(d="").to_csv(tmp_path / "b.csv", index=False)
    node = {"label": "hired", "sensitive": "sex", "drop": "site", "state-dir": str(tmp_path)}
    sites = [read_site(node | {"data": str(tmp_path / f"{name}.csv")}, RUN) for name in "ab"]
    schema, _ = agree([describe(s.data, s.train, s.name, k, "") for k, s in enumerate(sites)])
    made = federate_site(sites[1], schema)
    run = pff.train(made, pff.make("newton", {"rounds": 1}, made.data))
    model = run.personal_model(0)
    assert set(model.date_parts.values()) == {"d"}
    packed = model.pack(frame.assign(d="2023-12-31"))
    assert (packed != MISSING).all()
