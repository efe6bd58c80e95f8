"""Tables 2 and 3 and Figures 1 to 5 of "A logical alarm for misaligned binary classifiers"."""

from __future__ import annotations

from pathlib import Path

import _alarm_figures as figures
import alarm as script
from _reproduce_model import Figure, Item, Made, Paper, Sections, Size
from _tables import markdown

from noracle.logic.cascade import prove_malfunction


def _draw(number: int, out: Path, alt: str) -> tuple[Figure, ...]:
    path = out / f"figure-{number}.png"
    figures.save(script.drawn(number), path)
    return (Figure(path, alt),)


def table_2(size: Size, out: Path) -> Made:
    """Three graders."""
    del size, out
    page = Sections()
    if not script.graders(page, None):
        raise RuntimeError("a verdict differs from the paper's, or a proof does not verify")
    return Made(
        body=page.body[:-1],
        published="answers of three graders to 281 items by true label; the alarm fires for Mistral with GPT4 only",
        difference=f"none: {len(script.GROUPS)} of {len(script.GROUPS)} verdicts are the paper's",
        reason="the table is printed whole, and a proof is a proof; ours also sees joint patterns, so that it fires for smaller claims",
    )


def table_3(size: Size, out: Path) -> Made:
    """Two ways."""
    del size, out
    page = Sections()
    graders, independent = script.table_3(page).values()
    printed = "no real value" if independent.printed is None else f"{independent.printed:.2f}"
    return Made(
        body=page.body,
        published="two formulae for the prevalence of a label, without numbers",
        difference=f"on the paper's graders: truth {float(graders.truth):.3f}, majority {float(graders.majority):.3f}, formula without a "
        f"real "
        f"value; on independent classifiers: truth {float(independent.truth):.2f}, printed formula {printed}",
        reason="the root has two signs, and the printed one is right only for classifiers worse than a coin; a negative number under it "
        "shows that the graders do not err independently",
    )


def figure_1(size: Size, out: Path) -> Made:
    """Planes of evaluations."""
    del size
    sketch = script.table_2()
    rows = []
    for place, name in enumerate(script.GRADERS):
        uses = int(sketch.uses[place, 0])
        left = sum(len(figures.allowed(sketch.n_items, uses, q)) for q in range(sketch.n_items + 1))
        right = tuple(
            sum(n[k] for p, n in script.TABLE_2.items() if p[place] == "AB"[k]) for k in (0, 1)
        )
        rows.append(
            [
                name,
                str(uses),
                f"{left:,}",
                "yes" if right in figures.allowed(sketch.n_items, uses, 237) else "no",
            ]
        )
    if any(row[-1] == "no" for row in rows):
        raise RuntimeError("the true evaluation of a grader is not on its plane")
    return Made(
        body=(
            markdown(
                ["grader", "said a", "evaluations on its plane", "truth is one of them"], rows
            ),
        ),
        figures=_draw(
            1,
            out,
            "Planes of possible evaluations of three graders in the space of right answers and prevalence",
        ),
        published="for 281 items the answers of a grader leave a plane of all possible evaluations",
        difference=f"none: of {figures.n_single(281):,} evaluations the planes keep {', '.join(row[2] for row in rows)}",
        reason="it follows from the printed counts; drawn with every fourth point",
    )


def figure_2(size: Size, out: Path) -> Made:
    """A pair at one prevalence."""
    del size
    most = [max(r for r, _ in figures.allowed(100, uses, 60)) for uses in (60, 20)]
    rows = [["first", "60", str(most[0]), "60"], ["second", "20", str(most[1]), "60"]]
    if all(2 * m > 60 for m in most):
        raise RuntimeError("Figure 2 has an evaluation that is safe for a")
    return Made(
        body=(markdown(["classifier", "said a", "right on a, at most", "of"], rows),),
        figures=_draw(
            2,
            out,
            "Pairs of evaluations for labels a and b: wanted, unwanted, allowed by the answers",
        ),
        published="with 60 and 20 uses of a, of 100 items with 60 a's, no pair of evaluations is above one half for both on a",
        difference="none",
        reason="it follows from the axiom",
    )


def figure_3(size: Size, out: Path) -> Made:
    """All evaluations of one classifier."""
    del size
    return Made(
        body=(
            f"{figures.n_single(20):,} evaluations of one classifier on 20 items: (Q + 1)(Q + 2)(Q + 3)/6.",
        ),
        figures=_draw(
            3, out, "All evaluations of one classifier on 20 items, as counts and as rates"
        ),
        published="all test summaries of one classifier on 20 items, as counts and as rates",
        difference="none",
        reason="an enumeration; rates are drawn where both labels occur, because they are not defined elsewhere",
    )


def figure_4(size: Size, out: Path) -> Made:
    """Traces of pairs."""
    del size
    sketch = script.table_2()
    rows = []
    for group in script.GROUPS[:3]:
        fires = prove_malfunction(sketch.of(group), script.CLAIM).status == "alarm"
        rows.append(
            [" and ".join(group), script.windows(sketch.of(group)), "yes" if fires else "no"]
        )
        if fires != script.PUBLISHED[group]:
            raise RuntimeError(f"the verdict on {group} is not the paper's")
    return Made(
        body=(markdown(["pair", "possible items of a", "alarm"], rows),),
        figures=_draw(4, out, "Traces of three pairs: at which numbers of a the claim can hold"),
        published="one pair, Mistral with GPT4, breaks the claim at every number of a's",
        difference="none: the same pair, and no other",
        reason="the windows use whole patterns of answers; the paper's use one grader at a time and are never smaller",
    )


def figure_5(size: Size, out: Path) -> Made:
    """The flipped table."""
    del size
    window = script.windows(script.flipped())
    if window != "184..281":
        raise RuntimeError(f"the window of the flipped table must be 184..281; got {window}")
    return Made(
        body=(
            f"With Mistral's answers on true a and GPT4's on true b reversed, the claim can hold for {window} items of a.",
        ),
        figures=_draw(5, out, "Trace of the flipped table"),
        published="with all three made to keep the claim, there are numbers of a's at which the alarm is silent",
        difference=f"none: silent at {window}",
        reason="which answers were reversed follows from the printed accuracies",
    )


PAPER = Paper(
    key="alarm",
    title="A logical alarm for misaligned binary classifiers",
    authors="Corrada-Emmanuel, Parker and Bharadwaj",
    intro="What answers alone prove. The paper prints its table of answers whole, so that everything here is made from it.",
    items=tuple(
        Item(paper="alarm", name=name, title=title, make=make, at_most=at_most)
        for name, title, make, at_most in (
            ("Table 2", "answers of three graders", table_2, 30),
            ("Table 3", "two ways to find the prevalence", table_3, 5),
            ("Figure 1", "planes of evaluations", figure_1, 10),
            ("Figure 2", "a pair of classifiers", figure_2, 10),
            ("Figure 3", "all evaluations of one classifier", figure_3, 10),
            ("Figure 4", "traces of three pairs", figure_4, 10),
            ("Figure 5", "trace of the flipped table", figure_5, 10),
        )
    ),
    sources=(
        "examples/papers/*alarm*.py",
        "examples/papers/independent.py",
        "src/noracle/logic",
        "src/noracle/counts",
        "src/noracle/report/proofs.py",
    ),
)
