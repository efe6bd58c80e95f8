"""Makes the pictures of the collection service in ``docs/images``: ``python docs/make_screenshots.py [FOLDER]``.

It needs the extra ``collect``, Playwright and a Chromium on the path. The project is the one of ``noracle collect demo``, part of the way
through, on a real server. The seed of the seal, the clock and the simulated people are fixed, so that the numbers in the pictures stay the
same until the code changes them.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

from PIL import Image
from playwright.sync_api import sync_playwright

from noracle.collect import demo
from noracle.collect.simulate import crowd

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = Path(__file__).parent
N_ITEMS = 600
DONE = (125, 110, 105, 90, 60)
"""Answers of each specialist so far: some are slower."""

CLOCK = 1_781_082_000.0  # 10 June 2026, 9 o'clock UTC
MOST_BYTES = 150_000


def main(folder: Path) -> None:
    """Start the server, let the specialists answer, and take the pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("make_screenshots.py needs Chromium on the path; got none.")
    folder.mkdir(parents=True, exist_ok=True)
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
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                url, person = running.server.url, running.people[0]
                shoot(
                    browser,
                    url,
                    person.email,
                    person.password,
                    f"/p/{demo.SLUG}/work",
                    folder / "collect-work.png",
                    760,
                    until="section#question",
                )
                shoot(
                    browser,
                    url,
                    demo.EMAIL,
                    running.password,
                    f"/p/{demo.SLUG}",
                    folder / "collect-dashboard.png",
                    900,
                    until="#live",
                )
                browser.close()
        finally:
            demo.stop(running)


async def fill(running: demo.Demo) -> None:
    """Let each specialist give their share of the answers."""
    for place, (person, most) in enumerate(zip(running.people, DONE, strict=True)):
        await crowd(running.server.url, demo.SLUG, [person], running.key, protocol="partitioned", seed=place, most=most)


def shoot(browser: Browser, url: str, email: str, password: str, path: str, file: Path, width: int, *, until: str) -> None:
    """Sign in and take a picture of one page in light mode, from its top to the end of the element ``until``."""
    context = browser.new_context(viewport={"width": width, "height": 700}, color_scheme="light", locale="en-GB", timezone_id="UTC")
    page = context.new_page()
    page.goto(f"{url}/sign-in")
    page.fill("input[name=email]", email)
    page.fill("input[name=password]", password)
    page.click("main button")
    page.wait_for_url(f"{url}/")
    page.goto(url + path, wait_until="networkidle")
    end = page.locator(until).bounding_box()
    if end is None:
        sys.exit(f"{path} must show {until!r}; it does not.")
    clip = {"x": 0, "y": 0, "width": width, "height": end["y"] + end["height"] + 16}
    page.screenshot(path=file, full_page=True, clip=clip, animations="disabled", caret="hide")  # type: ignore[arg-type]
    context.close()
    with Image.open(file) as picture:  # 128 colours are enough for text and charts, and the file is a third as large
        few = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.name}: {size:,} bytes")  # noqa: T201
    if size > MOST_BYTES:
        sys.exit(f"{file.name} must be at most {MOST_BYTES:,} bytes; got {size:,}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "images")
