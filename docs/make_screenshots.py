"""Makes the pictures in ``docs/images``: ``python docs/make_screenshots.py [FOLDER]
[report|collect|pages]``; by default the first two.

``pages`` takes every page of the collection service in every state, 320, 390 and 1440 pixels wide,
light and dark, and checks each with axe: to be looked at, not for the documentation.

``report`` are the first screens of the report of ``noracle demo`` and of two others. ``collect`` are pages of the
collection service: the project is the one of ``noracle collect demo``, part of the way through, on
a real server; it needs the extra ``collect``. Both need Playwright and a Chromium on the path.
Seeds, the clock and the simulated people are fixed, so that the numbers in the pictures stay the
same until the code changes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import itertools
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from PIL import Image
from playwright.sync_api import sync_playwright

from noracle.cli import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from noracle.collect import Client, demo

HERE = Path(__file__).parent.resolve()
N_ITEMS = 600
DONE = (125, 110, 105, 90, 60)
"""Answers of each specialist so far: some are slower."""

CLOCK = 1_781_082_000.0  # 10 June 2026, 9 o'clock UTC
MOST_BYTES = 150_000
PARTS = ("report", "collect")
WIDTHS, SCHEMES = (320, 390, 1440), ("light", "dark")
SCREENS = ((1440, 900), (390, 844))
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def main(folder: Path, parts: tuple[str, ...] = PARTS) -> None:
    """Take the pictures of these parts."""
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        sys.exit("make_screenshots.py needs Chromium on the path; got none.")
    folder.mkdir(parents=True, exist_ok=True)
    if "report" in parts:
        report_pictures(folder, chromium)
    if "collect" in parts:
        collect_pictures(folder, chromium)
    if "pages" in parts:
        page_pictures(folder, chromium)


def report_pictures(folder: Path, chromium: str) -> None:
    """The first screens of reports: on the evidence of ``noracle demo``, and, where NORACLE_DATA
    names the larger data sets, of 20 systems on MMLU-Pro and of answers alone; wide and narrow,
    light and dark.
    """
    sys.path.insert(0, str(HERE.parent))
    from tests.unit.oversight import mmlu_pro

    data = os.environ.get("NORACLE_DATA", "")
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        if run(["-q", "demo", "--seed", "7"]) != 0:
            sys.exit("noracle demo must end well; it did not.")
        pages = {"oversight-report": Path("noracle-demo", "report.html")}
        if data and Path(data, mmlu_pro.FILE).is_file():
            mmlu_pro.write_judged(Path("twenty"), Path(data))
            mmlu_pro.write_answers(Path("answers"), Path(data))
            for kind in ("twenty", "answers"):
                if run(["-q", "report", kind, "--out", f"{kind}.html"]) != 0:
                    sys.exit(f"noracle report {kind} must end well; it did not.")
                pages[f"report-{kind}"] = Path(f"{kind}.html")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for title, page in pages.items():
                for (width, height), scheme in itertools.product(SCREENS, SCHEMES):
                    context = browser.new_context(
                        viewport={"width": width, "height": height},
                        color_scheme=scheme,
                        locale="en-GB",
                    )
                    shown = context.new_page()
                    shown.goto(page.resolve().as_uri())
                    kind = (
                        "" if (width, scheme) == (SCREENS[0][0], "light") else f"-{width}-{scheme}"
                    )
                    take(shown, folder / f"{title}{kind}.png", width, height=height)
                    context.close()
            browser.close()


def collect_pictures(folder: Path, chromium: str) -> None:
    """Start the server, let the specialists answer, and take the pictures."""
    from noracle.collect import demo

    start, seed = time.monotonic(), hashlib.sha256(b"the pictures of the documentation").digest()
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch("time.time", side_effect=lambda: CLOCK + time.monotonic() - start),
        mock.patch("noracle.collect.protocols.new_seed", return_value=seed),
    ):
        running = demo.start(Path(name), n_items=N_ITEMS, seed=7)
        try:
            asyncio.run(fill(running))
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=chromium, args=["--no-sandbox"]
                )
                url, person = running.server.url, running.people[0]
                work, board = f"/p/{demo.SLUG}/work", f"/p/{demo.SLUG}"
                shoot(
                    browser,
                    url,
                    person.email,
                    person.password,
                    work,
                    folder / "collect-work.png",
                    760,
                    until="section#question",
                )
                shoot(
                    browser,
                    url,
                    demo.EMAIL,
                    running.password,
                    board,
                    folder / "collect-dashboard.png",
                    900,
                    until="#live",
                )
                browser.close()
        finally:
            demo.stop(running)


def page_pictures(folder: Path, chromium: str) -> None:
    """Every page of a manager and of an annotator, in every state of a project."""
    from noracle.collect import Client, demo

    with tempfile.TemporaryDirectory() as name:
        running = demo.start(Path(name), n_items=60, seed=7)
        try:
            asyncio.run(fill(running, share=0.06))
            url, owner = running.server.url, (demo.EMAIL, running.password)
            rater = (running.people[0].email, running.people[0].password)
            with Client(url) as client, Client(url) as annotator:
                client.sign_in(*owner)
                annotator.sign_in(*rater)
                guest = make_projects(client, annotator, Path(name))
            with sync_playwright() as playwright:
                launch = playwright.chromium.launch
                browser = launch(executable_path=chromium, args=["--no-sandbox"])
                faults = [
                    fault
                    for who, paths in ((None, guest), (owner, MANAGER), (rater, ANNOTATOR))
                    for fault in walk(browser, url, who, paths, folder)
                ]
                browser.close()
        finally:
            demo.stop(running)
    if faults:
        sys.exit("\n".join(faults))


def make_projects(client: Client, annotator: Client, folder: Path) -> dict[str, str]:
    """A draft, a sealed project, a closed one with all answers and a late system, and an open one of
    each other protocol; returns the pages of somebody without an account.
    """
    (folder / "items.csv").write_text(
        "id,question,choices\n" + "".join(f"q{k},Riddle {k}?,a|b|c\n" for k in range(12))
    )
    spec = {"protocol": "partitioned", "classes": ["cat", "dog", "owl"], "planned_n": 12}
    columns = {"item": "id", "text": "question", "options": "choices"}
    for slug in ("draft", "sealed", "closed"):
        client.create(slug, f"Riddles, {slug}", spec)
        client.import_items(slug, folder / "items.csv", columns=columns)
    client.seal("sealed")
    client.seal("closed")
    client.add_system("closed", "agent-7", {f"q{k}": k % 3 for k in range(12)})
    client.open("closed")
    for pool in range(3):
        with type(client)(client.base_url) as rater:
            account = {"name": f"Rater {pool}", "email": f"rater{pool}@example.org"}
            rater.join(client.invite("closed", pool=pool), password="a long password", **account)
            asked = rater.next("closed")
            while asked is not None:
                right = int(asked["content"]["text"].split()[1][:-1]) % 3 == pool
                _, asked = rater.answer("closed", asked, "yes" if right else "no")
    client.add_system("closed", "late-9", {f"q{k}": k % 3 for k in range(12)})
    client.close_project("closed")
    client.add_webhook("draft", "https://hooks.example.org/noracle")
    for protocol in PROTOCOLS:
        client.create(protocol, f"Riddles, {protocol}", {**spec, "protocol": protocol})
        client.import_items(protocol, folder / "items.csv", columns=columns)
        if protocol == "grade":
            client.add_system("grade", "agent-7", {f"q{k}": k % 3 for k in range(12)})
        client.seal(protocol)
        client.open(protocol)
        annotator.join(client.invite(protocol, pool=0 if protocol == "ordinary" else None))
    alias = client.people("closed")["raters"][0]["alias"]
    links = {"join": client.invite("grade"), "reset": client.reset_link("closed", alias)}
    paths = {name: link.removeprefix(client.base_url) for name, link in links.items()}
    return {"sign-in": "/sign-in", "not-found": "/nothing", **paths}


PROTOCOLS = ("judge-all", "pick-wrong", "ordinary", "grade")
MANAGER = {
    "projects": "/",
    "new": "/new",
    "account": "/account",
    **{f"{state}-setup": f"/p/{state}/setup" for state in ("draft", "sealed", "shapes", "closed")},
    "draft-seal": "/p/draft/setup?preview=seal",
    "draft-items": "/p/draft/items",
    "open-close": "/p/shapes/setup?preview=close",
    **{f"{state}-dashboard": f"/p/{state}" for state in ("draft", "sealed", "shapes", "closed")},
    **{
        f"{state}-{part}": f"/p/{state}/{part}"
        for state in ("shapes", "closed")
        for part in ("people", "audit", "export")
    },
}
ANNOTATOR = {
    "mine": "/",
    **{f"work-{protocol}": f"/p/{protocol}/work" for protocol in PROTOCOLS},
    **dict.fromkeys(("work", "work-comment", "work-image", "work-offline"), "/p/shapes/work"),
    "work-undo": "/p/grade/work",
    "last-undo": "/p/grade/last",
    "last": "/p/shapes/last",
}
CLICKED = {
    "work-comment": "#comment summary",
    "work-image": "a[data-zoom]",
    "work-undo": "button.no",
}
CLICKED["work-offline"] = "button.no"


def walk(
    browser: Browser, url: str, who: tuple[str, str] | None, paths: dict[str, str], folder: Path
) -> list[str]:
    """A picture of each page at each width in both schemes; returns what axe finds."""
    from axe_playwright_python.sync_playwright import Axe

    faults = []
    context = browser.new_context(locale="en-GB", timezone_id="UTC")
    page = context.new_page()
    if who is not None:
        page.goto(f"{url}/sign-in")
        page.fill("input[name=email]", who[0])
        page.fill("input[name=password]", who[1])
        page.click("main button")
        page.wait_for_url(f"{url}/")
    for name, path in paths.items():
        if name == "draft-items":
            page.goto(f"{url}/p/draft/setup")
            data = b"nr;riddle\n" + b"".join(b"%d;Who says %d?\n" % (k, k) for k in range(7))
            file = {"name": "riddles.csv", "mimeType": "text/csv", "buffer": data}
            page.set_input_files("#items-file", file)  # type: ignore[arg-type]
            page.click("text=Look at the items")
            path = "/p/draft/items?item=nr&text=riddle"
        page.goto(url + path)
        context.set_offline(name == "work-offline")
        if name in CLICKED:
            page.click(CLICKED[name])
            page.wait_for_timeout(500)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    faults.append(f"{name} is wider than {width}")
                options = {"runOnly": WCAG, "resultTypes": ["violations"]}
                found = Axe().run(page, options=options).response["violations"]
                faults += [f"{name} {width} {scheme}: {v['id']}" for v in found]
        context.set_offline(False)
    context.close()
    return faults


async def fill(running: demo.Demo, *, share: float = 1.0) -> None:
    """Let each specialist give their share of the answers."""
    from noracle.collect import demo
    from noracle.collect.simulate import crowd

    for place, (person, most) in enumerate(zip(running.people, DONE, strict=True)):
        await crowd(
            running.server.url,
            demo.SLUG,
            [person],
            running.key,
            protocol="partitioned",
            seed=place,
            most=round(most * share),
        )


def shoot(
    browser: Browser,
    url: str,
    email: str,
    password: str,
    path: str,
    file: Path,
    width: int,
    *,
    until: str,
) -> None:
    """Sign in and take a picture of one page in light mode, from its top to the end of the element
    ``until``.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 700},
        color_scheme="light",
        locale="en-GB",
        timezone_id="UTC",
    )
    page = context.new_page()
    page.goto(f"{url}/sign-in")
    page.fill("input[name=email]", email)
    page.fill("input[name=password]", password)
    page.click("main button")
    page.wait_for_url(f"{url}/")
    page.goto(url + path, wait_until="networkidle")
    take(page, file, width, until=until)
    context.close()


def take(
    page: Page, file: Path, width: int, *, until: str = "body", height: float | None = None
) -> None:
    """A picture of an open page, from its top to the end of the element ``until``, or so high."""
    end = page.locator(until).bounding_box()
    if end is None:
        sys.exit(f"{page.url} must show {until!r}; it does not.")
    deep = end["y"] + end["height"] + 16 if height is None else height
    clip = {"x": 0, "y": 0, "width": width, "height": deep}
    page.screenshot(path=file, full_page=True, clip=clip, animations="disabled", caret="hide")  # type: ignore[arg-type]
    with Image.open(
        file
    ) as picture:  # 128 colours are enough for text and charts, and the file is a third as large
        few = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.name}: {size:,} bytes", file=sys.stderr)
    if size > MOST_BYTES:
        sys.exit(f"{file.name} must be at most {MOST_BYTES:,} bytes; got {size:,}.")


if __name__ == "__main__":
    wanted = tuple(a for a in sys.argv[1:] if a in (*PARTS, "pages"))
    folders = [Path(a).resolve() for a in sys.argv[1:] if a not in (*PARTS, "pages")]
    main(folders[0] if folders else HERE / "images", wanted or PARTS)
