"""Evidence folders, small and always the same, and what must be found in each.

``FOLDERS[name](place)`` writes the files of a folder below ``place`` and returns an
:class:`Expect`. Every folder lacks something, or is wrong in one way, so that together they are
what a report has to live with.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from noracle.simulate import simulate_world

LOGS = Path(__file__).parents[2] / "reference" / "logs"
SYSTEMS = {"agent-1": 0.9, "agent-2": 0.8, "agent-3": 0.6}

Table = Mapping[str, list[Any]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What must come of a folder; paths are relative to it, with slashes.

    Attributes
    ----------
    found
        The paths of the one source of each kind.
    forms
        Its form, where that is not ``long``.
    unused
        Files that are ignored, each with a part of the reason.
    notes
        Parts of lines of ``Inventory.notes``.
    done, not_possible
        Names of steps of the report that must have this status; the other steps may have any.
    error, stage
        A part of the message of the ``EvidenceError``, and whether it comes when evidence is found
        or when it is read; empty: no error.
    contradiction
        The names of the two steps that must be found to contradict each other, for every system of
        ``systems``.
    systems
        The names of all systems.
    """

    found: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    forms: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    done: frozenset[str] = frozenset()
    not_possible: frozenset[str] = frozenset()
    error: str = ""
    stage: Literal["find", "read", ""] = ""
    contradiction: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()


