"""CONTRIBUTING.md's worked example, followed to the letter in a copy of the project."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pfedfair.methods import METHODS
from pfedfair.methods.defaults import settings

ROOT = Path(__file__).parents[1]
NEEDED = ["src/pfedfair", "tests", "docs/method_figures.py", "pyproject.toml"]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
# A step is a fenced block whose first line names a file: a new one, or lines to add as a diff.
STEPS: list[tuple[str, str, str]] = re.findall(
    r"^```(python|diff)\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL
)
COMMANDS: list[str] = re.findall(r"^pfedfair .*", TEXT, re.MULTILINE)
NEW = ("fedavgm", "fedavgm-kde")
# Those over all methods: they name the registry.
TESTS = [
    str(path.relative_to(ROOT))
    for folder in ("methods", "engines/site")
    for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))
    if re.search(r"\bMETHODS|REGISTRY", path.read_text())
]

PYTEST = """
import sys, pytest
code = pytest.main(sys.argv[1:])
print(sys.modules["pfedfair"].__file__)
sys.exit(code)
"""
PYTHON = """
import json, sys
import pfedfair as pff
from pfedfair.methods import METHODS, from_dict
from pfedfair.methods import phases
from pfedfair.methods.defaults import settings
from pfedfair.methods.fedavgm import FedAvgM
from pfedfair.engines.site.settings import make_algorithm
from pfedfair.report import figures
from pfedfair.studies import rows
from pfedfair.studies import STUDIES, tune
make = pff.make
assert settings("compas", "fedavgm") == {}
assert pff.methods.FedAvgM is FedAvgM and "FedAvgM" in dir(pff.methods)
assert make("fedavgm", data="compas") == make("fedavgm", data="mine") == FedAvgM()
assert make("fedavgm-kde", {"eta": 0.5}, "adult") == FedAvgM(eta=0.5)
assert make("fedavgm", {"beta": "0.5"}) == FedAvgM(beta=0.5)  # as --set has it
assert make_algorithm({"method": "fedavgm", "options": '{"beta": 0.5}'}) == FedAvgM(beta=0.5)
for made in (FedAvgM(beta=0.5), make("fedavgm-kde", {"target_ddp": 0.1, "beta": 0.5})):
    assert from_dict(json.loads(json.dumps(made.to_dict()))) == made
    assert phases.sends_models_only(made.phases) and not phases.keeps_clients(made.phases)
    assert all(phase.states.models == ("w", "v") for phase in made.phases)
assert make("transport", {"base": "fedavgm", "base.beta": 0.5}).base == FedAvgM(beta=0.5)
assert len(tune.trials("compas", "fedavgm-kde")) == tune.TRIALS
assert {"fedavgm", "fedavgm-kde"} <= {s.method for s in STUDIES["scores"].specs(["compas"], 1)}
assert METHODS["fedavgm"].levels([0.1]) == ({},)
assert METHODS["fedavgm-kde"].levels([0.1, 0.9]) == ({"eta": 0.1}, {"eta": 0.9})
assert figures.style("fedavgm") != figures.style("fedavgm-kde")
assert rows.place("fedavgm-kde") == rows.place("fedavg-kde") + 2
print(pff.__file__)
"""
PFEDFAIR = """
import shlex, sys
from pathlib import Path
from pfedfair.cli import main
from pfedfair.studies import tune
tune.TRIALS = 3
for command in sys.argv[1:]:
    sys.argv = shlex.split(command)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
sys.path.insert(0, "docs")
from method_figures import write
write(Path("runs/fedavgm/points.csv"), Path("figures"), {"fedavgm": ("fedavgm", "fedavgm-kde")})
print(sys.modules["pfedfair"].__file__)
"""


def add_lines(path: Path, diff: str) -> None:
    """Put every line with a + below the one before it; those without must be there just once."""
    lines, at = path.read_text().splitlines(), -1
    for line in diff.splitlines():
        if line.startswith("@@"):
            at = -1
        elif line.startswith("+"):
            assert at >= 0, f"nothing says where this line goes: {line}"
            at += 1
            lines.insert(at, line[1:])
        else:
            assert lines.count(line[1:]) == 1, f"{path.name} must have this line once: {line}"
            at = lines.index(line[1:])
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what is needed and take the steps."""
    copy = tmp_path_factory.mktemp("project")
    for name in NEEDED:
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for kind, name, block in STEPS:
        if kind == "diff":
            add_lines(copy / name, block)
        else:
            assert not (copy / name).exists(), f"the example needs a method that is new: {name}"
            (copy / name).write_text(block)
    return copy


