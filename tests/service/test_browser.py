"""The pages in a real browser: accessibility, keyboard, no scripts, narrow, dark, small, nothing
from elsewhere.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")
pytest.importorskip("playwright", reason="playwright is not installed")

from noracle.collect.model import ClassSpec, Item
from noracle.collect.service import people, projects
from tests.service.test_security_texts import PAYLOADS
from tests.service.web_site import Site, running, texts

pytestmark = pytest.mark.browser
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Projects in every state, an owner and annotators; one project of every protocol is open."""
    with running(tmp_path_factory.mktemp("browser"), changes_per_minute=100_000) as site:
        owner = site.person("owner")
        found: dict[str, Any] = {"site": site, "owner": owner}
        draft = site.project("draft", owner)
        site.items(draft, texts(30))
        site.step(site_project(site, "sealed", owner), "seal")
        for protocol, more in (
            ("partitioned", {"gold_rate": 0.1, "panel_items": 2}),
            ("judge-all", {"shown": 3}),
            ("pick-wrong", {"shown": 3, "trap": True}),
            ("ordinary", {"annotators": 2, "draws": 2}),
        ):
            project = site.project(protocol, owner, protocol=protocol, **more)
            gold = [
                Item(name=f"g{k}", content={"text": f"Known {k}."}, truth=k % 3)
                for k in range(9 if protocol == "partitioned" else 0)
            ]
            long = Item(
                name="long",
                content={"markdown": "A **long** text.\n\n- one\n- two\n\n" + "unbroken" * 40},
            )
            options = [
                Item(
                    name=f"o{k}",
                    content={"text": "Which?", "options": ["first", "second", "third"]},
                )
                for k in range(3)
            ]
            site.items(project, [*texts(160), long, *options, *gold])
            site.step(project, "seal")
            for name, shift in (("agent-7", 0), ("agent-8", 1)):
                answers: dict[str, int | None] = {f"i{k}": (k + shift) % 3 for k in range(160)}
                site.store.write_now(
                    lambda w, n=name, a=answers, p=project: projects.add_system(
                        w, p, n, a, actor="system", now=time.time()
                    )
                )
            site.step(project, "open")
            rater = found[protocol] = site.person(f"rater-{protocol}")
            site.join(
                protocol,
                owner,
                rater,
                "annotator",
                *((0, 1, 2) if protocol == "partitioned" else (0,)),
            )
            values = {"partitioned": "no", "judge-all": "no|no|yes", "ordinary": "1"}
            answer_some(site, rater, protocol, values.get(protocol, ""), 12)
        table = b"id,text,options,note\n" + b"".join(b"%d,Text,a|b|c,x\n" % k for k in range(9))
        assert site.as_(owner).upload("/p/draft/items", "nine.csv", table).status == 303
        counted = site.project("counted", owner, planned_n=10)
        site.items(counted, texts(10))
        site.step(counted, "seal")
        site.store.write_now(
            lambda w: projects.add_system(
                w, counted, "agent", {f"i{k}": 1 for k in range(10)}, actor="x", now=time.time()
            )
        )
        site.step(counted, "open")
        found["counted"] = site.person("counter")
        site.join("counted", owner, found["counted"], "annotator", 0, 1, 2)
        answer_some(site, found["counted"], "counted", "no", 10)
        site.step(counted, "close")
        closed = site_project(site, "closed", owner)
        site.step(closed, "seal", "open", "close")
        found["closed-rater"] = site.person("closed-rater")
        auditor = found["auditor"] = site.person("auditor")
        site.join("closed", owner, auditor, "auditor")
        yield found


def site_project(site: Site, slug: str, owner: int) -> int:
    project = site.project(slug, owner)
    site.items(project, texts(12))
    return project


def answer_some(site: Site, rater: int, slug: str, value: str, n: int) -> None:
    visitor = site.as_(rater)
    for _ in range(n):
        asked = visitor.api("POST", f"/projects/{slug}/next").json()["next"]
        sent = {
            "question": asked["question"],
            "key": asked["key"],
            "value": value or str(asked["shown"][0]),
            "shown_at": time.time(),
        }
        assert visitor.api("POST", f"/projects/{slug}/answers", sent).status == 200


