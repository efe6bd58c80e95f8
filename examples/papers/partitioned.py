"""Re-create the tables and Figure 2 of "Towards scalable oversight via partitioned human
supervision" (Yin, Ishida and Sugiyama).

    python examples/papers/partitioned.py --out partitioned-out

Every estimate comes from ``noracle.estimate_accuracy`` on counts. The paper asked gpt-5-nano, whose
answers are not public; so Tables 1 and 3 are made twice: from real answers of other language models
(NORACLE_DATA, else a simulated stand-in), and from counts drawn at the paper's own reference
accuracies, which must give the paper's standard errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from _data import Answers, imbalanced, medical_abstracts, mmlu_pro, ten_options
from _figure import ACCURACY, N_CLASSES, N_ORDINARY, Point, draw_figure, figure_points
from _protocol import PRINTED, ROWS, Population, Summary, draw_binomial, draw_labels, repeat
from _published import BENCHMARKS, TABLE_1, TABLE_2, TABLE_2_COLUMNS, TABLE_3
from _tables import Page, markdown, percent

SHOWN = (
    "gemini-1.5-flash-002",
    "Meta-Llama-3_1-70B-Instruct",
    "Qwen1.5-110B",
    "Mixtral-8x7B-Instruct-v0.1",
    "Qwen1.5-7B-Chat",
)
EDINET_SHARES = tuple(1 / (k + 1) for k in range(16))
Columns = Mapping[str, Mapping[str, Summary]]


def real_columns(
    answers: Answers, repetitions: int, seed: int, systems: Sequence[str]
) -> dict[str, dict[str, Summary]]:
    """Table 1 on real answers: a column per system, 300 ordinary labels."""
    columns = {}
    for number, system in enumerate(systems):
        rng = np.random.default_rng([seed, number])
        population = Population(int(answers.n_classes[0]), answers.key, answers.of(system))
        columns[system] = repeat(
            lambda p=population, r=rng: draw_labels(r, p, 300), population.accuracy, repetitions
        )  # type: ignore[misc]
    return columns


def paper_columns(repetitions: int, seed: int) -> dict[str, dict[str, Summary]]:
    """Table 1 from binomial counts at the paper's reference accuracies and sizes."""
    columns = {}
    for number, b in enumerate(BENCHMARKS):
        rng = np.random.default_rng([seed, 100 + number])
        draw = lambda b=b, r=rng: draw_binomial(r, b.n_classes, b.reference / 100, b.n_ordinary)  # noqa: E731
        columns[b.name] = repeat(draw, b.reference / 100, repetitions)
    return columns


