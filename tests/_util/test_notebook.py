"""Short texts for rows, and HTML in which names are no markup."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import pfedfair as pff
from made_people import people

EVIL = "<script>alert('x')</script>"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.text = set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def evil():
    """All names that a table can have are markup."""
    frame = people().rename(columns={"a": f"{EVIL}a", "site": "site", "sex": f"{EVIL}s"})
    frame["site"] = frame["site"].replace("site 0", EVIL)
    frame[f"{EVIL}s"] = frame[f"{EVIL}s"].replace("f", f"{EVIL}f")
    frame[f"{EVIL}y"] = np.where(frame.pop("hired") == 1, f"{EVIL}1", "0")
    data = pff.from_frame(frame, f"{EVIL}y", f"{EVIL}s", name=EVIL)
    federation = data.federate("site")
    return data, federation, pff.train(federation, "fedavg", rounds=2)


def test_names_are_no_markup(evil):
    for shown in evil:
        page = Tags(shown._repr_html_())
        assert "script" not in page.tags
        assert "table" in page.tags
        assert EVIL in page.text


def test_short_and_to_the_point(federation):
    assert repr(federation.data) == (
        "<Dataset table: 260 rows; 4 columns (a, b, c, colour); Label hired: 1 counts as positive; "
        "S sex: f, m>"
    )
    assert repr(federation) == (
        "<Federation of table: 3 clients, 156 training rows; Inputs: 4 columns (a, b, c, colour); "
        "Label hired: 1 counts as positive; S sex (f, m) is an input, too>"
    )
    assert repr(federation.partition) == "<Partition of table: 3 clients>"
    run = pff.train(federation, "pfedfair", eta=0.5, rounds=1)
    assert repr(run) == "<Run of PFedFair (0.5) on table: 3 clients, seed 0, linear>"


def test_what_is_no_input_is_not_named():
    data = pff.from_frame(people(), "hired", "sex")
    blind = data.federate("site", sensitive_as_input=False)
    assert blind.words() == [
        "Inputs: 4 columns (a, b, c, colour)",
        "Label hired: 1 counts as positive",
        "S sex (f, m) is not an input",
    ]
    assert sorted([*blind.encoder.names[0], *blind.encoder.names[1]]) == ["a", "b", "c", "colour"]


def test_many_columns_clients_and_labels():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(900, 11)), columns=[f"c{k}" for k in range(11)])
    frame = frame.assign(y=np.arange(900) % 3, s=np.arange(900) // 3 % 2, site=np.arange(900) % 30)
    federation = pff.from_frame(frame, "y", "s").federate("site")
    assert federation.words()[0].endswith("c6, c7 and 3 more)")
    assert federation.words()[1] == "Label y: 0, 1, 2"
    page = Tags(federation._repr_html_()).text
    assert "and 10 more rows" in page


def test_a_run_without_rows_to_measure_it_on(table):
    run = pff.train(table.federate(pff.partition.together(test=0.0)), "fedavg", rounds=2)
    assert not run.measurable
    assert "No rows are held out" in run._repr_html_()


def test_embeddings_and_pixels_say_what_they_are():
    n = 40
    frame = pd.DataFrame({"y": np.arange(n) % 2, "s": np.arange(n) // 2 % 2})
    about = {"name": "made", "frame": frame, "y": frame["y"].to_numpy(), "s": frame["s"].to_numpy()}
    about |= {"numeric": (), "categorical": {}, "label_names": ("0", "1")}
    about |= {"group_names": ("0", "1"), "label_column": "y", "sensitive_column": "s"}
    wide = pff.Dataset(**about, array=np.zeros((n, 5), np.float32), inputs="dinov2")
    assert "5 numbers (dinov2)" in repr(wide)
    assert "3 x 8 x 8 numbers" in repr(pff.Dataset(**about, array=np.zeros((n, 3, 8, 8))))