@contextlib.contextmanager
def opened(browser: Any, world: dict[str, Any], who: str | None, **options: Any) -> Iterator[Any]:
    """A page of somebody who is signed in; console messages and requests are kept."""
    site: Site = world["site"]
    context = browser.new_context(
        **{"viewport": {"width": 1024, "height": 800}, "locale": "en-GB", **options}
    )
    if who is not None:
        context.add_cookies(
            [
                {
                    "name": "noracle",
                    "value": site.session(world[who]),
                    "url": site.url,
                    "httpOnly": True,
                    "sameSite": "Strict",
                }
            ]
        )
    page = context.new_page()
    page.told, page.asked = [], []
    page.on("console", lambda message: page.told.append(message.text))
    page.on("pageerror", lambda error: page.told.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    try:
        yield page
    finally:
        context.close()


PAGES: list[tuple[str | None, str]] = [
    (None, "/sign-in"),
    (None, "/join/{token}"),
    (None, "/no-such-page"),
    ("owner", "/join/{token}"),
    ("owner", "/"),
    ("owner", "/new"),
    ("owner", "/p/draft/setup"),
    ("owner", "/p/draft/setup?preview=seal"),
    ("owner", "/p/draft/items"),
    ("owner", "/p/draft/items?item=&text=nothing"),
    ("owner", "/p/partitioned/setup?preview=close"),
    ("owner", "/p/sealed"),
    ("owner", "/p/partitioned/export"),
    ("owner", "/p/sealed/setup"),
    ("owner", "/p/partitioned/setup"),
    ("owner", "/p/closed/setup"),
    ("owner", "/p/partitioned/people"),
    ("owner", "/account"),
    (None, "/reset/{reset}"),
    ("owner", "/p/draft"),
    ("owner", "/p/partitioned"),
    ("owner", "/p/judge-all"),
    ("owner", "/p/pick-wrong"),
    ("owner", "/p/ordinary"),
    ("owner", "/p/closed"),
    ("owner", "/p/counted"),
    ("owner", "/p/counted/people"),
    ("owner", "/p/partitioned/audit"),
    ("owner", "/p/closed/audit"),
    ("owner", "/p/partitioned/export"),
    ("auditor", "/"),
    ("auditor", "/p/closed"),
    ("partitioned", "/"),
    ("partitioned", "/p/partitioned/work"),
    ("judge-all", "/p/judge-all/work"),
    ("pick-wrong", "/p/pick-wrong/work"),
    ("ordinary", "/p/ordinary/work"),
    ("partitioned", "/p/partitioned/last"),
    ("judge-all", "/p/judge-all/last"),
    ("partitioned", "/p/partitioned/people"),
]


def address(world: dict[str, Any], path: str) -> str:
    site: Site = world["site"]
    if "{token}" in path:
        path = path.replace("{token}", site.token("partitioned", world["owner"], "annotator", 1))
    if "{reset}" in path:
        made = {"project": None, "now": time.time()}
        reset = site.store.write_now(lambda w: people.make_reset(w, world["auditor"], **made))
        path = path.replace("{reset}", reset)
    return f"{site.url}{path}"


SMALL = """[...document.querySelectorAll('button, .button, nav a, select, textarea, summary, label.choice, \
input:not([type=hidden]):not([type=radio])\
:not([type=checkbox])')].filter(e => e.checkVisibility()).map(e => [e.outerHTML.slice(0, 80), e.getBoundingClientRect()])
.filter(([, r]) => r.height < 43.9 || r.width < 43.9).map(([h, r]) => `${h} ${r.width}x${r.height}`)"""


@pytest.mark.parametrize(("who", "path"), PAGES)
def test_page_is_accessible_wide_and_light_narrow_and_dark(
    browser: Any, world: dict[str, Any], who: str | None, path: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, world, who, locale="de-DE", color_scheme="light") as page:
        page.context.add_cookies(
            [{"name": "noracle-language", "value": "de", "url": world["site"].url}]
        )
        page.goto(address(world, path))
        assert page.get_attribute("html", "lang") == "de"
        for width, scheme in ((1024, "light"), (320, "dark")):
            page.set_viewport_size({"width": width, "height": 700})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                f"overflow at {width}"
            )
            assert page.evaluate(SMALL) == []
            violations = (
                Axe()
                .run(page, options={"runOnly": WCAG, "resultTypes": ["violations"]})
                .response["violations"]
            )
            assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in violations] == []
        assert [text for text in page.told if "404" not in text and "403" not in text] == []


