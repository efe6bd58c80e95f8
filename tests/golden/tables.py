"""The tables that the golden cases run on: the example project, simulated worlds, and small tables
with one thing each that people have (strata, clusters, repeats, propensities, votes, scores, …).

Everything is written below one folder and drawn from fixed seeds.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

LOGS = Path(__file__).parents[1] / "reference" / "logs"
FIXTURES = Path(__file__).parent / "fixtures"
Command = Callable[[Sequence[str]], None]

WORLDS = {
    # Two systems, missing answers and unsure verdicts.
    "world": "--n-items 500 --n-classes 5 --system good=0.9 --system poor=0.5 --no-answer 0.04 "
    "--unsure 0.03 --seed 3",
    # True classes of some items, two ruled-out classes of others.
    "sets": "--n-items 600 --n-classes 6 --system a=0.8 --system b=0.75 --n-questions 0 "
    "--n-ordinary 120 --n-complementary 300 --n-ruled-out 2 --seed 4",
    # Items with 3 and with 8 classes; labels with known errors.
    "mixed": "--n-items 500 --n-classes 3,8 --system a=0.8 --system b=0.7 --system c=0.6 "
    "--false-no 0.05 --false-yes 0.02 --seed 5",
    # Questions that lean to one class: the checks of routing must see it.
    "biased": "--n-items 600 --n-classes 4 --system a=0.7 --bias 0.6 --seed 6",
}


def write(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """One CSV table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def write_lines(path: Path, rows: Iterable[dict[str, object]]) -> None:
    """One JSONL table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def make(folder: Path, command: Command) -> None:
    """Write all tables below ``folder``; ``command`` runs one line of noracle there."""
    command(["-q", "init", "project", "--seed", "7"])
    for name, options in WORLDS.items():
        command(["-q", "simulate", *options.split(), "--out", name])
    _designs(folder)
    _grades(folder)
    _judged(folder)
    _wide(folder)
    _ratings(folder)
    _graders(folder)
    _scores(folder)
    _models(folder)
    _notes(folder)
    _preferred(folder)
    _wrong(folder)
    for log in LOGS.iterdir():
        if log.is_file() and log.suffix != ".py":
            (folder / "logs").mkdir(exist_ok=True)
            shutil.copy(log, folder / "logs" / log.name)
    for log in LOGS.glob("lm-eval/dummy/*_mini_gen_*"):
        shutil.copy(log, folder / "logs" / "samples_mini_gen.jsonl")
    # A watch keeps its state in the folder, so each has a folder of its own.
    for name in ("watched", "watched-again"):
        shutil.copytree(folder / "project", folder / name)
    shutil.copytree(folder / "broken", folder / "watched-broken")
    (folder / "collected").mkdir()
    shutil.copy(FIXTURES / "shapes.zip", folder / "collected")
    fresh_database(folder)


def fresh_database(folder: Path) -> None:
    """``collected/shapes.db``: a closed collection of 30 pictures, before anybody looked at it.

    Looks are logged with their time, so every case that looks starts from a copy of its own.
    """
    database = gzip.decompress((FIXTURES / "shapes.db.gz").read_bytes())
    for path in (folder / "collected").glob("shapes.db*"):
        path.unlink()
    (folder / "collected" / "shapes.db").write_bytes(database)


def _designs(folder: Path) -> None:
    """``design/``: strata, weights, clusters, recorded propensities, a column of guesses, names of
    classes and a transition matrix.
    """
    rng = random.Random(11)
    here, names = folder / "design", ("bird", "cat", "dog", "fish")
    answers, items, asked, targeted, labels, often = [], [], [], [], [], []
    for i in range(320):
        truth = int(4 * rng.random())
        item = f"q{i}"
        items.append((item, "easy" if i % 3 else "hard", f"page {i // 4}", 1 + i % 2))
        for system, accuracy in (("alpha", 0.85), ("beta", 0.65)):
            right = rng.random() < accuracy - (0.2 if i % 3 == 0 else 0)
            said = truth if right else (truth + 1 + int(3 * rng.random())) % 4
            answers.append((item, system, names[said], int(rng.random() < 0.7)))
            for k in range(3):
                again = said if rng.random() < 0.8 else int(4 * rng.random())
                often.append((item, system, k, names[again]))
            if system == "alpha":
                first = said
        if i < 200:
            c = int(4 * rng.random())
            verdict = "yes" if c == truth else "no"
            asked.append((item, names[c], verdict, ("ann", "bob")[i % 2], i))
        if i % 2:
            aim = rng.random() < 0.8
            c = first if aim else int(4 * rng.random())
            chance = 0.2 / 4 + (0.8 if c == first else 0)
            targeted.append((item, names[c], "yes" if c == truth else "no", chance))
        if i < 160:
            other = (truth + (1 if rng.random() < 0.6 else 2 + int(2 * rng.random()))) % 4
            labels.append((item, names[other], "no"))
    write(here / "answers.csv", ["item", "system", "answer", "guess"], answers)
    write(here / "repeats.csv", ["item", "system", "repeat", "answer"], often)
    write(here / "strata.csv", ["item", "stratum"], [row[:2] for row in items])
    write(here / "weights.csv", ["item", "weight"], [(row[0], row[3]) for row in items])
    write(here / "clusters.csv", ["item", "cluster"], [(row[0], row[2]) for row in items])
    write(here / "asked.csv", ["item", "class", "verdict", "rater", "at"], asked)
    write(here / "targeted.csv", ["item", "class", "verdict", "propensity"], targeted)
    write(here / "ruled_out.csv", ["item", "class", "verdict"], labels)
    matrix = [
        [0.0 if r == c else 0.6 if c == (r + 1) % 4 else 0.2 for c in range(4)] for r in range(4)
    ]
    (here / "matrix.json").write_text(json.dumps(matrix), encoding="utf-8")
    (here / "row.csv").write_text("0,0.5,0.5\n0.5,0,0.5\n", encoding="utf-8")


def _grades(folder: Path) -> None:
    """``grades/``: verdicts on free text, alone, with a chance to be asked, and clustered."""
    rng = random.Random(12)
    here = folder / "grades"
    rates = {"agent": 0.85, "other": 0.6, "third": 0.8}
    answers, once, drawn = [], [], []
    for i in range(240):
        for system, rate in rates.items():
            right = rng.random() < rate
            answers.append((f"t{i}", system, f"text {i}.{int(right)}"))
            if i < 120:
                verdict = "unsure" if rng.random() < 0.03 else "right" if right else "wrong"
                once.append((f"t{i}", system, verdict, ("ann", "eve")[i % 2], i))
                chance = 0.9 if i % 4 else 0.3
                if rng.random() < chance:
                    drawn.append((f"t{i}", system, "right" if right else "wrong", chance))
    write(here / "answers.csv", ["item", "system", "answer"], answers)
    write(here / "grades.csv", ["item", "system", "verdict", "rater", "at"], once)
    write(here / "drawn.csv", ["item", "system", "verdict", "propensity"], drawn)
    write(
        here / "items.csv",
        ["item", "cluster", "stratum"],
        [(f"t{i}", f"c{i // 3}", "ab"[i % 2]) for i in range(240)],
    )


def _judged(folder: Path) -> None:
    """``judged/``: two models that graded everything, one of them in both orders, and a person."""
    rng = random.Random(18)
    rows = []
    for i in range(150):
        for system, rate in (("agent", 0.8), ("other", 0.6)):
            right, length = rng.random() < rate, rng.randrange(20, 400)
            for judge, error in (("careful", 0.08), ("hasty", 0.3)):
                said = right != (rng.random() < error)
                sure = round(0.15 + 0.7 * said + 0.1 * rng.random(), 3)
                rows.append((i, system, "right" if said else "wrong", judge, 1, length, sure))
                if judge == "hasty":
                    again = said and rng.random() < 0.8
                    rows.append((i, system, "right" if again else "wrong", judge, 2, length, ""))
            if i % 3 == 0:
                rows.append((i, system, "right" if right else "wrong", "ann", "", "", ""))
    header = ["item", "system", "verdict", "rater", "position", "length", "guess"]
    write(folder / "judged" / "grades.csv", header, rows)


def _wide(folder: Path) -> None:
    """``wide/``: one row per item, with a key, a ruled-out class and own names of columns."""
    rng = random.Random(13)
    rows = []
    for i in range(200):
        truth = int(3 * rng.random())
        said = [truth if rng.random() < a else (truth + 1) % 3 for a in (0.9, 0.7)]
        rows.append(
            (f"w{i}", *said, truth if i < 60 else "", (truth + 1 + i % 2) % 3 if i >= 60 else "")
        )
    write(folder / "wide" / "all.csv", ["question_id", "m1", "m2", "gold", "not_this"], rows)
    write(folder / "wide" / "answers.csv", ["question_id", "m1", "m2"], [row[:3] for row in rows])
    write(
        folder / "wide" / "judgements.csv",
        ["question_id", "option", "said"],
        [(row[0], i % 3, "yes" if row[1] == i % 3 else "no") for i, row in enumerate(rows)],
    )


def _ratings(folder: Path) -> None:
    """``ratings/``: five people, long, wide, as votes and as scores, with systems and a key."""
    rng = random.Random(14)
    here, people = folder / "ratings", ("ann", "bob", "cy", "di", "eve")
    long, wide, votes, scores, answers, known, items = [], [], [], [], [], [], []
    for i in range(300):
        truth = int(3 * rng.random())
        said = [truth if rng.random() < 0.65 else int(3 * rng.random()) for _ in people]
        labels = ["xyz"[c] for c in said]
        present = [r for r in range(5) if rng.random() < 0.9 or r < 2]
        long += [(i, people[r], labels[r]) for r in present]
        wide.append((i, *labels[:3], "xyz"[truth] if rng.random() < 0.97 else "x"))
        votes += [(i, c, labels.count(c)) for c in sorted(set(labels))]
        scores += [
            (i, people[r], round(said[r] / 2 * 0.8 + 0.2 * rng.random(), 3)) for r in present
        ]
        for system, accuracy in (("strong", 0.99), ("weak", 0.6)):
            right = rng.random() < accuracy
            answers.append((i, system, "xyz"[truth if right else (truth + 1) % 3]))
        if i < 80:
            known.append((i, "xyz"[truth]))
        items.append((i, f"doc {i // 5}"))
    write(here / "long.csv", ["item", "rater", "label"], long)
    write(here / "wide.csv", ["q", "ann", "bob", "cy", "strong"], wide)
    write(here / "votes.csv", ["item", "label", "n"], votes)
    write(here / "scores.csv", ["item", "rater", "value"], scores)
    write(here / "answers.csv", ["item", "system", "answer"], answers)
    write(here / "known.csv", ["item", "label"], known)
    write(here / "items.csv", ["item", "cluster"], items)


def _graders(folder: Path) -> None:
    """``graders/``: patterns of three graders on 281 items with two labels, and of four on three."""
    patterns = {"AAA": (12, 0), "ABA": (113, 8), "BAA": (14, 0), "BBA": (72, 15), "BAB": (0, 1),
                "ABB": (11, 2), "BBB": (15, 18)}  # fmt: skip
    answers, known, i = [], [], 0
    for pattern, counts in patterns.items():
        for truth, n in zip("AB", counts, strict=True):
            for _ in range(n):
                answers += [(i, f"g{k}", said) for k, said in enumerate(pattern)]
                known.append((i, truth))
                i += 1
    here = folder / "graders"
    write(here / "answers.csv", ["item", "system", "answer"], answers)
    write(here / "known.csv", ["item", "label"], known[::4])
    rng = random.Random(15)
    rows = []
    for i in range(60):
        truth = int(3 * rng.random())
        for k, accuracy in enumerate((0.9, 0.8, 0.7, 0.1)):
            right = rng.random() < accuracy
            rows.append((i, f"h{k}", "uvw"[truth if right else (truth + 1) % 3]))
    write(here / "four.csv", ["item", "system", "answer"], rows)
    broken = [(i, s, a) for i in range(40) for s, a in (("x", "AB"[i % 2]), ("y", "BA"[i % 2]))]
    write(folder / "broken" / "answers.csv", ["item", "system", "answer"], broken)
    (folder / "broken" / "noracle.toml").write_text(
        "classes = ['A', 'B']\nclaim = 'accuracy > 1/2'\n", encoding="utf-8"
    )


def _scores(folder: Path) -> None:
    """``scores/``: a human and two autoraters, wide and long, with strata, labels and prices."""
    rng = random.Random(16)
    wide, long = [], []
    for i in range(240):
        human = rng.random() * 0.5 + (0.4 if i % 2 else 0.1)
        judge = human + 0.1 * (rng.random() - 0.5)
        mini = human + 0.5 * (rng.random() - 0.5)
        seen = [human if i < 120 else None, judge, mini]
        cells = ["" if v is None else round(v, 4) for v in seen]
        wide.append((f"s{i}", *cells, "north" if i % 3 else "south"))
        long += [
            (f"s{i}", r, v)
            for r, v in zip(("human", "judge", "mini"), cells, strict=True)
            if v != ""
        ]
    here = folder / "scores"
    write(here / "wide.csv", ["item", "human", "judge", "mini"], [row[:4] for row in wide])
    write(here / "strata.csv", ["item", "human", "judge", "mini", "region"], wide)
    write(here / "long.csv", ["item", "rater", "value"], long)
    write(here / "items.csv", ["item"], [(f"n{i}",) for i in range(2000)])
    (here / "prices.toml").write_text(
        "[raters]\nhuman = 4.0\njudge = 0.1\nmini = 0.01\n", encoding="utf-8"
    )


def _models(folder: Path) -> None:
    """``models/``: items with options, a scripted model, a judge and ruled-out labels."""
    rng = random.Random(17)
    here = folder / "models"
    rows, labels, answers = [], [], []
    for i in range(40):
        truth = int(4 * rng.random())
        rows.append(
            {"item": i, "text": f"question {i}.", "options": [f"choice {i}.{c}" for c in range(4)]}
        )
        labels.append((i, (truth + 1 + int(3 * rng.random())) % 4, "no"))
        answers += [(i, "one", truth), (i, "two", i % 4)]
    write_lines(here / "items.jsonl", rows)
    write(here / "judgements.csv", ["item", "class", "verdict"], labels)
    write(here / "answers.csv", ["item", "system", "answer"], answers)
    rule = {"match": "step by step", "reply": "ANSWER: B"}
    model = {"name": "script", "rules": [rule], "otherwise": "ANSWER: A"}
    (here / "model.json").write_text(json.dumps(model), encoding="utf-8")
    judge = {
        "name": "judge",
        "rules": [{"match": r"\.0", "reply": "ANSWER: yes"}],
        "otherwise": "ANSWER: no",
    }
    (here / "judge.json").write_text(json.dumps(judge), encoding="utf-8")


def _notes(folder: Path) -> None:
    """``notes/``: texts with one ruled-out class each, the truth, and who ruled it out."""
    rng = random.Random(18)
    words = {
        "law": "court judge verdict",
        "news": "minister vote press",
        "sport": "goal match team",
    }
    names, rows = list(words), []
    for i in range(240):
        truth = int(3 * rng.random())
        other = (truth + 1 + int(2 * rng.random())) % 3
        text = " ".join(
            (*words[names[truth]].split(), "today", "and")[int(5 * rng.random())] for _ in range(8)
        )
        rows.append((f"n{i}", text, names[other], names[truth], ("ann", "bob")[i % 2], len(text)))
    head = ["item", "text", "ruled_out", "truth", "who", "length"]
    write(folder / "notes" / "notes.csv", head, rows)


def _preferred(folder: Path) -> None:
    """``preferred/``: who was preferred, as an arena writes it, with an effect of the order."""
    rng, names, rows = random.Random(12), ("large", "small", "tuned"), []
    for i in range(120):
        one, other = rng.sample(range(3), 2)
        better = rng.random() < (0.75, 0.45, 0.55)[one] - (0.75, 0.45, 0.55)[other] + 0.6
        winner = "tie" if rng.random() < 0.1 else "model_a" if better else "model_b"
        rows.append((f"q{i // 2}", names[one], names[other], winner, ("ann", "bob")[i % 2]))
    head = ["question_id", "model_a", "model_b", "winner", "judge"]
    write(folder / "preferred" / "arena.csv", head, rows)
    rows = []
    for i in range(400):  # a model compares everything, people one item in eight
        one, other = rng.sample(names, 2)
        winner = rng.choice([one, one, other, "tie"]) if one < other else rng.choice([other, one])
        rows += [(i, one, other, winner, "ann")] if i % 8 == 0 else []
        rows.append((i, one, other, winner if rng.random() < 0.9 else "tie", "model"))
    write(folder / "preferred" / "judged.csv", ["item", "first", "second", "winner", "rater"], rows)


def _wrong(folder: Path) -> None:
    """``wrong/``: what people get wrong."""
    here = folder / "wrong"
    write(
        here / "contradiction.csv",
        ["item", "class", "verdict"],
        [(0, 1, "yes"), (0, 1, "no"), (1, 0, "yes")],
    )
    write(
        here / "answers.csv", ["item", "system", "answer"], [(0, "a", 1), (1, "a", 7), (2, "a", 0)]
    )
    write(here / "twice.csv", ["item", "system", "answer"], [(0, "a", 1), (0, "a", 0)])
    write(here / "columns.csv", ["thing", "what"], [(0, 1)])
    write(here / "verdicts.csv", ["item", "class", "verdict"], [(0, 1, "perhaps")])
    write(
        here / "ordinary.csv",
        ["item", "class", "verdict"],
        [(0, 1, "yes"), (1, 0, "yes"), (2, 0, "yes")],
    )
    (here / "empty.csv").write_text("", encoding="utf-8")
    (here / "text.json").write_text("not json", encoding="utf-8")
    (here / "tampered.json").write_text('{"schema": "proof/1"}', encoding="utf-8")
    (here / "noracle.toml").write_text("confidnce = 0.9\n", encoding="utf-8")
