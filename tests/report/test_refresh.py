"""A page that is written while the work goes on: not too often, complete, and gone if it fails."""

import json
import re
import sys
import webbrowser
from pathlib import Path

import pytest

import pfedfair as pff
from pfedfair.cli import pages
from pfedfair.report import refresh
from pfedfair.report.document import open_page
from pfedfair.studies.page import Page


def document(path):
    """The document that stands in a page."""
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@pytest.fixture
def browser(monkeypatch):
    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    return opened


def test_it_is_written_every_two_seconds_at_most_and_opened_once(tmp_path, browser):
    now, made = [0.0], []

    def make():
        made.append(now[0])
        return Page(kind="run", title="t", sentence="Training is going on.")

    page = refresh.Live(tmp_path / "report.html", make, clock=lambda: now[0])
    for tenth in range(100):
        now[0] = tenth / 10
        page.update(tenth, 100, f"{tenth} of 100 rounds")
    assert made == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert len(browser) == 1
    assert browser[0].endswith("report.html")
    live = document(tmp_path / "report.html")["live"]
    assert live == {"done": 80, "of": 100, "words": "80 of 100 rounds, about 2 s left",
                    "refresh": refresh.REFRESH, "finished": False}  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_takes_long_is_made_less_often(tmp_path, browser):
    now, made = [0.0], []

    def make():
        made.append(now[0])
        now[0] += 1.0  # a second for each
        return Page(kind="run", title="t", sentence="s")

    page = refresh.Live(tmp_path / "report.html", make, clock=lambda: now[0])
    while now[0] < 60:
        page.update(1, 2, "")
        now[0] += 0.5
    assert len(made) == 3  # a twentieth of the time


def test_no_browser_no_harm(monkeypatch, tmp_path):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not open_page(tmp_path / "report.html")


def test_a_run_is_watched_and_a_failed_one_leaves_nothing(federation, tmp_path, browser):
    class StopError(Exception):
        pass

    class Stopper(pff.callbacks.Callback):
        def on_round_end(self, training, metrics):
            live.append(document(tmp_path / "report.html"))
            if training.round == 2:
                raise StopError

    live = []
    watch = pages.Watch(tmp_path, "fedavg on table")
    with pytest.raises(StopError):
        pff.train(federation, "fedavg", rounds=3, callbacks=[watch, Stopper()])
    assert live[0]["title"] == "fedavg on table"
    assert live[0]["live"]["finished"] is False
    assert not list(tmp_path.iterdir())


def test_a_report_in_python_and_in_a_notebook(federation, tmp_path):
    run = pff.train(federation, "fedavg-kde", eta=0.5, rounds=2)
    found = run.report(tmp_path / "page.html")
    assert document(tmp_path / "page.html") == json.loads(json.dumps(found.document))
    shown = found._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!')
    assert found.text.startswith(f"# {found.document['title']}")
    assert found.document["sentence"] in found.text
    assert found.document["sentence"] in repr(found)
    assert found.save(tmp_path).name == "report.html"
    assert found.document["sentence"].split(" is ")[0] in run._repr_html_()


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block, "report.md", "exec"), names)
    assert document(tmp_path / "compas.html")["sentence"] == names["report"].document["sentence"]
