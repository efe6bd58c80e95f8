"""A fire alarm for graders: Tables 2 and 3 and Figures 1 to 5 of "A logical alarm for misaligned
binary classifiers", and 20 models.

    python examples/papers/alarm.py --out alarm-out           (--quick: seconds)

First the three graders of the paper's Table 2 (281 items, two labels): verdicts, windows of
prevalence, largest claims, ranges and the smallest conflict, ours beside theirs. Then the answers
of 20 language models to MMLU-Pro (NORACLE_DATA, else a simulated stand-in) as 20 graders of the
same items, with the option letters as labels: what their answers prove without the key, and what
the key says.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import _alarm_figures as figures
import numpy as np
from _data import Answers, mmlu_pro, ten_options
from _tables import Page, markdown
from independent import evaluate_majority, solve_trio

from noracle.counts.sketch import Sketch
from noracle.logic.cascade import prove_malfunction
from noracle.logic.conflict import prove_conflict, range_violators
from noracle.logic.prevalence import range_prevalence, range_threshold
from noracle.logic.ranges import exact_ends, range_accuracies

GRADERS = ("Claude", "Mistral", "GPT4")
# Table 2: answers of the three graders, and how many of these items are truly A and B.
TABLE_2 = {
    ("A", "A", "A"): (12, 0),
    ("A", "A", "B"): (0, 0),
    ("A", "B", "A"): (113, 8),
    ("B", "A", "A"): (14, 0),
    ("B", "B", "A"): (72, 15),
    ("B", "A", "B"): (0, 1),
    ("A", "B", "B"): (11, 2),
    ("B", "B", "B"): (15, 18),
}
GROUPS = (GRADERS[:2], GRADERS[::2], GRADERS[1:], GRADERS)
CLAIM = "accuracy > 1/2"
# What the paper's alarm says of each group: does it fire at 1/2?
PUBLISHED = {GRADERS[:2]: False, GRADERS[::2]: False, GRADERS[1:]: True, GRADERS: True}


def table_2() -> Sketch:
    """The sketch of Table 2: what a user without the key has."""
    return Sketch.from_counts(
        {p: a + b for p, (a, b) in TABLE_2.items()}, classifiers=GRADERS, labels=["A", "B"]
    )


def flipped() -> Sketch:
    """The table of Figure 5: Mistral's answers on true A and GPT4's on true B reversed, so that
    all three keep the claim.
    """
    other = {"A": "B", "B": "A"}
    counts: dict[tuple[object, ...], int] = {}
    for (claude, mistral, gpt4), by_truth in TABLE_2.items():
        for truth, n in zip("AB", by_truth, strict=True):
            pattern = (
                claude,
                other[mistral] if truth == "A" else mistral,
                other[gpt4] if truth == "B" else gpt4,
            )
            counts[pattern] = counts.get(pattern, 0) + n
    return Sketch.from_counts(counts, classifiers=GRADERS, labels=["A", "B"])


def windows(sketch: Sketch) -> str:
    found = range_prevalence(sketch, CLAIM, label="A").diagnostics["possible"]
    return ", ".join(f"{a}..{b}" for a, b in found) or "none"


def graders(page: Page, out: Path | None) -> bool:
    """Table 2; False if a verdict differs from the paper's or a proof does not verify."""
    sketch, rows, fine = table_2(), [], True
    for group in GROUPS:
        part = sketch.of(group)
        proof = prove_malfunction(part, CLAIM)
        fine &= proof.verify() and (proof.status == "alarm") == PUBLISHED[group]
        largest = [
            f"{r.ranges[0].low:.3f}"
            for r in (
                range_threshold(part, axioms=True),
                range_threshold(part),
                range_threshold(part, kind="grade"),
            )
        ]
        rows.append(
            [
                " ".join(group),
                "yes" if PUBLISHED[group] else "no",
                proof.status,
                windows(part),
                *largest,
            ]
        )
    page.add(
        "Table 2: can the graders all be right more than half of the time on each label?",
        "The alarm of the paper sees one grader at a time; ours sees whole patterns. The largest claim without an alarm is smaller for it, "
        "so that it fires earlier. The prevalence of A is 237 in truth.",
        markdown(
            [
                "graders",
                "paper fires",
                "ours",
                "possible items of A",
                "largest, paper's",
                "largest, ours",
                "grade, ours",
            ],
            rows,
        ),
    )
    core = prove_conflict(sketch, CLAIM)
    fine &= core.verify() and core.diagnostics["conflict"] == ["Mistral", "GPT4"]
    page.add(
        "Who is in conflict",
        f"Smallest conflict: {', '.join(core.diagnostics['conflict'])}. Weights on its claims reach at most {core.certificate['largest']}, "
        f"but would have to reach {core.certificate['needed']}. At accuracy > 0.7 at least "
        f"{range_violators(sketch, 'accuracy > 0.7').ranges[0].low:.0f} of the three break the claim.",
    )
    found = range_accuracies(sketch, given={"Claude": CLAIM, "GPT4": CLAIM})
    truth = _truth()
    rows = []
    for r in found.ranges:
        low, high = exact_ends(found, r.name)
        rows.append(
            [
                r.name,
                f"{r.low:.3f}",
                f"{r.high:.3f}",
                f"{float(truth[r.name]):.3f}",
                "yes" if low <= truth[r.name] <= high else "no",
            ]
        )
    page.add(
        "What Mistral can still be if Claude and GPT4 are trusted",
        "GPT4 is in truth right on 0.477 of B, so that this trust is not deserved; the ranges follow from it all the same. A range that "
        "misses the truth shows that a trusted claim is false.",
        markdown(["quantity", "lowest", "highest", "truth", "inside"], rows),
    )
    if out is not None:
        for number in range(1, 6):
            figures.save(drawn(number), out / f"figure{number}.svg")
    page.add(
        "Figures",
        f"Figure 1 to 3: evaluations of one classifier and of a pair ({figures.n_single(281):,} are possible for one classifier and 281 "
        f"items). Figure 4: the windows above. Figure 5: the flipped table, window {windows(flipped())}.",
    )
    return fine and windows(flipped()) == "184..281"


