"""The page of an oversight report: what it says, what it escapes, and how it stays readable."""

from __future__ import annotations

import dataclasses
import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from noracle.errors import ArgumentError
from noracle.oversight import page as pages
from noracle.oversight.page import render_oversight, write_oversight
from noracle.oversight.words import confidence_of, promised
from noracle.report.assumptions import meaning
from noracle.results import Guarantee, Kind
from tests.unit.oversight.reports import (
    HOSTILE,
    REPORTS,
    certificate,
    contradictory,
    crowded,
    report,
    step,
    whole,
    without_systems,
)

VOID = {"meta", "br", "hr"}


class Outline(HTMLParser):
    """Checks that tags are balanced, and collects ids, links, tags and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.figures: list[list[str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        found = [str(values[k]) for k in ("href", "xlink:href", "src") if values.get(k)]
        self.links += found
        if tag == "figure":
            self.figures.append([])
        if "figure" in self.open:
            self.figures[-1] += found
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module", params=REPORTS)
def html(request: pytest.FixtureRequest) -> str:
    return render_oversight(REPORTS[request.param](), command="noracle report evidence")


@pytest.mark.thin(4)
def test_links_stay_on_the_page_and_ids_are_unique(html: str) -> None:
    outline = Outline(html)
    assert len(outline.ids) == len(set(outline.ids))
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)


def test_nothing_runs_and_nothing_is_fetched(html: str) -> None:
    outline = Outline(html)
    assert not {"script", "link", "img", "iframe", "object", "form", "button"} & set(outline.tags)
    assert "default-src 'none'" in html
    assert "@import" not in html
    assert not re.search(r"\son\w+=", html)


def test_every_figure_links_to_the_command_that_makes_it_again(html: str) -> None:
    outline = Outline(html)
    for links in outline.figures:
        assert [link for link in links if link.startswith("#command-")]
    for command_id in {
        link for links in outline.figures for link in links if link.startswith("#command-")
    }:
        assert re.search(rf'<pre id="{command_id[1:]}" tabindex="0"><code>noracle ', html)


def test_headings_go_down_one_at_a_time(html: str) -> None:
    headings = [int(t[1]) for t in Outline(html).tags if re.fullmatch("h[1-6]", t)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(headings))


def test_the_first_screen_says_value_interval_promise_what_it_rests_on_and_the_next_step() -> None:
    first = Outline(render_oversight(whole()).split("<nav")[0] + "</main></body></html>").said
    for text in (
        "What the evidence allows",
        "the best is one of 'agent-7', 'agent-8'",
        "agent-7",
        "0.910",
        "0.870 to 0.940",
        "holds with at least 99 % confidence, however few the labels",
        "the items are a fair sample (assumed)",
        "Ask 1,200 more questions to halve the interval.",
        "Taken together, all statements hold with at least",
        "Next:",
    ):
        assert text in first


def test_what_is_not_said_is_named_with_what_would_make_it_possible() -> None:
    text = Outline(render_oversight(whole())).said
    tail = text.split("What is not said, and why")[2]
    assert "How accurate can people be?" in tail
    assert "Add a table item, rater, label." in tail
    assert "It stopped with an error. the pilot has one row" in tail


def test_found_files_and_those_left_aside_are_named() -> None:
    text = Outline(render_oversight(whole())).said
    assert "answers/part-0004.parquet and 7 more" in text
    assert "12,000" in text
    assert "key.csv a true key: it is not used" in text
    assert "12 files of answers are parts of one table" in text


def test_a_contradiction_stands_before_everything_else_and_there_is_no_joint_promise() -> None:
    text = render_oversight(contradictory())
    assert 0 < text.index("Contradiction: No key fits") < text.index("<table")
    said = Outline(text).said
    assert "Do not rely on the numbers" in said
    assert "There is no joint promise: the parts contradict each other" in said
    assert "all statements hold" not in said


def test_names_from_files_are_escaped_and_cannot_turn_the_page_round() -> None:
    text = render_oversight(contradictory(), command=f"noracle report '{HOSTILE}'")
    assert "<script" not in text
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in text


def test_assumptions_are_explained_in_plain_words() -> None:
    said = Outline(render_oversight(whole())).said
    assert meaning("iid items") in said
    assert meaning("uniform routing") in said


@pytest.mark.full
def test_two_hundred_systems_stay_readable() -> None:
    text = render_oversight(crowded())
    assert len(text) < 2_000_000
    said = Outline(text).said
    assert "Drawn: the first 40 of 200." in said
    assert "… and 19,500 more" in said
    assert "8 of 20 results are not drawn" in said
    assert text.count("<svg") <= 1 + 2 + 1 + 12
    assert all(f"system-{i:03d}" in said for i in range(200))


def test_without_a_system_the_first_screen_says_what_was_answered() -> None:
    first = Outline(
        render_oversight(without_systems()).split("<nav")[0] + "</main></body></html>"
    ).said
    assert "1 of 2 questions can be answered from this evidence, which judges no system." in first
    assert "ceiling of 'annotators': 0.800" in first


def test_same_report_same_bytes() -> None:
    assert render_oversight(whole(), command="c") == render_oversight(whole(), command="c")


def test_two_steps_of_one_name_have_ids_of_their_own() -> None:
    steps = [step("certificate", f"Is {name} better?", certificate(name)) for name in "ab"]
    outline = Outline(render_oversight(report([], steps, [])))
    assert {
        "step-certificate",
        "step-certificate-2",
        "command-certificate",
        "command-certificate-2",
    } <= set(outline.ids)


def test_weak_promises_are_named_as_no_part_of_the_joint_one() -> None:
    made = whole()
    weak = dataclasses.replace(
        made.steps[4].results[0], guarantee=Guarantee(kind=Kind.ASYMPTOTIC, error_rate=0.01)
    )
    made = dataclasses.replace(
        made, steps=(*made.steps[:4], dataclasses.replace(made.steps[4], results=(weak,)))
    )
    assert (
        "This leaves out certificate, where the confidence is about right"
        in pages.joint_sentence(made)
    )


def test_unknown_numbers_are_no_zeros() -> None:
    made = whole()
    unknown = dataclasses.replace(
        made.systems[0], value=float("nan"), low=float("nan"), high=float("nan"), guarantee=None
    )
    vacuous = dataclasses.replace(made.systems[1], value=float("nan"), low=0.0, high=1.0)
    assert pages.limits(unknown) == ("—", "unknown")
    assert pages.limits(vacuous) == ("—", "anything from 0 to 1")
    assert "nothing is promised" in render_oversight(
        dataclasses.replace(made, systems=(unknown, vacuous))
    )


def test_confidence_is_never_rounded_up() -> None:
    assert confidence_of(0.05 / 3) == "98.33 %"
    assert (
        promised(Guarantee(kind=Kind.LOGICAL, error_rate=0.0))
        == "holds for every possible answer key"
    )


def test_page_is_written_whole(tmp_path: Path) -> None:
    target = write_oversight(tmp_path / "report.html", without_systems())
    assert target.read_text(encoding="utf-8").endswith("</html>\n")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(ArgumentError, match="Make the folder"):
        write_oversight(tmp_path / "no" / "report.html", without_systems())
