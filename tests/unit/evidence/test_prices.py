from __future__ import annotations

from pathlib import Path

import pytest

from noracle import EvidenceError
from noracle.evidence.prices import Prices, read_prices


def test_prices_are_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        "[labels]\nordinary = 4\n[caps]\nordinary = 200\n[raters]\n'auto rater' = 0.02\n",
        encoding="utf-8",
    )
    assert read_prices(file) == Prices(
        labels={"ordinary": 4.0}, caps={"ordinary": 200}, raters={"auto rater": 0.02}
    )


def test_models_of_costs_are_read(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(
        "[raters]\nhuman = 5\n[costs]\nmodel = 'cascade'\noverhead = 0.1\noutput = 0.01\ninput = 0.001\n[lengths]\nshort = 100\n",
        encoding="utf-8",
    )
    assert read_prices(file) == Prices(
        raters={"human": 5.0},
        model="cascade",
        overhead=0.1,
        output=0.01,
        input=0.001,
        lengths={"short": 100.0},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must not be empty"),
        ("[labels\n", "must be TOML"),
        (
            "[label]\nordinary = 1\n",
            "must have the tables labels, caps, raters, costs, lengths, budgets only; got 'label'",
        ),
        ("[labels]\nordinary = 0\n", r"prices\.labels\.ordinary must be a positive number; got 0"),
        ("[labels]\nordinary = nan\n", "positive number"),
        ("[labels]\nordinary = 'four'\n", "positive number"),
        ("[labels]\nordinary = true\n", "positive number"),
        ("[caps]\nordinary = 1.5\n", "whole number"),
        ("labels = 3\n", "must be a table"),
        (
            "[costs]\nmodel = 'median'\n",
            r"prices\.costs\.model must be one of additive, maximum, cascade; got 'median'",
        ),
        ("[costs]\nfee = 1\n", "must have model, overhead, output, input only; got 'fee'"),
        ("[costs]\noverhead = -1\n", r"prices\.costs\.overhead must be a number of at least 0"),
        ("[costs]\nmodel = 'cascade'\n[lengths]\na = 1\n", "must have output"),
        ("[costs]\noutput = 1\n", "must have output"),
        ("[costs]\nmodel = 'cascade'\noutput = 1\n", "must have lengths"),
        ("[lengths]\na = 1\n", "must have lengths"),
        (
            "[costs]\nmodel = 'cascade'\noutput = 1\n[lengths]\na = 0\n",
            r"prices\.lengths\.a must be a positive number",
        ),
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
