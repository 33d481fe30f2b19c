import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pfedfair.methods import METHODS
from pfedfair.report import figures
from pfedfair.studies import Picture


def picture(half=0.01, y_half=1.0):
    """Two panels of two methods, one of which has a mark of the paper's, and a dashed line."""
    rows = [
        {"panel": panel, "method": method, "label": method, "mark": method == "best",
         "apart": False, "x": x, "x_half": half, "y": 20 + 50 * x, "y_half": y_half}
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
    assert [path.suffix for path in first] == [".png", ".svg", ".pdf"]
    ElementTree.parse(first[1])
    assert first[2].read_bytes().startswith(b"%PDF")
    assert first[0].stat().st_size > 10_000


def test_curves_have_their_panels_marks_and_notes():
    one, two = figures.draw(picture(half=5.0)).axes
    assert [axes.get_title() for axes in (one, two)] == ["one", "two"]
    assert one.get_xlim()[1] == pytest.approx(1.15 * 0.4 + 0.01)  # the paper's mark
    assert two.get_xlim()[1] == pytest.approx(1.15 * 0.2 + 0.01)  # not the interval
    assert [text.get_text() for text in two.texts] == ["note"]
    labels = [text.get_text() for text in one.figure.legends[0].get_texts()]
    assert labels == ["fedavg", "pfedfair", "best", "hollow: the paper's figure"]


def test_axes_fit_what_was_measured_and_what_is_possible():
    one, two = figures.draw(picture(half=5.0, y_half=60.0)).axes  # errors of 25 and 30 %, ± 60
    assert 20 < two.get_ylim()[0] < 25
    assert 30 < two.get_ylim()[1] < 35
    (note,) = [legend.get_title().get_text() for legend in one.figure.legends]
    assert note == figures.TOO_WIDE
    drawn = figures.draw(picture())
    assert drawn.legends[0].get_title().get_text() == ""
    near = pd.DataFrame({"x": [0.1], "apart": False, "x_half": 0.0, "y": [0.5], "y_half": 3.0})
    axes = drawn.axes[0]
    figures.limits(axes, near, near.head(0))
    assert axes.get_ylim()[0] >= 0  # no error is below nought


def test_intervals_are_drawn_if_they_say_something():
    def lengths(**halves):
        axes = figures.draw(picture(**halves)).axes[0]
        bars = [line for one in axes.containers for line in one.lines[2]]
        ends = [ends for line in bars for ends in line.get_segments() if len(ends)]
        return {round(float(abs(end - start).max()), 6) for start, end in ends}

    assert lengths(half=0.01, y_half=1.0) == {0.02, 2.0}
    assert lengths(half=0.01, y_half=40.0) == {0.02}


def test_many_methods_have_a_small_panel_each():
    few = picture()
    names = list(METHODS)[: figures.MANY + 3]
    rows = few.frames["curves"]
    best = rows[rows["mark"]]
    each = [rows[rows["method"] == "fedavg"].assign(method=name, label=name) for name in names]
    many = replace(few, frames=few.frames | {"curves": pd.concat([*each, best])})
    drawn = figures.draw(many)
    assert [axes.get_title() for axes in drawn.axes] == names * 2  # in each of two blocks
    others, best, *own = drawn.axes[0].lines
    assert (others.get_color(), best.get_linestyle()) == ("#c8c8c8", "--")
    assert np.isnan(others.get_xdata()).sum() == len(names) - 1
    assert own[0].get_color() == figures.style(names[0])[0]
    assert {"one", "two; note"} <= {text.get_text() for text in drawn.texts}


def test_legends_of_shares_stand_below_and_ticks_are_whole_clients():
    frame = pd.DataFrame({"panel": "7 clients", "x": range(1, 8), "share_s1": 0.3})
    shares = Picture(name="s", kind="shares", frames={"shares": frame}, words={"x": "c", "y": "s"})
    drawn = figures.draw(shares)
    drawn.draw_without_rendering()
    (axes,) = drawn.axes
    assert axes.get_legend() is None
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["S=1", "S=0"]
    assert all(tick == int(tick) for tick in axes.get_xticks())
    assert axes.get_ylim() == (0, 1)


def test_every_method_has_a_look_of_its_own():
    looks = {figures.style(name) for name in METHODS}
    assert len(looks) == len(METHODS)
    assert figures.style("my method") == figures.style("my method")


def test_matplotlib_is_loaded_when_something_is_drawn():
    code = "import sys, pfedfair, pfedfair.cli; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
