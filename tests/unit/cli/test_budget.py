"""``noracle plan --pilot`` and ``noracle mean``: from a pilot in a file to a plan, and from rows to
an estimate.
"""

from __future__ import annotations

import csv
import json
import random
from collections import Counter
from pathlib import Path

import pytest

import noracle as library
from noracle.cli import mean
from noracle.ppi import Cascade, Maximum, complementary, ordinary, plan_budget, question, targeted
from tests.unit.cli.conftest import Ended, Run
from tests.unit.cli.test_verbs import assert_valid

PRICES = {"human": 4.0, "judge": 0.1, "mini": 0.01}
RATERS = list(PRICES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pilot in wide and in long form, with prices; the last rows lack the human."""
    rng = random.Random(3)
    rows = []
    for item in range(240):
        human = int(rng.random() < 0.6)
        judge = human if rng.random() < 0.9 else 1 - human
        mini = human if rng.random() < 0.7 else 1 - human
        rows.append([f"q{item}", human if item < 120 else "", judge, mini])
    with (tmp_path / "pilot.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["item", *RATERS], *rows])
    with (tmp_path / "long.csv").open("w", newline="", encoding="utf-8") as file:
        long = [
            [row[0], rater, value]
            for row in rows
            for rater, value in zip(RATERS, row[1:], strict=True)
            if value != ""
        ]
        csv.writer(file).writerows([["item", "rater", "value"], *long])
    lines = "".join(f"{name} = {price}\n" for name, price in PRICES.items())
    (tmp_path / "prices.toml").write_text(f"[raters]\n{lines}", encoding="utf-8")
    return tmp_path


def options(
    folder: Path, *more: object, pilot: str = "pilot.csv", costs: str = "prices.toml"
) -> list[object]:
    return [
        "plan",
        f"--pilot={folder / pilot}",
        "--target=human",
        f"--costs={folder / costs}",
        *more,
    ]


def assert_one_line(ended: Ended, *words: str) -> None:
    assert (ended.code, ended.out) == (2, ""), ended
    assert ended.err.count("\n") == 1
    assert ended.err.startswith("error: ")
    for word in words:
        assert word in ended.err


def test_plan_is_that_of_the_library(noracle: Run, folder: Path) -> None:
    ended = noracle(*options(folder, "--budget", 500, "--json"))
    assert (ended.code, ended.err) == (0, "")
    assert_valid(ended.json)
    expected = plan_budget(folder / "pilot.csv", target="human", costs=PRICES, budgets=500)
    assert ended.json["buy"] == expected.buy
    assert ended.json["predicted"] == expected.predicted
    plan = library.read_result(ended.json)
    assert isinstance(plan, library.Plan)
    assert plan.verify()


def test_long_and_wide_pilot_give_the_same_plan(noracle: Run, folder: Path) -> None:
    wide = noracle(*options(folder, "--budget", 500, "--json")).json
    long = noracle(*options(folder, "--budget", 500, "--json", pilot="long.csv")).json
    assert wide["buy"] == long["buy"]
    assert wide["predicted"] == pytest.approx(long["predicted"], rel=1e-12)


def test_card_tells_what_to_buy_what_is_proved_and_what_more_money_brings(
    noracle: Run, folder: Path
) -> None:
    ended = noracle(*options(folder, "--budget", 500, "--have", "pilot", "--verify"))
    assert ended.code == 0
    for words in (
        "plan for budget 500",
        "predicted ± ",
        "classical",
        "PPI++ judge",
        "weights in the estimate",
        "in hand",
        "verified: yes",
    ):
        assert words in ended.out
    assert "at most" in ended.out.split("proved")[1]
    assert "one more of 'budget' narrows ± by" in ended.out


def test_rows_in_hand_narrow_the_plan_by_pilot_or_by_counts(noracle: Run, folder: Path) -> None:
    fresh, pilot, counted = (
        noracle(*options(folder, "--budget", 500, "--json", *have)).json["predicted"]
        for have in (
            [],
            ["--have", "pilot"],
            ["--have", "human+judge+mini=120", "--have", "judge+mini=120"],
        )
    )
    assert pilot < fresh
    assert counted == pytest.approx(pilot, rel=1e-12)


def test_smallest_budget_for_a_half_width(noracle: Run, folder: Path) -> None:
    ended = noracle(*options(folder, "--half-width", 0.04, "--json", "--verify"))
    assert ended.code == 0
    assert ended.json["goal"] == "half-width"
    assert ended.json["predicted"] <= 0.04
    assert ended.json["diagnostics"]["gap"] < 0.01


def test_half_width_within_a_budget(noracle: Run, folder: Path) -> None:
    least = noracle(*options(folder, "--half-width", 0.04, "--json")).json["cost"]
    within = noracle(*options(folder, "--half-width", 0.04, "--budget", 2 * least, "--json"))
    assert within.code == 0
    assert within.json["cost"] == least
    missed = noracle(*options(folder, "--half-width", 0.04, "--budget", least / 2, "--json"))
    assert missed.code == 3
    assert missed.json["predicted"] > 0.04
    assert missed.json["cost"] <= least / 2
    assert "± 0.04 is out of reach" in missed.json["reason"]
    assert (
        "out of reach" in noracle(*options(folder, "--half-width", 0.04, "--budget", least / 2)).out
    )


def test_price_models_of_the_file(noracle: Run, folder: Path) -> None:
    def planned(text: str) -> float:
        (folder / "other.toml").write_text(text, encoding="utf-8")
        return float(
            noracle(*options(folder, "--budget", 300, "--json", costs="other.toml")).json[
                "predicted"
            ]
        )

    lines = "".join(f"{name} = {price}\n" for name, price in PRICES.items())
    pilot = folder / "pilot.csv"
    slowest = plan_budget(
        pilot, target="human", costs=Maximum(prices=PRICES, per_item=0.5), budgets=300
    )
    assert (
        planned(f"[raters]\n{lines}[costs]\nmodel = 'maximum'\noverhead = 0.5\n")
        == slowest.predicted
    )
    words = Cascade(
        lengths={"mini": 100, "judge": 400}, output=1e-3, input=1e-4, prices={"human": 4.0}
    )
    nested = plan_budget(pilot, target="human", costs=words, budgets=300)
    text = "[raters]\nhuman = 4\n[costs]\nmodel = 'cascade'\noutput = 1e-3\ninput = 1e-4\n[lengths]\nmini = 100\njudge = 400\n"
    assert planned(text) == nested.predicted


def test_kinds_of_label_and_caps(noracle: Run, folder: Path) -> None:
    (folder / "labels.toml").write_text(
        "[labels]\nordinary = 4\ncomplementary = 0.5\n[raters]\njudge = 0.1\n[caps]\nordinary = 30\n",
        encoding="utf-8",
    )
    line = options(
        folder,
        "--budget",
        300,
        "--n-classes",
        4,
        "--cost",
        "complementary-2=0.9",
        costs="labels.toml",
    )
    ended = noracle(*line, "--json")
    assert ended.code == 0
    labels = [
        ordinary(price=4),
        complementary(n_classes=4, price=0.5),
        complementary(n_classes=4, n_ruled_out=2, price=0.9),
    ]
    expected = plan_budget(
        folder / "pilot.csv",
        target="human",
        costs={"judge": 0.1},
        budgets=300,
        labels=labels,
        caps={"ordinary": 30},
    )
    assert ended.json["buy"] == expected.buy
    assert sum(n for name, n in ended.json["buy"].items() if name.startswith("ordinary")) <= 30
    assert "cap ordinary" in noracle(*line).out
    assert_one_line(
        noracle(*options(folder, "--budget", 300, costs="labels.toml")), "--n-classes must be given"
    )


def test_strata(noracle: Run, folder: Path) -> None:
    rows = (folder / "pilot.csv").read_text(encoding="utf-8").splitlines()
    text = [
        f"{rows[0]},topic",
        *(f"{row},{'law' if i % 3 else 'art'}" for i, row in enumerate(rows[1:])),
    ]
    (folder / "topics.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    shares = ["--strata", "topic", "--share", "law=0.5", "--share", "art=0.5"]
    planned = noracle(*options(folder, "--budget", 500, "--json", *shares, pilot="topics.csv"))
    assert planned.code == 0
    assert {name.split("/")[0] for name in planned.json["buy"]} == {"law", "art"}
    found = noracle("mean", f"--data={folder / 'topics.csv'}", "--target=human", *shares, "--json")
    assert found.code == 0
    assert found.json["low"] < 0.6 < found.json["high"]


def test_items_of_strata_are_drawn_within_them(noracle: Run, folder: Path) -> None:
    rows = (folder / "pilot.csv").read_text(encoding="utf-8").splitlines()
    text = [
        f"{rows[0]},topic",
        *(f"{row},{'law' if i % 3 else 'art'}" for i, row in enumerate(rows[1:])),
    ]
    (folder / "topics.csv").write_text("\n".join(text) + "\n", encoding="utf-8")
    items = [
        "item,topic",
        *(f"{topic}{i},{topic}" for i in range(20_000) for topic in ("law", "art")),
    ]
    (folder / "items.csv").write_text("\n".join(items) + "\n", encoding="utf-8")
    more = [
        "--strata",
        "topic",
        f"--items={folder / 'items.csv'}",
        f"--assign={folder / 'work.csv'}",
        "--json",
    ]
    planned = noracle(*options(folder, "--budget", 500, *more, pilot="topics.csv"))
    assert planned.code == 0
    with (folder / "work.csv").open(encoding="utf-8", newline="") as file:
        drawn = {row["item"] for row in csv.DictReader(file)}
    law = sum(n for name, n in planned.json["buy"].items() if name.startswith("law/"))
    assert sum(item.startswith("law") for item in drawn) == law


def test_page_draws_allocation_and_weights_over_the_budget(noracle: Run, folder: Path) -> None:
    assert noracle(*options(folder, "--budget", 500, f"--html={folder / 'plan.html'}")).code == 0
    page = (folder / "plan.html").read_text(encoding="utf-8")
    assert page.count("<svg ") == 3
    for words in (
        "Items of each set over the budget",
        "Weights over the budget",
        "shadow price",
        "The plan and simpler ones",
    ):
        assert words in page


def test_plan_is_kept_and_read_by_mean(noracle: Run, folder: Path) -> None:
    assert noracle(
        *options(folder, "--budget", 500, "--have", "pilot", f"--out={folder / 'plan.json'}")
    ).out.endswith("plan.json\n")
    by_plan = noracle(
        "mean", f"--data={folder / 'pilot.csv'}", f"--plan={folder / 'plan.json'}", "--json"
    )
    by_name = noracle("mean", f"--data={folder / 'long.csv'}", "--target=human", "--json")
    assert (by_plan.code, by_plan.err) == (0, "")
    assert_valid(by_plan.json)
    assert by_plan.json["value"] == pytest.approx(by_name.json["value"], rel=1e-9)
    expected = library.estimate_mean(folder / "pilot.csv", target="human")
    assert by_plan.json["low"] == pytest.approx(expected.low, rel=1e-9)


@pytest.mark.parametrize("interval", ["crossfit-t", "jackknife-t", "paper", "classical"])
def test_mean_by_every_interval(noracle: Run, folder: Path, interval: str) -> None:
    ended = noracle(
        "mean", f"--data={folder / 'pilot.csv'}", "--target=human", "--interval", interval, "--json"
    )
    assert ended.code == 0
    assert ended.json["interval"] == interval
    assert ended.json["low"] < 0.6 < ended.json["high"]
    beside = ended.json["diagnostics"]["classical"]
    narrower = ended.json["high"] - ended.json["low"] < beside["high"] - beside["low"]
    assert narrower is (interval != "classical")


def test_anytime_interval_holds_at_every_look(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "mean",
        f"--data={folder / 'pilot.csv'}",
        "--target=human",
        "--interval",
        "anytime",
        "--json",
    )
    assert ended.code == 0
    assert ended.json["guarantee"]["anytime"] is True
    assert ended.json["low"] < 0.6 < ended.json["high"]
    card = noracle(
        "mean",
        f"--data={folder / 'pilot.csv'}",
        "--target=human",
        "--interval",
        "anytime",
        f"--html={folder / 'mean.html'}",
    ).out
    assert "asymptotic confidence sequence" in card
    assert "valid at every look" in card
    assert "with a standard error of" in card


def test_mean_shows_the_classical_interval_beside(noracle: Run, folder: Path) -> None:
    ended = noracle(
        "mean",
        f"--data={folder / 'pilot.csv'}",
        "--target=human",
        f"--html={folder / 'mean.html'}",
        "--seed",
        5,
    )
    assert ended.code == 0
    for words in (
        "mean of 'human'",
        "from the labels alone",
        "they leave",
        "240 items, 120 of them with 'human'",
        "seed 5",
    ):
        assert words in ended.out
    assert "vacuous" not in ended.out
    page = (folder / "mean.html").read_text(encoding="utf-8")
    assert "classical: the labels alone" in page


def test_differences_sides_and_chosen_sets(noracle: Run, folder: Path) -> None:
    data = f"--data={folder / 'pilot.csv'}"
    gap = noracle("mean", data, "--target", "human=1,judge=-1", "--json").json
    assert gap["subject"] == "human − judge"
    assert gap["low"] < 0 < gap["high"]
    lower = noracle("mean", data, "--target=human", "--side", "lower", "--json").json
    assert lower["side"] == "lower"
    assert "lower bound" in noracle("mean", data, "--target=human", "--side", "lower").out
    chosen = noracle(
        "mean", data, "--target=human", "--measurements", "human+judge,judge", "--json"
    ).json
    assert list(chosen["diagnostics"]["measurements"]) == ["human+judge", "judge"]
    fewer = noracle("mean", data, "--target=human", "--raters", "human,judge", "--json").json
    assert list(fewer["diagnostics"]["measurements"]) == ["human+judge", "judge"]
    assert fewer["value"] == pytest.approx(
        chosen["value"], abs=2e-3
    )  # other raters take part in the shrinkage
    doubled = noracle("mean", data, "--target=human", "--same-mean", "mini=human", "--json").json
    assert (
        doubled["diagnostics"]["weights"]["judge+mini"]["mini"] > 0.1
    )  # mini is a label now, not a rater


def test_a_mean_that_leaves_the_unit_interval_is_not_called_vacuous(
    noracle: Run, tmp_path: Path
) -> None:
    rows = [f"{x},{x + 1}" for x in range(-60, 61)]
    (tmp_path / "wide.csv").write_text("gold,rater\n" + "\n".join(rows) + "\n", encoding="utf-8")
    ended = noracle(
        "mean", f"--data={tmp_path / 'wide.csv'}", "--target=gold", "--interval", "classical"
    )
    assert ended.code == 0
    assert "95 % interval [-6.3" in ended.out


def test_few_labels_are_warned_about(noracle: Run, folder: Path) -> None:
    rows = (folder / "pilot.csv").read_text(encoding="utf-8").splitlines()
    (folder / "few.csv").write_text("\n".join(rows[:31]) + "\n", encoding="utf-8")
    ended = noracle("mean", f"--data={folder / 'few.csv'}", "--target=human")
    assert ended.code == 0
    assert ended.err.startswith("warning: only 30 labelled rows")


def test_items_are_drawn_at_random_and_each_is_looked_at_once(noracle: Run, folder: Path) -> None:
    (folder / "items.csv").write_text(
        "item\n" + "\n".join(f"q{i}" for i in range(20_000)) + "\n", encoding="utf-8"
    )

    def drawn(seed: int) -> list[dict[str, str]]:
        more = [
            f"--items={folder / 'items.csv'}",
            f"--assign={folder / 'work.csv'}",
            "--seed",
            seed,
        ]
        assert (
            noracle(*options(folder, "--budget", 500, f"--out={folder / 'plan.json'}", *more)).code
            == 0
        )
        with (folder / "work.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    rows = drawn(1)
    assert rows == drawn(1)
    assert rows != drawn(2)
    assert {row["value"] for row in rows} == {""}
    sets: dict[str, list[str]] = {}
    for row in rows:
        sets.setdefault(row["item"], []).append(row["rater"])
    assert not {f"q{i}" for i in range(240)} & set(sets)
    buy = json.loads((folder / "plan.json").read_text(encoding="utf-8"))["buy"]
    assert Counter("+".join(raters) for raters in sets.values()) == buy
    (folder / "items.csv").write_text("item\nq1\nq500\n", encoding="utf-8")
    line = options(folder, "--budget", 500, f"--items={folder / 'items.csv'}")
    assert_one_line(
        noracle(*line, f"--assign={folder / 'work.csv'}"),
        "--items must have",
        "more items that the pilot does not hold",
    )
    assert_one_line(noracle(*line), "--items and --assign must come together")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ([], ("--budget or --half-width",)),
        (["--budget", "-5"], ("budgets must be positive",)),
        (["--budget", "5"], ("must be at least 8",)),
        (["--budget", "500", "--match", "3"], ("--match must come without --pilot",)),
        (["--budget", "500", "--have", "pilots"], ("--have must be name=number",)),
        (["--budget", "500", "--have", "human=1.5"], ("whole number",)),
        (
            ["--budget", "500", "--cost", "targeted=1"],
            ("--n-classes must be given with the label 'targeted'",),
        ),
        (["--budget", "500", "--cost", "nobody=1"], ("nobody",)),
        (["--budget", "500", "--share", "a=1"], ("--share must come with --strata",)),
        (["--budget", "500", "--cap", "human=0.5"], ("--cap must be a whole number",)),
        (
            ["--budget", "500", "--out", "nowhere/plan.json"],
            ("--out must lie in a folder that exists",),
        ),
    ],
)
def test_wrong_plans_are_one_line(
    noracle: Run, folder: Path, more: list[str], words: tuple[str, ...]
) -> None:
    assert_one_line(noracle(*options(folder, *more)), *words)


def test_questions_and_targeted_labels_are_kinds_beside_raters(noracle: Run, folder: Path) -> None:
    prices = [
        "--cost",
        "question-2=0.3",
        "--cost",
        "targeted=1",
        "--cost",
        "judge=0.1",
        "--cap",
        "question-2=100",
        "--epsilon",
        0.2,
    ]
    plan = [
        "plan",
        f"--pilot={folder / 'pilot.csv'}",
        "--target=human",
        *prices,
        "--n-classes",
        4,
        "--budget",
        300,
    ]
    ended = noracle(*plan, "--verify", "--json")
    assert (ended.code, ended.err) == (0, "")
    expected = plan_budget(
        folder / "pilot.csv",
        target="human",
        costs={"judge": 0.1},
        budgets=300,
        caps={"question-2": 100},
        labels=[
            question(n_classes=4, n_asked=2, price=0.3),
            targeted(n_classes=4, epsilon=0.2, price=1.0),
        ],
    )
    assert ended.json["buy"] == expected.buy
    kinds = {word for name in expected.buy for word in name.split("+")}
    assert {"question-2", "targeted"} <= kinds


def test_missing_pieces_are_one_line(noracle: Run, folder: Path) -> None:
    pilot = f"--pilot={folder / 'pilot.csv'}"
    assert_one_line(noracle("plan", pilot, "--budget", 500), "--target must name the rater")
    assert_one_line(
        noracle("plan", pilot, "--target=human", "--budget", 500), "prices must be given"
    )
    assert_one_line(
        noracle("plan", "--target=human", "--budget", 500), "--target must come with --pilot"
    )
    assert_one_line(
        noracle("plan", "--budget", 500),
        "--n-classes and --accuracy must be given, or a folder with evidence, or --pilot",
    )
    assert_one_line(noracle(*options(folder, "--budget", 500, pilot="nowhere.csv")), "nowhere.csv")


def test_wrong_means_are_one_line(noracle: Run, folder: Path) -> None:
    data = f"--data={folder / 'pilot.csv'}"
    assert_one_line(noracle("mean", data), "--target must name the gold rater")
    assert_one_line(noracle("mean", "--target=human"), "--data")
    assert_one_line(noracle("mean", data, "--target=nobody"), "nobody")
    assert_one_line(noracle("mean", data, "--target=human", "--interval=exact"), "exact")
    assert_one_line(
        noracle("mean", data, "--target=human", "--same-mean=judge"),
        "--same-mean must be column=name",
    )
    assert_one_line(
        noracle("mean", f"--data={folder / 'nowhere.csv'}", "--target=human"), "nowhere.csv"
    )
    assert_one_line(
        noracle("mean", data, f"--plan={folder / 'nowhere.json'}"), "--plan must be a readable file"
    )
    for text in ("[1]", "{}", '{"schema": "plan/9"}', json.dumps(_labels_plan())):
        (folder / "bad.json").write_text(text, encoding="utf-8")
        assert_one_line(
            noracle("mean", data, f"--plan={folder / 'bad.json'}"), "--plan must hold a plan"
        )


def _labels_plan() -> dict[str, object]:
    return library.plan_labels(n_classes=4, accuracy=0.7, half_width=0.1, kind="ordinary").to_dict()


def test_examples_of_the_help_run(
    noracle: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from noracle.cli import plan

    monkeypatch.chdir(folder)
    for line in plan.EXAMPLE.splitlines():
        if "--pilot" in line:
            assert noracle(*line.split()[1:]).code == 0, line
    (folder / "scores.csv").write_bytes((folder / "pilot.csv").read_bytes())
    (folder / "work.csv").write_text(
        "item,rater,value\nw1,human,1\nw2,judge,0\nw3,human,0\n", encoding="utf-8"
    )
    for line in mean.EXAMPLE.splitlines():
        if line.startswith("noracle"):
            assert noracle(*line.split()[1:]).code == 0, line


# --------------------------------------------------------------------------------------------------
# several files, several budgets


def halves(folder: Path) -> None:
    """The pilot in two files: the first rows wide, the others long."""
    lines = (folder / "pilot.csv").read_text(encoding="utf-8").splitlines()
    (folder / "first.csv").write_text("\n".join(lines[:121]) + "\n", encoding="utf-8")
    rest = [line.split(",") for line in lines[121:]]
    long = [
        f"{row[0]},{rater},{value}"
        for row in rest
        for rater, value in zip(RATERS, row[1:], strict=True)
    ]
    (folder / "rest.csv").write_text(
        "\n".join(["item,rater,value", *long]) + "\n", encoding="utf-8"
    )


def test_all_files_of_data_are_used_wide_and_long(noracle: Run, folder: Path) -> None:
    halves(folder)
    whole = noracle("mean", f"--data={folder / 'pilot.csv'}", "--target=human", "--json").json
    first, rest = f"--data={folder / 'first.csv'}", f"--data={folder / 'rest.csv'}"
    for line in (
        [first, rest],
        [rest, first],
        [first, rest, first],
    ):  # a file that is given twice counts once
        found = noracle("mean", *line, "--target=human", "--json")
        assert found.code == 0, found
        assert [found.json[k] for k in ("value", "low", "high", "counts")] == [
            whole[k] for k in ("value", "low", "high", "counts")
        ]
    alone = noracle("mean", first, "--target=human", "--json").json
    assert alone["counts"]["items"] == 120 < whole["counts"]["items"] == 240


def test_rows_of_one_item_in_two_files_are_one_row(noracle: Run, folder: Path) -> None:
    rows = [
        line.split(",")
        for line in (folder / "pilot.csv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    (folder / "human.csv").write_text(
        "\n".join(["item,human", *(f"{r[0]},{r[1]}" for r in rows if r[1])]) + "\n",
        encoding="utf-8",
    )
    (folder / "machines.csv").write_text(
        "\n".join(["item,judge,mini", *(f"{r[0]},{r[2]},{r[3]}" for r in rows)]) + "\n",
        encoding="utf-8",
    )
    apart = noracle(
        "mean",
        f"--data={folder / 'human.csv'}",
        f"--data={folder / 'machines.csv'}",
        "--target=human",
        "--json",
    ).json
    whole = noracle("mean", f"--data={folder / 'pilot.csv'}", "--target=human", "--json").json
    assert [apart[k] for k in ("value", "low", "high", "counts")] == [
        whole[k] for k in ("value", "low", "high", "counts")
    ]


def test_files_that_contradict_each_other_or_name_no_items(noracle: Run, folder: Path) -> None:
    pilot = f"--data={folder / 'pilot.csv'}"
    (folder / "other.csv").write_text("item,rater,value\nq0,judge,0.5\n", encoding="utf-8")
    rule = "data.judge must have one value for each item in all files together; got two at item q0"
    assert_one_line(
        noracle("mean", pilot, f"--data={folder / 'other.csv'}", "--target=human"), rule
    )
    (folder / "twice.csv").write_text("item,human,judge\n1,0,1\n1,1,0\n", encoding="utf-8")
    assert_one_line(
        noracle("mean", pilot, f"--data={folder / 'twice.csv'}", "--target=human"),
        "must have one row for each item",
    )
    assert_one_line(
        noracle("mean", pilot, f"--data={folder / 'nowhere.csv'}", "--target=human"), "nowhere.csv"
    )
    (folder / "bare.csv").write_text("human,judge,mini\n1,1,1\n0,0,1\n", encoding="utf-8")
    ended = noracle("mean", pilot, f"--data={folder / 'bare.csv'}", "--target=human", "--json")
    assert ended.json["counts"]["items"] == 242
    assert "no column item" in ended.err


def test_a_pilot_that_the_plan_counted_and_the_data_lack_is_noted(
    noracle: Run, folder: Path
) -> None:
    assert (
        noracle(
            *options(folder, "--budget", 500, "--have", "pilot", f"--out={folder / 'plan.json'}")
        ).code
        == 0
    )
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    bought = sum(n for name, n in plan["buy"].items() if "human" in name.split("+"))
    rng = random.Random(5)
    work = [
        f"w{i},{rater},{rng.randint(0, 1)}"
        for i in range(bought)
        for rater in ("human", "judge", "mini")
    ]
    (folder / "work.csv").write_text(
        "\n".join(["item,rater,value", *work]) + "\n", encoding="utf-8"
    )
    note = f"the plan counted 120 labelled rows in hand and {bought} to come, and the data have {bought}: if the pilot is not among them"
    line = ["mean", f"--plan={folder / 'plan.json'}", f"--data={folder / 'work.csv'}"]
    assert any(said.startswith(note) for said in noracle(*line, "--json").json["notes"])
    both = noracle(*line, f"--data={folder / 'pilot.csv'}", "--json").json
    assert not any("labelled rows in hand" in n for n in both["notes"])


MINUTES = {"human": 3.0, "judge": 0.0, "mini": 0.0}


@pytest.mark.parametrize("by_file", [True, False])
def test_several_named_budgets(noracle: Run, folder: Path, by_file: bool) -> None:
    budgets = ["--budget", "money=500", "--budget", "minutes=150"]
    if by_file:
        (folder / "more.toml").write_text(
            (folder / "prices.toml").read_text(encoding="utf-8") + "[budgets.minutes]\nhuman = 3\n"
        )
        ended = noracle(*options(folder, *budgets, "--verify", "--json", costs="more.toml"))
    else:
        ended = noracle(
            *options(folder, *budgets, "--cost", "minutes:human=3", "--verify", "--json")
        )
    assert ended.code == 0, ended
    costs = {"money": PRICES, "minutes": MINUTES}
    expected = plan_budget(
        folder / "pilot.csv", target="human", costs=costs, budgets={"money": 500, "minutes": 150}
    )
    assert ended.json["buy"] == expected.buy
    assert ended.json["diagnostics"]["spent"] == expected.diagnostics["spent"]
    assert ended.json["diagnostics"]["spent"]["minutes"] <= 150
    free = plan_budget(folder / "pilot.csv", target="human", costs=PRICES, budgets=500)
    assert free.predicted < expected.predicted  # the minutes bind


def test_smallest_budget_beside_a_named_one(noracle: Run, folder: Path) -> None:
    minutes = ["--cost", "minutes:human=3", "--budget", "minutes=600"]
    ended = noracle(*options(folder, "--half-width", 0.05, *minutes, "--json"))
    assert ended.code == 0, ended
    expected = plan_budget(
        folder / "pilot.csv",
        target="human",
        costs={"money": PRICES, "minutes": MINUTES},
        budgets={"money": None, "minutes": 600},
        half_width=0.05,
    )
    assert (ended.json["cost"], ended.json["predicted"]) == (expected.cost, expected.predicted)
    missed = noracle(
        *options(folder, "--half-width", 0.05, *minutes, "--budget", "money=20", "--json")
    )
    assert missed.code == 3
    assert "out of reach within 20 money and 600 minutes" in missed.json["reason"]


def test_chosen_sets_are_the_only_ones_that_are_bought(noracle: Run, folder: Path) -> None:
    ended = noracle(
        *options(folder, "--budget", 500, "--measurements", "human+mini,mini", "--json")
    )
    assert ended.code == 0, ended
    assert set(ended.json["buy"]) <= {"human+mini", "mini"}
    expected = plan_budget(
        folder / "pilot.csv",
        target="human",
        costs=PRICES,
        budgets=500,
        measurements=["human+mini", "mini"],
    )
    assert ended.json["buy"] == expected.buy
    assert (
        ended.json["predicted"]
        > noracle(*options(folder, "--budget", 500, "--json")).json["predicted"]
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--budget", "much"], "--budget must be a number, or name=number; got 'much'"),
        (["--budget", "=5"], "--budget must be a number, or name=number"),
        (
            ["--budget", "5", "--budget", "6"],
            "--budget must be given once for each budget; got a number twice",
        ),
        (
            ["--budget", "money=5", "--budget", "6"],
            "--budget must be name=number where there are several",
        ),
        (
            ["--budget", "money=500", "--budget", "minutes=9"],
            "--budget minutes must have prices, as in --cost minutes:RATER=3",
        ),
        (
            ["--budget", "minutes=9", "--cost", "minutes:human=1"],
            "--budget must say how much of 'money' there is",
        ),
        (
            ["--budget", "money=500", "--budget", "minutes=9", "--cost", "minutes:huamn=1"],
            "got huamn. Known are human, judge, mini",
        ),
        (["--budget", "500", "--measurements", "human+nobody"], "nobody"),
        (["--budget", "-5"], "positive"),
    ],
)
def test_wrong_budgets_are_one_line(
    noracle: Run, folder: Path, more: list[str], words: str
) -> None:
    assert_one_line(noracle(*options(folder, *more)), words)


def test_named_budgets_and_sets_need_a_pilot(noracle: Run, folder: Path) -> None:
    plain = ["plan", "--n-classes=4", "--accuracy=0.7", "--cost", "ordinary=1"]
    assert_one_line(
        noracle(*plan_line(plain, "money=5")),
        "--budget must be a number without --pilot; got money=5",
    )
    assert noracle(*plan_line(plain, "500"), "--json").json["cost"] <= 500
    assert_one_line(
        noracle(*plain, "--budget=5", "--measurements=a+b"), "--measurements must come with --pilot"
    )
    (folder / "bad.toml").write_text(
        "[raters]\nhuman = 4\n[budgets]\nminutes = 3\n[budgets.hours]\nhuman = -1\n",
        encoding="utf-8",
    )
    ended = noracle(*options(folder, "--budget", "5", costs="bad.toml"))
    assert ended.code == 2
    assert "prices.budgets.minutes must be a table of prices" in ended.err
    assert "prices.budgets.hours.human must be a number of at least 0" in ended.err


def plan_line(line: list[str], budget: str) -> list[str]:
    return [*line, "--budget", budget]


def test_columns_have_the_users_names_in_means_and_pilots(
    noracle: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same figures from a file whose columns are called otherwise; a name that no file has is
    an error.
    """
    monkeypatch.chdir(folder)
    lines = (folder / "long.csv").read_text(encoding="utf-8").splitlines()
    (folder / "mine.csv").write_text(
        "\n".join(["question,who,points", *lines[1:]]) + "\n", encoding="utf-8"
    )
    names = ["--columns", "item=question,rater=who,value=points"]
    for words in (
        ["mean", "--target", "human", "--data"],
        ["plan", "--prices", "prices.toml", "--target", "human", "--budget", "300", "--pilot"],
    ):
        plain = noracle(*words, "long.csv", "--json")
        mine = noracle(*words, "mine.csv", *names, "--json")
        assert plain.code == mine.code == 0, mine.err
        assert json.loads(mine.out).get("value") == json.loads(plain.out).get("value")
        assert json.loads(mine.out).get("buy") == json.loads(plain.out).get("buy")
    wrong = noracle("mean", "--target", "human", "--data", "mine.csv", "--columns", "item=qid")
    assert wrong.code == 2
    assert "no qid there" in wrong.err
