"""Are the estimates unbiased on real answers, and what does targeted routing save?

    python examples/papers/unbiased.py --out unbiased-out

For every system of the MMLU-Pro file (NORACLE_DATA, else a simulated stand-in): the mean of many
estimates from 2,700 complementary labels against the true accuracy, on the questions with 10
options (method ``complementary``) and on all with at least 3 (method ``scores``, each question with
its own number of options); then the labels that targeted routing saves at K = 10. The seed is 0 and
was chosen beforehand.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _data import Answers, mmlu_pro, ten_options
from _routing import EPSILON, Gain, expected_gains, measure_gains
from _tables import Page, markdown, percent

from noracle import AccuracyCounts, GuaranteeWarning, estimate_accuracy

LABELS = 2700


class Bias(NamedTuple):
    """Mean of the estimates of one system against its true accuracy; ``z`` is their distance in
    Monte-Carlo standard errors.
    """

    system: str
    truth: float
    without_answer: float
    mean: float
    sd: float
    repetitions: int

    @property
    def se(self) -> float:
        """Monte-Carlo standard error of the mean."""
        return self.sd / math.sqrt(self.repetitions)

    @property
    def z(self) -> float:
        """Distance of the mean from the truth in Monte-Carlo standard errors."""
        return (self.mean - self.truth) / self.se


def measure_bias(
    answers: Answers, *, repetitions: int, seed: int, labels: int = LABELS
) -> list[Bias]:
    """Label ``labels`` random items again and again (without replacement, one uniform wrong class
    each) and estimate every system.

    One set of labels serves all systems. Items with one number of classes use method
    ``complementary``, a mixture ``scores``.
    """
    rng = np.random.default_rng(seed)
    n_items = len(answers.key)
    sizes = np.unique(answers.n_classes)
    method = "complementary" if len(sizes) == 1 else "scores"
    places = [(int(k), answers.n_classes == k) for k in sizes]
    population = [
        [(int(of.sum()), int((given[of] < 0).sum())) for _, of in places] for given in answers.given
    ]
    values = np.empty((len(answers.systems), repetitions))
    for r in range(repetitions):
        items = rng.permutation(n_items)[:labels]
        ruled_out = (
            answers.key[items] + 1 + rng.integers(answers.n_classes[items] - 1)
        ) % answers.n_classes[items]
        of_size = [of[items] for _, of in places]
        for s in range(len(answers.systems)):
            answer = answers.given[s, items]
            answered, hit = answer >= 0, answer == ruled_out
            counts = None
            for (k, _), (n, without), which in zip(places, population[s], of_size, strict=True):
                n_answered = int((answered & which).sum())
                part = AccuracyCounts.from_counts(
                    n_classes=k,
                    complementary=(n_answered, n_answered - int((hit & which).sum())),
                    n_items=n,
                    n_without_answer=without,
                )
                counts = part if counts is None else counts + part
            if counts is not None:
                values[s, r] = estimate_accuracy(counts, method=method, interval="wald").value  # type: ignore[arg-type]
    truth, silent = answers.accuracy.tolist(), (answers.given < 0).mean(axis=1).tolist()
    mean, sd = values.mean(axis=1).tolist(), values.std(axis=1, ddof=1).tolist()
    return [
        Bias(name, truth[s], silent[s], mean[s], sd[s], repetitions)
        for s, name in enumerate(answers.systems)
    ]


def bias_table(rows: Sequence[Bias]) -> str:
    """One line per system, in per cent."""
    header = [
        "system",
        "without answer",
        "true accuracy",
        "mean estimate",
        "sd",
        "Monte-Carlo se",
        "z",
    ]
    body = [
        [
            b.system,
            percent(b.without_answer, 1),
            percent(b.truth),
            percent(b.mean),
            percent(b.sd),
            percent(b.se, 3),
            f"{b.z:+.2f}",
        ]
        for b in rows
    ]
    return markdown(header, body)


def gains_table(rows: Sequence[Gain], answers: Answers) -> str:
    """One line per system: variance per label and labels needed for each targeted one, measured and
    by the formulae.
    """
    header = [
        "system",
        "accuracy",
        "complementary",
        "one query, ML",
        "targeted",
        "× complementary (formula)",
        "× one query (formula)",
    ]
    body = []
    for g, among in zip(rows, answers.among_answered.tolist(), strict=True):
        first, second = expected_gains(int(answers.n_classes[0]), among)
        variances = [f"{g.complementary:.3f}", f"{g.one_query:.3f}", f"{g.targeted:.4f}"]
        ratios = [
            f"{g.over_complementary:.1f} ({first:.1f})",
            f"{g.over_one_query:.1f} ({second:.1f})",
        ]
        body.append([g.system, percent(g.accuracy), *variances, *ratios])
    return markdown(header, body)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables; 1 if a mean is further than 4 Monte-Carlo standard errors from the truth or
    routing saves less than promised.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repetitions", type=int, default=400, help="estimates per system for the bias"
    )
    parser.add_argument(
        "--routing-repetitions",
        type=int,
        default=4000,
        help="estimates per system and design for the variance",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for unbiased.md")
    options = parser.parse_args(argv)
    everything = mmlu_pro()
    ten = ten_options(everything)
    page = Page("Unbiased on real answers, and what targeted routing saves")
    fine = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        for answers, title, how in (
            (ten, "Questions with 10 options", "method complementary"),
            (
                everything,
                "All questions with 3 to 10 options",
                "method scores, each question with its own number of options",
            ),
        ):
            rows = measure_bias(answers, repetitions=options.repetitions, seed=options.seed)
            worst = max(abs(b.z) for b in rows)
            fine &= worst <= 4
            page.add(
                f"{title}, per cent",
                f"{answers.source}: {len(answers.key):,} questions, {LABELS:,} complementary labels, {options.repetitions} repetitions, "
                f"seed {options.seed}, {how}; no answer is wrong. Largest |z| {worst:.2f} (wanted: at most 4).",
                bias_table(rows),
            )
        gains = measure_gains(
            ten, labels=LABELS, repetitions=options.routing_repetitions, seed=options.seed
        )
        least = min(g.over_complementary for g in gains), min(g.over_one_query for g in gains)
        fine &= least[0] >= 8 and least[1] >= 4
        page.add(
            "Targeted routing at K = 10",
            f"Variance per label over {options.routing_repetitions:,} repetitions of {LABELS:,} labels (items with replacement), "
            f"ε = {EPSILON}, augmented scores; and how many labels the uniform designs need for each targeted one at the same standard "
            "error, measured (and by the formula). "
            f"Least: {least[0]:.1f} × complementary (wanted: 8), {least[1]:.1f} × one query with ML (wanted: 4).",
            gains_table(gains, ten),
        )
    if options.out:
        page.write(options.out / "unbiased.md")
        print(f"\nwritten: {options.out / 'unbiased.md'}")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