def write(path: Path, columns: Table) -> None:
    """Write columns as CSV (or TSV, or JSON lines, by the end of the name); None is an empty field."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".jsonl":
        lines = [
            json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) for row in rows
        ]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(
            file, delimiter="\t" if path.suffix == ".tsv" else ",", lineterminator="\n"
        )
        writer.writerow(columns)
        writer.writerows(rows)


def write_parquet(path: Path, query: str) -> None:
    """Write the rows of a DuckDB query; made by the engine, so that a million rows take no time."""
    import duckdb

    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{path.as_posix()}' (FORMAT parquet)")


def _ratings(
    n: int = 120,
    raters: tuple[str, ...] = ("ann", "bob", "cy", "dee"),
    n_classes: int = 4,
    first: int = 0,
) -> Table:
    """Ratings of n items; the rater in place r errs on every item whose number is divisible by r +
    3.
    """
    columns: dict[str, list[Any]] = {"item": [], "rater": [], "label": []}
    for i in range(first, first + n):
        for r, rater in enumerate(raters):
            wrong = 1 + r % 3 if i % (r + 3) == 0 else 0
            columns["item"].append(i)
            columns["rater"].append(rater)
            columns["label"].append((i + wrong) % n_classes)
    return columns


def _rated_answers(n: int = 120, n_classes: int = 4) -> Table:
    """Two systems on the items of :func:`_ratings`: one that is right but for every twentieth item,
    one that is right on every second.
    """
    columns: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    for system, every in (("careful", 20), ("coin", 2)):
        for i in range(n):
            columns["item"].append(i)
            columns["system"].append(system)
            columns["answer"].append((i + (i % every == 0)) % n_classes)
    return columns


def _scores(n: int = 200) -> Table:
    """Scores of a gold rater on the first 80 items and of two autoraters on all, long."""
    columns: dict[str, list[Any]] = {"item": [], "rater": [], "value": []}
    for i in range(n):
        truth = float(i % 5 != 0)
        values = {
            "gold": truth if i < 80 else None,
            "judge": 0.7 * truth + 0.03 * (i % 7),
            "cheap": 0.4 * truth + 0.05 * (i % 11),
        }
        for rater, value in values.items():
            if value is not None:
                columns["item"].append(i)
                columns["rater"].append(rater)
                columns["value"].append(round(value, 6))
    return columns


PRICES: Table = {"rater": ["gold", "judge", "cheap"], "price": [4.0, 0.2, 0.01]}
ANSWER_STEPS = frozenset({"ranges"})
CLAIM_STEPS = frozenset({"alarm", "conflict"})
"""What is asked only where somebody stated a claim."""
RATING_STEPS = frozenset({"ceiling", "agreement"})


def complete(place: Path) -> Expect:
    """Everything at once."""
    world = simulate_world(n_items=400, n_classes=4, systems=SYSTEMS, no_answer=0.02, seed=1)
    write(place / "answers.csv", world.answers)
    write(place / "judgements.csv", world.judgements)
    write(place / "items.csv", world.items)
    write(place / "ratings.csv", _ratings())
    write(place / "pilot.csv", _scores())
    write(place / "prices.csv", PRICES)
    (place / "README.md").write_text("What these files are.\n", encoding="utf-8")
    text = 'title = "A complete folder"\nclaim = "accuracy > 1/2"\ntarget = "gold"\ntrained_on_annotators = "no"\n'
    text += "\n[prices]\nordinary = 1.0\ncomplementary = 0.1\n"
    (place / "noracle.toml").write_text(text, encoding="utf-8")
    return Expect(
        found={
            "answers": ("answers.csv",),
            "judgements": ("judgements.csv",),
            "items": ("items.csv",),
            "ratings": ("ratings.csv",),
            "scores": ("pilot.csv",),
            "prices": ("prices.csv",),
        },
        unused={"README.md": "for people", "noracle.toml": "settings"},
        done=ANSWER_STEPS
        | RATING_STEPS
        | {"alarm", "accuracy", "comparison", "checks", "certificate", "mean", "labels", "budget"},
        not_possible=frozenset({"conflict"}),
        systems=tuple(SYSTEMS),
    )


def answers_only(place: Path) -> Expect:
    """Three systems and nothing else."""
    world = simulate_world(n_items=150, n_classes=3, systems=SYSTEMS, seed=2)
    write(place / "answers.csv", world.answers)
    return Expect(
        found={"answers": ("answers.csv",)},
        done=ANSWER_STEPS,
        not_possible=CLAIM_STEPS
        | RATING_STEPS
        | {"accuracy", "comparison", "certificate", "mean", "budget"},
        systems=tuple(SYSTEMS),
    )


def judgements_only(place: Path) -> Expect:
    """Labels, and no system to judge."""
    world = simulate_world(n_items=150, n_classes=3, seed=3)
    write(place / "labels.jsonl", world.judgements)
    return Expect(
        found={"judgements": ("labels.jsonl",)},
        not_possible=ANSWER_STEPS
        | CLAIM_STEPS
        | RATING_STEPS
        | {"accuracy", "comparison", "certificate", "mean", "budget"},
    )


def ruled_out_only(place: Path) -> Expect:
    """One system, and labels that only say what the answer is not."""
    world = simulate_world(
        n_items=300, n_classes=5, systems={"agent": 0.8}, n_complementary=300, seed=4
    )
    write(place / "answers.tsv", world.answers)
    write(place / "judgements.csv", world.judgements)
    write(place / "items.csv", world.items)
    return Expect(
        found={
            "answers": ("answers.tsv",),
            "judgements": ("judgements.csv",),
            "items": ("items.csv",),
        },
        done=frozenset({"accuracy"}),
        not_possible=RATING_STEPS | {"comparison", "certificate", "mean", "budget"},
        systems=("agent",),
    )


def ratings_only(place: Path) -> Expect:
    """Four annotators and no system."""
    write(place / "ratings.csv", _ratings())
    return Expect(
        found={"ratings": ("ratings.csv",)},
        done=RATING_STEPS,
        not_possible=frozenset({"accuracy", "comparison", "certificate", "mean"}),
    )


def votes_only(place: Path) -> Expect:
    """How many annotators gave each label; who they were is not known."""
    columns: dict[str, list[Any]] = {"item": [], "label": [], "n": []}
    for i in range(100):
        for label, n in (("cat", 3 - i % 3), ("dog", 1 + i % 3)):
            columns["item"].append(i)
            columns["label"].append(label)
            columns["n"].append(n)
    write(place / "votes.csv", columns)
    return Expect(
        found={"ratings": ("votes.csv",)},
        forms={"ratings": "votes"},
        done=frozenset({"ceiling"}),
        not_possible=frozenset({"accuracy", "comparison", "certificate", "mean"}),
    )


def ratings_and_answers(place: Path) -> Expect:
    """Annotators and systems on the same items, and no judgements."""
    write(place / "ratings.csv", _ratings())
    write(place / "answers.csv", _rated_answers())
    (place / "noracle.toml").write_text(
        'n_classes = 4\ntrained_on_annotators = "no"\n', encoding="utf-8"
    )
    return Expect(
        found={"ratings": ("ratings.csv",), "answers": ("answers.csv",)},
        unused={"noracle.toml": "settings"},
        done=RATING_STEPS | {"certificate"},
        not_possible=frozenset({"accuracy", "comparison", "mean", "budget"}),
        systems=("careful", "coin"),
    )


def scores_and_prices(place: Path) -> Expect:
    """A gold rater, two autoraters, and what each costs."""
    write(place / "scores.csv", _scores())
    write(place / "costs.csv", PRICES)
    (place / "noracle.toml").write_text('target = "gold"\nbudget = 200\n', encoding="utf-8")
    return Expect(
        found={"scores": ("scores.csv",), "prices": ("costs.csv",)},
        unused={"noracle.toml": "settings"},
        done=frozenset({"mean", "budget"}),
        not_possible=ANSWER_STEPS
        | CLAIM_STEPS
        | RATING_STEPS
        | {"accuracy", "comparison", "certificate"},
    )


def wide_pilot(place: Path) -> Expect:
    """Scores with a column for each rater; the name of the file says that they are scores."""
    columns = {
        "item": list(range(60)),
        "gold": [float(i % 4 != 0) if i < 30 else None for i in range(60)],
        "judge": [0.1 * (i % 9) for i in range(60)],
    }
    write(place / "pilot-march.csv", columns)
    (place / "prices.toml").write_text("[raters]\ngold = 4.0\njudge = 0.1\n", encoding="utf-8")
    (place / "noracle.toml").write_text('target = "gold"\n', encoding="utf-8")
    return Expect(
        found={"scores": ("pilot-march.csv",), "prices": ("prices.toml",)},
        forms={"scores": "wide"},
        unused={"noracle.toml": "settings"},
        done=frozenset({"mean"}),
        not_possible=frozenset({"accuracy", "comparison", "certificate", "ceiling"}),
    )


def inspect_log(place: Path) -> Expect:
    """One log of Inspect, whose samples hold labels in their metadata."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(LOGS / "inspect-new.eval", place / "2026-11-15_mini.eval")
    return Expect(
        found={"answers": ("2026-11-15_mini.eval",)},
        forms={"answers": "log"},
        done=frozenset({"accuracy"}),
        not_possible=RATING_STEPS | {"comparison", "certificate", "mean"},
        systems=("mockllm/model",),
    )


