"""The annotator's page as somebody uses it for an hour: by keyboard, with slips, undos, a lost
connection and a comment.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from noracle.collect.archive import read_archive
from noracle.collect.content import clean_image
from noracle.collect.model import Item
from noracle.collect.service import projects
from noracle.collect.verify import verify_archive
from tests.service.web_site import Site, running, texts

pytestmark = pytest.mark.browser
KEYS = {"yes": "1", "no": "2", "unsure": "3"}


@contextlib.contextmanager
def ward(folder: Path, items: list[Item] | None = None, **spec: Any) -> Iterator[tuple[Site, Any]]:
    """A running server with an open project, its owner and one rater who is in every pool."""
    with running(folder, changes_per_minute=100_000) as site:
        owner, rater = site.person("owner"), site.person("rater")
        project = site.project("ward", owner, **spec)
        site.items(project, items or texts(50))
        site.step(project, "seal", "open")
        site.join("ward", owner, rater, "annotator", 0, 1, 2)
        yield site, {"owner": owner, "rater": rater, "project": project}


@contextlib.contextmanager
def at_work(browser: Any, site: Site, rater: int, **options: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1024, "height": 800}, **options)
    cookie = {"name": "noracle", "value": site.session(rater), "url": site.url}
    context.add_cookies([{**cookie, "httpOnly": True, "sameSite": "Strict"}])
    page = context.new_page()
    page.told = []
    page.on("pageerror", lambda error: page.told.append(str(error)))
    try:
        page.goto(f"{site.url}/p/ward/work")
        yield page
    finally:
        context.close()


def now_asked(page: Any) -> str:
    return str(page.get_attribute("form[data-keys] input[name=question]", "value"))


def swapped(page: Any, old: str, to: str | None = None) -> None:
    """Another question is there (``to``: this one), and the time of double presses is over."""
    page.wait_for_function(
        "([old, to]) => { const q = document.querySelector('form[data-keys] input[name=question]');"
        " return to === null ? !q || q.value !== old : q && q.value === to; }",
        arg=[old, to],
        timeout=5000,
    )
    page.wait_for_timeout(420)


def test_fifty_items_as_a_physician(browser: Any, tmp_path: Path) -> None:
    """Three undos, two double presses, one lost connection, one comment: what is exported is what
    was meant.
    """
    rng = random.Random(5)
    meant = {f"i{k}": rng.choice(("yes", "no", "no", "unsure")) for k in range(50)}
    with ward(tmp_path) as (site, found), at_work(browser, site, found["rater"]) as page:
        for n in range(50):
            body = page.inner_text(".item")
            value = meant[f"i{body.split()[-1].rstrip('.')}"]
            old = now_asked(page)
            if n in (4, 17, 49):  # a slip, seen at once
                page.keyboard.press(KEYS["no" if value != "no" else "yes"])
                swapped(page, old)
                page.keyboard.press("0")
                swapped(page, "", to=old)
            if n == 12:
                page.context.set_offline(True)
                page.keyboard.press(KEYS[value])
                page.wait_for_selector("#offline:visible")
                page.context.set_offline(False)
                page.wait_for_timeout(420)
            if n == 30:
                page.click("#comment summary")
                page.fill("#said", "Blurred; written by Dr. Erika M.")
                page.check("input[name=broken]")
                page.click("#comment button")
                page.wait_for_selector("#comment [role=status]")
            page.keyboard.press(KEYS[value])
            if n in (8, 23):
                page.keyboard.press(KEYS[value])
            swapped(page, old)
            assert not page.is_visible("#offline")
        assert page.told == []
        assert "There is no question for you now" in page.inner_text("#asked")
        assert "Today: 50." in page.inner_text("[role=status]")
        page.click("text=Pause")
        page.wait_for_url(f"{site.url}/")
        boss = site.as_(found["owner"])
        boss.api("POST", "/projects/ward/close")
        told = boss.get("/p/ward/people").text
        assert "<strong>This item is broken</strong> Blurred; written by Dr. Erika M." in told
        tables = zipfile.ZipFile(
            io.BytesIO(boss.api("GET", "/projects/ward/export?format=csv").body)
        )
        name = next(n for n in tables.namelist() if n.startswith("judgements"))
        rows = list(csv.DictReader(io.StringIO(tables.read(name).decode())))
        assert len(rows) == 50
        assert {row["item"]: row["verdict"] for row in rows} == meant
        data = boss.api("GET", "/projects/ward/export?format=archive").body
        archive = read_archive(io.BytesIO(data))
        result = verify_archive(archive)
        assert result.passed, result.findings
        kinds = [event["kind"] for event in archive.events]
        assert {k: kinds.count(k) for k in ("answer", "undone", "commented", "left")} == {
            "answer": 53,
            "undone": 3,
            "commented": 1,
            "left": 1,
        }
        assert b"Erika" not in data
        (comment,) = boss.api("GET", "/projects/ward/comments").json()["comments"]
        assert (comment["text"], comment["broken"]) == ("Blurred; written by Dr. Erika M.", True)


def test_leaving_the_page_makes_the_answer_final(browser: Any, tmp_path: Path) -> None:
    """By closing it; not by going to the page that changes the last answer."""
    with ward(tmp_path) as (site, found):
        with at_work(browser, site, found["rater"]) as page:
            old = now_asked(page)
            page.keyboard.press("1")
            swapped(page, old)
            page.evaluate("document.querySelector('[data-amend]').hidden = false")
            page.click("[data-amend] a")
            page.wait_for_selector("text=not final yet")
            page.click("text=Undo my last answer")
            page.wait_for_selector("form[data-keys]")
            assert now_asked(page) == old
            page.keyboard.press("2")
            swapped(page, old)
            page.goto(f"{site.url}/")
            page.wait_for_timeout(300)
        rows = site.store.read_now(lambda w: w.all("SELECT undone FROM settled ORDER BY answer_id"))
        assert [row["undone"] for row in rows] == [1, 0]


def test_a_late_undo_says_that_a_change_does_not_count(browser: Any, tmp_path: Path) -> None:
    with (
        ward(tmp_path) as (site, found),
        at_work(browser, site, found["rater"], java_script_enabled=False) as page,
    ):
        page.click("button[value=yes]")
        visitor = site.as_(found["rater"])
        assert visitor.api("POST", "/projects/ward/leave", {}).status == 204
        page.click("text=Undo my last answer")
        page.wait_for_url("**/last")
        assert "so that nobody can adapt answers later" in page.inner_text("main")
        page.click("button[value=no]")
        page.wait_for_url("**/work")
        values = site.store.read_now(lambda w: w.all("SELECT value FROM answer ORDER BY id"))
        assert [v["value"] for v in values] == ["yes", "no"]
        live = site.as_(found["owner"]).api("GET", "/projects/ward/live").json()
        assert live["answered"] == 1


def test_undo_and_comment_without_scripts(browser: Any, tmp_path: Path) -> None:
    with (
        ward(tmp_path) as (site, found),
        at_work(browser, site, found["rater"], java_script_enabled=False) as page,
    ):
        old = now_asked(page)
        page.click("button[value=yes]")
        assert now_asked(page) != old
        page.click("text=Undo my last answer")
        assert now_asked(page) == old
        page.click("#comment summary")
        page.fill("#said", "odd")
        page.click("#comment button")
        assert now_asked(page) == old
        assert site.count("comment") == 1
        page.click("button[value=no]")
        assert site.count("answer") == 2


def test_the_question_and_its_answers_are_above_the_fold_on_a_phone(
    browser: Any, tmp_path: Path
) -> None:
    long = [Item(name=f"l{k}", content={"text": "A long report. " * 400}) for k in range(4)]
    with (
        ward(tmp_path, long) as (site, found),
        at_work(browser, site, found["rater"]) as page,
    ):
        page.set_viewport_size({"width": 390, "height": 844})
        boxes = [page.locator(s).bounding_box() for s in ("#asked", "button.yes", "button.no")]
        assert all(box["y"] >= 0 and box["y"] + box["height"] <= 844 for box in boxes), boxes
        yes, no = (
            page.locator(s).evaluate(
                "e => { const s = getComputedStyle(e); return [s.borderRadius, s.backgroundColor,"
                " s.borderWidth, e.getBoundingClientRect().x] }"
            )
            for s in ("button.yes", "button.no")
        )
        assert all(a != b for a, b in zip(yes, no, strict=True))


def test_the_guideline_stays_as_it_was_left(browser: Any, tmp_path: Path) -> None:
    with ward(tmp_path) as (site, found), at_work(browser, site, found["rater"]) as page:
        guide, item = page.locator("[data-guide]"), page.locator(".item")
        assert guide.bounding_box()["x"] >= item.bounding_box()["x"] + item.bounding_box()["width"]
        assert guide.get_attribute("open") is not None
        page.click("[data-guide] summary")
        old = now_asked(page)
        page.keyboard.press("2")
        swapped(page, old)
        assert page.locator("[data-guide]").get_attribute("open") is None
        page.reload()
        page.wait_for_function("() => !document.querySelector('[data-guide]').open")
        page.set_viewport_size({"width": 390, "height": 844})
        assert guide.bounding_box()["y"] > item.bounding_box()["y"]


def test_an_image_is_enlarged_by_keyboard(browser: Any, tmp_path: Path) -> None:
    from PIL import Image

    with io.BytesIO() as file:
        Image.new("RGB", (300, 400), "white").save(file, "PNG")
        picture = clean_image(file.getvalue())
    with running(tmp_path) as site:
        owner, rater = site.person("owner"), site.person("rater")
        project = site.project("ward", owner)
        site.store.write_now(lambda w: projects.add_image(w, project, picture))
        site.items(
            project,
            [Item(name=f"p{k}", content={"image": picture.sha256}) for k in range(3)],
        )
        site.step(project, "seal", "open")
        site.join("ward", owner, rater, "annotator", 0, 1, 2)
        with at_work(browser, site, rater) as page:
            page.focus("a[data-zoom]")
            page.keyboard.press("Enter")
            page.wait_for_selector("#zoom[open] img")
            box = page.locator("#zoom img").bounding_box()
            assert box["y"] + box["height"] <= 800, "all of it is seen at first"
            small = box["width"]
            page.click("text=Larger")
            assert page.locator("#zoom img").bounding_box()["width"] > small
            page.keyboard.press("1")  # an enlarged image is not answered by accident
            page.keyboard.press("Escape")
            page.wait_for_selector("#zoom", state="hidden")
            assert site.count("answer") == 0
            assert page.told == []


def test_right_to_left_texts_have_their_direction(browser: Any, tmp_path: Path) -> None:
    items = [Item(name=f"h{k}", content={"text": "שלום עולם"}) for k in range(3)]
    with (
        ward(tmp_path, items) as (site, found),
        at_work(browser, site, found["rater"]) as page,
    ):
        direction = "e => getComputedStyle(e).direction"
        assert page.locator(".item").evaluate(direction) == "rtl"
        assert page.locator("#asked").evaluate(direction) == "ltr"


def test_the_page_tells_nothing_about_what_was_answered(browser: Any, tmp_path: Path) -> None:
    """Undo is offered in the same words whatever was said."""
    shown = []
    for value in ("1", "2", "3"):
        folder = tmp_path / value
        folder.mkdir()
        with ward(folder) as (site, found), at_work(browser, site, found["rater"]) as page:
            old = now_asked(page)
            page.keyboard.press(value)
            swapped(page, old)
            shown.append(page.inner_text("main"))
    assert len(set(shown)) == 1
    assert json.dumps(shown[0])