def drawn(number: int) -> Any:
    """Figure 1, 2, 3, 4 or 5."""
    sketch = table_2()
    if number == 1:
        return figures.figure1(
            dict(zip(GRADERS, sketch.uses[:, 0].tolist(), strict=True)), sketch.n_items
        )
    if number in (2, 3):
        return figures.figure2() if number == 2 else figures.figure3()
    if number == 4:
        return figures.traces(
            {" and ".join(g): range_prevalence(sketch.of(g), CLAIM, label="A") for g in GROUPS[:3]}
        )
    return figures.traces({"all three, flipped": range_prevalence(flipped(), CLAIM, label="A")})


# Three classifiers that err independently of each other, in whole numbers: 2,500 items, 500 of them
# a.
INDEPENDENT = {
    "aaa": 262,
    "aab": 198,
    "aba": 93,
    "abb": 297,
    "baa": 68,
    "bab": 372,
    "bba": 127,
    "bbb": 1083,
}


class Prevalences(NamedTuple):
    """The share of label a by the two ways of Table 3; None where the formula has no real
    value.
    """

    truth: Fraction
    majority: Fraction
    printed: float | None
    solved: tuple[float, ...]


def prevalences(counts: Mapping[tuple[str, str, str], int], truth: Fraction) -> Prevalences:
    """Both ways of Table 3 on one table of answers; the formula as printed, and both
    solutions of the equations behind it.
    """
    a, b = sorted({label for pattern in counts for label in pattern})
    found = solve_trio(counts, labels=[a, b])
    majority = evaluate_majority(counts, labels=[a, b]).prevalence_rate
    printed = None
    if found.discriminant > 0:
        printed = 0.5 * (1 - float(found.third_moment) / math.sqrt(found.discriminant))
    solved = tuple(
        float(x.prevalence_rate) for x in found.branches if x.prevalence_rate is not None
    )
    return Prevalences(truth, Fraction(majority or 0), printed, solved)


def table_3(page: Page) -> dict[str, Prevalences]:
    """Table 3: how often label a occurs, by majority voting and by the solution for independent
    errors.
    """
    graded = {p: a + b for p, (a, b) in TABLE_2.items()}
    found = {
        "the three graders of Table 2": prevalences(graded, Fraction(237, 281)),
        "three independent classifiers": prevalences(
            {(p[0], p[1], p[2]): n for p, n in INDEPENDENT.items()}, Fraction(1, 5)
        ),
    }
    rows = [
        [
            name,
            f"{float(p.truth):.4f}",
            f"{float(p.majority):.4f}",
            "no real value" if p.printed is None else f"{p.printed:.4f}",
            " or ".join(f"{x:.4f}" for x in p.solved) or "none",
        ]
        for name, p in found.items()
    ]
    page.add(
        "Table 3: the prevalence of label a, found in two ways",
        "The formula for independent errors has no free parameter. On the graders its root is of a negative number: they do not err "
        "independently. Where errors are independent it is exact, but it has two solutions, which no answer can tell apart; the printed "
        "sign takes the one in which the classifiers are worse than a coin. Majority voting has neither fault and is exact in neither "
        "case.",
        markdown(
            ["answers", "truth", "majority voting", "formula as printed", "both solutions"], rows
        ),
    )
    return found