def lm_eval_log(place: Path) -> Expect:
    """Samples of lm-evaluation-harness of two models, beside the results that are no evidence."""
    found = []
    for model, shift in (("small", 0), ("large", 1)):
        path = place / model / "samples_mini_2026-11-15T18-59-33.083054.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            "".join(json.dumps(_sample(i, shift)) + "\n" for i in range(24)), encoding="utf-8"
        )
        found.append(path.relative_to(place).as_posix())
    (place / "small" / "results_2026-11-15T18-59-33.083054.json").write_text(
        '{"results": {"mini": {"acc": 0.5}}}\n', encoding="utf-8"
    )
    return Expect(
        found={"answers": tuple(sorted(found))},
        forms={"answers": "log"},
        unused={"small/results_2026-11-15T18-59-33.083054.json": "JSON object"},
        done=ANSWER_STEPS,
        not_possible=CLAIM_STEPS | RATING_STEPS | {"accuracy", "comparison", "mean"},
        systems=("large", "small"),
    )


def _sample(i: int, shift: int) -> dict[str, Any]:
    """A line of a samples file: multiple choice with three options."""
    likely = (i + shift * (i % 4 == 0)) % 3
    replies = [[str(-1.0 - (option != likely)), "False"] for option in range(3)]
    arguments = {f"gen_args_{option}": {"arg_0": "?", "arg_1": f" {option}"} for option in range(3)}
    return {
        "doc_id": i,
        "doc": {"question": "?", "choices": ["x", "y", "z"]},
        "target": "0",
        "arguments": arguments,
        "resps": [replies],
        "filtered_resps": replies,
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0,
    }


