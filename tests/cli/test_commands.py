"""The commands as a user types them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib

import pandas as pd
import pytest
import torch

import pfedfair as pff
from pfedfair.cli import compare, one_run, options
from pfedfair.experiments import FRONTIER_LIMITS, grid
from pfedfair.studies import STUDIES, table1
from pfedfair.studies import tune as search


def test_train_prints_every_client_and_saves(pfedfair, tmp_path):
    code, out, _ = pfedfair("train", "compas", "--rounds", 5, "--out", "first")
    assert code == 0
    assert "underrepresented" in out
    assert "held-out pool: 3172 rows" in out
    assert len(re.findall(r"^ *[1-5] +(?:under|over) ", out, re.M)) == 5
    assert {p.name for p in (tmp_path / "first").iterdir()} == {
        "experiment.json", "model.safetensors", "run.json", "results.parquet", "rules.parquet",
        "timings.parquet", "predictions.parquet", "history.csv", "history.png",
        "report.html",
    }  # fmt: skip
    code, again, _ = pfedfair("report", "first")
    assert code == 0
    shown = out[out.index("pfedfair on compas, seed 0") :].splitlines()[:20]
    assert "\n".join(shown) in again
    assert (tmp_path / "first" / "report.md").exists()
    code, _, err = pfedfair("train", "compas", "--rounds", 6, "--out", "first")
    assert code == 2
    assert "holds another experiment" in err


def test_train_on_your_own_table(pfedfair, csv):
    arguments = ("--label", "hired", "--sensitive", "sex", "--client", "site", "--rounds", 5)
    code, out, _ = pfedfair("train", csv, *arguments, "--method", "kde-local", "--eta", 0.3)
    assert code == 0
    assert "site 2" in out
    assert "Measured on each site's own" in " ".join(out.split())
    assert "Settings for tables of your own" in out
    assert "pfedfair tune" in out


def test_no_number_is_cut_or_folded(pfedfair, csv, tmp_path):
    """At 80 columns, which are those of a pipe, with long names of clients."""
    frame = pd.read_csv(csv)
    frame["site"] = "St. Mary's Hospital, North Wing (Oncology), " + frame["site"]
    frame.to_csv(csv, index=False)
    own = (csv, "--label", "hired", "--sensitive", "sex", "--client", "site", "--rounds", 4)
    code, out, err = pfedfair("train", *own, "--method", "fedavg", "--out", "long")
    assert code == 0, err
    shown = out[out.index("fedavg on people, seed") : out.index("Explanations: ")]
    assert max(map(len, shown.splitlines())) <= 80
    again = pfedfair("report", "long")[1]
    for row in pd.read_parquet(tmp_path / "long" / "results.parquet").itertuples():
        accuracy = f"{100 * row.accuracy:.1f} [{100 * row.accuracy_low:.1f}, "
        for text in (shown, again):
            assert f"{accuracy}{100 * row.accuracy_high:.1f}]" in text
            number = rf"{row.ddp:.3f} ".lstrip("0") + r"\[[\d.]+, [\d.]+\]"
            assert re.search(number if row.ddp_people >= 5 else "too few rows", text)


def test_every_limit_is_told_apart(pfedfair, tmp_path):
    more = ("--rounds", 8, "--seeds", 1, "--jobs", 1, "--out", "limits")
    code, out, err = pfedfair("compare", "compas", "--methods", "transport,fa", *more)
    assert code == 0, err
    text = (tmp_path / "limits" / "report.md").read_text()
    for level in ("≤ 0.1", "≤ 0.05", "≤ 0.02", "≤ 0"):
        assert re.search(rf"transport +{level} ", out)
        assert f"| transport | {level} |" in text
    assert "| fa | tau 0.001 |" in text
    for name in ("summary", "clients"):
        frame = pd.read_csv(tmp_path / "limits" / f"{name}.csv")
        assert frame.query("method == 'transport'")["level"].nunique() == 4


def test_train_says_what_became_of_columns(pfedfair, csv):
    frame = pd.read_csv(csv)
    frame["b"] = frame["b"].where(frame.index % 4 > 0)
    frame["copy"] = frame["hired"].map({0: "no", 1: "yes"})
    frame.to_csv(csv, index=False)
    own = ("train", csv, "--label", "hired", "--sensitive", "sex", "--client", "site")
    own = (*own, "--method", "fedavg", "--rounds", 1)
    code, out, _ = pfedfair(*own)
    assert code == 0
    assert "Note: 65 missing values (b 65)" in out
    assert "Left out: 'copy' is a copy of the label" in out
    code, out, _ = pfedfair(*own, "--keep", "copy", "--encoding", "standard")
    assert code == 0
    assert "Left out" not in out
    code, _, err = pfedfair(*own, "--encoding", "ramps")
    assert code == 2
    assert "Unknown encoding 'ramps': choose one of standard, piecewise." in err
    code, _, err = pfedfair("train", "compas", "--keep", "age")
    assert code == 2
    assert "leave out keep" in err


def test_quiet_prints_nothing(pfedfair):
    code, out, err = pfedfair("train", "compas", "--rounds", 2, "--quiet")
    assert (code, out, err) == (0, "", "")


@pytest.mark.parametrize(
    "options",
    [
        ("--partition", "dirichlet", "--clients", 10),
        ("--protocol", "own"),
        ("--partition", "together"),
        ("--set", "alpha=0.01", "--set", "weighting=size"),
        ("--penalty", "ermi", "--method", "pfedfair"),
        ("--blind", "--method", "kde-local"),
    ],
)
def test_train_options(pfedfair, options):
    code, _, err = pfedfair("train", "compas", "--method", "fedavg", "--rounds", 3, *options)
    assert code == 0, err


def test_theory_prints_cost_and_frontier(pfedfair):
    code, out, err = pfedfair("theory", "compas", "--rounds", 5)
    assert code == 0, err
    assert re.search(r"^ *1 +under +0\.83 +6\.5 ", out, re.M)  # (2 * .8333 - 1) (.488 - .391)
    assert re.search(r"^ *2 +over +0\.17 +0\.0 ", out, re.M)


def test_transport_prints_its_rules_and_takes_in_a_new_client(pfedfair, tmp_path):
    code, out, err = pfedfair(
        "train", "compas", "--method", "transport", "--target-ddp", 0.03, "--rounds", 8,
        "--model", "mlp", "--confidence", 0, "--out", "first",
    )  # fmt: skip
    assert code == 0, err
    text = " ".join(out.split())
    assert "have a rule made to keep the gap (DDP) at most 0.03 on average (an estimate)." in text
    assert "--confidence 0.95 keeps each site within it" in text
    assert "Rows that get (+) and lose (-)" in out
    rows = pff.load("compas").frame.sample(200, random_state=0).drop(columns="two_year_recid")
    rows["race"] = rows["race"].where(rows["race"] == "Caucasian", "Non-Caucasian")
    rows.to_csv(tmp_path / "new.csv", index=False)
    command = ("personalise", "first", "--input", "new.csv", "--out", "new")
    code, out, err = pfedfair(*command, "--target-ddp", 0.1)
    assert code == 0, err
    assert "newcomer: 200 rows" in out
    model = pff.load_model(tmp_path / "new", "newcomer")
    assert len(model.decide(rows, rows["race"])) == 200
    code, _, err = pfedfair(*command)
    assert code == 2
    assert "not empty" in err


def test_train_uses_one_thread_so_that_weights_are_the_same_everywhere(pfedfair, monkeypatch):
    seen, train = [], one_run.run_training

    def spy(*arguments, **options):
        seen.append(torch.get_num_threads())
        return train(*arguments, **options)

    monkeypatch.setattr(one_run, "run_training", spy)
    torch.set_num_threads(2)
    assert pfedfair("train", "compas", "--method", "fedavg", "--rounds", 1, "-q")[0] == 0
    assert seen == [1]
    assert torch.get_num_threads() == 2


def test_a_target_for_a_method_with_a_penalty(pfedfair):
    code, out, err = pfedfair(
        "train", "compas", "--method", "kde-local", "--target-ddp", 0.1, "--confidence", 0.9,
        "--rounds", 3,
    )  # fmt: skip
    assert code == 0, err
    assert "the gap (DDP) at most 0.1 with 90 % confidence" in " ".join(out.split())


def test_compare_then_report(pfedfair, tmp_path):
    arguments = ("compas", "--methods", "fedavg,pfedfair", "--etas", "0,0.9", "--rounds", 3)
    code, out, err = pfedfair("compare", *arguments, "--seeds", 2, "--jobs", 1, "--out", "grid")
    assert code == 0
    assert "runs" in err  # the progress bar
    assert out.strip().startswith("Two seeds cannot tell methods apart: take --seeds 5.")
    for word in ("constant", "fedavg", "pfedfair", "worst"):
        assert word in out
    results = pd.read_parquet(tmp_path / "grid" / "results.parquet")
    expected = {("constant", 0): 5, ("fedavg", 0): 5, ("pfedfair", 0): 5, ("pfedfair", 0.9): 5}
    expected["frontier", 0] = 5 * len(FRONTIER_LIMITS)
    assert results.groupby(["method", "eta", "seed"]).size().to_dict() == {
        (m, e, s): n for (m, e), n in expected.items() for s in (0, 1)
    }
    (tmp_path / "grid" / "tradeoff.png").unlink()
    code, out, _ = pfedfair("report", "grid")
    assert code == 0
    assert (tmp_path / "grid" / "tradeoff.png").read_bytes().startswith(b"\x89PNG")
    assert "| method | eta or limit |" in (tmp_path / "grid" / "report.md").read_text()


def test_compare_shows_the_gap_of_the_criterion(pfedfair, tmp_path):
    arguments = ("compas", "--methods", "fedavg-kde", "--etas", "0.9", "--rounds", 3)
    more = ("--criterion", "eo", "--seeds", 2, "--jobs", 1, "--out", "odds")
    code, out, err = pfedfair("compare", *arguments, *more)
    assert code == 0, err
    assert "largest gap (EO)" in out
    assert "DDP" not in out
    results = pd.read_parquet(tmp_path / "odds" / "results.parquet").query("method != 'constant'")
    table = pd.read_csv(tmp_path / "odds" / "summary.csv").set_index("method")
    worst = results.groupby("seed")["eo"].max().mean()
    assert table.loc["fedavg-kde", "worst_eo"] == pytest.approx(worst)
    assert pfedfair("report", "odds")[1].splitlines()[:12] == out.splitlines()[:12]


def test_compare_with_validation_rows_scores_the_methods(pfedfair, tmp_path):
    arguments = ("compas", "--methods", "fa,pfedfair", "--etas", "0,0.9", "--rounds", 3)
    more = ("--seeds", 2, "--jobs", 1, "--validation", 0.2, "--out", "scored")
    code, out, err = pfedfair("compare", *arguments, *more)
    assert code == 0, err
    assert out.strip().startswith("Two seeds cannot tell methods apart")
    assert "area ↓" in out
    results = pd.read_parquet(tmp_path / "scored" / "results.parquet")
    assert set(results["protocol"]) == {"pool", "validation"}
    levels = {json.loads(config)["tau"] for config in results.query("method == 'fa'")["config"]}
    assert levels == {0.1, 0.01, 0.001}  # its own limit in the place of eta
    table = pd.read_csv(tmp_path / "scored" / "scores.csv")
    assert set(table["method"]) == {"constant", "fa", "pfedfair", "frontier"}
    points = pd.read_csv(tmp_path / "scored" / "points.csv")
    assert len(points) == 1 + 3 + 2 + len(FRONTIER_LIMITS)
    assert pfedfair("report", "scored")[1].splitlines()[:12] == out.splitlines()[:12]


def test_tune_finds_settings_for_your_own_table(pfedfair, csv, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "TRIALS", 3)
    command = ("tune", csv, "--label", "hired", "--sensitive", "sex", "--client", "site")
    code, out, err = pfedfair(*command, "--methods", "fedavg", "--seeds", 1, "--jobs", 1)
    assert code == 0, err
    found = tomllib.loads((tmp_path / "runs" / "tune" / "tuned.toml").read_text())["own"]
    assert set(found) == {"fedavg"}
    best = pd.read_csv(tmp_path / "runs" / "tune" / "trials.csv").iloc[0]
    assert json.loads(best["config"])["alpha"] == found["fedavg"]["alpha"]
    assert "[own.fedavg]" in out


def test_settings_go_to_the_methods_that_have_them(pfedfair, tmp_path):
    code, _, err = pfedfair(
        "compare", "compas", "--methods", "fedavg,pfedfair,fa", "--etas", "0.5,0.9", "--set",
        "lam=0.1", "--set", "tau=0.2", "--rounds", 2, "--seeds", 1, "--jobs", 1, "--out", "set",
    )  # fmt: skip
    assert code == 0, err
    results = pd.read_parquet(tmp_path / "set" / "results.parquet")
    config = results.drop_duplicates("config").set_index("method")["config"].map(json.loads)
    assert [one["lam"] for one in config[["pfedfair"]]] == [0.1, 0.1]
    assert [one["tau"] for one in config[["fa"]]] == [0.2]  # a limit that is set is not varied


def test_compare_clients_with_drawn_shares(pfedfair, csv):
    """A plan without a column, and not one of the paper's."""
    code, out, err = pfedfair(
        "compare", csv, "--label", "hired", "--sensitive", "sex", "--partition", "dirichlet",
        "--clients", 3, "--methods", "fedavg", "--seeds", 1, "--rounds", 2, "--jobs", 1,
        "--drop", "site", "--out", "drawn",
    )  # fmt: skip
    assert code == 0, err
    assert "people, 3 clients, drawn shares, 1 seed" in out