def table_2_columns(repetitions: int, seed: int) -> tuple[dict[str, dict[str, Summary]], str]:
    """Table 2: N/K ordinary labels and one complementary label on each of the other items; EDINET
    simulated with 16 unequal classes.
    """
    columns = {}
    for number, (name, n_items) in enumerate(zip(TABLE_2_COLUMNS[:2], (496, 3269), strict=True)):
        rng = np.random.default_rng([seed, 200 + number])

        def draw(rng: np.random.Generator = rng, n_items: int = n_items) -> Mapping[str, object]:
            world = imbalanced(rng, n_items=n_items, accuracy=0.2, shares=EDINET_SHARES)
            return draw_labels(rng, Population(16, world.key, world.given[0]), n_items // 16)

        columns[name] = repeat(draw, 0.2, repetitions)  # type: ignore[arg-type]
    medical = medical_abstracts()
    rng = np.random.default_rng([seed, 202])
    population = Population(5, medical.key, medical.given[0])
    columns[TABLE_2_COLUMNS[2]] = repeat(
        lambda: draw_labels(rng, population, len(medical.key) // 5),
        population.accuracy,
        repetitions,
    )
    return columns, f"{medical.source}, {medical.systems[0]}"


def estimates_table(columns: Columns, rows: Sequence[str]) -> str:
    """Mean ± standard deviation across runs (mean standard error within a run), as the paper prints
    it.
    """
    body = [
        [
            row,
            *(
                f"{percent(c[row].mean)} ± {percent(c[row].sd)} (± {percent(c[row].se)})"
                for c in columns.values()
            ),
        ]
        for row in rows
    ]
    body.append(
        ["true accuracy", *(percent(next(iter(c.values())).truth) for c in columns.values())]
    )
    return markdown(["estimator", *columns], body)


def coverage_table(columns: Columns, rows: Sequence[str]) -> str:
    """Share of 95 % intervals that hold the true accuracy, exact and Wald, and their mean widths."""
    body = []
    for row in rows:
        cells = [row]
        for c in columns.values():
            s = c[row]
            cells.append(
                f"{s.coverage('exact'):.3f} ({percent(s.width('exact'), 1)}) / {s.coverage('wald'):.3f} ({percent(s.width('wald'), 1)})"
            )
        body.append(cells)
    return markdown(["coverage (width) exact / Wald", *columns], body)


def table_1_beside(columns: Columns, what: Literal["mean", "standard error"]) -> str:
    """Means of the estimates, or standard errors within a run: ours beside the paper's."""
    body = []
    for row, published in TABLE_1.items():
        cells = [row]
        for (mean, _, se), c in zip(published, columns.values(), strict=True):
            ours, printed = (100 * c[row].mean, mean) if what == "mean" else (100 * c[row].se, se)
            cells.append(f"{ours:.2f} / {printed:.2f} ({ours - printed:+.2f})")
        body.append(cells)
    return markdown([f"{what}, ours / paper (difference)", *columns], body)


def deviations_table(columns: Columns) -> str:
    """Table 3: distance of a mean of three runs from the reference; how often three of our runs are
    as far off as printed.
    """
    body = []
    for row, published in TABLE_3.items():
        cells = [row]
        for printed, c in zip(published, columns.values(), strict=True):
            ours = 100 * c[row].deviations_of_three()
            cells.append(f"{ours.mean():.2f} / {printed:.2f} ({np.mean(ours >= printed):.2f})")
        body.append(cells)
    return markdown(["deviation, expected / paper (share as far off)", *columns], body)


def own_deviations_table(columns: Columns, rows: Sequence[str]) -> str:
    """Mean distance of a mean of three runs from the true accuracy, for real answers."""
    body = [
        [row, *(percent(float(c[row].deviations_of_three().mean())) for c in columns.values())]
        for row in rows
    ]
    return markdown(["deviation from the true accuracy", *columns], body)


def table_2_beside(columns: Columns) -> str:
    """Table 2 with the printed cells."""
    body = []
    for row, published in TABLE_2.items():
        ours_row = "Comp-Indep" if row == "Comp-(K−1)" else row
        cells = [row]
        for (mean, sd, se), c in zip(published, columns.values(), strict=True):
            s = c[ours_row]
            cells.append(
                f"{percent(s.mean)} ± {percent(s.sd)} (± {percent(s.se)}) / {mean:.2f} ± {sd:.2f} (± {se:.2f})"
            )
        body.append(cells)
    body.append(
        ["true accuracy", *(percent(next(iter(c.values())).truth) for c in columns.values())]
    )
    return markdown(["estimator, ours / paper", *columns], body)


# -----------------------------------------------------------------------------------------------------------------------------
# sections


def systems_shown(answers: Answers) -> list[str]:
    """The systems of the table on real answers; the stand-ins where these are simulated."""
    return [s for s in SHOWN if s in answers.systems] or list(answers.systems)


def add_table_1_real(page: Page, answers: Answers, real: Columns, n: int, seed: int) -> None:
    """Table 1 on real answers."""
    shares = ", ".join(f"{s} {percent(float((answers.of(s) < 0).mean()), 1)} %" for s in real)
    page.add(
        "Table 1 on real answers, per cent",
        f"{answers.source}: {len(answers.key):,} questions with 10 options, 300 ordinary and 2,700 complementary labels on different "
        f"questions, {n} repetitions, seed {seed}. Without an answer: {shares}; no answer is wrong.",
        estimates_table(real, [*ROWS, PRINTED]),
        "Comp-(K−1) takes all nine 'no' labels of 300 questions: together they are the ordinary label, so clustered by question it equals "
        "Ord. Comp-Indep spreads as many labels over 2,700 questions. Comp-Printed is the same by the printed formula, in which a question "
        "without an answer counts as not ruled out. The paper's MMLU-Pro column (gpt-5-nano, 77.97) cannot be re-run: its answers are not "
        "public.",
        coverage_table(real, [*ROWS, PRINTED]),
        "Labels are drawn without replacement from a finite set of questions, so that intervals made for new questions cover a little more "
        "often.",
    )


def add_table_1_paper(page: Page, paper: Columns) -> None:
    """Table 1 from counts at the paper's accuracies."""
    page.add(
        "Table 1 at the paper's accuracies and sizes, per cent",
        "Counts are drawn at the paper's reference accuracies: its standard errors must follow. Differences come from the paper's three "
        "seeds, whose estimates are not at the reference.",
        table_1_beside(paper, "mean"),
        table_1_beside(paper, "standard error"),
        coverage_table(paper, ROWS),
    )


def add_table_2(page: Page, second: Columns, source: str) -> None:
    """Table 2 beside the printed one."""
    page.add(
        "Table 2, per cent",
        "EDINET (K = 16) is simulated: classes as 1, 1/2, … 1/16, true accuracy 20 (the paper's is not published), 496 and 3,269 items. "
        f"Medical Abstract: {source}, 2,888 abstracts, 577 + 2,308 labels; the paper judged a language model, and its standard errors, "
        "half as large, point to 11,550 abstracts. Unequal classes do not bias the estimates: labels are uniform over the wrong classes.",
        table_2_beside(second),
        coverage_table(second, ("Ord", "Comp-Indep", "IVW-0.5", "IVW", "ML")),
    )


def add_table_3(page: Page, paper: Columns, real: Columns) -> None:
    """Table 3 beside the printed one."""
    page.add(
        "Table 3: deviation from the reference, in points",
        "The paper prints |mean of three seeds − reference|. Expected is the mean of that over our repetitions; the share says how often "
        "three of our runs are at least as far off as printed. Where it is near 0 (the mixed rows of GPQA) drawing labels does not explain "
        "the printed deviation; answers of the model that differ from run to run would.",
        deviations_table(paper),
        own_deviations_table(real, ROWS),
    )


def add_figure_2(page: Page, points: Sequence[Point]) -> None:
    """The numbers of Figure 2."""
    header = [
        "complementary labels",
        "best weight",
        "variance, best",
        "variance, equal",
        "measured, ivw",
        "measured, weighted 0.5",
    ]
    body = [
        [f"{p.n_complementary:,}", f"{p.best_weight:.3f}", *(f"{1e4 * v:.3f}" for v in p[2:])]
        for p in points
    ]
    page.add(
        "Figure 2: weight and variance (× 10⁻⁴) against the number of complementary labels",
        f"K = {N_CLASSES}, accuracy {ACCURACY} (MedQA-USMLE), {N_ORDINARY} ordinary labels. As in the paper the best weight passes 0.5 "
        "near n_c = 3·n_o, and equal weights lose on both sides of it.",
        markdown(header, body),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; write it and the figure where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repetitions", type=int, default=1000, help="runs per cell (the paper: 3); at least 3"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help="folder for partitioned.md, figure2.svg and figure2.png"
    )
    options = parser.parse_args(argv)
    n, seed = max(3, options.repetitions), options.seed
    page = Page("Accuracy from partitioned supervision: the paper's tables, re-created")
    answers = ten_options(mmlu_pro())
    real = real_columns(answers, n, seed, systems_shown(answers))
    add_table_1_real(page, answers, real, n, seed)
    paper = paper_columns(n, seed)
    add_table_1_paper(page, paper)
    add_table_2(page, *table_2_columns(n, seed))
    add_table_3(page, paper, real)
    points = figure_points(max(n, 10), seed)
    add_figure_2(page, points)
    if options.out:
        page.write(options.out / "partitioned.md")
        draw_figure(points, options.out / "figure2.svg")
        print(
            f"\nwritten: {options.out / 'partitioned.md'}, {options.out / 'figure2.svg'}, {options.out / 'figure2.png'}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
