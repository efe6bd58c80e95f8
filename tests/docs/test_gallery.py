"""The pictures of the gallery come from ``docs/make_gallery.py``, and are those that the code draws
today.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
REPORTS = ("oversight-report", "report-twenty", "report-answers")
LOOKS = ("", "-1440-dark", "-390-light", "-390-dark")
"""The pictures of ``docs/make_screenshots.py report``."""


@pytest.fixture(scope="module")
def gallery() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_gallery", ROOT / "docs" / "make_gallery.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(svg: str) -> list[str]:
    """What a reader can read in a picture, in order."""
    return [
        text
        for node in ET.fromstring(svg).iter()
        if node.tag.endswith(("}text", "}tspan")) and (text := (node.text or "").strip())
    ]


def n_strokes(svg: str) -> int:
    return len(re.findall(r'<path d="M ', svg))


@pytest.mark.full
def test_the_stored_pictures_are_those_that_the_code_draws(gallery: ModuleType) -> None:
    for name, draw in gallery.PICTURES.items():
        stored = (IMAGES / "gallery" / f"{name}.svg").read_text(encoding="utf-8")
        drawn = gallery.svg_of(draw())
        assert texts(stored) == texts(drawn), f"{name} is stale: run python docs/make_gallery.py"
        assert n_strokes(stored) == n_strokes(drawn), name


@pytest.mark.full
def test_pictures_are_small_have_texts_and_are_the_same_at_every_run(gallery: ModuleType) -> None:
    draw = gallery.PICTURES["alarm"]
    assert gallery.svg_of(draw()) == gallery.svg_of(draw())
    for path in [*(IMAGES / "gallery").glob("*.svg"), IMAGES / "data-flow.svg"]:
        assert path.stat().st_size <= gallery.MOST_BYTES
        assert texts(path.read_text(encoding="utf-8"))
    assert {p.stem for p in (IMAGES / "gallery").glob("*.svg")} == set(gallery.PICTURES)


def test_the_page_shows_every_picture_with_its_numbers(gallery: ModuleType) -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    described = {
        Path(target).stem: words for words, target in re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", page)
    }
    screens = {f"{kind}{look}" for kind in REPORTS for look in LOOKS}
    assert set(described) == set(gallery.PICTURES) | screens
    assert all(re.search(r"\d", words) for words in described.values())


def test_the_flow_names_the_folders_of_the_package(gallery: ModuleType) -> None:
    stored = (IMAGES / "data-flow.svg").read_text(encoding="utf-8")
    assert stored == gallery.data_flow()
    said = texts(stored)
    assert [name for name, _, _ in gallery.BOXES] == [
        s for s in said if s in {"evidence", "counts", "bounds", "estimators", "results", "report"}
    ]
    assert all(
        (ROOT / "src" / "noracle" / name).is_dir()
        for name, _, _ in gallery.BOXES
        if name != "estimators"
    )
    assert "<desc" in stored
