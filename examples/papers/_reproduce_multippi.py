"""Figures 1 to 15 of "Multiple-prediction-powered inference"."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import _multippi_worlds as worlds
import multippi as script
from _multippi_figures import bias_figure, lines_figure, results_figure
from _multippi_runs import MULTIPPI, RESTRICTED, Runs, spending
from _multippi_worlds import BUDGETS, World, arena, debate, thinking
from _reproduce_model import Figure, Item, Made, Paper, Sections, Size
from _tables import markdown, percent

_RATINGS = "the paper's ratings (Chatbot Arena, ProcessBench, Factuality) and the numbers behind its figures (not published)"
_SHAPE = "populations of the same shape and with the same costs take the place of the ratings"
_THEIRS = {"arena": "Chatbot Arena", "thinking": "ProcessBench", "debate": "Factuality"}
_MAKERS: dict[str, Callable[[], World]] = {"arena": arena, "thinking": thinking, "debate": debate}


def _scale(size: Size) -> script.Size:
    if size.quick:
        return script.Size(200, size.seed, (50.0, 2000.0), (10, 1000), 2)
    return script.Size(6000, size.seed, BUDGETS, (10, 50, 100, 200, 1000), 2)


@functools.cache
def _world(name: str) -> World:
    return _MAKERS[name]()


@functools.cache
def _runs(name: str, labelled: int, size: Size) -> Runs:
    return script.experiment(
        _world(name), _scale(size), labelled=labelled, part=1 if labelled == script.LABELLED else 4
    )


@functools.cache
def _few(name: str, labelled: int, size: Size) -> Runs:
    return script.few_methods(_world(name), _scale(size), labelled)


def _rows(labelled: int, size: Size) -> list[tuple[World, Runs]]:
    return [(_world(name), _runs(name, labelled, size)) for name in _MAKERS]


def _made(page: Sections, figure: Figure, published: str, difference: str, reason: str) -> Made:
    return Made(
        body=page.body,
        figures=(figure,),
        published=published,
        difference=difference,
        reason=reason,
        status="reproduced in shape",
        missing=(_RATINGS,),
    )


def _excess(rows: Sequence[tuple[World, Runs]]) -> str:
    """The worst excess of MultiPPI over the paper's baselines, in per cent of the classical squared
    error.
    """
    found = []
    for world, runs in rows:
        _, worst, se = max(script.margins(runs, cascade=False).values(), key=lambda m: m[1])
        found.append(f"{world.name} {100 * worst:+.2f} ± {100 * se:.2f}")
    return "; ".join(found)


def figure_1(size: Size, out: Path) -> Made:
    """Results by budget."""
    page, rows = Sections(), _rows(script.LABELLED, size)
    for world, runs in rows:
        page.add(
            f"{world.name} ({_THEIRS[world.name]} in the paper)",
            f"{world.source}. {_scale(size).worlds(world):,} repetitions (the paper: 500,000). Width and MSE are shares of the classical "
            f"ones.",
            script.results_table(runs),
            script.paper_beside(world, runs),
        )
    page.add(
        "MultiPPI against the best baseline",
        "Shares of the classical MSE, ± one Monte-Carlo standard error.",
        script.margins_table(rows),
    )
    results_figure(rows, f"N = {script.LABELLED} labelled rows", out / "figure-1.svg")
    return _made(
        page,
        Figure(
            out / "figure-1.png", "Coverage, width and squared error by budget, three experiments"
        ),
        "coverage near 95 %; MultiPPI has the least width and squared error at every budget in all three experiments",
        f"worst excess of MultiPPI over the best of the paper's baselines, per cent of the classical squared error: {_excess(rows)}",
        f"{_SHAPE}; where one rater is nearly best, choosing among more sets costs a little",
    )


# -------------------------------------------------------------------------------------------------------------------
# Figures 2 to 5


def _joint(world: World, budgets: Sequence[float]) -> list[float]:
    """Share of the budget spent on joint samples, by budget."""
    return [
        sum(v for name, v in spending(world, script.LABELLED, b)[0].items() if "+" in name)
        for b in budgets
    ]


def _bought(name: str, number: int, size: Size, out: Path) -> Made:
    page, world, budgets = Sections(), _world(name), _scale(size).budgets
    shares = script.budget_shares(world, budgets)
    page.add(
        f"Share of the budget, {name}",
        "With the true covariance.",
        script.mse_table(shares, "bought together", digits=3),
    )
    lines_figure(
        {name: shares}, "share of the budget", "What is bought", out / f"figure-{number}.svg"
    )
    first = max(shares, key=lambda s: shares[s][budgets[0]])
    joint = _joint(world, budgets)
    grows = all(b >= a - 1e-9 for a, b in itertools.pairwise(joint))
    said = f"joint samples take {100 * joint[0]:.0f} % of it and {100 * joint[-1]:.0f} % of the largest"
    said += ", never falling between" if grows else ", not always growing between"
    if max(joint) < 0.005:
        said = "joint samples are not bought at any budget"
    reasons = {
        "arena": "prices add and both raters know something of their own, so that separate answers are worth more than joint ones",
        "thinking": "the prices are the paper's, the population is made to its shape",
    }
    return _made(
        page,
        Figure(
            out / f"figure-{number}.png",
            f"Share of the budget by set of raters against the budget, {name}",
        ),
        "the cheapest model takes most of a small budget; the share of the joint set grows with the budget",
        f"most of the smallest budget goes to {first}; {said}",
        f"{_SHAPE}; {reasons[name]}",
    )


def _weights(name: str, number: int, size: Size, out: Path) -> Made:
    page, world, budgets = Sections(), _world(name), _scale(size).budgets
    found = {b: spending(world, script.LABELLED, b)[1] for b in budgets}
    lines: dict[str, dict[float, float]] = {}
    for b, samples in found.items():
        for sample, weights in samples.items():
            for rater, weight in weights.items():
                if rater != world.names[0]:
                    lines.setdefault(f"{sample}: {rater}", dict.fromkeys(budgets, 0.0))[b] = weight
    page.add(
        f"Weights, {name}",
        "With the true covariance; 0 where a set is not bought. 'labelled' is the sample with labels, in which a rater's weight has the "
        "opposite sign of the sum of its others.",
        script.mse_table(lines, "sample: rater", digits=3),
    )
    lines_figure(
        {name: lines}, "weight", "Weights of the sample means", out / f"figure-{number}.svg"
    )
    opposite = []
    for b, samples in found.items():
        joint = [w for sample, w in samples.items() if "+" in sample and sample != "labelled"]
        if any(min(w.values()) < -1e-6 < 1e-6 < max(w.values()) for w in joint):
            opposite.append(f"{b:g}")
    said = (
        f"opposite signs in joint samples at budgets {', '.join(opposite)}"
        if opposite
        else "no joint sample with opposite signs"
    )
    reasons = {
        "arena": "here joint samples do not pay: prices add, and both weights are positive",
        "thinking": "the short stop costs little beside the long one, whose answer holds what it says: a cascade",
    }
    return _made(
        page,
        Figure(
            out / f"figure-{number}.png", f"Weights of raters by sample against the budget, {name}"
        ),
        "one rater has a weight at small budgets; at large ones the cheaper rater has the opposite sign in the joint term",
        said,
        f"{_SHAPE}; {reasons[name]}",
    )


def figure_2(size: Size, out: Path) -> Made:
    """Budget shares, arena."""
    return _bought("arena", 2, size, out)


def figure_3(size: Size, out: Path) -> Made:
    """Budget shares, thinking."""
    return _bought("thinking", 3, size, out)


def figure_4(size: Size, out: Path) -> Made:
    """Weights, thinking."""
    return _weights("thinking", 4, size, out)


def figure_5(size: Size, out: Path) -> Made:
    """Weights, arena."""
    return _weights("arena", 5, size, out)


# -------------------------------------------------------------------------------------------------------------------
# Figures 6 to 10


def _labelled(number: int, labelled: int, published: str, size: Size, out: Path) -> Made:
    page, rows = Sections(), _rows(labelled, size)
    for world, runs in rows:
        page.add(f"{world.name}, N = {labelled}", script.results_table(runs))
    said, found, why = script.about_labelled(labelled, rows)
    page.add(
        "MultiPPI against the best baseline",
        script.margins_table(rows),
        script.sentences([(said, found, why)]),
    )
    results_figure(rows, f"N = {labelled} labelled rows", out / f"figure-{number}.svg")
    covered = ", ".join(
        f"{w.name} {min(f.coverage for (name, _), f in r.items() if name == MULTIPPI):.3f}"
        for w, r in rows
    )
    return _made(
        page,
        Figure(
            out / f"figure-{number}.png",
            f"Coverage, width and squared error by budget with {labelled} labelled rows",
        ),
        published,
        f"worst excess over the best baseline, per cent of the classical squared error: {_excess(rows)}; lowest coverage of MultiPPI: "
        f"{covered}",
        f"{_SHAPE}; {why}",
    )


def figure_6(size: Size, out: Path) -> Made:
    """Ten labels."""
    return _labelled(
        6,
        10,
        "with 10 labels coverage is far below 95 % for all methods; MultiPPI still has the least squared error",
        size,
        out,
    )


def figure_7(size: Size, out: Path) -> Made:
    """A thousand labels."""
    return _labelled(
        7,
        1000,
        "with 1,000 labels coverage does not fall at large budgets, and MultiPPI is best",
        size,
        out,
    )


def figure_8(size: Size, out: Path) -> Made:
    """By number of labels."""
    page, scale = Sections(), _scale(size)
    numbers = sorted({*scale.labelled, script.LABELLED})
    series: dict[str, dict[str, dict[float, float]]] = {}
    for name in _MAKERS:
        usual = _world(name).cov[0, 0] / script.LABELLED
        full = (min(scale.labelled), script.LABELLED, max(scale.labelled))
        runs = {n: _runs(name, n, size) if n in full else _few(name, n, size) for n in numbers}
        series[name] = {
            f"N = {n}": {b: r[MULTIPPI, b].mse / usual for b in scale.budgets}
            for n, r in runs.items()
        }
        page.add(
            f"{name}: MSE of MultiPPI",
            "In units of the classical MSE with 250 labels.",
            script.mse_table(series[name], "labelled rows"),
        )
    lines_figure(
        series,
        "MSE / classical with 250 labels",
        "MultiPPI by number of labelled rows",
        out / "figure-8.svg",
    )
    ordered = all(
        found[f"N = {a}"][b] >= found[f"N = {c}"][b]
        for found in series.values()
        for a, c in itertools.pairwise(numbers)
        for b in scale.budgets
    )
    return _made(
        page,
        Figure(
            out / "figure-8.png",
            "Squared error of MultiPPI against the budget for several numbers of labelled rows",
        ),
        "more labelled rows give a smaller error at every budget",
        f"{'the same' if ordered else 'the same but for Monte-Carlo error'}, for N = {', '.join(map(str, numbers))}",
        _SHAPE,
    )


def figure_9(size: Size, out: Path) -> Made:
    """Covariance estimates."""
    page, scale = Sections(), _scale(size)
    panels = {}
    for name in _MAKERS:
        shrunk, plain = (
            _few(name, 50, size),
            script.few_methods(_world(name), scale, 50, shrink=False),
        )
        panels[name] = {"shrunk": script.ratio(shrunk), "empirical": script.ratio(plain)}
        page.add(f"{name}, N = 50: MSE / classical", script.mse_table(panels[name], "covariance"))
    lines_figure(
        panels, "MSE / classical", "Covariance shrunk or not, N = 50", out / "figure-9.svg"
    )
    better = [
        f"{name} {sum(p['shrunk'][b] <= p['empirical'][b] for b in scale.budgets)}"
        for name, p in panels.items()
    ]
    return _made(
        page,
        Figure(out / "figure-9.png", "Squared error with shrunk and with empirical covariance"),
        "Ledoit-Wolf shrinkage is best in all regimes",
        f"shrunk is no worse at so many of {len(scale.budgets)} budgets: {'; '.join(better)}",
        f"{_SHAPE}; with two raters there is little to shrink",
    )


def figure_10(size: Size, out: Path) -> Made:
    """The restricted collection."""
    page, scale = Sections(), _scale(size)
    panels = {}
    for name in _MAKERS:
        runs = script.few_methods(_world(name), scale, script.LABELLED, restricted=True)
        panels[name] = {MULTIPPI: script.ratio(runs), RESTRICTED: script.ratio(runs, RESTRICTED)}
        page.add(f"{name}: MSE / classical", script.mse_table(panels[name], "sets"))
    lines_figure(
        panels, "MSE / classical", "All sets or the restricted ones", out / "figure-10.svg"
    )
    worst = max(
        p[RESTRICTED][b] / p[MULTIPPI][b] - 1 for p in panels.values() for b in scale.budgets
    )
    return _made(
        page,
        Figure(out / "figure-10.png", "Squared error with all sets and with the restricted ones"),
        "singles and the set of all raters do about as well as all sets",
        f"at most {100 * worst:+.1f} % squared error",
        f"{_SHAPE}; true here, not in general: up to 38 % more variance in random problems",
    )


def figure_11(size: Size, out: Path) -> Made:
    """Accuracy by words of thought."""
    del size
    found = worlds.thinking().judged()
    return _by_effort(
        "words",
        {"accuracy": {125 * (i + 1): v["accuracy"] for i, v in enumerate(found.values())}},
        Figure(out / "figure-11.png", "Share of right answers against words of thought"),
        "most of the gain comes within 500 words, and it is flat from about 1,000 on",
        "the population stops at 500 words, as the experiment does, and was made to rise there",
    )


def figure_12(size: Size, out: Path) -> Made:
    """How faults are found, by words of thought."""
    del size
    found = worlds.thinking().judged()
    kinds = ("sensitivity", "specificity")
    return _by_effort(
        "words",
        {k: {125 * (i + 1): v[k] for i, v in enumerate(found.values())} for k in kinds},
        Figure(out / "figure-12.png", "Sensitivity and specificity against words of thought"),
        "the same for other measures: most of the gain within 500 words",
        "the population was made with its answers more ready to find faults the longer the thought",
    )


def figure_13(size: Size, out: Path) -> Made:
    """Accuracy of a debate."""
    lines = {
        f"{kind}, {rounds} rounds" if rounds > 1 else f"{kind}, 1 round": {
            agents: worlds.debated(524 * 20, agents, rounds, seed=size.seed)[kind]
            for agents in range(1, 6)
        }
        for kind in ("soft", "hard")
        for rounds in (1, 2)
    }
    return _by_effort(
        "agents",
        lines,
        Figure(out / "figure-13.png", "Soft and hard accuracy of debates against agents"),
        "accuracy rises with agents and with rounds, more with agents; soft accuracy gives half a point to 'uncertain'",
        "the debate of I.1.3 is simulated; its pooler is a rule that leaves a level vote open, which costs 2 and 4 agents hard accuracy",
    )


def figure_14(size: Size, out: Path) -> Made:
    """What a debate leaves open."""
    lines = {
        f"{rounds} rounds" if rounds > 1 else "1 round": {
            agents: worlds.debated(524 * 20, agents, rounds, seed=size.seed)["uncertain"]
            for agents in range(1, 6)
        }
        for rounds in (1, 2, 3)
    }
    return _by_effort(
        "agents",
        lines,
        Figure(out / "figure-14.png", "Share of uncertain predictions of debates against agents"),
        "fewer uncertain predictions with more agents; almost all are certain after the second round",
        "the debate of I.1.3 is simulated; its pooler is a rule that leaves a level vote open, as it often is with 2 or 4 agents",
    )


def _by_effort(
    x: str, lines: dict[str, dict[int, float]], figure: Figure, published: str, reason: str
) -> Made:
    """One panel of shares against agents or words, and its numbers."""
    import matplotlib.pyplot as plt

    page = Sections()
    at = list(next(iter(lines.values())))
    rows = [[name, *(percent(v, 1) for v in line.values())] for name, line in lines.items()]
    page.add("In per cent", markdown([x, *map(str, at)], rows))
    with plt.rc_context({"svg.hashsalt": "noracle", "font.size": 9}):
        drawn, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
        for mark, (name, line) in zip("os^v", lines.items(), strict=False):
            ax.plot(at, [100 * v for v in line.values()], marker=mark, label=name)
        ax.set(xlabel=x, ylabel="per cent", xticks=at)
        ax.legend(frameon=False, fontsize=8)
        drawn.savefig(figure.path, dpi=150)
        plt.close(drawn)
    first = "; ".join(
        f"{name} {percent(line[at[0]], 1)} to {percent(line[at[-1]], 1)}"
        for name, line in lines.items()
    )
    return _made(
        page, figure, published, f"from the least to the most: {first}", f"{_SHAPE}; {reason}"
    )


def figure_15(size: Size, out: Path) -> Made:
    """Raw raters."""
    page, scale, world = Sections(), _scale(size), _world("thinking")
    budget = 2000.0 if size.quick else 500.0
    runs = _runs("thinking", script.LABELLED, size)
    groups = script.bias_groups(world, runs, budget, scale.worlds(world), size.seed)
    script.add_bias(page, world, groups, budget)
    bias_figure(groups, f"Thinking budgets, B = {budget:g}", out / "figure-15.svg")
    raw = ", ".join(f"{f.bias:+.3f}" for f in groups["raw"].values())
    return _made(
        page,
        Figure(
            out / "figure-15.png", "Mean and spread of estimates: classical, raw raters, debiased"
        ),
        "raw autoraters are biased, more so with longer thinking; debiased schemes are not, and MultiPPI is the narrowest",
        f"raw bias {raw}; debiased at most {max(abs(f.bias) for f in groups['debiased'].values()):.4f}",
        f"{_SHAPE}; the population was made so that it shows this",
    )


PAPER = Paper(
    key="multippi",
    title="Multiple-prediction-powered inference",
    authors="Cowen-Breen and others",
    intro="A budget across several raters and a few labels. Neither the ratings nor the numbers behind the figures are public: populations "
    "of the same shape, with the paper's costs, take their place, and what the paper reads off a figure stands beside what is found.",
    items=tuple(
        Item(paper="multippi", name=name, title=title, make=make, at_most=at_most)
        for name, title, make, at_most in (
            ("Figure 1", "results by budget", figure_1, 150),
            ("Figure 2", "what is bought, two judges", figure_2, 10),
            ("Figure 3", "what is bought, thinking budgets", figure_3, 10),
            ("Figure 4", "weights, thinking budgets", figure_4, 10),
            ("Figure 5", "weights, two judges", figure_5, 10),
            ("Figure 6", "10 labelled rows", figure_6, 60),
            ("Figure 7", "1,000 labelled rows", figure_7, 60),
            ("Figure 8", "more or fewer labelled rows", figure_8, 60),
            ("Figure 9", "shrinkage of the covariance", figure_9, 30),
            ("Figure 10", "the restricted collection of sets", figure_10, 30),
            ("Figure 11", "accuracy by words of thought", figure_11, 5),
            ("Figure 12", "faults found by words of thought", figure_12, 5),
            ("Figure 13", "accuracy of debates", figure_13, 5),
            ("Figure 14", "what debates leave open", figure_14, 5),
            ("Figure 15", "raw and debiased raters", figure_15, 10),
        )
    ),
    sources=(
        "examples/papers/*multippi*.py",
        "src/noracle/ppi",
        "src/noracle/bounds",
        "src/noracle/counts",
    ),
)
