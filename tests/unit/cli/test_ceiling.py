"""``noracle ceiling`` on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from noracle.cli import ceiling
from noracle.errors import EvidenceError

app = typer.Typer(pretty_exceptions_enable=False)
app.command("ceiling", epilog=ceiling.EXAMPLE)(ceiling.command)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    lines = ["item,rater,label"]
    for item in range(40):
        lines += [
            f"{item},{rater},{'b' if item % 4 == 0 and rater == 'cy' else 'a'}"
            for rater in ("ann", "bob", "cy")
        ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def said(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_card_names_bound_and_limit(ratings: Path) -> None:
    text = said("--ratings", str(ratings))
    assert "ceiling on the accuracy of 'average annotator'" in text
    assert "0.917" in text
    assert "95 % upper bound" in text


def test_json_is_one_estimate(ratings: Path) -> None:
    value = json.loads(
        said("--ratings", str(ratings), "--method", "free", "--json", "--by-annotators")
    )
    assert (value["schema"], value["method"], value["side"]) == ("estimate/1", "free", "upper")
    assert [row["annotators"] for row in value["diagnostics"]["by_annotators"]] == [2, 3]


def test_all_shows_every_bound_and_not_what_is_none(ratings: Path) -> None:
    found = json.loads(said("--ratings", str(ratings), "--method", "all", "--json"))["results"]
    assert [r["method"] for r in found] == ["plurality", "free", "quadratic", "paper", "pairwise"]
    values = [r["value"] for r in found]
    assert values[0] <= values[1] <= values[2] <= values[3]


def test_votes_have_no_pairs(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("item,label,n\n1,a,3\n2,a,2\n2,b,1\n", encoding="utf-8")
    found = json.loads(said("--ratings", str(path), "--votes", "--method", "all", "--json"))[
        "results"
    ]
    assert [r["method"] for r in found] == ["plurality", "free", "quadratic", "paper"]
    with pytest.raises(EvidenceError, match="must say who rated"):
        said("--ratings", str(path), "--votes", "--method", "pairwise")


def test_page_is_written(ratings: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    said("--ratings", str(ratings), "--method", "all", "--html", str(page))
    assert "average annotator" in page.read_text(encoding="utf-8")
