"""What outside text and files may not do: nest without end, never end, or leave half a file."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import pfedfair as pff
from pfedfair._util.files import atomic, exclusive, read_json, read_parquet, sha256, sweep
from pfedfair._util.limits import MAX_DEPTH, parse_json, parse_toml, read_text
from pfedfair.data.tables.reading import open_table
from pfedfair.engines.flower.sizes import check_text
from pfedfair.engines.site import checksums
from pfedfair.engines.site.policy import Policy
from pfedfair.engines.site.settings import make_algorithm
from pfedfair.experiments.grid import CARD, claim
from pfedfair.experiments.results import check_settings

DEEP = "[" * 90_000 + "]" * 90_000
SHALLOW = "[" * 5_000 + "]" * 5_000  # which the parser itself may accept


@pytest.mark.parametrize("text", [DEEP, SHALLOW, '{"a":' * 5_000 + "1" + "}" * 5_000])
def test_deep_json_is_an_error_of_values(text):
    with pytest.raises(ValueError, match=f"nested more than {MAX_DEPTH} deep"):
        parse_json(text)
    with pytest.raises(ValueError, match="nested more than"):
        check_text(text)  # descriptions, and answers in secure sums


def test_what_is_not_too_deep_is_parsed():
    text = "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH
    assert parse_json(text) == json.loads(text)
    assert parse_json('"text"') == "text"
    assert parse_toml("a = [[1], {b = 2}]") == {"a": [[1], {"b": 2}]}


def test_files_that_are_nested_too_deeply_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "run.json").write_text(DEEP)
    with pytest.raises(pff.InputError, match=r"run\.json cannot be read \(lists and objects"):
        pff.load_run(tmp_path)
    (tmp_path / "policy.toml").write_text(f"methods = {DEEP}")
    with pytest.raises(pff.InputError, match=r"policy\.toml cannot be read \(lists and objects"):
        Policy.read(tmp_path / "policy.toml")
    with pytest.raises(pff.InputError, match="options must be a JSON object") as refusal:
        make_algorithm({"method": "fedavg", "options": DEEP})
    assert len(str(refusal.value)) < 300
    checksums.write(tmp_path / "state.safetensors", {}, {})
    content = (tmp_path / "state.safetensors").read_bytes()
    deep = content.replace(b'"about":"{}"', b'"about":"' + DEEP.encode() + b'"')
    size = int.from_bytes(content[:8], "little") + len(deep) - len(content)
    (tmp_path / "state.safetensors").write_bytes(size.to_bytes(8, "little") + deep[8:])
    with pytest.raises(ValueError, match="nested more than"):
        checksums.about(tmp_path / "state.safetensors")


def test_results_with_deep_settings_are_refused(tmp_path):
    results = pd.DataFrame({"config": [DEEP]})
    with pytest.raises(pff.InputError, match="'config' is not JSON"):
        check_settings(results, tmp_path / "results.parquet")


@pytest.mark.skipif(os.name != "posix", reason="no devices with names")
@pytest.mark.parametrize("read", [
    read_json, read_parquet, sha256, read_text, open_table, Policy.read, checksums.about,
])  # fmt: skip
@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_device_or_a_pipe_is_refused_at_once(tmp_path, read, kind):
    path = tmp_path / "data.csv"
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    with pytest.raises(pff.InputError, match="is a device or a pipe, not a file"):
        read(path)


@pytest.mark.skipif(os.name != "posix", reason="processes are not looked for")
def test_what_killed_processes_left_is_swept(tmp_path):
    for place in (tmp_path, tmp_path / "model"):
        place.mkdir(exist_ok=True)
        program = (
            "import os, sys; from pathlib import Path\n"
            "from pfedfair._util.files import atomic\n"
            "with atomic(Path(sys.argv[1])) as path:\n"
            "    path.write_text('half'); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", program, str(place / "run.json")], check=False)
        assert len(list(place.glob(".run.*.json"))) == 1
    others = [
        tmp_path / name for name in (".gitignore", ".run.1.json", ".env.partial", ".a.partial.b")
    ]
    for path in others:
        path.write_text("somebody else's")
    with atomic(tmp_path / "own") as mine:  # this process is alive
        mine.write_text("half")
        with exclusive(tmp_path):
            assert mine.exists()
        os.utime(mine, (time.time() - 7200,) * 2)
        stale = mine.with_name(mine.name + ".txt")
        mine.rename(stale)  # as of another process that has got the number of a dead one
        sweep(tmp_path)
        assert not stale.exists()
        mine.write_text("whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*(path.name for path in others), "own", "model"]
    )
    assert not list(Path(tmp_path / "model").iterdir())


def test_a_process_that_was_killed_while_it_claimed_a_folder_does_not_block_it(tmp_path):
    dead = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    (tmp_path / f".experiment.{int(dead.stdout)}.partial.json").write_text("{")
    claim(tmp_path, {"version": "1"})
    assert [path.name for path in tmp_path.iterdir()] == [CARD]