def counts_only(place: Path) -> Expect:
    """Two files of stored counts of different items, and a plan, which is a result."""
    from noracle.counts import count_accuracy

    place.mkdir(parents=True, exist_ok=True)
    for day, seed in (("monday", 5), ("tuesday", 6)):
        world = simulate_world(
            n_items=200, n_classes=4, systems={"agent-1": 0.9, "agent-2": 0.7}, seed=seed
        )
        stored = count_accuracy(world.evidence()).to_dict()
        (place / f"{day}.json").write_text(json.dumps(stored, indent=1), encoding="utf-8")
    (place / "plan.json").write_text(
        '{"schema": "plan/1", "subject": "labels"}\n', encoding="utf-8"
    )
    return Expect(
        found={"counts": ("monday.json", "tuesday.json")},
        forms={"counts": "json"},
        unused={"plan.json": "plan/1"},
        done=frozenset({"accuracy"}),
        not_possible=RATING_STEPS | ANSWER_STEPS | CLAIM_STEPS | {"mean", "certificate"},
        systems=("agent-1", "agent-2"),
    )


def counts_beside_tables(place: Path) -> Expect:
    """Stored counts of the very tables that lie beside them: adding them would count every item
    twice.
    """
    from noracle.counts import count_accuracy

    world = simulate_world(n_items=200, n_classes=4, systems={"agent": 0.8}, seed=7)
    write(place / "answers.csv", world.answers)
    write(place / "judgements.csv", world.judgements)
    write(place / "items.csv", world.items)
    (place / "counts.json").write_text(
        json.dumps(count_accuracy(world.evidence()).to_dict()), encoding="utf-8"
    )
    return Expect(
        found={
            "answers": ("answers.csv",),
            "judgements": ("judgements.csv",),
            "items": ("items.csv",),
        },
        unused={"counts.json": "twice"},
        done=frozenset({"accuracy"}),
        systems=("agent",),
    )


def hive(place: Path) -> Expect:
    """Answers as Parquet by system and day, judgements as numbered Parquet files, and what Spark
    leaves beside them.
    """
    found = []
    for system, every in (("a", 7), ("b", 3)):
        for day in (1, 2):
            path = place / "answers" / f"system={system}" / f"day=2026-11-0{day}" / "data_0.parquet"
            write_parquet(
                path,
                f"SELECT i AS item, (i + CAST(i % {every} = 0 AS BIGINT)) % 4 AS answer FROM range({100 * day - 100}, {100 * day}) t(i)",
            )
            found.append(path.relative_to(place).as_posix())
    for part in range(3):
        query = f"SELECT i AS item, i % 4 AS class, 'yes' AS verdict FROM range({50 * part}, {50 * part + 50}) t(i)"
        write_parquet(place / "judgements" / f"part-0000{part}.parquet", query)
    (place / "judgements" / "_SUCCESS").write_bytes(b"")
    (place / "noracle.toml").write_text("n_classes = 4\n", encoding="utf-8")
    return Expect(
        found={
            "answers": tuple(found),
            "judgements": tuple(f"judgements/part-0000{part}.parquet" for part in range(3)),
        },
        unused={"judgements/_SUCCESS": "hidden", "noracle.toml": "settings"},
        notes=("4 files are one table of answers", "3 files are one table of judgements"),
        done=frozenset({"accuracy", "comparison"}),
        systems=("a", "b"),
    )


def text_classes(place: Path) -> Expect:
    """Classes, items and systems as text; yes and no among the classes."""
    words = ("yes", "no", "not stated")
    world = simulate_world(n_items=180, n_classes=3, systems={"alpha": 0.9, "beta": 0.7}, seed=11)

    def named(columns: Table, value: str) -> Table:
        return {
            **columns,
            "item": [f"q{i:03d}" for i in columns["item"]],
            value: [words[c] for c in columns[value]],
        }

    answers, judgements = named(world.answers, "answer"), named(world.judgements, "class")
    write(place / "answers.csv", answers)
    write(place / "judgements.csv", judgements)
    (place / "noracle.toml").write_text(
        'classes = ["yes", "no", "not stated"]\nprotocol = "question"\n', encoding="utf-8"
    )
    return Expect(
        found={"answers": ("answers.csv",), "judgements": ("judgements.csv",)},
        unused={"noracle.toml": "settings"},
        done=frozenset({"accuracy", "comparison", "ranges"}),
        systems=("alpha", "beta"),
    )


