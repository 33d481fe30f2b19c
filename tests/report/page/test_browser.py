"""The page in a real browser, from a file, without a network.

One browser for the whole file: Playwright's loop must not outlive it, as other tests have loops of
their own.
"""

import re
import shutil

import documents
import pytest

from pfedfair.report import page as report

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    play = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("the page is not tried in a browser: apt-get install chromium")
    with play.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Each document's page, written when it is first asked for."""
    folder = tmp_path_factory.mktemp("pages")

    def path(name, document=None):
        file = folder / f"{name}.html"
        if document is not None or not file.exists():
            file.write_text(report.render(document or documents.ALL[name]()), "utf-8")
        return file

    return path


@pytest.fixture
def visit(browser, files):
    """Open a page with the network off; afterwards: no error, no request but for itself."""
    contexts, troubles, asked = [], [], set()

    def go(name, document=None, width=1280, **options):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, offline=True, reduced_motion="reduce",
            **options,
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(5000)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda message: troubles.append(message.text))
        page.on("request", lambda request: asked.add(request.url.split("#")[0]))
        file = files(name, document)
        page.goto(file.as_uri())
        asked.discard(file.as_uri())
        return page

    yield go
    for context in contexts:
        context.close()
    assert troubles == []
    assert {url for url in asked if not url.startswith("file:")} == set()


def names(page):
    return page.locator(".sites tbody .pick bdi").all_text_contents()


def column(page, kind):
    return page.locator(f".sites tbody td.{kind}").all_text_contents()


def settle(page):
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


