"""A figure for each column."""

import numpy as np
import pandas as pd
import pytest

from pfedfair.report import shapes


def table(labels=("yes",)):
    number = pd.DataFrame({"column": "age", "kind": "number", "value": [20.0, 30, 50, np.nan],
                           "level": "", "people": [5, 9, 4, 2]})  # fmt: skip
    level = pd.DataFrame({"column": "a/b", "kind": "level", "value": np.nan,
                          "level": [f"l{k}" for k in range(40)], "people": 3})  # fmt: skip
    both = pd.concat([number, level], ignore_index=True)
    each = [both.assign(label=label, contribution=np.linspace(-1, 1, 44)) for label in labels]
    return pd.concat(each, ignore_index=True)


@pytest.mark.parametrize("labels", [("yes",), ("no", "perhaps", "yes")])
def test_numbers_are_lines_and_levels_dots_over_their_people(labels):
    above, below = shapes.draw(table(labels), "age").axes
    assert above.lines[0].get_xydata()[:3, 0].tolist() == [20, 30, 50]
    assert [text.get_text() for text in above.texts] == ["missing"] * len(labels)
    assert sum(bar.get_height() for bar in below.patches) == 18
    assert (above.get_legend() is not None) == (len(labels) > 1)
    above, below = shapes.draw(table(labels), "a/b").axes
    assert len(above.lines[0].get_xydata()) == len(below.patches) == shapes.MOST_CATEGORIES


def test_files_are_numbered_and_have_plain_names(tmp_path):
    paths = shapes.write(table(), tmp_path)
    names = [f"{name}.{kind}" for name in ("01-age", "02-a-b") for kind in ("png", "svg", "pdf")]
    assert [path.name for path in paths] == names
    assert all(path.stat().st_size > 1000 for path in paths)
