"""What docs/audit.md says happens: its blocks are run, and its numbers are printed."""

import re
import shlex
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def test_the_page_can_be_followed_line_by_line(pfedfair, tmp_path, capsys):
    printed = ""
    commands = 0
    for kind, block in BLOCKS:
        if kind == "python":
            exec(compile(block, "audit.md", "exec"), {})
            printed = capsys.readouterr().out
        elif kind == "text":
            for line in block.splitlines():
                assert line.rstrip() in printed
        else:
            name, *arguments = shlex.split(block)
            assert name == "pfedfair"
            code, printed, err = pfedfair(*arguments)
            assert code == 0, err
            commands += 1
    assert commands == 2
    assert (tmp_path / "runs" / "audit" / "audit.md").exists()
    assert "African-American" in printed  # of the last block
