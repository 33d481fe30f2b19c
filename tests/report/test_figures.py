import xml.etree.ElementTree as ElementTree

import pytest
from test_tables import results

from pfedfair.report import figures


@pytest.mark.parametrize("seeds", [1, 4])
def test_trade_off_is_drawn_and_reproducible(tmp_path, seeds):
    first = figures.save(figures.trade_off(results(seeds=seeds)), tmp_path / "one")
    second = figures.save(figures.trade_off(results(seeds=seeds)), tmp_path / "two")
    for a, b in zip(first, second, strict=True):
        assert a.read_bytes() == b.read_bytes()
    ElementTree.parse(first[1])
    assert first[0].stat().st_size > 10_000


def test_a_panel_for_each_kind_of_client():
    figure = figures.trade_off(results())
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [f"d, 2 clients, fixed shares: {role}" for role in figures.ROLES]


def test_a_role_without_clients_has_no_panel(tmp_path):
    some = results()
    figure = figures.trade_off(some[some["role"] == "overrepresented"])
    assert [axes.get_title() for axes in figure.axes] == [
        "d, 1 clients, fixed shares: overrepresented"
    ]
    figures.save(figure, tmp_path / "one")
