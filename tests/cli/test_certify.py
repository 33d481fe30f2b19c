"""``train --certify``: what it prints, writes and refuses."""

import json


def test_train_certifies_and_names_who_is_not(pfedfair, tmp_path):
    code, out, _ = pfedfair(
        "train", "compas", "--method", "transport", "--target-ddp", 0.2, "--rounds", 3, "--certify",
        "--out", "certified",
    )  # fmt: skip
    card = json.loads((tmp_path / "certified" / "run.json").read_text())
    assert code == 0
    assert card["certificate"]["target_ddp"] == 0.2
    assert len(card["certificate"]["certified"]) == 5
    assert "All 5 sites have a certificate: the gap (DDP) is at most 0.2" in " ".join(out.split())
    assert (tmp_path / "certified" / "report.html").exists()


def test_a_method_without_a_proof_is_refused(pfedfair):
    code, _, err = pfedfair("train", "compas", "--method", "fedavg", "--certify")
    assert code == 2
    assert "FedAvg has no rules to certify with these settings: take transport" in err
