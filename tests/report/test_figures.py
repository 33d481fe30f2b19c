import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest

from pfedfair.algorithms import ALGORITHMS
from pfedfair.report import figures
from pfedfair.studies import Picture


def picture(half=0.01):
    """Two panels of two methods, one of which has a mark of the paper's, and a dashed line."""
    rows = [
        {"panel": panel, "method": method, "label": method, "mark": method == "best",
         "x": x, "x_half": half, "y": 20 + 50 * x, "y_half": 1.0}
        for panel in ("one", "two")
        for method in ("fedavg", "pfedfair", "best")
        for x in (0.1, 0.2)
    ]  # fmt: skip
    return Picture(
        name="p",
        kind="curves",
        frames={
            "curves": pd.DataFrame(rows),
            "marks": pd.DataFrame({"panel": ["one"], "method": "fedavg", "x": 0.4, "y": 30.0}),
            "notes": pd.DataFrame({"panel": ["two"], "text": "note"}),
        },
        words={"x": "DDP", "y": "error"},
    )


def test_figures_are_reproducible(tmp_path):
    first = figures.save(figures.draw(picture()), tmp_path / "one")
    second = figures.save(figures.draw(picture()), tmp_path / "two")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
    ElementTree.parse(first[1])
    assert first[0].stat().st_size > 10_000


def test_curves_have_their_panels_marks_and_notes():
    one, two = figures.draw(picture(half=5.0)).axes
    assert [axes.get_title() for axes in (one, two)] == ["one", "two"]
    assert one.get_xlim()[1] == pytest.approx(1.15 * 0.4 + 0.01)  # the paper's mark
    assert two.get_xlim()[1] == pytest.approx(1.15 * 0.2 + 0.01)  # not the interval
    assert [text.get_text() for text in two.texts] == ["note"]
    labels = [text.get_text() for text in one.figure.legends[0].get_texts()]
    assert labels == ["fedavg", "pfedfair", "best", "hollow: the paper's figure"]


def test_every_method_has_a_look_of_its_own():
    looks = {figures.style(name) for name in ALGORITHMS}
    assert len(looks) == len(ALGORITHMS)
    assert figures.style("my method") == figures.style("my method")


def test_matplotlib_is_loaded_when_something_is_drawn():
    code = "import sys, pfedfair, pfedfair.cli; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
