import pandas as pd
import pytest

from pfedfair.report import history

ROWS = [
    (0, "global", 0.7, 0.5, 0.0),
    (4, "global", 0.5, 0.8, 0.3),
    (9, "clients'", float("nan"), 0.7, 0.1),
]


@pytest.mark.parametrize("gap", ["ddp", "eopp"])
def test_a_panel_for_each_measure_with_its_numbers(gap):
    frame = pd.DataFrame(ROWS, columns=["round", "model", "loss", "accuracy", gap])
    figure = history.draw(frame)
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss", "accuracy", gap.upper()]
    line, mark = figure.axes[2].get_lines()
    assert line.get_xydata().tolist() == [[0, 0], [4, 0.3]]
    assert mark.get_xydata().tolist() == [[9, 0.1]]


def test_a_method_without_rounds(tmp_path):
    frame = pd.DataFrame(ROWS[2:], columns=["round", "model", "loss", "accuracy", "ddp"])
    paths = history.write(frame, tmp_path)
    assert [path.name for path in paths] == ["history.csv", "history.png"]
    pd.testing.assert_frame_equal(pd.read_csv(paths[0]), frame)
