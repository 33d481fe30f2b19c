"""What is said before anything heavy is loaded."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "pandas", "scipy", "matplotlib", "flwr", "ray")


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--help"], 0), (["--version"], 0), (["train", "none.csv"], 2), (["trian"], 2)],
    ids=["help", "version", "no file", "no command"],
)
def test_help_and_a_file_that_is_not_there_need_no_torch(tmp_path, words, code):
    program = (
        "import sys; from pfedfair.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code or 0\n"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "print('loaded', *loaded); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["loaded"]
    if words[0] == "train":
        assert "There is no file none.csv." in done.stderr
