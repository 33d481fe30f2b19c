"""Natural federations: train, decide on kept rows in several formats, audit the decisions."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from shared_federations import FEDERATIONS, needs_federations

KEPT = 10  # every such row is decided on, and not trained on


class Natural(NamedTuple):
    """A federation: its file, the roles of its columns, and how it is loaded."""

    file: str
    label: str
    sensitive: str
    client: str
    options: dict[str, object]
    rows: int | None = None  # of those, a sample; all if left out
    formats: tuple[str, ...] = ("csv", "parquet", "xlsx")


CODES = "COW,MAR,OCCP,POBP,RELP,RAC1P"
NATURAL = {
    "acs": Natural("acs-income-39-states.parquet", "INCOME_ABOVE_50K", "SEX", "STATE",
                   {"categorical": CODES}, 40_000, ("csv", "parquet", "semicolon", "text")),
    "heart": Natural("heart-4-hospitals.csv", "disease", "sex", "hospital",
                     {"categorical": "cp,restecg,thal,slope"}),
    "stops": Natural("stops-87-neighbourhoods.parquet", "personSearch", "race", "neighborhood",
                     {"unknown": "Unknown", "merge_groups": True}, 12_000),
    "vote": Natural("vote-51-states.parquet", "votetrump", "racef", "state",
                    {"merge_groups": True}, 12_000),
    "benefits": Natural("benefits-51-states.parquet", "ui", "sex", "state", {}),
}  # fmt: skip


def split(of: Natural) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rows to train on and to decide on, in the order of the file."""
    path = FEDERATIONS / of.file
    frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    if of.rows:
        frame = frame.sample(of.rows, random_state=0).sort_index()
    frame = frame.reset_index(drop=True).assign(number=lambda rows: np.arange(len(rows)))
    kept = frame["number"] % KEPT == 0
    return frame[~kept], frame[kept].reset_index(drop=True)


def write(frame: pd.DataFrame, folder: Path, kind: str) -> Path:
    match kind:
        case "csv":
            frame.to_csv(path := folder / "new.csv", index=False)
        case "semicolon":
            frame.to_csv(path := folder / "semicolon.csv", index=False, sep=";", decimal=",")
        case "parquet":
            frame.to_parquet(path := folder / "new.parquet")
        case "text":
            frame.astype("str").to_parquet(path := folder / "text.parquet")
        case "xlsx":
            frame.to_excel(path := folder / "new.xlsx", index=False)
    return path


@needs_federations
@pytest.mark.filterwarnings("ignore")  # of few rows, and of collapse
@pytest.mark.parametrize("name", NATURAL)
def test_decisions_are_those_of_every_format(name, tmp_path, pfedfair):
    of = NATURAL[name]
    train, kept = split(of)
    table = tmp_path / f"train{Path(of.file).suffix}"
    (train.to_csv if table.suffix == ".csv" else train.to_parquet)(table, index=False)
    data = pff.load(table, of.label, of.sensitive, drop="number", **of.options)
    federation = data.federate(pff.partition.by_column(of.client, min_rows=20), seed=0)
    run = pff.train(federation, pff.make("transport", {"rounds": 3}, data))
    run.save(tmp_path / "run")
    new, found = kept.drop(columns=of.label), {}
    for kind in of.formats:
        out = tmp_path / f"{kind} decided.parquet"
        code, _, errors = pfedfair(
            "predict", tmp_path / "run", "--client-column", of.client, "--id", "number", "--input",
            write(new, tmp_path, kind), "--output", out, "--quiet",
        )  # fmt: skip
        assert code == 0, f"{kind}: {errors}"
        found[kind] = pd.read_parquet(out)
    right = found.pop(of.formats[0]).astype({"decision": str, "problem": str, "rule": str})
    for kind, other in found.items():
        for column in ("decision", "problem", "rule"):
            assert (other[column].astype(str) == right[column]).all(), (kind, column)
        np.testing.assert_allclose(other["score"], right["score"], rtol=0, atol=1e-9, err_msg=kind)
    _is_what_python_decides(run, kept, right, of)
    _is_audited_alike(kept, right, of, tmp_path)


def _is_what_python_decides(run, kept, right, of):
    """Compare decisions of the client with most rows."""
    name = kept[of.client].astype(str).mode()[0]
    at = np.flatnonzero((kept[of.client].astype(str) == name) & (right["problem"] == ""))
    model = run.personal_model(name)
    decided = model.predict(kept.iloc[at], ids=kept["number"].iloc[at])
    assert (pd.Series(decided).astype(str).to_numpy() == right["decision"].iloc[at]).all()


def _is_audited_alike(kept, right, of, folder):
    """Audit decisions, joined with labels and groups, as CSV and as a data frame."""
    roles = {"label": of.label, "prediction": "decision", "sensitive": of.sensitive,
             "client": of.client, "score": "score"}  # fmt: skip
    joined = kept[[of.label, of.sensitive, of.client]].assign(
        decision=right["decision"].replace("", None), score=right["score"]
    )
    joined.to_csv(folder / "audit.csv", index=False)
    joined.to_parquet(folder / "audit.parquet")
    audits = [pff.audit(table, **roles).frame
              for table in (joined, folder / "audit.csv", folder / "audit.parquet")]  # fmt: skip
    for other in audits[1:]:
        pd.testing.assert_frame_equal(other, audits[0], rtol=1e-9)
