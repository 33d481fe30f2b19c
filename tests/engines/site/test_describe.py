"""What a site tells of its table."""

import pandas as pd
import pytest

import pfedfair as pff
from made_people import people
from pfedfair.engines.site.describe import describe_site

RUN = {"seed": 0, "method": "fedavg"}


@pytest.fixture
def node(tmp_path):
    people((200,)).to_csv(tmp_path / "p.csv", index=False)
    return {"data": str(tmp_path / "p.csv"), "label": "hired", "sensitive": "sex", "drop": "site",
            "test-part": 0.0, "state-dir": str(tmp_path / "state")}  # fmt: skip


def test_a_table_that_changed_by_few_rows_is_not_described_anew(node, tmp_path):
    """The difference of two descriptions would tell of the person who came in between."""
    frame = pd.read_csv(node["data"])
    first = describe_site(node, RUN)
    assert describe_site(node, RUN).to_json() == first.to_json()  # as often as it is asked for
    frame.sample(frac=1, random_state=0).to_csv(node["data"], index=False)
    assert describe_site(node, RUN).to_json() == first.to_json()  # in whatever order
    frame.iloc[1:].to_csv(node["data"], index=False)
    with pytest.raises(pff.InputError, match="changed by 1 rows since it was described last"):
        describe_site(node, RUN)
    frame.iloc[15:].to_csv(node["data"], index=False)
    assert describe_site(node, RUN).rows == 185
    frame.iloc[14:].to_csv(node["data"], index=False)
    with pytest.raises(pff.InputError, match="set repeat-description = true"):
        describe_site(node, RUN)
    (tmp_path / "policy.toml").write_text("repeat-description = true")
    assert describe_site(node | {"policy": str(tmp_path / "policy.toml")}, RUN).rows == 186


def test_nothing_is_told_for_a_run_that_the_policy_refuses(node, tmp_path):
    with pytest.raises(pff.InputError, match="exact-counts = false"):
        describe_site(node, RUN | {"method": "fairfed"})
    assert not (tmp_path / "state").exists()


def test_people_who_are_left_out_are_said_in_the_sites_log(node, caplog):
    frame = pd.read_csv(node["data"])
    frame.loc[range(4), "sex"] = "x"
    frame.to_csv(node["data"], index=False)
    found = describe_site(node, RUN)
    assert (found.rows, found.groups) == (196, ("f", "m"))
    assert "4 rows are not trained on" in caplog.text
