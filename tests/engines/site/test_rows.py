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
from pfedfair.engines.site.rare_values import pool_rare_values
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
    data = pool_rare_values(site.data, [site.train], 10, schema.encoder.names)
    whole = fitted(data, site.train)
    np.testing.assert_allclose(made.table.x, transform(whole, data.frame), 1e-6)
    held = transform(whole, site.data.frame)[site.test]
    np.testing.assert_allclose(made.table.x[site.test], held, 1e-6)
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


def rows_of_each_input(site, schema, least=10):
    """How many training rows share the rarest input of each column."""
    made = federate_site(site, schema, least)
    x = made.table.x[made.partition.train[0]].numpy()
    return [int(np.unique(column, return_counts=True)[1].min()) for column in x.T]


@pytest.mark.parametrize("place", [-1, 0, 100], ids=["highest", "lowest", "middle"])
def test_knots_of_the_servers_choice_do_not_single_anybody_out(tmp_path, place):
    """An input in which only one row differs from all others, or two that differ by one row."""
    people().to_csv(tmp_path / "p.csv", index=False)
    site = read_site(own_table(tmp_path, drop="site", **{"test-part": 0.0}), RUN)
    schema, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    row = float(np.sort(site.data.frame["a"])[place])
    knots = Numbers((row - 2e-9, row - 1e-9, row + 1e-9, row + 2e-9), (0.0,) * 3, 0.0)
    crafted = replace(schema.encoder, numbers=schema.encoder.numbers | {"a": knots})
    schema = replace(schema, encoder=crafted)
    column = list(crafted.numbers).index("a")
    assert rows_of_each_input(site, schema, 1)[column] == 1
    assert min(rows_of_each_input(site, schema)) >= 10


def standard(folder, frame=None, **change):
    """A site with a standard encoding, and the schema with a changed mean or scale of column a."""
    (people() if frame is None else frame).to_csv(folder / "p.csv", index=False)
    own = own_table(folder, drop="site", encoding="standard", **{"test-part": 0.0})
    site = read_site(own, RUN)
    schema, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    encoder = schema.encoder
    about = {k: getattr(encoder, k) | ({"a": change[k]} if k in change else {})
             for k in ("mean", "scale")}  # fmt: skip
    return site, replace(schema, encoder=replace(encoder, **about))


def test_a_mean_and_a_scale_of_the_servers_choice_single_nobody_out(tmp_path):
    frame = people()
    frame.loc[7, "a"] = 1000.0
    site, schema = standard(tmp_path, frame, mean=900.0, scale=10.0)
    assert min(rows_of_each_input(site, schema, 1)) == 1
    assert min(rows_of_each_input(site, schema)) >= 10


@pytest.mark.parametrize(
    "change",
    [{"scale": 1e-5}, {"mean": 5e4}, {"mean": float("nan")}, {"scale": float("inf")},
     {"scale": 0.0}, {"scale": -1.0}, {"mean": "0"}, {"mean": 10**400}, {"mean": 1e300}],
    ids=str,
)  # fmt: skip
def test_a_mean_and_a_scale_of_other_rows_are_refused_by_column(tmp_path, change):
    site, schema = standard(tmp_path, **change)
    with pytest.raises(pff.InputError, match="The run encodes the column 'a' by"):
        federate_site(site, schema)


def test_whether_an_encoder_is_refused_depends_on_no_row_where_counts_have_noise(tmp_path):
    site, schema = standard(tmp_path, scale=1e-5)
    federate_site(site, schema, independent=True)
    site, schema = standard(tmp_path, scale=0.0)
    with pytest.raises(pff.InputError, match="by numbers that cannot be"):
        federate_site(site, schema, independent=True)