def test_reproduce_table1_shows_the_papers_figures_and_the_claims(pfedfair, tmp_path):
    code, out, err = pfedfair(
        "reproduce", "table1", "--datasets", "compas", "--seeds", 2, "--jobs", 1, "--rounds", 3,
        "--out", "t1",
    )  # fmt: skip
    assert code == 0, err
    assert "65.4 .051" in out  # the paper's pFedFair at client 1
    assert len(re.findall(r"pfedfair has\s(?:higher|lower)", out)) == 5
    results = pd.read_parquet(tmp_path / "t1" / "results.parquet")
    assert set(results["method"]) == set(table1.METHODS)
    assert len(results) == (len(table1.METHODS) - 1 + len(FRONTIER_LIMITS)) * 5 * 2
    levels = results.groupby("method")["level"].unique().map(sorted).to_dict()
    assert levels["pfedfair"] == ["0.9"]
    assert levels["fedavg"] == ["0"]
    assert levels["transport"] == levels["pfedfair-target"] == ["≤ 0.05"]
    assert "≤ 0.1" in levels["frontier"]
    code, again, _ = pfedfair("report", "t1")
    assert code == 0
    assert again.splitlines()[:40] == out.splitlines()[:40]


def test_all_parts_share_their_runs(pfedfair, tmp_path, monkeypatch):
    parts = ("figure3", "figure7")
    monkeypatch.setattr(compare, "STUDIES", {name: STUDIES[name] for name in (*parts, "scores")})
    code, out, err = pfedfair(
        "reproduce", "all", "--datasets", "compas", "--seeds", 1, "--jobs", 1, "--rounds", 3,
        "--out", "all",
    )  # fmt: skip
    assert code == 0, err
    keys = [[s.key for s in STUDIES[name].specs(("compas",), 1, None, 3)] for name in parts]
    shared = {key for each in keys for key in each}
    assert len(list((tmp_path / "all" / "runs").iterdir())) == len(shared) < sum(map(len, keys))
    assert {p.name for p in (tmp_path / "all").iterdir()} == {"runs", *parts}
    assert out.count(" s\n") == 2  # how long each took


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("train mars", "Unknown data set 'mars': choose one of adult, compas"),
        ("train compas --method fedmagic", "Unknown method 'fedmagic': .* constant"),
        ("train compas --eta 1", r"eta must be in \[0, 1\), got 1"),
        ("train compas --eta -0.5", r"eta must be in \[0, 1\), got -0.5"),
        ("train compas --eta much", "'much' is not a valid float"),
        ("train compas --clients 0", "at least one client, got 0"),
        ("train compas --clients 99999", "no row for each"),
        ("train compas --clients 9 --rows 900", "needs 6480 rows of Non-C.*, compas has 4069"),
        ("train compas --rows 900", "say --clients or --client, too"),
        ("train compas --clients 5 --client age_cat", "leave out --clients"),
        ("train compas --client age_cat --protocol pool", "use protocol 'own'"),
        ("train compas --client age_cat --partition circle", "Unknown partition 'circle'"),
        ("train compas --drop age", "has its own columns"),
        ("compare compas --jobs 0", "jobs must be at least 1"),
        ("compare compas --cluster here", "--cluster takes HOST:PORT, .*, or local; got 'here'"),
        ("flower simulate compas --local-rounds 0", "--local-rounds must be at least 1, got 0"),
        ("flower demo --method transport --rounds 0", "rounds must be at least 1"),
        ("flower demo --sites 0", "at least one client, got 0"),
        ("flower demo --sites 2 --secure-sum", "secure-sum needs at least 3 sites"),
        ("flower demo --method fairfed --secure-sum", "FairFed needs each site's own numbers"),
        ("flower init new --port 99999", "--port must be between 1 and 65535"),
        ("flower init new --port 8000", "--port 8000 is the SuperLink's own"),
        ("flower init new --days 0", "--days must be between 1 and 36500"),
        ("flower init new --host fl_1;x", "--host must be a name such as"),
        ("flower join new nothere.json --site a", "There is no file nothere.json"),
        ("flower join new nothere.json --site a/b", "A site's name has up to 64 letters"),
        ("flower join new nothere.json --site a --port 0", "--port must be between 1 and 65535"),
        ("flower admit nowhere a.csr", "There is no file nowhere/consortium.json"),
        ("flower revoke nowhere a", "There is no file nowhere/consortium.json"),
        ("flower update nowhere a.json", "There is no file nowhere/consortium.json"),
        ("flower rotate nowhere", "nowhere is not the folder of a site"),
        ("flower renew nowhere --ca-key ca.key", "There is no file nowhere/consortium.json"),
        ("flower status nowhere", "There is no file nowhere/consortium.json"),
        ("flower start-run nowhere", "There is no file nowhere/consortium.json"),
        ("compare compas --clients 9 --rows 900", "compas has 4069"),
        ("train [/x].csv --label a --sensitive b", r"There is no file \[/x\].csv"),
        ("train compas --partition circle", "Unknown partition 'circle': .* fixed"),
        ("train compas --partition column", "needs --client COLUMN"),
        ("train compas --client shoes", "no column 'shoes' to make clients of"),
        ("train compas --protocol exam", "Unknown protocol 'exam': choose one of pool, own"),
        ("train compas --penalty luck", "Unknown penalty 'luck': choose one of kde, mi"),
        ("train compas --rounds 0", "rounds must be at least 1, got 0"),
        ("train compas --seed -1", "--seed must be at least 0, got -1"),
        ("train compas --method fedavg --set gamma=1", "'gamma' means nothing to fedavg"),
        ("train compas --method fedavg --target-ddp 0.1", "'target-ddp' means nothing to fedavg"),
        ("train compas --method fedavg --eta 0.1", "'eta' means nothing to fedavg.*fedavg-kde"),
        ("train compas --method transport --eta 0.1", "'eta' means nothing to transport"),
        ("train compas --method fedavg --penalty kde", "'penalty' means nothing to fedavg"),
        ("train compas --method pfedfiar", "Unknown method 'pfedfiar': did you mean 'pfedfair'"),
        ("train compas --set gama=1", "Unknown setting 'gama' of pfedfair: did you mean 'gamma'"),
        ("train compas --set gamma", "--set takes key=value"),
        ("train compas --set rounds=1.5", "rounds must be a whole number, got '1.5'"),
        ("train compas --eta 0.5 --set eta=0.5", "eta is given twice"),
        ("train compas --partition together --clients 3", "has one client"),
        ("compare compas --methods fedavg --etas 0,0.9", "--etas means nothing"),
        ("compare compas --methods fedavg --penalty kde", "'penalty' means nothing"),
        ("tune compas --methods transport", "transport has nothing to tune"),
        ("tune compas --what luck", "Unknown search 'luck'"),
        ("train compas --method transport --target-ddp 2", r"target_ddp must be in \[0, 1\]"),
        ("train compas --method pfedfair --confidence 0.9", "confidence needs target-ddp"),
        ("train compas --method logofair --blind", "S must be an input"),
        ("compare compas --methods logofair --blind", "S must be an input"),
        ("train compas --method transport --rounds 0", "rounds must be at least 1"),
        ("train compas --criterion luck", "Unknown criterion 'luck': choose one of dp, eo, eopp"),
        ("train compas --method fa --criterion eo", "FA supports demographic parity .dp. only"),
        ("train compas --label sex", "has its own label"),
        (
            "train compas --sensitive shoes --partition dirichlet",
            "no column 'shoes' of compas for the sens",
        ),
        ("train compas --sensitive age_cat", "'compas' has no plan of shares"),
        ("personalise nowhere --input nothere.csv", "There is no file nothere.csv"),
        ("compare compas --validation 1", r"validation must be in \[0, 1\)"),
        ("train compas --frobnicate", "No such option"),
        ("train nothere.csv --label a --sensitive b", "There is no file nothere.csv"),
        ("compare compas --etas 0,x", "--etas must be numbers"),
        ("compare compas --etas 0,1", r"eta must be in \[0, 1\), got 1"),
        ("compare compas --seeds 0", "--seeds must be at least 1"),
        ("compare compas --methods fedavg,", "Unknown method ''"),
        ("reproduce table9", "Unknown study 'table9'.*table1"),
        ("reproduce table1 --datasets mars", "Unknown data set 'mars'"),
        ("report nowhere", "nowhere has no results.parquet"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(pfedfair, tmp_path, command, message):
    takes = not command.startswith(("report", "flower")) or "flower demo" in command
    out = ("--out", "new") if takes or "flower simulate" in command else ()
    code, out, err = pfedfair(*command.split(), *out)
    assert code == 2
    assert re.search(message, err)
    assert len(err.strip().splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_own_table_needs_a_client_column(pfedfair, csv):
    code, _, err = pfedfair("train", csv, "--label", "hired", "--sensitive", "sex", "--clients", 5)
    assert code == 2
    assert "name the column" in err


def test_a_folder_that_cannot_be_made(pfedfair, tmp_path):
    (tmp_path / "afile").write_text("")
    code, _, err = pfedfair("train", "compas", "--method", "constant", "--out", "afile/sub")
    assert code == 2
    assert "afile" in err
    assert len(err.strip().splitlines()) == 1


def test_one_kind_of_client_only(pfedfair, csv):
    """Sites with the same majority group: no underrepresented client, and still a report."""
    frame = pd.read_csv(csv)
    frame[frame["site"] == "site 0"].assign(site="x").to_csv(csv, index=False)
    code, out, err = pfedfair(
        "compare", csv, "--label", "hired", "--sensitive", "sex", "--client", "site",
        "--methods", "fedavg", "--seeds", 2, "--rounds", 2, "--jobs", 1, "--out", "one",
    )  # fmt: skip
    assert code == 0, err
    assert out.strip().startswith("fedavg: ")


def test_help_teaches(pfedfair):
    for command in ("train", "compare", "reproduce"):
        code, out, _ = pfedfair(command, "--help")
        assert code == 0
        assert f"Example: pfedfair {command}" in out


def test_ctrl_c_leaves_a_resumable_directory(pfedfair, tmp_path):
    typed = [
        "compare", "compas", "--methods", "fedavg,pfedfair", "--etas", "0.5", "--rounds", "50",
        "--seeds", "3", "--out", str(tmp_path / "out"), "--jobs",
    ]  # fmt: skip
    # A test run in the background of a shell has its SIGINT ignored, and so would the command.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from pfedfair.cli import main; main()"
    )
    command = [sys.executable, "-c", program, *typed, "2"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    runs = tmp_path / "out" / "runs"
    deadline = time.monotonic() + 120
    while len(list(runs.glob("[!.]*.parquet"))) < 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to the whole group
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert "Traceback" not in err
    assert not (tmp_path / "out" / "results.parquet").exists()
    kept = len(list(runs.glob("[!.]*")))  # a worker may leave a hidden file that it was writing
    code, _, err = pfedfair(*typed, 1)
    assert code == 0, err
    assert 1 <= kept < len(list(runs.iterdir())) == 12
    assert not list(runs.glob(".*"))


@pytest.mark.parametrize(
    ("command", "works", "kept"),
    [
        (("compare", "compas", "--jobs", 1, "--out", "out"), (grid, "_run"), True),
        (("reproduce", "table1", "--datasets", "compas", "--out", "o"), (grid, "_run"), True),
        (("tune", "compas", "--out", "out"), (grid, "_run"), True),
        (("train", "compas"), (one_run, "run_training"), False),
        (("theory", "compas"), (one_run, "run_training"), False),
        (("personalise", "run", "--input", "new.csv"), (one_run, "read_table"), False),
    ],
)
def test_only_commands_that_keep_runs_say_so_when_interrupted(
    pfedfair, monkeypatch, command, works, kept
):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(*works, interrupt)
    monkeypatch.setattr(os, "_exit", sys.exit)
    code, _, err = pfedfair(*command)
    assert code == 130
    assert "Interrupted." in err
    assert ("Finished runs are kept" in err) == kept


def test_where_runs_were_done_is_no_part_of_the_command_that_is_kept(monkeypatch):
    typed = "compare compas --cluster 10.0.0.1:6379 --seeds 2 --out a --live --cluster=local"
    monkeypatch.setattr(sys, "argv", ["pfedfair", *typed.split(), "--out=b"])
    assert options.command_line() == "pfedfair compare compas --seeds 2"


def test_compare_gives_settings_to_those_who_can_use_them(pfedfair, tmp_path):
    code, _, err = pfedfair(
        "compare", "compas", "--methods", "transport,pfedfair", "--set", "confidence=0.9", "--set",
        "rounds=8", "--etas", "0.9", "--seeds", 1, "--jobs", 1, "--out", "c",
    )  # fmt: skip
    assert code == 0, err
    results = pd.read_parquet(tmp_path / "c" / "results.parquet")
    rounds = {json.loads(config)["rounds"] for config in results["config"].unique()}
    assert rounds == {8}


def test_newton_does_not_train_another_model_than_was_asked_for(pfedfair):
    code, _, err = pfedfair("train", "compas", "--method", "newton", "--model", "mlp")
    assert code == 2
    assert "mlp 64-64 is not linear in its parameters: take --model linear or additive." in err


def test_what_was_typed_comes_before_the_model_that_a_method_likes(pfedfair):
    command = ("train", "compas", "--method", "transport", "--rounds", 8)
    for typed, model in (((), "Newton"), (("--encoding", "standard"), "alpha")):
        code, out, err = pfedfair(*command, *typed)
        assert code == 0, err
        assert model in out.split("Settings")[1].split("\n")[0]
