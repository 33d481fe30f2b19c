"""The documentation builds without a warning, and what it says of the code is so."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

from pfedfair import cli
from pfedfair.cli.options import Settings
from pfedfair.data import DATASETS, FACES
from pfedfair.methods import METHODS, Method
from pfedfair.methods.defaults import make, takes
from pfedfair.penalties import PENALTIES
from pfedfair.studies import STUDIES

DOCS = Path(__file__).parents[1] / "docs"
FOLDERS = ("photos", "made")  # of images, in the examples
# A page on methods says which: "Methods: `fedavg`, and `fedavg-kde` with ...".
FAMILIES = {
    path.stem: re.findall(r"`([\w-]+)`", line)
    for path in sorted((DOCS / "methods").glob("*.md"))
    for line in re.findall(r"^Methods?: .*", path.read_text(), re.M)
}


class Page(HTMLParser):
    """A page: its text, what is in code font, and its blocks of code."""

    def __init__(self, path):
        super().__init__()
        self.inside, self.text, self.code, self.blocks = [], "", [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        if tag in ("code", "pre"):
            self.inside.append(tag)
            if tag == "code":
                self.code.append("")
            if tag == "pre":
                self.blocks.append("")

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data):
        self.text += data
        if "pre" in self.inside:
            self.blocks[-1] += data
        elif "code" in self.inside:
            self.code[-1] += data


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site with warnings as errors; return its pages by name."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(out)]
    built = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert built.returncode == 0, built.stderr
    names = [path.relative_to(out).with_suffix("") for path in out.rglob("*.html")]
    return {name.as_posix(): Page(out / f"{name}.html") for name in names}


def commands(site):
    """All command lines in blocks of code, with the page that they are on."""
    for name, page in site.items():
        for block in page.blocks:
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True) if "pfedfair " in line else []
                if words[:1] == ["pfedfair"]:
                    yield name, words[1:]


def table(page, first):
    """Cells of a table in a page's source, by the names in code font in each row's first cell."""
    text = (DOCS / page).read_text()
    head = text.index(f"| {first} |")
    rows = text[head:].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]
    return {name: row[1:] for row in cells for name in re.findall("`(.+?)`", row[0])}


def test_methods_have_their_page_and_penalties_their_section(site):
    for name, methods in FAMILIES.items():
        page = site[f"methods/{name}"]
        for method in methods:
            assert method in page.code
            assert method in site["methods/index"].code
            assert any(f"--method {method}" in block for block in page.blocks), method
    documented = [method for family in FAMILIES.values() for method in family]
    assert sorted(documented) == sorted(METHODS)
    assert set(PENALTIES) <= set(site["penalties"].code)


def test_every_page_is_there(site):
    assert {"index", "start", "reading-numbers", "results", "theory", "contributing"} <= set(site)
    assert len([name for name in site if name.startswith("decisions/0")]) == len(
        list((DOCS / "decisions").glob("0*.md"))
    )


def test_every_command_parses(site):
    """Options, their values, methods and their settings: all but the training.

    CONTRIBUTING has a method that is yet to be written, and a test of its own.
    """
    found = list(commands(site))
    assert len(found) >= len(METHODS)
    for page, (name, *arguments) in found:
        where = f"on {page}: pfedfair {name} {' '.join(arguments)}"
        try:
            command = cli.loaded(name)
            if isinstance(command, click.Group):
                command, arguments = command.commands[arguments[0]], arguments[1:]
            given = command.make_context(name, list(arguments)).params
        except (KeyError, click.ClickException) as error:
            pytest.fail(f"{where}: {error}")
        if name == "reproduce":
            assert given["what"] in [*STUDIES, "all"], where
        elif "data" in given:
            data = given["data"]
            yours = data.endswith((".csv", ".parquet")) or data in FOLDERS
            assert data in DATASETS or yours or (data in FACES and given["folder"]), where
        if page == "contributing":
            continue
        if "set" in given:
            check_settings(name, given)


def check_settings(name, given):
    """Make the methods of a command with what is typed; they refuse what they do not take."""
    typed = {key: given[key] for key in ("penalty", "criterion", "rounds", "set")}
    one = {key: given[key] for key in ("eta", "target_ddp", "confidence") if key in given}
    asked = Settings(**typed).given(**one)
    if name != "compare":
        usual = "pfedfair" if given["data"] in (*DATASETS, *FACES) else "transport"
        make(given["method"] or usual, asked, given["data"])
        return
    for method in given["methods"].split(","):
        own = {key: value for key, value in asked.items() if takes(method, key)}
        for level in METHODS[method].levels([float(e) for e in (given["etas"] or "0").split(",")]):
            make(method, own | level, given["data"])


def test_python_blocks_compile(site):
    blocks = [b for page in site.values() for b in page.blocks if b.startswith("import pfedfair")]
    assert len(blocks) >= 4
    for block in blocks:
        compile(block, "docs", "exec")


def text_of(default):
    number = isinstance(default, int | float) and not isinstance(default, bool)
    return f"{default:g}" if number else str(default)


def test_shared_settings_and_their_defaults():
    listed = {name: cells[-1] for name, cells in table("methods/index.md", "setting").items()}
    assert listed == {field.name: text_of(field.default) for field in fields(Method)}


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_of_a_method_and_their_defaults(family):
    shared = {field.name: field.default for field in fields(Method)}
    own = {
        field.name: text_of(field.default)
        for field in fields(METHODS[FAMILIES[family][0]].kind)
        if field.name not in shared or shared[field.name] != field.default
    }
    listed = table(f"methods/{family}.md", "setting") if own else {}
    assert {name: cells[-1] for name, cells in listed.items()} == own


def test_costs_are_those_of_the_code():
    listed = table("methods/index.md", "method")
    assert sorted(listed) == sorted(METHODS)
    for method, cells in listed.items():
        cost = make(method).cost()
        assert cells[2] == f"{cost.per_round:g} / {cost.at_end:g}", method