@pytest.mark.parametrize(
    "knots",
    [((1.0, 1.0), (0.0,), 0.0), ((2.0, 1.0), (0.0,), 0.0), ((0.0, float("nan")), (0.0,), 0.0),
     ((0.0, 1.0), (1e6,), 0.0), ((0.0, 1.0), (0.5,), -1.0)],
    ids=str,
)  # fmt: skip
def test_knots_that_cannot_be_are_refused_by_column(tmp_path, knots):
    people().to_csv(tmp_path / "p.csv", index=False)
    site = read_site(own_table(tmp_path, drop="site"), RUN)
    schema, _ = agree([describe(site.data, site.train, site.name, 0, "")])
    numbers = schema.encoder.numbers | {"a": Numbers(*knots)}
    with pytest.raises(pff.InputError, match="The run encodes the column 'a' by numbers that"):
        federate_site(site, replace(schema, encoder=replace(schema.encoder, numbers=numbers)))


@pytest.mark.parametrize("own", ["standard", "piecewise"])
def test_another_encoding_than_the_sites_is_refused(tmp_path, own):
    people().to_csv(tmp_path / "p.csv", index=False)
    sites = {kind: read_site(own_table(tmp_path, drop="site", encoding=kind), RUN)
             for kind in ("standard", "piecewise")}  # fmt: skip
    other = sites["piecewise" if own == "standard" else "standard"]
    schema, _ = agree([describe(other.data, other.train, "other", 0, "")])
    with pytest.raises(pff.InputError, match=f"this site's is {own}"):
        federate_site(sites[own], schema)


def test_sites_that_differ_in_size_and_place_accept_what_they_agree_on(tmp_path):
    """Also columns that are constant here or everywhere, mostly zero, or dates."""
    rng, sites = np.random.default_rng(0), []
    for k, n in enumerate((40, 200, 4000)):
        frame = pd.DataFrame({"far": rng.normal(1e4 * k, 1 + 10 * k, n), "here": 5.0 * (k == 0)},
                             range(n))  # fmt: skip
        frame["zeros"] = np.where(rng.random(n) < 0.01 * k, rng.lognormal(10, 2, n), 0.0)
        frame["same"], frame["large"] = 1e20, 1.5e9 + rng.normal(size=n)
        frame["day"] = pd.Timestamp(f"20{10 + k}-03-01") + pd.to_timedelta(np.arange(n) % 90, "D")
        frame = frame.assign(sex=np.arange(n) % 2, hired=np.arange(n) // 2 % 2)
        frame.to_csv(tmp_path / "p.csv", index=False)
        keep = {"keep": "far,here,zeros,same,large,day", "encoding": "standard"}
        sites.append(read_site(own_table(tmp_path, site=str(k), **keep), RUN))
    schema, refused = agree([describe(s.data, s.train, s.name, 0, "") for s in sites])
    assert not refused
    assert {"far", "here", "zeros", "same", "large", "day (year)"} <= {*schema.encoder.mean}
    for site in sites:
        federate_site(site, schema)


@pytest.mark.parametrize("encoding", ["standard", "piecewise"])
def test_hours_that_a_site_does_not_have_tell_nobody_without_a_date_apart(tmp_path, encoding):
    frame = people()
    hours = pd.date_range("2020-01-01 08:00", periods=len(frame), freq="7h").astype(str)
    frame.assign(d=hours).to_csv(tmp_path / "a.csv", index=False)
    days = hours.str[:10].to_series(index=frame.index)
    days[5] = None
    frame.assign(d=days).to_csv(tmp_path / "b.csv", index=False)
    node = {"label": "hired", "sensitive": "sex", "drop": "site", "state-dir": str(tmp_path)}
    node |= {"encoding": encoding, "test-part": 0.0}
    sites = [read_site(node | {"data": str(tmp_path / f"{name}.csv")}, RUN) for name in "aab"]
    found = [describe(s.data, s.train, str(k), k, "") for k, s in enumerate(sites)]
    schema, refused = agree(found)
    assert not refused
    assert "d (hour)" in schema.encoder.names[1]
    assert min(rows_of_each_input(sites[2], schema)) >= 10
    assert min(rows_of_each_input(sites[2], schema, 1)) == 1


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
