"""Messy tables by the hundred, in Python and by command: a result, or one sentence.

`make fuzz` tries some thousand.
"""

import os
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from messy import messy, write

import pfedfair as pff

TABLES, AT_ONCE = int(os.environ.get("FUZZ_TABLES", "100")), 20
ROUNDS = {"newton": 4, "transport": 9, "fedavg-kde": 1}
batches = pytest.mark.parametrize("first", range(0, TABLES, AT_ONCE))


def is_a_sentence(text: str) -> bool:
    return text.endswith(".") and "\n" not in text and "Traceback" not in text and len(text) < 900


@batches
def test_python_gives_a_table_or_one_sentence(first, tmp_path):
    trained = 0
    for seed in range(first, first + AT_ONCE):
        case = messy(seed)
        path = write(case, tmp_path)
        said = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pff.CollapseWarning)
                trained += one(path, case)
        except pff.InputError as error:
            said = str(error)
        except Exception as error:
            error.add_note(f"table {seed}")
            raise
        assert not said or is_a_sentence(said), f"table {seed}: {said}"
        path.unlink()
    assert trained > 0


def one(path, case) -> bool:
    data = pff.load(path, **case.asked)
    assert len(data) + data.without_sensitive == len(case.frame)
    federation = data.federate(pff.partition.by_column("site"), seed=0)
    part = federation.partition
    dealt = np.concatenate([*part.train, *part.test, *part.validation])
    assert sorted(dealt.tolist()) == list(range(len(data)))  # nobody is lost, nobody comes twice
    run = pff.train(federation, pff.make(case.method, {"rounds": ROUNDS[case.method]}, data))
    table = run.table()
    assert table["accuracy"].between(0, 1).all()
    assert (table["ddp"].isna() | table["ddp"].between(0, 1)).all()
    assert table["n_train"].sum() + table["n_test"].sum() == len(data)
    groups = np.array(data.group_names)[data.s]
    chance = run.personal_model(0).predict_proba(data.frame, sensitive_features=groups)
    assert chance.shape == (len(data), len(data.label_names))
    assert np.isfinite(chance).all()
    return True


@batches
def test_commands_give_files_that_are_whole_or_one_sentence(first, tmp_path, pfedfair):
    """A table in each few goes through train, predict and audit as a user would type them."""
    for seed in range(first, first + AT_ONCE, 4):
        case, folder = messy(seed), tmp_path / str(seed)
        folder.mkdir()
        path, out = write(case, folder), folder / "run"
        more = ("--rounds", ROUNDS[case.method], "--out", out, "--quiet")
        asked = [text for key, value in case.asked.items() for text in (f"--{key}", value)]
        code, _, err = pfedfair(
            "train", path, *asked, "--client", "site", "--method", case.method, *more
        )
        assert code in (0, 2), f"table {seed}: {code} {err}"
        if code:
            assert is_a_sentence(err.strip()), f"table {seed}: {err}"
            assert not out.exists(), f"table {seed}: half a run"
            continue
        decided = folder / "decided.csv"
        code, _, err = pfedfair(
            "predict", out, "--client-column", "site", "--input", path, "--output", decided,
            "--keep-columns", "y,s,site",
        )  # fmt: skip
        assert code == 0, f"table {seed}: {err}"
        rows = pd.read_csv(decided, keep_default_na=False, dtype=str)
        assert len(rows) == len(case.frame), f"table {seed}"
        assert ((rows["decision"] == "") == (rows["problem"] != "")).all(), f"table {seed}"
        code, _, err = pfedfair(
            "audit", decided, "--label", case.asked["label"], "--prediction", "decision",
            "--sensitive", "s", "--out", folder / "audit", "--quiet",
        )  # fmt: skip
        assert code in (0, 2), f"table {seed}: {err}"
        assert code == 0 or is_a_sentence(err.strip()), f"table {seed}: {err}"
        assert code == 0 or not (folder / "audit").exists(), f"table {seed}: half an audit"


@batches
def test_two_formats_of_a_table_have_equal_decisions(first, tmp_path, pfedfair):
    """Each table goes through train and predict, and once more through predict as Parquet or CSV.

    The other format may be refused with one sentence, but seldom.
    """
    decided, refused, wrong = 0, [], []
    for seed in range(first, first + AT_ONCE):
        case, folder = messy(seed), tmp_path / str(seed)
        folder.mkdir()
        path = write(case, folder)
        if not train(path, case, folder / "run"):
            continue
        other = replace(case, ending=".csv" if case.ending == ".parquet" else ".parquet")
        code, _, err, right = predict(pfedfair, folder / "run", path)
        assert code == 0, f"table {seed}: {err}"
        code, _, err, found = predict(pfedfair, folder / "run", write(other, folder))
        assert code in (0, 2), f"table {seed}: {err}"
        if code:
            assert is_a_sentence(err.strip()), f"table {seed}: {err}"
            refused.append(f"table {seed}: {err.strip()}")
            continue
        decided += 1
        same = np.array(found["decision"] == right["decision"])
        for score in [column for column in right if column.startswith("score")]:
            same &= np.isclose(found[score], right[score], rtol=0, atol=1e-6, equal_nan=True)
        if not same.all():
            row = int(np.flatnonzero(~same)[0])
            cells = case.frame.iloc[row].to_dict()
            wrong.append(f"table {seed}: {(~same).sum()} of {len(same)} rows, such as {cells}")
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)
    assert len(refused) <= decided / 4, "\n".join(refused)


def train(path, case, out) -> bool:
    """Train on a table and save the run; False if that is refused, as is tested above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = pff.load(path, **case.asked)
            federation = data.federate(pff.partition.by_column("site"), seed=0)
            method = pff.make(case.method, {"rounds": ROUNDS[case.method]}, data)
            pff.train(federation, method).save(out)
        except pff.InputError:
            return False
    return True


def predict(pfedfair, run, path):
    """Return what the command printed, and its decisions as written."""
    out = path.with_name(f"{path.name} decided.parquet")
    code, said, err = pfedfair(
        "predict", run, "--client-column", "site", "--input", path, "--output", out, "--quiet"
    )
    found = pd.read_parquet(out).astype({"decision": str}) if code == 0 else None
    return code, said, err, found
