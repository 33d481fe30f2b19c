"""The page from the command line: of train, compare and audit; as they run; in another file."""

import json
import re

import pytest

import pfedfair as pff
from made_people import people

COLUMNS = ("--label", "hired", "--sensitive", "sex")


def document(path):
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


def test_train_writes_the_page_and_report_makes_it_again(pfedfair, csv, tmp_path):
    words = ("train", csv, *COLUMNS, "--client", "site", "--method", "fedavg-kde", "--rounds", 2)
    code, out, _ = pfedfair(*words, "--live", "--out", "one")
    assert code == 0
    assert "report.html" in out
    found = document(tmp_path / "one" / "report.html")
    assert found["kind"] == "run"
    assert found["live"] is None
    assert found["sentence"] in " ".join(out.split())
    command = dict(row for part in found["about"] for row in part["rows"])["command"]
    assert "--live" not in command
    assert "--out" not in command
    code, out, _ = pfedfair("report", "one", "--out", "mail.html")
    assert code == 0
    assert "mail.html" in out
    assert document(tmp_path / "mail.html") == found
    assert (tmp_path / "one" / "report.md").exists()


def test_live_needs_a_folder(pfedfair, csv):
    code, _, err = pfedfair("train", csv, *COLUMNS, "--client", "site", "--live")
    assert code == 2
    assert "--out" in err


def test_a_comparison_is_watched(pfedfair, csv, tmp_path, monkeypatch):
    from pfedfair.report import refresh

    seen = []
    keep = refresh.write

    def write(page, path):
        seen.append(page)
        return keep(page, path)

    monkeypatch.setattr(refresh, "EVERY", 0.0)
    monkeypatch.setattr(refresh, "SHARE", 1e9)
    monkeypatch.setattr(refresh, "write", write)
    words = ("compare", csv, *COLUMNS, "--client", "site", "--methods", "erm-local,fedavg")
    words = (*words, "--rounds", 1, "--seeds", 1, "--jobs", 1, "--out", "many")
    code, _, _ = pfedfair(*words, "--live")
    assert code == 0
    sentences = [page.sentence for page in seen]
    assert sentences[0] == "No run is finished yet."
    assert any(text.startswith("So far: ") for text in sentences)
    found = document(tmp_path / "many" / "report.html")
    assert found["kind"] == "comparison"
    assert found["live"] is None
    assert found["details"][0]["local"]["words"].startswith("erm-local")
    code, _, _ = pfedfair(*words)  # what was typed is not what an experiment is
    assert code == 0


def test_an_audit_has_its_page(pfedfair, csv, tmp_path):
    frame = people()
    frame["model"] = (frame["a"] > 0).astype(int)
    frame.to_csv(tmp_path / "decided.csv", index=False)
    words = ("audit", "decided.csv", "--label", "hired", "--prediction", "model")
    code, out, _ = pfedfair(*words, "--sensitive", "sex", "--client", "site", "--out", "audit")
    assert code == 0
    assert "report.html" in out
    found = document(tmp_path / "audit" / "report.html")
    numbers = pff.audit(frame, label="hired", prediction="model", sensitive="sex", client="site")
    values = numbers.frame.set_index(["client", "group", "measure"])["value"]
    assert found["kind"] == "audit"
    assert found["parts"][0]["sites"]["name"] == list(dict.fromkeys(frame["site"]))
    (arm,) = found["parts"][0]["arms"]
    assert arm["gap"][1] == pytest.approx(values["site 1", "", "ddp"], abs=1e-6)
    rates = {rate["group"]: rate["rate"] for rate in found["details"][1]["rates"]}
    women = frame[(frame["site"] == "site 1") & (frame["sex"] == "f")]
    assert rates["f"] == pytest.approx((women["model"] == 1).mean(), abs=1e-6)
    assert found["sentence"].startswith("Decisions of model, by sex: DDP: ")
    assert found["more"][0].startswith("Of 3 clients ")
    code, _, _ = pfedfair("report", "audit")
    assert code == 0
    assert document(tmp_path / "audit" / "report.html") == found
    assert found["sentence"] == numbers.report().document["sentence"]


def test_an_audit_of_an_older_version_is_refused_in_a_sentence(pfedfair, tmp_path):
    frame = people().assign(model=1)
    found = pff.audit(frame, label="hired", prediction="model", sensitive="sex")
    found.save(tmp_path / "audit")
    (tmp_path / "audit" / "audit.json").unlink()
    code, _, err = pfedfair("report", "audit")
    assert code == 2
    assert "run the audit again" in err


def test_options_that_cannot_be_meant_are_refused(pfedfair, csv, tmp_path):
    words = ("train", csv, *COLUMNS, "--client", "site", "--method", "fedavg", "--rounds", 1)
    assert pfedfair(*words, "--out", "one", "--quiet")[0] == 0
    code, _, err = pfedfair("report", "one", "--out", "one")
    assert (code, err) == (
        2, "Error: --out one is a folder: name a file, such as one/report.html.\n"
    )  # fmt: skip
    code, _, err = pfedfair("report", "one", "--sent", tmp_path)
    assert code == 2
    assert "--sent is for the folder of a site's model on Flower" in err
