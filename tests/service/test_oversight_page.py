"""The oversight report in a real browser: what is on the first screen, narrow and wide, light and
dark, without scripts, for everybody.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")

from noracle.cli import run
from noracle.oversight.page import write_oversight
from tests.unit.oversight import mmlu_pro
from tests.unit.oversight.reports import REPORTS, crowded

pytestmark = pytest.mark.browser
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PAGES = (
    *("whole", "contradictory", "without_systems", "forty-five systems"),
    *("demo", "twenty", "answers"),
)


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
    found["demo"] = Path(folder / "demo" / "report.html").as_uri()
    data = os.environ.get("NORACLE_DATA", "")
    if data and Path(data, mmlu_pro.FILE).is_file():
        for name, write in (("twenty", mmlu_pro.write_judged), ("answers", mmlu_pro.write_answers)):
            write(folder / name, Path(data))
            page = folder / f"{name}.html"
            assert run(["-q", "report", str(folder / name), "--out", str(page)]) == 0
            found[name] = page.as_uri()
    return found


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
        (390, "light"),
        (1440, "light"),
        pytest.param(320, "light", marks=pytest.mark.slow),
        pytest.param(390, "dark", marks=pytest.mark.slow),
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

    if name not in uris:
        pytest.skip("NORACLE_DATA does not name a folder with the larger data sets")
    with opened(browser, uris[name], width=width, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")
        assert page.told == []
        assert page.asked == [uris[name]]
        rules = {"runOnly": WCAG, "resultTypes": ["violations"]}
        for unfolded in (0, 3):
            first = f"(d, i) => {{ d.open = i < {unfolded} }}"
            page.evaluate(f"document.querySelectorAll('details').forEach({first})")
            found = Axe().run(page, options=rules).response["violations"]
            assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found] == []


PARTS = ("h1", "#glance .chart", "#glance .next", "#glance .rests")


def in_first_screen(page: Any, height: int) -> dict[str, float]:
    """Where the parts of the first screen end; all of them above the fold."""
    ends = {}
    for part in PARTS:
        box = page.locator(part).bounding_box()
        ends[part] = box["y"] + box["height"]
    assert max(ends.values()) <= height, ends
    return ends


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("name", ["demo", "twenty", "answers"])
def test_verdict_chart_assumptions_and_next_step_are_on_the_first_screen(
    browser: Any, uris: dict[str, str], name: str, width: int, height: int
) -> None:
    if name not in uris:
        pytest.skip("NORACLE_DATA does not name a folder with the larger data sets")
    with opened(browser, uris[name], width=width, java_script_enabled=False) as page:
        in_first_screen(page, height)
        rows = page.locator("#glance .bars li")
        assert rows.count() == {"demo": 3, "twenty": 20, "answers": 5}[name]
        if name != "answers":
            shown = [float(text.split()[0]) for text in rows.locator("strong").all_inner_texts()]
            assert shown == sorted(shown, reverse=True)
            assert page.locator("#glance .ties .first").count() >= 1
        assert page.locator("#glance .assumptions li").count() >= 1
        assert "Price: " in page.locator("#glance .next").inner_text()
        assert page.locator("#glance .next code").inner_text().startswith("noracle ")
        assert (
            page.locator("#glance .next code").evaluate("e => getComputedStyle(e).userSelect")
            == "all"
        )


def test_the_demo_is_short_before_sections_are_opened(browser: Any, uris: dict[str, str]) -> None:
    with opened(browser, uris["demo"], width=1440) as page:
        words, height, tables = page.evaluate(
            "[document.body.innerText.split(/\\s+/).length, document.documentElement.scrollHeight, "
            "[...document.querySelectorAll('table')].filter(t => t.checkVisibility()).length]"
        )
        assert words <= 1200
        assert height <= 4 * 900
        assert tables == 0
        summaries = page.locator("details.part > summary")
        assert summaries.count() >= 12
        assert all(text.strip() for text in summaries.locator(".answer").all_inner_texts())
        assert page.locator("script").count() == 0
    assert Path(uris["demo"].removeprefix("file://")).stat().st_size <= 400_000


def test_hidden_parts_are_reached_by_keyboard_by_link_and_on_paper(
    browser: Any, uris: dict[str, str]
) -> None:
    with opened(browser, uris["demo"], width=1440) as page:
        summary = page.locator("details.part > summary").first
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("details.part").first.get_attribute("open") is not None
        page.locator("#glance figcaption a").first.click()
        assert page.url.endswith("#command-accuracy")
        assert page.locator("#command-accuracy").is_visible()
        assert "noracle estimate" in page.locator("#command-accuracy").inner_text()
        page.locator("#glance .bars li").first.hover()
        assert "from 89." in page.locator("#glance .bars li .exact").first.inner_text()
        page.reload()
        pages = page.pdf(format="A4")
        assert 1 <= len(re.findall(rb"/Type\s*/Page[^s]", pages)) <= 2
        page.emulate_media(media="print")
        assert page.locator("#glance .assumptions p").first.is_visible()


def test_a_contradiction_is_the_first_thing_on_the_page(browser: Any, uris: dict[str, str]) -> None:
    with opened(browser, uris["contradictory"], width=1440, java_script_enabled=False) as page:
        alert = page.locator("#glance .alert").first
        assert "Contradiction" in alert.inner_text()
        assert alert.bounding_box()["y"] < page.locator("#glance .chart").bounding_box()["y"]
        assert "<script>" in page.locator(".eyebrow").inner_text()


def test_many_systems_scroll_in_place(browser: Any, uris: dict[str, str]) -> None:
    for width, height in ((390, 844), (1440, 900)):
        with opened(browser, uris["crowded"], width=width) as page:
            in_first_screen(page, height)
            assert page.locator("#glance .bars li").count() == 200


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (1440, "light")])
def test_the_view_of_a_search_with_a_thousand_exchanges_is_for_everybody(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    from noracle.search.transcript import TRANSCRIPT, Transcript
    from tests.unit.search.test_transcript import SAID, one_call, searched

    with ThreadPoolExecutor(1) as other:  # this thread has the event loop of the browser
        other.submit(searched, tmp_path).result()
    plain = one_call("plain").digest
    with Transcript(tmp_path / TRANSCRIPT) as transcript:
        for i in range(1000):
            about, reply = {"workflow": plain, "item": i % 50}, "<b>It is even.</b> \u202e" * 500
            transcript.add(dataclasses.replace(SAID, about=about, reply=reply))
    assert run(["-q", "view", str(tmp_path)]) == 0
    assert (tmp_path / "view.html").stat().st_size <= 2_000_000
    with opened(browser, (tmp_path / "view.html").as_uri(), width=width, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for at in range(2):  # folded, then all unfolded
            found = Axe().run(page, options={"runOnly": {"type": "tag", "values": WCAG}})
            assert found.violations_count == 0, f"{at}: {found.generate_report()}"
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.get_by_text("question 3?").first.is_visible()
        assert page.locator("summary").filter(has_text="exchange").count() >= 50
        names = page.locator("svg[role=img] > title").all_text_contents()
        assert len(set(names)) == len(names) >= 3
        assert page.told == []
        assert len(page.asked) == 1