def test_dark_and_light_differ(browser: Any, world: dict[str, Any]) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        with opened(browser, world, None, color_scheme=scheme) as page:
            page.goto(address(world, "/sign-in"))
            colours.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
    assert len(colours) == 2


def test_fifty_items_by_keyboard_alone(browser: Any, world: dict[str, Any]) -> None:
    site: Site = world["site"]
    with opened(browser, world, "partitioned") as page:
        page.goto(address(world, "/p/partitioned/work"))
        page.evaluate("() => { window.sameDocument = true }")
        before, times = site.count("answer"), []
        for k in range(50):
            old, start = page.input_value("input[name=question]"), time.perf_counter()
            page.keyboard.press("123"[k % 3])
            _swapped(page, old)
            times.append(time.perf_counter() - start)
            page.wait_for_function(
                "() => document.activeElement.id === 'asked'", timeout=3000
            )  # focus stands on the new question
            page.wait_for_timeout(400)  # a second press within this time does nothing
        assert site.count("answer") == before + 50
        assert page.told == []
        assert page.evaluate("() => window.sameDocument === true"), "only the question was swapped"
        assert sorted(times)[25] < 1.0
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.tagName") in ("BUTTON", "SUMMARY")


@pytest.mark.parametrize("protocol", ["judge-all", "pick-wrong", "ordinary"])
def test_other_protocols_by_keyboard_alone(
    browser: Any, world: dict[str, Any], protocol: str
) -> None:
    site: Site = world["site"]
    with opened(browser, world, protocol) as page:
        page.goto(address(world, f"/p/{protocol}/work"))
        before = site.count("answer")
        for _ in range(5):
            old = page.input_value("input[name=question]")
            for key in ("2", "1", "3") if protocol == "judge-all" else ("1",):
                page.keyboard.press(key)
            if protocol == "judge-all":
                page.keyboard.press("Enter")
            _swapped(page, old)
            page.wait_for_timeout(400)
        assert site.count("answer") == before + 5


@pytest.mark.parametrize(
    ("protocol", "n"), [("partitioned", 50), ("judge-all", 3), ("pick-wrong", 3), ("ordinary", 3)]
)
def test_items_without_scripts(browser: Any, world: dict[str, Any], protocol: str, n: int) -> None:
    site: Site = world["site"]
    with opened(browser, world, protocol, java_script_enabled=False) as page:
        page.goto(address(world, f"/p/{protocol}/work"))
        before = site.count("answer")
        for _ in range(n):
            if protocol == "judge-all":
                for place in range(3):
                    page.check(f"input[name=value-{place}][value=no]")
                page.click("button[data-submit]")
            else:
                page.click("button[name=value] >> nth=1")
        assert site.count("answer") == before + n
        page.click("a[href$='/last']")
        page.click("main a[href$='/work']")
        assert page.locator("#asked").is_visible()


def test_sign_in_set_up_and_answer_through_the_forms(browser: Any, world: dict[str, Any]) -> None:
    """The forms as a browser sends them: with Origin null and Sec-Fetch-Site, which no hand-made
    request has.
    """
    with opened(browser, world, None) as page:
        page.goto(address(world, "/"))
        page.fill("#email", "owner@example.org")
        page.fill("#password", "correct horse battery")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=My projects")
        page.click("text=New project")
        page.fill("#name", "From the browser")
        page.fill("#slug", "from-browser")
        page.fill("#classes", "cat | Says *meow*.\ndog")
        page.click("text=Make the draft")
        page.set_input_files(
            "#items-file",
            {
                "name": "items.csv",
                "mimeType": "text/csv",
                "buffer": b"item,text\n" + b"".join(b"a%d,t\n" % k for k in range(8)),
            },
        )
        page.click("text=Look at the items")
        page.click("text=Add 8 items")
        page.click("text=Show what would be sealed")
        page.click("text=Seal now")
        page.click("text=Open the project")
        page.click("nav >> text=People")
        page.click("text=Make the link")
        link = page.inner_text("p.mono")
        with opened(browser, world, None, locale="de-DE") as other:
            other.goto(link)
            other.fill("#email", "browser-rater@example.org")
            other.fill("#name", "Browser Rater")
            other.fill("#password", "a long password")
            other.click("text=Beitreten")
            other.wait_for_selector("text=Ist das „cat“?")
            assert "Says meow." in other.inner_text("details")
            other.wait_for_load_state("load")  # keys are heard once the script is there
            other.keyboard.press("1")
            other.wait_for_selector("text=1 Antwort von Ihnen ist gespeichert.")
        page.click("text=Sign out")
        page.wait_for_selector("#password")
        assert page.told == []


