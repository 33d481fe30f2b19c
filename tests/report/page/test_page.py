"""The page without a browser."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import documents
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfedfair.report import page

EMPTY_TAGS = {"meta", "link", "input", "progress", "br", "img"}


class Reader(HTMLParser):
    """Elements, their texts, and whether they are nested as they should be."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.found, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        self.texts.append("")
        if tag not in EMPTY_TAGS:
            self.open.append((tag, len(self.found) - 1))

    def handle_endtag(self, tag):
        if tag in EMPTY_TAGS:
            return
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, place in self.open:
            self.texts[place] += data

    def all(self, tag, **wanted):
        return [
            (attributes, text)
            for (name, attributes), text in zip(self.found, self.texts, strict=True)
            if name == tag and all(attributes.get(k) == v for k, v in wanted.items())
        ]


@pytest.mark.parametrize("kind", documents.ALL)
def test_page_is_sound_and_has_the_document_once(kind):
    document = documents.ALL[kind]()
    text = page.render(document)
    read = Reader(text)
    assert text.startswith("<!doctype html>\n<html lang=")
    ((_, data),) = read.all("script", id="data")
    assert json.loads(data) == document
    assert not re.search("[<>&\u2028\u2029]", data)
    assert [text for _, text in read.all("title")] == [document["title"]]
    assert [text for _, text in read.all("h1")] == [document["title"]]
    assert read.all("p", id="sentence")[0][1].replace("\u00a0", " ") == document["sentence"]
    ids = [attributes["id"] for _, attributes in read.found if "id" in attributes]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("kind", documents.ALL)
def test_nothing_is_loaded_and_the_policy_forbids_it(kind):
    text = page.render(documents.ALL[kind]())
    read = Reader(text)
    ((policy, _),) = read.all("meta", **{"http-equiv": "Content-Security-Policy"})
    directives = dict(rule.split(" ", 1) for rule in policy["content"].split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["base-uri"] == directives["form-action"] == "'none'"
    ours = [text for attributes, text in read.all("script") if "type" not in attributes]
    assert [directives["script-src"]] == [f"'{sha256(one)}'" for one in ours]
    assert [directives["style-src"]] == [f"'{sha256(one)}'" for _, one in read.all("style")]
    for tag, attributes in read.found:
        assert "src" not in attributes
        assert "style" not in attributes, tag  # the policy would drop it
        assert not any(name.startswith("on") for name in attributes), tag
        assert attributes.get("href", "#").startswith(("#", "data:,"))
    assert "url(" not in read.all("style")[0][1]
    assert "@import" not in text


def sha256(text):
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_page_is_small_without_data():
    text = page.render({"kind": "run", "title": "t", "sentence": "s"})
    assert len(text.encode()) < 120_000


texts = st.text(max_size=30) | st.sampled_from(
    ["</script>", "<!--", "<script>", "&lt;", "]]>", "\u2028", "{{ doc }}", "{% x %}", '"', "\\"]
)


@given(texts, st.lists(texts, min_size=1, max_size=4), texts)
def test_any_text_comes_back_as_it_was(title, names, warning):
    document = documents.document("run", title, warning, [])
    document["warnings"] = [{"kind": "note", "text": warning}]
    document["glossary"] = [[name, title] for name in names]
    document["about"] = [{"heading": title, "rows": [[name, warning] for name in names]}]
    read = Reader(page.render(document))
    assert json.loads(read.all("script", id="data")[0][1]) == document
    assert len(read.all("script")) == 3
    assert len(read.all("dt")) == 2 * len(names)
    if "\x00" not in title and "\r" not in title:  # HTML has no such characters
        assert read.all("h1")[0][1] == title


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        page.render({"kind": "run", "title": "t", "sentence": "s", "target": float("nan")})


def test_parts_that_are_null_are_left_out():
    read = Reader(page.render({"kind": "run", "title": "t", "sentence": "s"}))
    assert read.all("section") == []
    read = Reader(page.render(documents.audit()))
    ids = [attributes["id"] for attributes, _ in read.all("section")]
    assert ids == ["sites", "site", "audit", "about", "glossary"]


def test_all_sites_stand_in_the_page_itself_up_to_a_number():
    few, many = documents.run(), documents.many()
    rows = Reader(page.render(few)).all("th", scope="row")
    assert set(few["parts"][0]["sites"]["name"]) <= {text for _, text in rows}
    text = page.render(many)
    found = {text for _, text in Reader(text).all("th", scope="row")}
    assert sum(name in found for name in many["parts"][0]["sites"]["name"]) == page.STATIC
    assert "And 2,110 more sites" in text


def test_live_pages_are_read_again_and_others_are_not():
    noscript = Reader(page.render(documents.live())).all("noscript")
    assert len(noscript) == 1
    document = documents.live()
    document["live"]["finished"] = True
    text = page.render(document)
    assert "refresh" not in {a.get("http-equiv") for a, _ in Reader(text).all("meta")}
    assert "Finished." in text
