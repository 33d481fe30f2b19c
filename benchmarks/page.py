"""The page of 2,410 sites in Chromium: how long it takes to open, and the longest stall.

    python benchmarks/page.py [SITES]

Times are the browser's own: navigation timing, and its "longtask" entries, which it writes for
every piece of work on the main thread of 50 ms or more. Nothing under 100 ms is felt as a stall.
Needs the packages of the `dev` extra, and Chromium (``apt-get install chromium``).
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "report" / "page"))

import documents
from playwright.sync_api import Page, sync_playwright

from pfedfair.report import page as report

WATCH = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((e) => e.duration)))
  .observe({ type: 'longtask', buffered: true });
"""
OPENED = "(() => { const [n] = performance.getEntriesByType('navigation'); return n.loadEventEnd })()"


def type_names(page: Page) -> None:
    for text in ("county 1", "Iowa", "xyz", ""):
        page.fill("#find", "")
        page.type("#find", text, delay=30) if text else page.fill("#find", text)


def scroll(page: Page) -> None:
    page.hover(".rows")
    for _ in range(40):
        page.mouse.wheel(0, 1500)
        page.wait_for_timeout(16)


def verdicts(page: Page) -> None:
    for chip in page.locator(".chip").all():
        chip.click()
        chip.click()


def sort(page: Page) -> None:
    for button in page.locator(".sites thead button").all():
        button.click()
        button.click()


def slide(page: Page) -> None:
    page.focus("#slide")
    for key in ["ArrowRight"] * 10 + ["ArrowLeft"] * 15:
        page.keyboard.press(key)


def pick(page: Page) -> None:
    for k in range(5):
        page.locator(".sites tbody .pick").nth(k).click()


ACTIONS = {
    "typing in the filter": type_names, "filtering by verdict": verdicts,
    "scrolling": scroll, "sorting": sort, "moving the slider": slide, "picking sites": pick,
}  # fmt: skip


def main(sites: int) -> None:
    """Print a line for each thing that a reader does."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        file = Path(folder) / "page.html"
        file.write_text(report.render(documents.many(sites)), "utf-8")
        chromium = shutil.which("chromium")
        browser = play.chromium.launch(
            executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        context.add_init_script(WATCH)
        page = context.new_page()
        page.goto(file.as_uri(), wait_until="load")
        page.wait_for_timeout(500)
        opened = page.evaluate(OPENED)
        print(f"{sites:,} sites, {file.stat().st_size / 1e6:.1f} MB, Chromium {browser.version}")
        print(f"{'opens in':24}{opened:7.0f} ms")
        for name, act in ACTIONS.items():
            page.evaluate("window.tasks.length = 0")
            act(page)
            page.wait_for_timeout(200)
            tasks = page.evaluate("window.tasks")
            longest = f"{max(tasks):7.0f} ms" if tasks else "  <50 ms"
            print(f"{name:24}{longest} longest, {len(tasks)} of 50 ms or more")
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2410)
