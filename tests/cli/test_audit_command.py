"""`pfedfair audit` as a user types it."""

import pandas as pd
import pytest

import pfedfair as pff
from made_people import people

COMMAND = ("--label", "hired", "--prediction", "model", "--sensitive", "sex")


@pytest.fixture
def decisions(tmp_path):
    frame = people()
    frame["model"] = (frame["a"] > 0).astype(int)
    frame["other"] = (frame["a"] > 0.3).astype(int)
    frame["chance"] = 1 / (1 + 2.0 ** -frame["a"])
    path = tmp_path / "decisions.csv"
    frame.to_csv(path, index=False)
    return path


def test_audit_shows_and_writes(pfedfair, decisions, tmp_path):
    more = ("--client", "site", "--score", "chance", "--against", "other", "--out", "audit")
    code, out, err = pfedfair("audit", decisions, *COMMAND, *more)
    assert code == 0, err
    for words in (
        "every group",
        "80 % rule",
        "3 clients",
        "other against model",
        "What the intervals",
    ):
        assert words in out
    folder = tmp_path / "audit"
    names = {"audit.parquet", "audit.csv", "audit.md", "calibration.csv", "audit.json"}
    names.add("report.html")
    assert {path.name for path in folder.iterdir()} == names
    kept = pd.read_parquet(folder / "audit.parquet")
    frame = pd.read_csv(decisions)
    roles = {"label": "hired", "prediction": "model", "sensitive": "sex", "client": "site"}
    found = pff.audit(frame, **roles, score="chance", against="other")
    pd.testing.assert_frame_equal(kept, found.frame)
    text = (folder / "audit.md").read_text()
    assert "## 3 clients" in text
    assert "Calibration: every group in tenths" in text
    code, _, err = pfedfair("audit", decisions, *COMMAND, "--out", "audit")
    assert code == 2
    assert "not empty" in err


def test_audit_of_parquet_is_the_same(pfedfair, decisions, tmp_path):
    frame = pd.read_csv(decisions)
    frame.to_parquet(tmp_path / "decisions.parquet")
    one, other = (pfedfair("audit", path, *COMMAND)[1] for path in (decisions, "decisions.parquet"))
    assert one == other
    assert pfedfair("audit", decisions, *COMMAND, "--quiet")[:2] == (0, "")


def test_no_number_of_an_audit_is_cut(pfedfair, decisions):
    code, out, _ = pfedfair("audit", decisions, *COMMAND, "--client", "site", "--score", "chance")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    audit = pff.audit(decisions, label="hired", prediction="model", sensitive="sex",
                      client="site", score="chance")  # fmt: skip
    for table in audit.view().tables:
        for cell in () if table.detail else (c for row in table.cells() for c in row):
            assert cell in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody.csv", *COMMAND), "There is no file nobody.csv"),
        (("decisions.csv", *COMMAND[:4]), "Missing option '--sensitive'"),
        (("decisions.csv", *COMMAND, "--score", "shoes"), "no column 'shoes' for the score"),
        (("decisions.csv", *COMMAND, "--positive", "yes"), "Unknown label 'yes'"),
    ],
)
def test_bad_input_is_one_sentence(pfedfair, decisions, tmp_path, arguments, message):
    code, out, err = pfedfair("audit", *arguments, "--out", "audit")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert not (tmp_path / "audit").exists()


def test_how_a_file_was_read_is_a_note(pfedfair, tmp_path):
    rows = [
        "y;p;s;score",
        *(f"{i % 2};{i // 2 % 2};{'fm'[i % 3 > 0]};0,{i % 9}5" for i in range(60)),
    ]
    (tmp_path / "d.csv").write_text("\n".join(rows))
    asked = ("--label", "y", "--prediction", "p", "--sensitive", "s", "--score", "score")
    code, out, err = pfedfair("audit", "d.csv", *asked)
    assert (code, err) == (0, "")
    assert "Note: Commas are decimal, 1,5 is 1.5, as in 'score'." in " ".join(out.split())
    code, out, err = pfedfair("audit", "d.csv", *asked, "--quiet")
    assert (code, out, err) == (0, "", "")