@pytest.mark.parametrize("name", documents.ALL)
def test_page_opens_from_a_file_and_fits_every_width(visit, name):
    page = visit(name)
    sentence = documents.ALL[name]()["sentence"].replace("\u2028", " ")
    assert page.inner_text("#sentence").replace("\u00a0", " ") == sentence
    for width in (360, 820, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_are_shown_as_they_are_and_do_nothing(visit):
    page = visit("evil")
    assert sorted(names(page)) == sorted(documents.EVIL)
    page.locator(".sites tbody .pick").nth(0).click()
    assert page.locator(".site-name").text_content() in documents.EVIL
    assert page.evaluate("window.evil") is None
    assert page.locator("main img, main script, main b:text-is('bold')").count() == 0
    assert page.locator("#warnings li span").all_text_contents() == documents.EVIL
    assert page.title() == documents.EVIL[0]


def test_sites_are_sorted(visit):
    page = visit("study")
    part = documents.study()["parts"][0]
    own = part["sites"] | part["arms"][part["chosen"]]
    heads = {"gap": "gap", "accuracy": "accuracy", "held-out rows": "n_test", "site": "name"}
    for head, key in heads.items():
        press = page.get_by_role("columnheader", name=head).get_by_role("button")
        rising = [own["name"][i] for i in sorted(range(12), key=lambda i: own[key][i])]
        if key != "gap":  # by which they are sorted from the start
            press.click()
        settle(page)
        assert names(page) == (rising if key == "name" else rising[::-1])
        press.click()
        settle(page)
        assert names(page) == (rising[::-1] if key == "name" else rising)
        assert page.locator("[aria-sort=ascending], [aria-sort=descending]").count() == 1


def test_sites_are_sorted_by_verdict_worst_first(visit):
    page = visit("many")
    page.get_by_role("columnheader", name="verdict").get_by_role("button").click()
    settle(page)
    own = documents.many()["parts"][0]["arms"][0]["verdict"]
    first = [text.strip() for text in column(page, "verdict")]
    wanted = ["exceeds"] * own.count("exceeds") + ["not clear"] * len(first)
    assert first == wanted[: len(first)]


def test_sites_are_filtered_by_text_and_verdict(visit):
    document = documents.many()
    page = visit("many")
    own = document["parts"][0]["arms"][0]["verdict"]
    all_names = document["parts"][0]["sites"]["name"]
    page.fill("#find", "IOWA county 00")
    settle(page)
    found = [name for name in all_names if "iowa county 00" in name.lower()]
    assert sorted(names(page)) == sorted(found)
    assert page.inner_text(".under .status") == f"{len(found)} of 2,410 sites shown"
    page.fill("#find", "")
    page.locator(".chip", has_text="exceeds").click()
    settle(page)
    assert set(column(page, "verdict")) == {"exceeds"}
    assert page.inner_text(".under .status") == f"{own.count('exceeds')} of 2,410 sites shown"
    page.locator(".chip", has_text="exceeds").click()
    assert page.inner_text(".under .status") == "2,410 sites"
    page.fill("#find", "no such site")
    settle(page)
    assert names(page) == []


def test_of_thousands_of_sites_only_those_that_are_seen_exist(visit):
    page = visit("many")
    own = documents.many()["parts"][0]
    order = sorted(range(2410), key=lambda i: -own["arms"][0]["gap"][i])
    assert len(names(page)) < 60
    assert page.locator("*").count() < 3000
    assert page.locator(".sites").get_attribute("aria-rowcount") == "2411"
    page.evaluate("document.querySelector('.rows').scrollTop = 1e7")
    settle(page)
    assert names(page)[-1] == own["sites"]["name"][order[-1]]
    assert page.locator(".sites tbody tr").last.get_attribute("aria-rowindex") == "2411"
    page.evaluate("document.querySelector('.rows').scrollTop = 38 * 1000")
    settle(page)
    assert own["sites"]["name"][order[1000]] in names(page)
    assert len(names(page)) < 60


def test_the_list_is_walked_with_the_keyboard(visit):
    page = visit("many")
    own = documents.many()["parts"][0]
    order = sorted(range(2410), key=lambda i: -own["arms"][0]["gap"][i])
    page.focus(".rows")
    focused = "document.activeElement.textContent"
    for key, place in (("ArrowDown", 0), ("ArrowDown", 1), ("End", 2409), ("ArrowUp", 2408),
                       ("Home", 0), ("ArrowUp", 0)):  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate(focused) == own["sites"]["name"][order[place]]
    page.keyboard.press("Enter")
    assert page.inner_text(".site-name") == own["sites"]["name"][order[0]]
    assert page.locator(".sites tr.on").count() == 1


def test_a_site_is_marked_everywhere(visit):
    page = visit("study")
    assert page.locator(".site-layer .mark").count() == 0
    page.locator(".sites tbody tr", has_text="Idaho").click()
    settle(page)
    assert page.inner_text(".site-name") == "Idaho"
    assert page.locator("#which").evaluate("e => e.selectedOptions[0].text") == "Idaho"
    assert page.locator(".sites tr.on .pick").get_attribute("aria-pressed") == "true"
    assert page.locator(".site-layer .mark").count() >= 4
    part = documents.study()["parts"][0]
    own = part["arms"][part["chosen"]]
    i = part["sites"]["name"].index("Idaho")
    assert f"{own['gap'][i]:.3f}" in page.inner_text(".figures")
    assert page.locator("#panel .charted tbody tr").count() == len(part["arms"])
    page.get_by_role("button", name="next →").click()
    assert page.inner_text(".site-name") != "Idaho"
    page.select_option("#which", label="Georgia")
    settle(page)
    assert page.locator(".sites tr.on bdi").text_content() == "Georgia"


def test_one_site_is_told_whole(visit):
    page = visit("run")
    page.locator(".sites tbody tr", has_text="client 3").click()
    detail = documents.run()["details"][3]
    panel = page.inner_text("#panel")
    for rate in detail["rates"]:
        assert f"{100 * rate['rate']:.1f}\u00a0%" in panel
        assert f"{rate['rows']:,}" in panel
    for line in detail["rule"]:
        assert line in panel
    assert "1.1 points" in panel
    assert page.locator(".histogram").count() == 2
    assert page.locator(".histogram .cut").count() == 2
    assert page.locator(".histogram .band").count() == 1  # the other group has no band
    assert page.locator("#learnt figure").count() == 4


def test_the_slider_changes_list_site_and_sentence(visit):
    document = documents.run()
    page = visit("run")
    first = page.inner_text("#sentence")
    page.focus("#slide")
    page.keyboard.press("End")
    settle(page)
    last, slider = len(document["slider"]["targets"]) - 1, document["slider"]
    gaps = sorted(slider["gap"][last], reverse=True)
    assert "target 0.2" in page.locator(".sites .axis text").all_text_contents()
    assert column(page, "gap") == [f"{gap:.3f}" for gap in gaps]
    within = slider["within"][last]
    assert f"{within} of 5 sites" in page.inner_text("#sentence")
    assert "0.2" in page.inner_text("#sentence")
    assert f"{within} of 5" in page.inner_text("#dock")
    assert f"{gaps[0]:.3f}" in page.inner_text(".figures")
    assert f"from {slider['thresholds'][last][0][0]['high']:.3f}" in page.inner_text("#panel")
    assert f"within {within}" in re.sub(r"\s+", " ", page.inner_text(".chips"))
    page.get_by_role("button", name="back to 0.05").click()
    settle(page)
    own = sorted(document["parts"][0]["arms"][0]["gap"], reverse=True)
    assert column(page, "gap") == [f"{gap:.3f}" for gap in own]
    assert page.inner_text("#sentence") == first


def test_methods_are_switched_off_and_marked(visit):
    page = visit("study")
    groups = page.locator(".tradeoff .curve")
    assert groups.count() == 22
    page.locator("#method-1").uncheck()
    assert groups.count() == 21
    assert "fedavg" not in page.locator(".tradeoff .label").all_text_contents()
    page.locator("#method-1").check()
    page.locator(".methods .name", has_text="ditto").click()
    page.mouse.move(2, 2)
    assert page.locator(".tradeoff .curve.dim").count() == 19
    assert page.locator("#arm").evaluate("e => e.selectedOptions[0].text") == "ditto, eta 0.9"
    own = documents.study()["parts"][0]["arms"][4 * documents.METHODS.index("ditto") + 3]
    settle(page)
    assert column(page, "gap") == [f"{gap:.3f}" for gap in sorted(own["gap"], reverse=True)]
    page.get_by_role("button", name="hide all methods").click()
    assert groups.count() == 2  # the constant and the frontier
    page.get_by_role("button", name="show all").click()
    assert groups.count() == 22


def test_points_tell_their_numbers(visit):
    page = visit("live")
    point = documents.live()["parts"][0]["tradeoff"]["curves"][1]["points"][2]
    page.focus(".stage")
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    text = page.locator("#chart [role=status]").text_content()
    assert text.startswith("fedavg, eta 0.6. DDP")
    assert f"{point['gap']:.3f}" in text
    assert f"{100 * point['error']:.1f}\u00a0%" in text
    assert page.locator(".tip").inner_text().startswith("fedavg, eta 0.6")
    page.keyboard.press("Enter")
    assert page.locator("#arm").evaluate("e => e.selectedOptions[0].text") == "fedavg, eta 0.6"
    marks = page.locator(".tradeoff .curve .mark")
    marks.nth(0).hover(force=True)
    assert page.locator(".tip").inner_text().startswith("local, eta 0")


def test_the_trade_off_is_scaled_to_the_methods(visit):
    """The constant, and a level that decides like it, stand at the edge."""
    document = documents.live()
    curves = {c["method"]: c for c in document["parts"][0]["tradeoff"]["curves"]}
    curves["constant"]["points"][0]["error"] = 0.6
    curves["fedavg"]["points"][0] |= {"error": 0.7, "gap": 0.9, "apart": True}
    page = visit("scaled", document)
    assert "constant ↑ 60.0\u00a0%" in page.locator(".tradeoff .label").all_text_contents()
    errors = page.locator(".tradeoff text.end").all_text_contents()
    assert max(map(float, errors)) < 40
    frame = page.locator(".tradeoff").bounding_box()
    for box in (mark.bounding_box() for mark in page.locator(".tradeoff .mark").all()):
        assert frame["y"] <= box["y"]
        assert box["x"] + box["width"] <= frame["x"] + frame["width"]


def test_another_part_is_another_page(visit):
    page = visit("study")
    page.select_option("#part", "1")
    settle(page)
    part = documents.study()["parts"][1]
    assert sorted(names(page)) == sorted(part["sites"]["name"])
    assert page.locator("#tables [data-part='1']").is_visible()
    assert not page.locator("#tables [data-part='0']").is_visible()
    assert page.inner_text(".under .status") == "5 sites"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["run", "comparison", "audit", "server"])