def contradictory_labels(place: Path) -> Expect:
    """Two different classes confirmed for item 7: no truth explains that."""
    world = simulate_world(n_items=100, n_classes=4, systems={"agent": 0.8}, n_ordinary=100, seed=8)
    write(place / "answers.csv", world.answers)
    judgements = {name: list(values) for name, values in world.judgements.items()}
    judgements["item"].append(7)
    judgements["class"].append((world.key[7] + 1) % 4)
    judgements["verdict"].append("yes")
    write(place / "judgements.csv", judgements)
    write(place / "items.csv", world.items)
    return Expect(
        found={
            "answers": ("answers.csv",),
            "judgements": ("judgements.csv",),
            "items": ("items.csv",),
        },
        error="item 7",
        stage="read",
        systems=("agent",),
    )


def planted_contradiction(place: Path) -> Expect:
    """Judgements that claim an accuracy of 0.9 for three systems that never agree, so that at most
    one can be right on an item.

    The class that was asked about is said to be one of the three answers, drawn at random
    (propensity 1/3). Of these questions 9 in 10 were answered with yes, which makes 0.9 for each
    system. But a yes to one system is a no to the other two, so that each system is right on at
    least 3 and at most 3.7 items in 10, whatever the key.
    """
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    judgements: dict[str, list[Any]] = {"item": [], "class": [], "verdict": [], "propensity": []}
    systems = ("grader-a", "grader-b", "grader-c")
    for i in range(300):
        for shift, system in enumerate(systems):
            answers["item"].append(i)
            answers["system"].append(system)
            answers["answer"].append((i // 3 + shift) % 5)
        judgements["item"].append(i)
        judgements["class"].append((i // 3 + i % 3) % 5)
        judgements["verdict"].append("no" if i // 3 % 10 == 9 else "yes")
        judgements["propensity"].append(1 / 3)
    write(place / "answers.csv", answers)
    write(place / "judgements.csv", judgements)
    (place / "noracle.toml").write_text("n_classes = 5\n", encoding="utf-8")
    return Expect(
        found={"answers": ("answers.csv",), "judgements": ("judgements.csv",)},
        unused={"noracle.toml": "settings"},
        done=frozenset({"accuracy", "comparison", "ranges"}),
        contradiction=("accuracy", "ranges"),
        systems=systems,
    )


def bad_verdict(place: Path) -> Expect:
    """A verdict that is none."""
    write(place / "answers.csv", {"item": [1, 2, 3], "system": ["a"] * 3, "answer": [0, 1, 1]})
    write(
        place / "judgements.csv",
        {"item": [1, 2, 3], "class": [0, 1, 1], "verdict": ["yes", "perhaps", "no"]},
    )
    return Expect(
        found={"answers": ("answers.csv",), "judgements": ("judgements.csv",)},
        error="verdict",
        stage="read",
        systems=("a",),
    )


def missing_column(place: Path) -> Expect:
    """A file that is called answers and does not say whose answers they are."""
    write(place / "answers.csv", {"item": [1, 2, 3], "answer": [0, 1, 1], "from": ["a"] * 3})
    write(
        place / "judgements.csv",
        {"item": [1, 2, 3], "class": [0, 1, 1], "verdict": ["yes", "no", "no"]},
    )
    return Expect(error="system", stage="find")


def wrong_types(place: Path) -> Expect:
    """Answers are numbers and the classes of the judgements are words."""
    write(place / "answers.csv", {"item": [1, 2, 3], "system": ["a"] * 3, "answer": [0, 1, 1]})
    write(
        place / "judgements.csv",
        {"item": [1, 2, 3], "class": ["cat", "dog", "dog"], "verdict": ["yes", "no", "no"]},
    )
    return Expect(
        found={"answers": ("answers.csv",), "judgements": ("judgements.csv",)},
        error="answer and class must have one type",
        stage="read",
        systems=("a",),
    )


def broken_text(place: Path) -> Expect:
    """A table in another encoding than UTF-8."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "said.csv").write_bytes(
        "item,system,answer\n1,Müller,0\n2,Müller,1\n".encode("latin-1")
    )
    return Expect(error="UTF-8", stage="find")


def huge(place: Path) -> Expect:
    """A million answers and half a million judgements, made and kept as Parquet."""
    write_parquet(
        place / "answers.parquet",
        "SELECT i % 500000 AS item, CASE WHEN i < 500000 THEN 'a' ELSE 'b' END AS system, "
        "(i % 500000 * 7919 + CAST(i % (CASE WHEN i < 500000 THEN 10 ELSE 4 END) = 0 AS BIGINT)) % 10 AS answer FROM range(1000000) t(i)",
    )
    write_parquet(
        place / "judgements.parquet",
        "SELECT i AS item, hash(i) % 10 AS class, CASE WHEN hash(i) % 10 = i * 7919 % 10 THEN 'yes' ELSE 'no' END AS verdict "
        "FROM range(500000) t(i)",
    )
    (place / "noracle.toml").write_text('n_classes = 10\nprotocol = "question"\n', encoding="utf-8")
    return Expect(
        found={"answers": ("answers.parquet",), "judgements": ("judgements.parquet",)},
        unused={"noracle.toml": "settings"},
        done=frozenset({"accuracy", "comparison"}),
        systems=("a", "b"),
    )


def empty(place: Path) -> Expect:
    """Nothing at all."""
    place.mkdir(parents=True, exist_ok=True)
    return Expect(error="evidence", stage="find")


def nothing_known(place: Path) -> Expect:
    """Files, but no evidence among them."""
    write(place / "sales.csv", {"month": [1, 2], "turnover": [10.5, 11.0]})
    (place / "picture.png").write_bytes(b"\x89PNG\r\n")
    return Expect(error="evidence", stage="find")


def with_key(place: Path) -> Expect:
    """A true key lies beside the evidence; it is not looked at."""
    world = simulate_world(n_items=200, n_classes=4, systems={"agent": 0.8}, seed=9)
    write(place / "answers.csv", world.answers)
    write(place / "judgements.csv", world.judgements)
    write(place / "items.csv", world.items)
    write(place / "key.csv", {"item": list(world.key), "label": list(world.key.values())})
    (place / "report.html").write_text(
        "<!doctype html><title>An old report</title>\n", encoding="utf-8"
    )
    (place / "report.json").write_text(
        '{"schema": "oversight/1", "title": "An old report"}\n', encoding="utf-8"
    )
    (place / ".hidden.csv").write_text("item,system,answer\n1,x,0\n", encoding="utf-8")
    return Expect(
        found={
            "answers": ("answers.csv",),
            "judgements": ("judgements.csv",),
            "items": ("items.csv",),
        },
        unused={
            "key.csv": "key",
            "report.html": "page",
            "report.json": "oversight/1",
            ".hidden.csv": "hidden",
        },
        done=frozenset({"accuracy"}),
        systems=("agent",),
    )


def two_tables(place: Path) -> Expect:
    """Answers to two unrelated tasks, which are no parts of one table."""
    write(place / "chess.csv", {"item": [1, 2, 3], "system": ["a", "a", "b"], "answer": [0, 1, 1]})
    write(
        place / "capitals.csv",
        {
            "item": ["fr", "de", "it"],
            "system": ["a", "b", "b"],
            "answer": ["Paris", "Berlin", "Rome"],
        },
    )
    return Expect(error="answers must be one table", stage="find")


def wrong_setting(place: Path) -> Expect:
    """A noracle.toml with two keys that do not exist and a value of a wrong type."""
    world = simulate_world(n_items=50, n_classes=3, seed=10)
    write(place / "answers.csv", world.answers)
    (place / "noracle.toml").write_text(
        'confidense = 0.9\nseed = "one"\n\n[file]\nanswers = "answers.csv"\n', encoding="utf-8"
    )
    return Expect(error="'confidence'", stage="find")


def odd_names(place: Path) -> Expect:
    """Spaces, quotes, other scripts and HTML in the names of files, systems, items, classes and
    raters.
    """
    systems = ("<script>alert(1)</script>", 'Größe "XL" & co', "模型 一")
    classes = ("<b>yes</b>", "it's", "não")
    answers: dict[str, list[Any]] = {"item": [], "system": [], "answer": []}
    judgements: dict[str, list[Any]] = {"item": [], "class": [], "verdict": [], "rater": []}
    for i in range(90):
        item = f"<i>{i}</i>, \u00e4\u20ac"
        for place_of, system in enumerate(systems):
            answers["item"].append(item)
            answers["system"].append(system)
            answers["answer"].append(classes[(i + (i % (3 + 4 * place_of) == 0)) % 3])
        judgements["item"].append(item)
        judgements["class"].append(classes[i // 3 % 3])
        judgements["verdict"].append("yes" if i // 3 % 3 == i % 3 else "no")
        judgements["rater"].append("O'Brien <o@example.org>")
    folder = place / "von März & April"
    write(folder / "the answers; all of them.csv", answers)
    write(folder / "l'avis <1>.jsonl", judgements)
    (place / "noracle.toml").write_text(
        'title = "<script>alert(2)</script>"\nn_classes = 3\nprotocol = "question"\n',
        encoding="utf-8",
    )
    return Expect(
        found={
            "answers": ("von März & April/the answers; all of them.csv",),
            "judgements": ("von März & April/l'avis <1>.jsonl",),
        },
        unused={"noracle.toml": "settings"},
        done=frozenset({"accuracy", "comparison"}),
        systems=systems,
    )


def wide_named(place: Path) -> Expect:
    """Wide tables, whose columns only noracle.toml can tell."""
    n = 120
    columns: dict[str, list[Any]] = {
        "q": list(range(n)),
        "agent": [(i + (i % 6 == 0)) % 3 for i in range(n)],
        "baseline": [(i + (i % 3 == 0)) % 3 for i in range(n)],
        "key": [i % 3 if i % 2 else None for i in range(n)],
    }
    write(place / "run.csv", columns)
    raters = {
        "q": list(range(n)),
        "ann": [i % 3 for i in range(n)],
        "bob": [(i + (i % 5 == 0)) % 3 for i in range(n)],
        "cy": [(i + (i % 7 == 0)) % 3 for i in range(n)],
    }
    write(place / "people.csv", raters)
    (place / "noracle.toml").write_text(
        'n_classes = 3\nclaim = "accuracy > 0.9"\nignore = ["*.txt"]\n\n[files]\nanswers = "run.csv"\nratings = ["people.csv"]\n\n'
        '[wide.answers]\nitem = "q"\nsystems = ["agent", "baseline"]\nlabel = "key"\n\n'
        '[wide.ratings]\nitem = "q"\nraters = ["ann", "bob", "cy"]\n',
        encoding="utf-8",
    )
    (place / "notes.txt").write_text("private\n", encoding="utf-8")
    return Expect(
        found={"answers": ("run.csv",), "ratings": ("people.csv",)},
        forms={"answers": "wide", "ratings": "wide"},
        unused={"noracle.toml": "settings", "notes.txt": "ignore"},
        done=ANSWER_STEPS | CLAIM_STEPS | RATING_STEPS | {"accuracy", "comparison"},
        systems=("agent", "baseline"),
    )


def ambiguous(place: Path) -> Expect:
    """A file that could be two kinds of evidence, beside one that is clear."""
    write(place / "answers.csv", {"item": [1, 2], "system": ["a", "a"], "answer": [0, 1]})
    both = {
        "item": [1, 2],
        "system": ["b", "b"],
        "answer": [0, 1],
        "class": [0, 0],
        "verdict": ["yes", "no"],
    }
    write(place / "joined.csv", both)
    write(place / "people.csv", {"item": [1, 2], "ann": [0, 1], "bob": [0, 0]})
    return Expect(
        found={"answers": ("answers.csv",)},
        unused={"joined.csv": "[files]", "people.csv": "[wide.ratings]"},
        systems=("a",),
    )


FOLDERS: dict[str, Callable[[Path], Expect]] = {
    make.__name__: make
    for make in (
        complete,
        answers_only,
        judgements_only,
        ruled_out_only,
        ratings_only,
        votes_only,
        ratings_and_answers,
        scores_and_prices,
        wide_pilot,
        inspect_log,
        lm_eval_log,
        counts_only,
        counts_beside_tables,
        hive,
        text_classes,
        contradictory_labels,
        planted_contradiction,
        bad_verdict,
        missing_column,
        wrong_types,
        broken_text,
        huge,
        empty,
        nothing_known,
        with_key,
        two_tables,
        wrong_setting,
        odd_names,
        wide_named,
        ambiguous,
    )
}
"""The folders by name."""

SOUND = tuple(
    name
    for name in FOLDERS
    if name
    not in {
        "contradictory_labels",
        "bad_verdict",
        "missing_column",
        "wrong_types",
        "broken_text",
        "empty",
        "nothing_known",
        "two_tables",
        "wrong_setting",
    }
)
"""The folders that can be reported on."""
