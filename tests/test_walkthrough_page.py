"""The walk-through, block by block, as it stands on its page."""

import re
import shlex
from pathlib import Path

import pandas as pd

PAGE = Path(__file__).parents[1] / "docs" / "walkthrough.md"


def test_the_walk_through_works_from_top_to_bottom(pfedfair, tmp_path):
    blocks = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(), re.S)
    assert [kind for kind, _ in blocks].count("sh") == 5
    printed = ""
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, str(PAGE), "exec"), {})
            continue
        for line in block.strip().splitlines():
            code, out, err = pfedfair(*shlex.split(line)[1:])
            assert code == 0, err
            printed += out
    assert ">50K counts as positive" in printed
    assert "S sex (Female, Male) is an input, too" in printed
    decided, asked = pd.read_csv("decisions.csv"), pd.read_csv("tomorrow.csv")
    assert decided["person"].tolist() == asked["person"].tolist()  # nobody is lost
    assert decided["problem"].isna().all()
    assert set(decided["decision"]) == {"<=50K", ">50K"}
    assert len(pd.read_csv("farming.csv")) == len(pd.read_csv("new-branch.csv"))
    made = {path.name for path in (tmp_path / "runs" / "first").iterdir()}
    assert {"Sales.onnx", "Sales.scorecard.csv", "history.png", "shapes.csv"} <= made
    assert "DDP" in (tmp_path / "runs" / "audit" / "audit.md").read_text()
