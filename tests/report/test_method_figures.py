import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from pfedfair.report import figures

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from method_figures import OTHERS, highlight, write

PLANS = [("adult", 5), ("adult", 20), ("compas", 5)]


def points():
    """Made-up curves of two levels that end in the constant classifier."""
    names = ["dataset", "clients", "method", "level", "worst_ddp", "worst_accuracy"]
    rows = []
    for data, clients in PLANS:
        rows.append((data, clients, "constant", "constant", 0.0, 0.7))
        for k, method in enumerate(("frontier", "fedavg-kde", "pfedfair", "logofair")):
            rows.append((data, clients, method, "eta = 0", 0.2 + k / 100, 0.84 - k / 100))
            rows.append((data, clients, method, "eta = 0.9", 0.02 + k / 100, 0.8 - k / 100))
            rows.append((data, clients, method, "constant", 0.0, 0.7))
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(worst_ddp_half=0.01, worst_accuracy_half=float("nan"))


def test_a_panel_for_each_federation_and_every_method_in_it():
    figure = highlight(points(), ["pfedfair"])
    assert [axes.get_title() for axes in figure.axes] == [f"{d}, {n} clients" for d, n in PLANS]
    for axes in figure.axes:
        curves = [line for line in axes.lines if len(line.get_xdata()) == 3]
        assert len([line for line in curves if to_hex(line.get_color()) == OTHERS]) == 2
        assert len([line for line in curves if line.get_linestyle() == "--"]) == 1
        (own,) = (line for line in curves if line.get_marker() == figures.style("pfedfair")[1])
        assert to_hex(own.get_color()) == figures.style("pfedfair")[0].lower()
        assert list(own.get_xdata()) == pytest.approx([0.22, 0.04, 0.0])
        assert list(own.get_ydata()) == pytest.approx([18.0, 22.0, 30.0])
        assert {text.get_text() for text in axes.texts} == {"eta = 0", "eta = 0.9"}
        assert any(line.get_marker() == figures.style("constant")[1] for line in axes.lines)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["pfedfair", "other methods", "frontier", "constant"]


@pytest.mark.parametrize(
    ("methods", "labels"),
    [
        (("constant",), ["other methods", "frontier", "constant"]),
        (("fedavg", "fedavg-kde"), ["fedavg-kde", "other methods", "frontier", "constant"]),
    ],
)
def test_legend_names_what_is_drawn(methods, labels):
    figure = highlight(points(), methods)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == labels


def test_methods_alone():
    some = points()
    some = some[some["method"].isin(["fedavg-kde", "pfedfair"])]
    figure = highlight(some.assign(level=float("nan")), ["fedavg-kde", "pfedfair"])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["fedavg-kde", "pfedfair"]
    assert not figure.axes[0].texts


def test_write_draws_when_something_changed(tmp_path):
    """Without points a placeholder; with points the curves; unchanged, nothing."""
    pages = {"pfedfair": ("pfedfair",), "fa": ("fa",)}
    csv, out = tmp_path / "points.csv", tmp_path / "out"
    write(csv, out, pages)
    empty = (out / "pfedfair.png").read_bytes()
    assert empty.startswith(b"\x89PNG")
    points().to_csv(csv, index=False)
    write(csv, out, pages)
    assert (out / "pfedfair.png").stat().st_size > 2 * len(empty)
    assert (out / "fa.png").stat().st_size < 2 * len(empty)  # not among the points
    ElementTree.parse(out / "pfedfair.svg")
    (out / "pfedfair.png").write_bytes(b"kept")
    write(csv, out, pages)
    assert (out / "pfedfair.png").read_bytes() == b"kept"
    write(csv, out, {"pfedfair": ("pfedfair",)})
    assert (out / "pfedfair.png").read_bytes() != b"kept"