def run(project: Path, script: str, *arguments: str) -> str:
    """Run a script that ends by naming the pfedfair it had: the copy, not the installed one."""
    env = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    env |= {"PYTHONPATH": str(project / "src"), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *output, imported = done.stdout.splitlines()
    assert imported == str(project / "src" / "pfedfair" / "__init__.py")
    return "\n".join(output)


def test_the_layout_names_every_part_of_the_source() -> None:
    """And nothing else."""
    cells = re.findall(r"^\|[^|]*\| (`[^|]*) \|", TEXT, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`([\w./]+)`", cell)}
    package = ROOT / "src" / "pfedfair"
    assert all((package / name).exists() for name in named)
    there = {path.name for path in package.iterdir() if not path.name.startswith(("__", "py."))}
    assert there <= {name.split("/")[0] for name in named}


def test_it_is_one_file_one_line_and_one_test() -> None:
    assert [(kind, name) for kind, name, _ in STEPS] == [
        ("python", "src/pfedfair/methods/fedavgm.py"),
        ("diff", "src/pfedfair/methods/__init__.py"),
        ("python", "tests/methods/test_fedavgm.py"),
    ]
    added = [line[1:] for line in STEPS[1][2].splitlines() if line.startswith("+")]
    assert added == ['    ("fedavgm", "FedAvgM", "fedavgm", "fedavgm-kde"),']


def test_the_tests_of_all_methods_pass(project: Path) -> None:
    """All of them, in the copy: none needs an edit for a method that is new."""
    options = ("-rA", "--color=no", "-p", "no:cacheprovider")
    output = run(project, PYTEST, STEPS[2][1], *TESTS, *options)
    passed = re.findall(r"^PASSED (\S+)", output, re.MULTILINE)
    own = {name.split("[")[0] for name in passed if name.startswith(STEPS[2][1])}
    assert len(own) == STEPS[2][2].count("\ndef test_") >= 3
    generic = [name for name in passed if not name.startswith(STEPS[2][1])]
    for new in NEW:
        assert sum(f"[{new}]" in name for name in generic) >= 5
    assert re.search(rf"^{len(passed)} passed", output, re.MULTILINE)


def test_what_is_due_of_a_method_is_there_of_every_method() -> None:
    """Numbers, and settings; `test_docs.py` asks for pages."""
    saved = pd.read_csv(ROOT / "tests" / "numbers.csv")
    assert set(saved["method"]) == set(METHODS)
    for name, method in METHODS.items():
        if method.kind.tuning.tuned and method.kind.place != "centralised":
            assert settings("compas", name), name


def test_the_program_knows_it(project: Path) -> None:
    run(project, PYTHON)


def test_the_commands_work(project: Path) -> None:
    few = {"compare": "--rounds 3 --seeds 2 --jobs 1", "tune": "--seeds 1 --jobs 1"}
    assert [command.split()[1] for command in COMMANDS] == [
        "train", "train", "report", "compare", "report", "tune",
    ]  # fmt: skip
    short = [f"{command} {few.get(command.split()[1], '')}" for command in COMMANDS]
    output = run(project, PFEDFAIR, *short)  # the last one of an option's values counts
    assert "fedavgm on compas, seed 0" in output
    assert output.count("fedavgm-kde on compas, seed 0") == 2  # trained, and reported
    one = pd.read_parquet(project / "runs" / "one" / "results.parquet")
    assert {json.loads(config)["beta"] for config in one["config"]} == {0.5}
    results = pd.read_parquet(project / "runs" / "fedavgm" / "results.parquet")
    etas = results.groupby("method")["eta"].unique().map(sorted).to_dict()
    assert etas == {
        "constant": [0.0],
        "frontier": [0.0],
        "fedavg-kde": [0.0, 0.9],
        "fedavgm-kde": [0.0, 0.9],
    }
    assert set(results.loc[results["method"] == "fedavgm-kde", "level"]) == {"0", "0.9"}
    report = (project / "runs" / "fedavgm" / "report.md").read_text()
    assert "fedavgm-kde" in report
    picture = (project / "runs" / "fedavgm" / "tradeoff.svg").read_text()
    assert "fedavgm-kde" in picture
    assert "[compas.fedavgm]" in (project / "runs" / "tune" / "tuned.toml").read_text()
    assert "no results" not in (project / "figures" / "fedavgm.svg").read_text()


@pytest.mark.parametrize("how", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_ruff_finds_nothing(project: Path, how: list[str]) -> None:
    command = [sys.executable, "-m", "ruff", *how, "--no-cache", *(name for _, name, _ in STEPS)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