def _truth() -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    totals = [sum(n[k] for n in TABLE_2.values()) for k in (0, 1)]
    for i, name in enumerate(GRADERS):
        right = [sum(n[k] for p, n in TABLE_2.items() if p[i] == "AB"[k]) for k in (0, 1)]
        for k, label in enumerate("AB"):
            found[f"accuracy of {name} on {label}"] = Fraction(right[k], totals[k])
        found[f"grade of {name}"] = Fraction(sum(right), sum(totals))
    return found


def models(page: Page, answers: Answers, *, claims: Sequence[str], seconds: float) -> bool:
    """The answers of language models as graders; False if an alarm contradicts the key or the truth
    leaves a range.
    """
    labels = list("ABCDEFGHIJ")[: int(answers.n_classes.max())]
    sketch = Sketch.from_arrays(answers.given.T, labels=labels, classifiers=answers.systems)
    worst = {"accuracy": _lowest(answers), "grade": float(answers.among_answered.min())}
    rows, fine = [], True
    for claim in claims:
        start = time.process_time()
        proof = prove_malfunction(sketch, claim, time_limit=seconds)
        spent = time.process_time() - start
        kind, _, number = claim.partition(" > ")
        really = worst[kind] > float(Fraction(number))
        fine &= not (really and proof.status == "alarm") and (
            proof.status == "undecided" or proof.verify()
        )
        rows.append(
            [claim, proof.status, "kept" if really else "broken", proof.method, f"{spent:.2f}"]
        )
    page.add(
        f"{len(answers.systems)} systems as graders of {sketch.n_items:,} items",
        f"{answers.source}; options as labels, {sketch.n_groups:,} different patterns of answers. No answer is left out, not wrong. An "
        "alarm where the key says 'kept' would be a false one.",
        markdown(["claim about all", "verdict", "by the key", "proved by", "processor s"], rows),
    )
    core = prove_conflict(sketch, claims[-1], time_limit=2 * seconds)
    best = range_threshold(sketch, kind="grade", denominator=100, time_limit=seconds).ranges[0]
    page.add(
        "Conflict and largest claim",
        f"Smallest conflict found for '{claims[-1]}': {', '.join(core.diagnostics['conflict']) or 'none'}. All grades can be above "
        f"{best.low:.2f} without an alarm, not above {best.high:.2f}; the lowest grade is in truth {worst['grade']:.2f}.",
    )
    order = np.argsort(-answers.among_answered)
    trusted = [answers.systems[int(i)] for i in order[:2]]
    given = {
        name: f"grade > {int(100 * answers.among_answered[answers.systems.index(name)]) - 2}/100"
        for name in trusted
    }
    rows = []
    for i in order[2 : 2 + 4]:
        name = f"grade of {answers.systems[int(i)]}"
        found = range_accuracies(sketch, given=given, only=name, time_limit=seconds)
        low, high = exact_ends(found, name)
        mine = answers.given[int(i)]
        truth = Fraction(int(((mine == answers.key) & (mine >= 0)).sum()), int((mine >= 0).sum()))
        fine &= low <= truth <= high
        rows.append(
            [
                name,
                f"{float(low):.3f}",
                f"{float(high):.3f}",
                f"{float(truth):.3f}",
                found.diagnostics["ends"][name]["high is"],
            ]
        )
    page.add(
        "What the others can be if two are trusted",
        f"Trusted: {'; '.join(f'{k}: {v}' for k, v in given.items())}. These claims are true.",
        markdown(["quantity", "lowest", "highest", "truth", "highest is"], rows),
    )
    return fine


def _lowest(answers: Answers) -> float:
    """The lowest accuracy of any system on any label, among the items that it answered."""
    found = []
    for mine in answers.given:
        for label in np.unique(answers.key):
            asked = (answers.key == label) & (mine >= 0)
            if asked.any():
                found.append(float((mine[asked] == label).mean()))
    return min(found)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; 1 if a verdict differs from the paper's, a proof fails, or the truth
    contradicts what was proved.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="six systems and 1,500 items instead of all"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="time limit of each proof")
    parser.add_argument("--out", type=Path, help="folder for alarm.md and the figures")
    options = parser.parse_args(argv)
    page = Page("A fire alarm for graders")
    fine = graders(page, options.out)
    table_3(page)
    answers = ten_options(mmlu_pro())
    if options.quick:
        few = answers.keep(np.arange(min(1500, len(answers.key))))
        systems = few.systems[:6]
        answers = Answers(
            systems=systems,
            n_classes=few.n_classes,
            key=few.key,
            given=few.given[: len(systems)],
            source=few.source,
        )
    fine &= models(
        page,
        answers,
        claims=("accuracy > 1/5", "accuracy > 1/2", "grade > 1/2", "grade > 3/5"),
        seconds=options.seconds,
    )
    if options.out:
        page.write(options.out / "alarm.md")
        print(f"\nwritten: {options.out / 'alarm.md'}")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
