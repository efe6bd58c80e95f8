"""The oversight report in a real browser: what is on the first screen, narrow and wide, light and
dark, without scripts, for everybody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from noracle.cli import run
from noracle.oversight.page import write_oversight
from tests.unit.oversight.reports import REPORTS, crowded

pytestmark = pytest.mark.browser
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PAGES = ("whole", "contradictory", "without_systems", "forty-five systems", "demo")


@pytest.fixture(scope="module")
def uris(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Hand-made reports, and the one of ``noracle demo`` with its default settings."""
    folder = tmp_path_factory.mktemp("pages")
    made = {**REPORTS, "forty-five systems": lambda: crowded(45)}
    found = {
        name: write_oversight(folder / f"{name}.html", make(), command="noracle report x").as_uri()
        for name, make in made.items()
    }
    assert run(["-q", "demo", "--out", str(folder / "demo")]) == 0
    return {**found, "demo": Path(folder / "demo" / "report.html").as_uri()}


@contextlib.contextmanager
def opened(
    browser: Any, uri: str, *, width: int, scheme: str = "light", **options: Any
) -> Iterator[Any]:
    """The page; console messages and requests are kept."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **options
    )
    page = context.new_page()
    page.told, page.asked = [], []
    page.on("console", lambda message: page.told.append(message.text))
    page.on("pageerror", lambda error: page.told.append(str(error)))
    page.on("dialog", lambda dialog: (page.told.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: page.asked.append(request.url))
    try:
        page.goto(uri)
        yield page
    finally:
        context.close()


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (320, "dark"),
        (1440, "light"),
        pytest.param(320, "light", marks=pytest.mark.slow),
        pytest.param(1440, "dark", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "name",
    [pytest.param(p, marks=pytest.mark.slow) if p == "forty-five systems" else p for p in PAGES],
)
def test_page_is_for_everybody(
    browser: Any, uris: dict[str, str], name: str, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, uris[name], width=width, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")
        assert page.told == []
        assert page.asked == [uris[name]]
        page.evaluate("document.querySelectorAll('details').forEach((d, i) => { d.open = i < 3 })")
        violations = (
            Axe()
            .run(page, options={"runOnly": WCAG, "resultTypes": ["violations"]})
            .response["violations"]
        )
        assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in violations] == []


def test_the_first_screen_of_the_demo_says_what_matters(browser: Any, uris: dict[str, str]) -> None:
    """At 1440 × 900, without scrolling: each system with value, interval, promise, what it rests on
    and the next step.
    """
    with opened(browser, uris["demo"], width=1440, java_script_enabled=False) as page:
        assert page.locator("h1").bounding_box()["y"] < 120
        rows = page.locator("#glance tbody tr")
        assert rows.count() == 3
        for place, system in enumerate(("agent-1", "agent-2", "agent-3")):
            row = rows.nth(place)
            cells = row.locator("td").all_inner_texts()
            assert system in row.locator("th").inner_text()
            value, (low, high) = float(cells[0]), map(float, cells[1].split(" to "))
            assert 0 < low < value < high < 1
            assert "however few the labels" in cells[2]
            assert cells[3].strip()
            assert cells[4].strip()
            box = row.bounding_box()
            assert box["y"] + box["height"] <= 900
        for text in ("Taken together, all statements hold with at least 9", "Next:"):
            box = page.get_by_text(text).first.bounding_box()
            assert box["y"] + box["height"] <= 900


@pytest.mark.parametrize("name", ["whole", "demo"])
def test_on_a_narrow_screen_the_systems_come_first_as_cards(
    browser: Any, uris: dict[str, str], name: str
) -> None:
    with opened(browser, uris[name], width=320, java_script_enabled=False) as page:
        first = page.locator("#glance tbody tr").first
        labels = [first.locator("td").nth(i).get_attribute("data-label") for i in range(5)]
        assert labels == [
            "accuracy",
            "interval",
            "what is promised",
            "what it rests on",
            "next step",
        ]
        boxes = [first.locator("th, td").nth(i).bounding_box() for i in range(6)]
        assert all(b["x"] >= 0 and b["x"] + b["width"] <= 320 for b in boxes)
        assert [b["y"] for b in boxes] == sorted(b["y"] for b in boxes)
        assert boxes[1]["y"] < 900
        assert boxes[0]["y"] < page.locator("nav").bounding_box()["y"]


def test_a_contradiction_is_the_first_thing_on_the_page(browser: Any, uris: dict[str, str]) -> None:
    with opened(browser, uris["contradictory"], width=1440, java_script_enabled=False) as page:
        alert = page.locator("#glance .alert").first
        assert "Contradiction" in alert.inner_text()
        assert alert.bounding_box()["y"] < page.locator("#glance table").bounding_box()["y"]
        assert "<script>" in page.locator("h1").inner_text()


def test_figures_lead_to_their_commands_without_scripts(browser: Any, uris: dict[str, str]) -> None:
    with opened(browser, uris["demo"], width=1440, java_script_enabled=False) as page:
        figures = page.locator("figure")
        assert figures.count() >= 5
        assert figures.count() == page.locator("figure a[href^='#command-']").count()
        page.locator("figure a[href='#command-accuracy']").first.click()
        assert page.url.endswith("#command-accuracy")
        assert "noracle estimate" in page.locator("#command-accuracy").inner_text()


def test_many_systems_scroll_in_place(browser: Any, uris: dict[str, str]) -> None:
    for width in (320, 1440):
        with opened(browser, uris["crowded"], width=width) as page:
            box = page.locator("#glance .scroll").bounding_box()
            assert box["height"] <= 560
            assert page.locator("#glance tbody tr").count() == 200


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1440, "light")])
def test_the_view_of_a_search_is_for_everybody(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    from tests.unit.search.test_transcript import searched

    with ThreadPoolExecutor(1) as other:  # this thread has the event loop of the browser
        other.submit(searched, tmp_path).result()
    assert run(["-q", "view", str(tmp_path)]) == 0
    with opened(browser, (tmp_path / "view.html").as_uri(), width=width, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for at in range(2):  # folded, then all unfolded
            found = Axe().run(page, options={"runOnly": {"type": "tag", "values": WCAG}})
            assert found.violations_count == 0, f"{at}: {found.generate_report()}"
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_by_text("question 3?").first.is_visible()
        assert page.told == []
        assert len(page.asked) == 1
