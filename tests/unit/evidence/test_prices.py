from __future__ import annotations

from pathlib import Path

import pytest

from noracle import EvidenceError
from noracle.evidence.prices import Prices, read_prices


def test_prices_are_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text("[labels]\nordinary = 4\n[caps]\nordinary = 200\n[raters]\n'auto rater' = 0.02\n", encoding="utf-8")
    assert read_prices(file) == Prices(labels={"ordinary": 4.0}, caps={"ordinary": 200}, raters={"auto rater": 0.02})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must not be empty"),
        ("[labels\n", "must be TOML"),
        ("[label]\nordinary = 1\n", "must have the tables labels, caps, raters only; got 'label'"),
        ("[labels]\nordinary = 0\n", r"prices\.labels\.ordinary must be a positive number; got 0"),
        ("[labels]\nordinary = nan\n", "positive number"),
        ("[labels]\nordinary = 'four'\n", "positive number"),
        ("[labels]\nordinary = true\n", "positive number"),
        ("[caps]\nordinary = 1.5\n", "whole number"),
        ("labels = 3\n", "must be a table"),
    ],
)
def test_bad_prices_say_what_and_where(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(EvidenceError, match=message):
        read_prices(file)


def test_missing_and_binary_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="No such file"):
        read_prices(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EvidenceError, match="UTF-8"):
        read_prices(tmp_path / "bad.toml")
