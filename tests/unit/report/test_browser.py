"""The page in a real browser: narrow, wide, light, dark."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from noracle.report.page import write_page
from tests.unit.report.samples import ESTIMATE, SAMPLES

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def page_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    long = dataclasses.replace(
        ESTIMATE, subject="organisation/" + "a-very-long-name-without-spaces" * 6
    )
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    command = "noracle estimate --answers answers.parquet --judgements judgements.parquet --items items.parquet --html report.html"
    return write_page(
        path,
        [*SAMPLES.values(), long],
        title="How accurate are the agents?",
        command=command,
        seed=7,
    ).as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_page_fits_and_is_quiet(browser: Any, page_uri: str, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    messages: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_uri)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert messages == []
    assert requests == [page_uri]
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 29)")
    context.close()


def test_page_reads_without_scripts(browser: Any, page_uri: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_uri)
    assert page.get_by_role("heading", level=1).inner_text() == "How accurate are the agents?"
    assert (
        page.get_by_role(
            "img", name="accuracy of 'agent-7', 0.800, 95 % interval [0.708, 0.869]", exact=True
        ).count()
        == 1
    )
    assert page.get_by_role("table").count() > 5
    context.close()


def test_plots_have_visible_marks_in_both_modes(browser: Any, page_uri: str) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(page_uri)
        seen[scheme] = page.evaluate("getComputedStyle(document.querySelector('svg text')).fill")
        context.close()
    assert seen == {"light": "rgb(27, 31, 36)", "dark": "rgb(232, 236, 241)"}


def test_what_a_chart_writes_stays_inside_it(browser: Any, page_uri: str) -> None:
    page = browser.new_page()
    page.goto(page_uri)
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg text')].filter(text => {
            const [of, chart] = [text.getBoundingClientRect(), text.closest('svg').getBoundingClientRect()];
            return of.left < chart.left - 1 || of.right > chart.right + 1 || of.bottom > chart.bottom + 1;
        }).map(text => text.textContent)"""
    )
    assert outside == []
    page.close()
