from __future__ import annotations

import itertools
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import pytest

from noracle.errors import ArgumentError
from noracle.report.chart import Chart
from noracle.report.page import render_page, write_page
from tests.unit.report.samples import CHECK, COMPARISON, ESTIMATE, SAMPLES

VOID = {"meta", "br", "hr", "img", "input", "link"}
TITLE = "Which agent is right & how often?"


class Outline(HTMLParser):
    """Checks that tags are balanced, and collects ids, links, headings and the contents of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        self.attributes.append((tag, values))
        if values.get("id"):
            self.ids.append(str(values["id"]))
        self.links += [str(values[k]) for k in ("href", "xlink:href", "src") if values.get(k)]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(
        SAMPLES.values(), title=TITLE, command="noracle estimate --answers 'a <b>.csv'", seed=7
    )


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_ids_are_unique_and_every_link_stays_on_the_page(outline: Outline) -> None:
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.links
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)


def test_nothing_runs_and_nothing_is_fetched(page: str, outline: Outline) -> None:
    assert "script" not in outline.tags
    assert not {"link", "img", "iframe", "object"} & set(outline.tags)
    assert "url(http" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_landmarks_and_headings(outline: Outline) -> None:
    assert [outline.tags.count(t) for t in ("header", "nav", "main", "footer", "h1")] == [
        1,
        1,
        1,
        1,
        1,
    ]
    headings = [int(t[1]) for t in outline.tags if re.fullmatch("h[1-6]", t)]
    assert headings[0] == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(headings))
    assert dict(outline.attributes)["html"] == {"lang": "en"}


def test_every_plot_is_an_image_with_a_title(outline: Outline) -> None:
    drawings = [values for tag, values in outline.attributes if tag == "svg"]
    assert (
        len(drawings) == len(SAMPLES) + 3
    )  # the overview, and two plots of the comparison and of the analysis
    for values in drawings:
        assert values["role"] == "img"
        assert values["aria-labelledby"] in outline.ids


def test_the_page_holds_the_numbers_and_what_they_rest_on(page: str) -> None:
    for text in (
        "0.708",
        "0.869",
        "+0.191",
        "12,100",
        "What it rests on",
        "What was excluded",
        "How it was made",
        "seed",
        "HEURISTIC",
    ):
        assert text in page
    assert "nothing in the evidence was used to check it" in page
    assert "4 judgements without answers (not used)" in page


def test_everything_is_escaped(page: str) -> None:
    assert "<script" not in page
    assert "<b>" not in page
    assert "right &amp; how" in page


def test_tables_are_in_scrolling_regions(page: str) -> None:
    assert page.count("<table>") == len(re.findall(r'<div class="scroll"[^>]*>\s*<table>', page))


def test_same_results_give_the_same_bytes(page: str) -> None:
    assert (
        render_page(
            SAMPLES.values(), title=TITLE, command="noracle estimate --answers 'a <b>.csv'", seed=7
        )
        == page
    )


def test_one_result_has_no_overview() -> None:
    assert 'id="overview"' not in render_page([ESTIMATE], title="One")


def test_no_results_still_make_a_page() -> None:
    assert "0 results" in render_page([], title="None")


def test_page_is_written_whole_and_readable_by_others(tmp_path: Path) -> None:
    target = write_page(tmp_path / "report.html", [COMPARISON, CHECK], title="Two")
    assert target == tmp_path / "report.html"
    assert target.read_text(encoding="utf-8").endswith("</html>\n")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    plain = tmp_path / "plain"
    plain.write_text("")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_failed_write_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def fail(self: Path, other: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_page(target, [CHECK], title="New")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "old"


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="Make the folder"):
        write_page(tmp_path / "no" / "report.html", [CHECK], title="x")


def test_svg_uses_the_colours_of_the_page() -> None:
    chart = Chart()
    ESTIMATE.plot(chart)
    text = chart.svg(name="one", title="A <title>")
    assert "var(--blue)" in text
    assert not re.search(r"#[0-9a-f]{6}\b", text)
    assert "A &lt;title&gt;" in text
    assert "Date" not in text


def test_contrast_is_at_least_double_a_in_both_modes() -> None:
    import importlib.resources

    css = (importlib.resources.files("noracle.report") / "templates" / "style.css").read_text(
        encoding="utf-8"
    )
    light, dark = re.findall(r":root \{(.*?)\}", css, flags=re.DOTALL)
    for mode in (light, dark):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", mode))
        for text in ("ink", "grey", "blue", "orange"):
            assert _contrast(colours[text], colours["paper"]) >= 4.5
        for background in ("panel", "alert"):
            assert _contrast(colours["ink"], colours[background]) >= 4.5


def _contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)
