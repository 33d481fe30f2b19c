"""Every command and every block of Python on the page about decisions, as it stands there."""

import re
import shlex
from pathlib import Path

import pandas as pd

import pfedfair as pff

PAGE = Path(__file__).parents[1] / "docs" / "predict.md"


def test_the_page_works_from_top_to_bottom(pfedfair, tmp_path, capsys):
    people = pff.load("compas").frame.head(200)
    people.insert(0, "person", range(200))
    people.drop(columns="two_year_recid").to_csv("people.csv", index=False)
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(), re.S)
    assert [kind for kind, _ in blocks] == ["sh", "sh", "python", "python", "sh"]
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(PAGE), "exec"), {})
            continue
        for line in block.splitlines():
            if line.startswith("pfedfair "):
                code, _, err = pfedfair(*shlex.split(line)[1:])
                assert code == 0, err
    text = PAGE.read_text()
    for column in pd.read_csv("decisions.csv"):
        assert f"| `{column}` |" in text
    for path in (tmp_path / "runs" / "first").iterdir():
        known = path.name in text or path.name in ("experiment.json", "timings.parquet")
        assert known or path.suffix in (".onnx", ".json"), path.name