def test_from_nothing_to_the_first_question_on_pages_alone(browser: Any, tmp_path: Path) -> None:
    """An empty server: the link that it prints, a project, a file whose columns have other names,
    an invitation, sealed, opened, and the first question.
    """
    from noracle.collect.web.security import first_token

    with running(tmp_path, changes_per_minute=1000) as site:
        here: dict[str, Any] = {"site": site}
        with opened(browser, here, None) as page:
            page.goto(f"{site.url}/first/{first_token(site.settings.key)}")
            page.fill("#email", "ann@example.org")
            page.fill("#name", "Ann")
            page.fill("#password", "a long password")
            page.click("text=Make the account")
            page.fill("#name", "Pets")
            page.fill("#slug", "pets")
            page.fill("#classes", "cat\ndog")
            page.click("text=Make the draft")
            rows = b"".join(b"%d;What says %d?;cat\n" % (k, k) for k in range(12))
            file = {"name": "pets.csv", "mimeType": "text/csv", "buffer": b"nr;riddle;x\n" + rows}
            page.set_input_files("#items-file", file)  # type: ignore[arg-type]
            page.click("text=Look at the items")
            assert page.locator("text=Add 12 items").count() == 0, "no column is known as the text"
            page.select_option("#part-item", "nr")
            page.select_option("#part-text", "riddle")
            page.click("text=Show the items with these columns")
            assert page.locator(".item").all_inner_texts() == [f"What says {k}?" for k in range(5)]
            page.click("text=Add 12 items")
            page.click("text=Undo this import")
            assert page.locator("text=0 items").count() == 1
            page.set_input_files("#items-file", file)  # type: ignore[arg-type]
            page.click("text=Look at the items")
            page.select_option("#part-item", "nr")
            page.select_option("#part-text", "riddle")
            page.click("text=Show the items with these columns")
            page.click("text=Add 12 items")
            page.click("text=Show what would be sealed")
            assert page.locator("text=one trial draw").count() == 1
            page.click("text=Seal now")
            page.click("text=Open the project")
            page.click("nav >> text=People")
            page.click("text=Make the link")
            link = page.inner_text("p.mono")
            with opened(browser, here, None) as other:
                other.goto(link)
                other.fill("#email", "bob@example.org")
                other.fill("#name", "Bob")
                other.fill("#password", "a long password")
                other.click("text=Join")
                other.wait_for_selector("#asked")
                assert "What says" in other.inner_text("main")
                other.keyboard.press("2")
                other.wait_for_function("() => document.querySelector('input[name=question]')")
            page.click("nav >> text=Set-up")
            page.click("text=Close the project")
            assert page.locator("text=Close the project?").count() == 1
            assert site.as_(1).api("GET", "/projects/pets").json()["state"] == "open"
            page.click("text=Close it for good")
            assert site.as_(1).api("GET", "/projects/pets").json()["state"] == "closed"
            assert page.told == []


def test_a_closed_project_has_one_interval(browser: Any, world: dict[str, Any]) -> None:
    with opened(browser, world, "owner") as page:
        page.goto(address(world, "/p/counted"))
        card = page.locator("section.card").first
        seen = [p for p in card.locator("p:visible").all_inner_texts() if " to " in p]
        assert len(seen) == 1, seen
        card.locator("summary").click()
        assert "at every look" in card.inner_text()
        page.set_viewport_size({"width": 390, "height": 844})
        right = "charts => charts.map(c => c.getBoundingClientRect().right)"
        assert max(page.locator(".chart").evaluate_all(right)) <= 390, "what is latest is seen"