def test_axe_finds_no_serious_fault(visit, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe")
    page = visit(name, documents.study(3, 4) if name == "comparison" else None, color_scheme=scheme)
    if name != "server":
        page.locator(".sites tbody tr").first.click()
        page.mouse.move(2, 2)
    report = axe.Axe().run(page).response
    assert len(report["passes"]) > 15
    grave = [one for one in report["violations"] if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"][:120] for node in one["nodes"]]) for one in grave] == []


def test_on_paper_all_rows_are_there_and_the_page_is_light(visit):
    page = visit("hundreds", documents.many(500), color_scheme="dark")
    page.emulate_media(media="print")
    settle(page)
    own = documents.many(500)["parts"][0]["sites"]["name"]
    assert sorted(names(page)) == sorted(own)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator(".sites thead").evaluate("e => getComputedStyle(e).display") == (
        "table-header-group"
    )
    assert not page.locator("#dock").is_visible()
    page.emulate_media(media="screen")
    settle(page)
    assert len(names(page)) < 60


def test_page_can_be_read_without_javascript(visit):
    document = documents.run()
    page = visit("run", java_script_enabled=False)
    text = page.inner_text("main")
    shown = document["sentence"].replace(" %", "\u00a0%")
    for part in (shown, document["warnings"][0]["text"], "client 3", "sha256:9f2c"):
        assert part in text
    assert all(word in text for word, _ in document["glossary"])
    assert page.locator(".static tbody tr").count() == 5


def test_an_audit_shows_the_groups_of_the_marked_site(visit):
    page = visit("audit")
    assert page.inner_text("#groups .site-name") == "All rows"
    page.locator(".sites tbody tr", has_text="Clinic South").click()
    assert page.inner_text("#groups .site-name") == "Clinic South"
    rows = [row for row in documents.audit()["audit"]["rows"] if row["client"] == "Clinic South"]
    text = page.inner_text("#groups")
    assert all(f"{100 * row['value']:.1f}\u00a0%" in text for row in rows)
    assert page.locator("#groups tbody tr").count() == len(rows)


def test_what_is_not_known_is_left_out(visit):
    page = visit("sparse")
    assert column(page, "gap") == ["0.300", "0.100", "–"]
    assert page.locator(".sites .axis text").all_text_contents() == ["0", "0.2"]
    assert page.locator(".sites .verdict:visible, .sites .accuracy:visible").count() == 0
    assert (
        page.locator(".chip, .target:visible, #dock, #shapes, #left, #warnings, #about").count()
        == 0
    )
    page.select_option("#arm", label="fedavg")
    page.locator(".sites tbody tr", has_text="b").click()
    assert page.inner_text(".site-name") == "b"
    assert page.inner_text("#panel .figures").split() == ["gap", "(DEO)", "–"]


def test_a_live_page_comes_back_as_it_was(visit):
    document = documents.live()
    document["live"]["refresh"] = 0.4
    page = visit("again", document)
    page.fill("#find", "al")
    with page.expect_navigation():
        pass
    assert page.input_value("#find") == "al"
    assert names(page) == [n for n in names(page) if "al" in n.lower()]
    page.get_by_role("button", name="pause").click()
    page.evaluate("window.held = true")
    page.wait_for_timeout(700)
    assert page.evaluate("window.held")


def test_light_and_dark_can_be_switched(visit):
    page = visit("run", color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(colour)
    page.get_by_role("button", name="Dark page").click()
    assert page.evaluate(colour) != light
    page.get_by_role("button", name="Light page").click()
    assert page.evaluate(colour) == light


def test_the_command_is_copied(visit):
    page = visit("run", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    page.focus("#find")
    page.keyboard.press("Control+V")
    assert page.input_value("#find").startswith("pfedfair train adult --method transport")
