"""The page of an oversight report: what it says, what it escapes, and how it stays readable."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from noracle.cli import run
from noracle.errors import ArgumentError
from noracle.oversight import page as pages
from noracle.oversight.findings import joint_guarantee
from noracle.oversight.oversight import Oversight
from noracle.oversight.page import render_oversight, write_oversight
from noracle.oversight.words import confidence_of, promised
from noracle.report.assumptions import meaning
from noracle.results import Difference, Guarantee, Kind
from tests.unit.oversight.reports import (
    COMPARISON,
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


def first_screen(made: Oversight) -> str:
    text = render_oversight(made)
    return text.split('<div id="answers">')[0] + "</main></body></html>"


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
    first = Outline(first_screen(whole())).said
    for text in (
        "What the evidence allows",
        "The best of 3 systems is agent-7 or agent-8; these labels cannot tell which.",
        "91.0 %",
        "87.0–94.0",
        "cannot be told apart with these labels",
        "% confidence all intervals hold, if the assumptions are true.",
        "The items are a representative sample of the work you care about.",
        "assumed",
        "How to check it:",
        "checked, p = 0.41",
        "Ask 1,200 questions. It halves every interval.",
        "Price: 72",
        "noracle plan --n-classes 10",
    ):
        assert text in first


def test_what_is_not_said_is_named_with_what_would_make_it_possible() -> None:
    text = Outline(render_oversight(whole())).said
    tail = text.split("What could not be answered, and why?")[1]
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
    assert 0 < text.index("Contradiction: No key fits") < text.index("<figure")
    said = Outline(text).said
    assert "Do not rely on the numbers" in said
    assert "There is no joint promise: the parts contradict each other" in said
    assert "all intervals hold" not in said


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
    assert len(text) < 600_000
    said = Outline(text).said
    assert "Drawn: the first 40 of 200." in said
    assert "… and 19,500 more" in said
    assert all(f"system-{i:03d}" in said for i in range(200))
    chart, tied = pages.systems_chart(crowded())
    assert chart is not None
    assert tied
    assert [row.name for row in chart.rows] == [f"system-{i:03d}" for i in range(200)]
    assert [row.lanes for row in chart.rows] == [("first",), *[("inner",)] * 198, ("last",)]


def test_without_a_system_the_first_screen_says_what_was_answered() -> None:
    first = Outline(first_screen(without_systems())).said
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
    said = Outline(render_oversight(made)).said
    assert "It leaves out certificate, whose confidence is about right" in said
    assert "certificate" not in pages.joint_sentence(made)


def test_unknown_numbers_are_no_zeros() -> None:
    made = whole()
    unknown = dataclasses.replace(
        made.systems[0], value=float("nan"), low=float("nan"), high=float("nan"), guarantee=None
    )
    vacuous = dataclasses.replace(made.systems[1], value=float("nan"), low=0.0, high=1.0)
    assert pages.limits(unknown) == ("—", "unknown")
    assert pages.limits(vacuous) == ("—", "anything from 0 % to 100 %")
    chart, _ = pages.systems_chart(dataclasses.replace(made, systems=(unknown, vacuous)))
    assert chart is not None
    assert [(row.name, row.said, row.more) for row in chart.rows] == [
        ("agent-8", "", "0–100"),
        ("agent-7", "", "unknown"),
    ]


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


@pytest.mark.parametrize(
    ("apart", "runs"),
    [
        ((), [(0, 3)]),
        ({(0, 1), (0, 2), (0, 3)}, [(1, 3)]),
        ({(0, 2), (0, 3), (1, 3)}, [(0, 1), (1, 2), (2, 3)]),
        ({(0, 3)}, [(0, 2), (1, 3)]),
        ({(0, 1), (1, 2), (2, 3)}, []),
        (set(itertools.combinations(range(4), 2)), []),
    ],
)
def test_a_bracket_holds_neighbours_of_whom_no_two_are_told_apart(
    apart: set[tuple[int, int]], runs: list[tuple[int, int]]
) -> None:
    differences = tuple(
        Difference(first="abcd"[i], second="abcd"[j], value=0.1, low=low, high=0.2, n=9)
        for i, j in itertools.combinations(range(4), 2)
        for low in [0.01 if (i, j) in apart else -0.1]
    )
    comparison = dataclasses.replace(COMPARISON, systems=tuple("abcd"), differences=differences)
    assert pages.ties("abcd", comparison) == runs


def test_brackets_match_brute_force_on_random_ties() -> None:
    rng = random.Random(5)
    for _ in range(200):
        n = rng.randint(1, 8)
        names = [f"s{i}" for i in range(n)]
        pairs = {p for p in itertools.combinations(range(n), 2) if rng.random() < 0.6}
        differences = tuple(
            Difference(
                first=names[i],
                second=names[j],
                value=0.1,
                low=-0.1 if (i, j) in pairs else 0.01,
                high=0.2,
                n=9,
            )
            for i, j in itertools.combinations(range(n), 2)
        )
        comparison = dataclasses.replace(COMPARISON, systems=tuple(names), differences=differences)
        whole_runs = [
            (a, b)
            for a, b in itertools.combinations(range(n), 2)
            if set(itertools.combinations(range(a, b + 1), 2)) <= pairs
        ]
        longest = [
            (a, b)
            for a, b in whole_runs
            if not any(c <= a and b <= d and (c, d) != (a, b) for c, d in whole_runs)
        ]
        assert pages.ties(names, comparison) == sorted(longest)


def test_a_claim_is_drawn_and_a_contradiction_draws_no_bracket() -> None:
    made = whole()
    settings = dataclasses.replace(made.inventory.settings, claim="accuracy > 2/3")
    stated = dataclasses.replace(
        made, inventory=dataclasses.replace(made.inventory, settings=settings)
    )
    chart, tied = pages.systems_chart(stated)
    assert chart is not None
    assert tied
    assert chart.lines == [(2 / 3, "claimed: above 66.7 %")]
    chart, tied = pages.systems_chart(contradictory())
    assert chart is not None
    assert (tied, chart.lanes) == ("", 0)
    assert {row.look for row in chart.rows} == {"hint"}


def numbers_of(value: object) -> Iterator[float]:
    """All numbers of a JSON value, also those that its texts hold."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from numbers_of(k)
            yield from numbers_of(v)
    elif isinstance(value, list):
        yield float(len(value))
        for v in value:
            yield from numbers_of(v)
    elif isinstance(value, str):
        yield from (
            float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*(?:e-?\d+)?", value)
        )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)


NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e-?\d+)?")


def numbers_in(text: str) -> list[str]:
    return [m.replace(",", "").rstrip(".") for m in NUMBER.findall(text)]


def texts_of(value: object) -> Iterator[str]:
    """All texts of a JSON value."""
    if isinstance(value, dict):
        yield from (text for pair in value.items() for part in pair for text in texts_of(part))
    elif isinstance(value, list):
        yield from (text for part in value for text in texts_of(part))
    elif isinstance(value, str):
        yield value


def ruled_out_of(value: object) -> Iterator[int]:
    """Answers that were ruled out: those with a ruled-out class, less those that avoided it."""
    if isinstance(value, dict):
        if "complementary_avoided" in value:
            yield value["complementary"] - value["complementary_avoided"]
        yield from (n for part in value.values() for n in ruled_out_of(part))
    elif isinstance(value, list):
        yield from (n for part in value for n in ruled_out_of(part))


def spellings(n: float) -> Iterator[str]:
    """How a page writes a number of the JSON: rounded, in percent, and a confidence rounded down."""
    for x in (n, 100 * n) if n <= 1 else (n,):
        yield from (f"{x:.{d}f}" for d in range(8))
        yield from (f"{x:.{d}g}" for d in range(1, 8))
    if n < 1:
        yield f"{math.floor(1e4 * n + 1e-6) / 100:g}"


def not_in_json(page: str, made: dict[str, Any]) -> list[str]:
    """The numbers of a page that its JSON does not hold; axes of charts have their ticks."""
    known = {abs(n) for n in numbers_of(made)} | {*ruled_out_of(made)}
    known |= {1 - n for n in known if n <= 1}  # a confidence is one minus an error rate
    said = {s for n in known for s in spellings(n)}
    said |= {m for text in texts_of(made) for m in numbers_in(text)}
    axes = r"(?s)<style>.*?</style>|<div class=\"axis\".*?</div>|<svg.*?</svg>"
    text = Outline(re.sub(axes, "", page)).said
    for name in sorted((s["system"] for s in made["systems"]), key=len, reverse=True):
        text = text.replace(name, "").replace(repr(name), "")
    return [m for m in numbers_in(text) if not {m, m.rstrip("0").rstrip(".") or "0"} & said]


@pytest.mark.parametrize("name", REPORTS)
def test_every_number_of_the_page_is_in_the_json(name: str) -> None:
    made = REPORTS[name]()
    made = dataclasses.replace(made, guarantee=joint_guarantee(made.steps))
    assert not_in_json(render_oversight(made), made.to_dict()) == []


@pytest.mark.full
def test_every_number_of_the_page_of_the_demo_is_in_its_json(tmp_path: Path) -> None:
    assert run(["-q", "demo", "--seed", "7", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    made = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert not_in_json(page, made) == []
    assert len(NUMBER.findall(Outline(page).said)) > 1000
    made["systems"][0]["value"] = 0.123456  # which is how a number that is missing is found
    for asked in made["steps"]:
        asked["results"] = [r for r in asked["results"] if r.get("subject") != "agent-1"]
    assert not_in_json(page, made) != []


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (1.0, 1.0, 1.0, "agent-7 is right on 100.0 % of the items (100.0 to 100.0 %)."),
        (0.5, 0.4999999, 0.5000001, "agent-7 is right on 50.000000 % of the items"),
        (math.nan, 0.0, 1.0, "how accurate the system is: there are too few labels."),
        (math.nan, 0.2, 0.8, "agent-7 is right on 20.0 to 80.0 % of the items."),
        (math.nan, math.nan, math.nan, "how accurate the system is: there are too few labels."),
    ],
)
def test_one_system_in_a_sentence_at_the_edges(
    value: float, low: float, high: float, said: str
) -> None:
    made = whole()
    line = dataclasses.replace(made.systems[0], value=value, low=low, high=high)
    made = dataclasses.replace(made, systems=(line,), steps=made.steps[:1])
    assert said in pages.lead(made)
    assert "nan" not in Outline(first_screen(made)).said