def test_dashboard_refreshes_itself_and_every_look_is_logged(
    browser: Any, world: dict[str, Any]
) -> None:
    site: Site = world["site"]

    def looks() -> int:
        row = site.store.read_now(
            lambda w: w.one("SELECT COUNT(*) AS n FROM event WHERE kind = 'look'")
        )
        return 0 if row is None else int(row["n"])

    with opened(browser, world, "owner") as page:
        before = looks()
        page.goto(address(world, "/p/pick-wrong"))
        assert looks() == before + 1
        with page.expect_response(
            lambda reply: reply.request.headers.get("hx-request") == "true", timeout=15_000
        ) as waited:
            pass
        assert waited.value.status == 200
        assert looks() == before + 2
        assert page.locator("#live").count() == 1
        assert page.told == []
    visitor = site.as_(world["owner"])
    assert visitor.api("GET", "/projects/pick-wrong/live").status == 200
    assert looks() == before + 3


@pytest.mark.parametrize(
    ("who", "path"),
    [
        (None, "/sign-in"),
        ("partitioned", "/p/partitioned/work"),
        ("owner", "/p/partitioned"),
        ("owner", "/p/partitioned/setup"),
    ],
)
def test_first_load_is_small_and_all_ours(
    browser: Any, world: dict[str, Any], who: str | None, path: str
) -> None:
    with opened(browser, world, who) as page:
        sizes: list[int] = []
        page.on("response", lambda reply: sizes.append(len(reply.body())))
        page.goto(address(world, path), wait_until="load")
        page.wait_for_timeout(300)
        assert len(page.asked) <= 8
        assert sum(sizes) <= 100_000
        assert all(url.startswith(world["site"].url) for url in page.asked)
        assert page.told == []


def test_payloads_do_not_run(browser: Any, world: dict[str, Any]) -> None:
    site: Site = world["site"]
    classes = tuple(
        ClassSpec(name=f"{k} {text}", guideline=text) for k, text in enumerate(PAYLOADS)
    )
    project = site.project(
        "payloads", world["owner"], protocol="ordinary", classes=classes, annotators=1, draws=1
    )
    whole = "\n\n".join(PAYLOADS)
    site.items(
        project,
        [
            Item(name="m", content={"markdown": whole}),
            Item(name="t", content={"text": whole, "options": list(PAYLOADS)}),
        ],
    )
    site.step(project, "seal", "open")
    world["payload-rater"] = site.person("payload-rater")
    site.join("payloads", world["owner"], world["payload-rater"], "annotator", 0)
    dialogs: list[str] = []
    for who, path in (
        ("payload-rater", "/p/payloads/work"),
        ("owner", "/p/payloads"),
        ("owner", "/p/payloads/setup"),
    ):
        with opened(browser, world, who, bypass_csp=True) as page:
            page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
            for _ in range(2 if who == "payload-rater" else 1):
                page.goto(address(world, path))
                page.wait_for_timeout(200)
                for summary in itertools.islice(page.locator("summary").all(), 3):
                    summary.click()
                if who == "payload-rater":
                    page.keyboard.press("1")
                    page.wait_for_timeout(300)
            assert all(url.startswith(site.url) for url in page.asked), page.asked
            assert page.locator("main img, main iframe, main svg script").count() == 0
    assert dialogs == []


def _swapped(page: Any, old: str) -> None:
    page.wait_for_function(
        "old => { const q = document.querySelector('input[name=question]'); return q && q.value !== old }",
        arg=old,
    )


def test_the_head_of_a_closed_project_is_copied(browser: Any, world: dict[str, Any]) -> None:
    with opened(browser, world, "owner") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(address(world, "/p/closed"))
        head = page.inner_text("#head")
        assert len(head) == 64
        page.click("button[data-copy]")
        page.get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == head
        box = page.locator("svg.segno").bounding_box()
        assert box["width"] == box["height"] > 150
        assert page.told == []


def test_a_link_from_another_site_leaves_people_signed_in(
    browser: Any, world: dict[str, Any]
) -> None:
    """The strict cookie does not come with the link; the session must be there afterwards."""
    site: Site = world["site"]
    with opened(browser, world, "owner") as page:
        elsewhere = f"http://elsewhere.example/{time.time()}"
        page.route(
            "http://elsewhere.example/**",
            lambda route: route.fulfill(
                content_type="text/html", body=f'<a id="go" href="{site.url}/">go</a>'
            ),
        )
        page.goto(elsewhere)
        page.click("#go")
        page.wait_for_url(f"{site.url}/")
        assert "My projects" in page.content()
        page.goto(f"{site.url}/account")
        assert page.locator("#old").count() == 1
