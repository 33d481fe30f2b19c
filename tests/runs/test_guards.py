"""Rows to decide on compared with the training rows: ranges, missing values, shifts."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pfedfair as pff
from made_people import people
from pfedfair._util.errors import InputError
from pfedfair.runs.decisions import decide_file, reader_of
from pfedfair.runs.guards import FEWEST, RARE, Guard, Reference, stability
from pfedfair.runs.model import read_model


@pytest.fixture(scope="module", params=["piecewise", "standard"])
def run(request):
    data = pff.from_frame(people(), "hired", "sex", drop=["site"], encoding=request.param)
    federation = data.federate(pff.partition.by_column("site"))
    return pff.train(federation, pff.make("fedavg", {"rounds": 1}, data))


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("guarded") / "run"
    run.save(out)
    return out


def decide(folder, rows, tmp_path, **options):
    rows.to_csv(tmp_path / "rows.csv", index=False)
    reader = reader_of(read_model(folder), **({"client": "site 1"} | options))
    out = tmp_path / "out.csv"
    summary = decide_file(reader, reader.open(tmp_path / "rows.csv"), out)
    return pd.read_csv(out, keep_default_na=False), summary


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=1, max_size=8))
def test_the_index_by_a_loop(pairs):
    before, after = (np.array(counts) for counts in zip(*pairs, strict=True))
    rare = before < RARE * before.sum()
    cells = [(b, a) for (b, a), few in zip(pairs, rare, strict=True) if not few]
    cells.append((sum(before[rare]), sum(after[rare])))
    cells = [(b + 0.5, a + 0.5) for b, a in cells if a + b > 0]
    total = [sum(column) for column in zip(*cells, strict=True)]
    expected = sum((a / total[1] - b / total[0]) * np.log(a / total[1] / (b / total[0]))
                   for b, a in cells)  # fmt: skip
    assert stability(before, after)[0] == pytest.approx(expected, abs=1e-12)


def test_a_clients_own_rows_have_not_moved(run, folder, tmp_path):
    data, part = run.federation.data, run.federation.partition
    found, summary = decide(folder, data.frame.iloc[part.train[1]], tmp_path)
    assert part.names[1] == "site 1"
    assert summary.shifts == []
    assert (found["warning"] == "").all()


def test_ranges_and_missing_shares_are_those_of_the_training_rows(run, folder):
    reference = read_model(folder).reference
    data, part = run.federation.data, run.federation.partition
    rows = data.frame.iloc[np.concatenate(part.train)]
    for name, ends in reference.ranges.items():
        assert ends == (rows[name].min(), rows[name].max())
    assert reference.ranges.keys() == set(data.numeric)
    assert reference.counts.shape[0] == len(part.names)
    columns = len(reference.encoder.columns)
    sizes = [len(own) * columns for own in part.train]
    assert reference.counts.sum(1).tolist() == sizes


def test_a_column_times_a_thousand_is_named_and_its_rows_are_marked(run, folder, tmp_path):
    frame = run.federation.data.frame
    low, high = frame["a"].min(), frame["a"].max()
    found, summary = decide(folder, frame.assign(a=frame["a"] * 1000), tmp_path)
    assert summary.shifts[0].startswith("'a' has moved since training (index ")
    far = (frame["a"] * 1000 > high) | (frame["a"] * 1000 < low)
    np.testing.assert_array_equal(found["warning"].str.contains("a is outside"), far)
    (tmp_path / "strict").mkdir()
    with pytest.raises(InputError, match=r"'a' has moved .* nothing was written, as strict=True"):
        decide(folder, frame.assign(a=frame["a"] * 1000), tmp_path / "strict", strict=True)
    assert not (tmp_path / "strict" / "out.csv").exists()


def test_a_column_that_is_mostly_missing_is_named(run, folder, tmp_path):
    frame = run.federation.data.frame
    gone = frame.assign(b=frame["b"].where(np.arange(len(frame)) % 4 == 0))
    _, summary = decide(folder, gone, tmp_path)
    (text,) = (text for text in summary.shifts if text.startswith("'b' has moved"))
    assert "missing in 75% of the rows, 0% in training" in text


def test_few_rows_show_no_shift(run, folder, tmp_path):
    frame = run.federation.data.frame
    few = frame.head(FEWEST - 1)
    found, summary = decide(folder, few.assign(a=1e6), tmp_path)
    assert summary.warned == len(few)
    assert (found["warning"] != "").all()
    assert not any("moved" in text for text in summary.shifts)


def test_of_many_clients_the_sum_is_stored(run, monkeypatch):
    monkeypatch.setattr("pfedfair.runs.guards.MOST_CLIENTS", 1)
    reference = Reference.of(run.federation)
    assert reference.counts.shape[0] == 1
    assert Guard(reference).moved() == []
