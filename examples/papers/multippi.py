"""Re-create the experiments of "Multiple-prediction-powered inference" (Cowen-Breen et al.): what
several raters are worth within a budget.

    python examples/papers/multippi.py --out multippi-out

The paper's ratings are not public, and neither are the numbers behind its figures. So its three
experiments are made on populations of their shape, with its costs, and its sentences stand beside
what is found; the fourth is real answers (NORACLE_DATA, else a simulated stand-in). All methods are
the same estimator with fewer or more sets of raters to buy. ``--quick`` takes seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from _multippi_figures import bias_figure, lines_figure, results_figure
from _multippi_runs import (
    CLASSICAL,
    KNOWN,
    MULTIPPI,
    RESTRICTED,
    VECTOR,
    Found,
    Runs,
    allocate,
    best_baseline,
    methods_of,
    raw_raters,
    run_worlds,
    spending,
)
from _multippi_worlds import (
    BUDGETS,
    World,
    agreement,
    arena,
    debate,
    exact_plan,
    pilot_cov,
    thinking,
)
from _tables import Page, markdown

LABELLED = 250
CROSSFIT = f"{MULTIPPI}, crossfit-t"
FEWER = {
    "arena": 1,
    "thinking": 2,
    "debate": 8,
    "agreement": 10,
}  # larger problems get fewer repetitions


class Size(NamedTuple):
    """How much is computed."""

    repetitions: int
    seed: int
    budgets: tuple[float, ...]
    labelled: tuple[int, ...]  # of Figures 6 to 8
    pilots: int  # exact plans that propose sets where there are too many

    def worlds(self, world: World, part: int = 1) -> int:
        """Worlds for this population."""
        return max(20, self.repetitions // (FEWER[world.name] * part))


# --------------------------------------------------------------------------------------------------------------------------
# experiments


def experiment(world: World, size: Size, *, labelled: int = LABELLED, part: int = 1) -> Runs:
    """All methods at all budgets."""
    return run_worlds(
        world,
        labelled=labelled,
        budgets=size.budgets,
        worlds=size.worlds(world, part),
        seed=[size.seed, labelled, len(world.cells)],
        crossfit=(MULTIPPI,) if labelled >= 20 else (),
    )


def few_methods(
    world: World, size: Size, labelled: int, *, shrink: bool = True, restricted: bool = False
) -> Runs:
    """Classical and MultiPPI only, or MultiPPI restricted too; the same worlds whatever the
    options.
    """
    methods = methods_of(world, restricted=restricted)
    kept = {name: m for name, m in methods.items() if name in (CLASSICAL, MULTIPPI, RESTRICTED)}
    return run_worlds(
        world,
        labelled=labelled,
        budgets=size.budgets,
        worlds=size.worlds(world, 4),
        seed=[size.seed, labelled, len(world.cells)],
        methods=kept,
        shrink=shrink,
    )


def loss_of_likely_sets(world: World, size: Size, pilots: int = 3) -> float:
    """Where MultiPPI chooses from likely sets only: the most variance that this loses against all
    sets, proved, over some new pilots.
    """
    rng = np.random.default_rng([size.seed, 88])
    method = methods_of(world)[MULTIPPI]
    worst = 0.0
    for number in range(pilots):
        budget = size.budgets[number % len(size.budgets)]
        cov = pilot_cov(world, LABELLED, rng)
        exact = exact_plan(world, cov, LABELLED, budget)
        n = allocate(world, method, cov[None], LABELLED, [budget])[0][0]
        M = LABELLED * np.linalg.inv(cov)
        for j in np.flatnonzero(n):
            at = np.ix_(method.sets[j], method.sets[j])
            M[at] += n[j] * np.linalg.inv(cov[at])
        worst = max(worst, float(np.linalg.inv(M)[0, 0]) / exact.allocation.lower_bound - 1)
    return worst


# -------------------------------------------------------------------------------------------------------------------------------
# tables


def results_table(runs: Runs) -> str:
    """Coverage, width and squared error of every method, the last two as a share of the classical
    ones.
    """
    budgets = list(dict.fromkeys(b for _, b in runs))
    body = []
    for name in dict.fromkeys(n for n, _ in runs):
        cells = []
        for b in budgets:
            own, usual = runs[name, b], runs[CLASSICAL, b]
            cells.append(
                f"{own.coverage:.3f}  {own.width / usual.width:.3f}  {own.mse / usual.mse:.3f}"
            )
        body.append([name, *cells])
    return markdown(["coverage  width  MSE", *(f"B = {b:g}" for b in budgets)], body)


def mse_table(columns: Mapping[str, Mapping[float, float]], what: str, digits: int = 3) -> str:
    """A number for each series and budget."""
    budgets = list(next(iter(columns.values())))
    return markdown(
        [what, *(f"B = {b:g}" for b in budgets)],
        [[n, *(f"{v[b]:.{digits}f}" for b in budgets)] for n, v in columns.items()],
    )


def ratio(runs: Runs, name: str = MULTIPPI, to: str = CLASSICAL) -> dict[float, float]:
    """MSE of one method as a share of another's."""
    return {b: runs[name, b].mse / runs[to, b].mse for n, b in runs if n == name}


def margins(runs: Runs, *, cascade: bool = True) -> dict[float, tuple[str, float, float]]:
    """At each budget the best baseline, and the MSE of MultiPPI less that of it, with its standard
    error.

    Both are shares of the classical MSE; the cascade may count as a baseline or not.
    """
    found = {}
    for b in dict.fromkeys(b for _, b in runs):
        best = best_baseline(runs, b, cascade=cascade)
        excess, se = runs[MULTIPPI, b].excess(runs[best, b])
        usual = runs[CLASSICAL, b].mse
        found[b] = best, excess / usual, se / usual
    return found


def margins_table(rows: Sequence[tuple[World, Runs]]) -> str:
    """MultiPPI against the best baseline of each budget, which nobody knows beforehand."""
    budgets = list(dict.fromkeys(b for _, b in rows[0][1]))
    body = []
    for world, runs in rows:
        found = margins(runs)
        body.append(
            [
                world.name,
                *(
                    f"{found[b][0].removeprefix('PPI++ ')}: {found[b][1]:+.4f} ± {found[b][2]:.4f}"
                    for b in budgets
                ),
            ]
        )
    return markdown(["best baseline: excess of MultiPPI", *(f"B = {b:g}" for b in budgets)], body)


def spending_table(world: World, budgets: Sequence[float]) -> str:
    """Share of the budget by set, and the weights in the sample that costs most, with the true
    covariance.
    """
    body = []
    for b in budgets:
        shares, weights = spending(world, LABELLED, b)
        split = ", ".join(
            f"{name} {100 * share:.0f} %"
            for name, share in sorted(shares.items(), key=lambda i: -i[1])
            if share >= 0.005
        )
        joint = [name for name in shares if "+" in name and shares[name] >= 0.005]
        terms = (
            "; ".join(
                f"{name}: " + " ".join(f"{r} {x:+.2f}" for r, x in weights[name].items())
                for name in joint
            )
            or "–"
        )
        body.append([f"{b:g}", split, terms])
    return text_table(["budget", "spent on", "weights in joint samples"], body)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of words."""
    return "\n".join(
        "| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows]
    )


def sentences(rows: Sequence[tuple[str, str, str]]) -> str:
    """The paper's words, what is found here, and why they differ where they do."""
    return text_table(["the paper says", "found here", "reason of a difference"], rows)


def baselines_by_budget(runs: Runs) -> str:
    """The best of the paper's baselines at each budget, in words."""
    return ", ".join(f"{name} at {b:g}" for b, (name, _, _) in margins(runs, cascade=False).items())


def wins(runs: Runs) -> tuple[str, str]:
    """At how many budgets MultiPPI beats the paper's baselines, and why not at the others."""
    found = margins(runs, cascade=False).values()
    better = sum(excess < 0 for _, excess, _ in found)
    worst, se = max((excess, se) for _, excess, se in found)
    words = f"MSE below every baseline at {better} of {len(found)} budgets; worst excess {worst:+.4f} ± {se:.4f} of the classical MSE"
    if worst <= 0:
        return words, "–"
    if worst <= 2 * se + 5e-4:
        return (
            words,
            "none beyond Monte-Carlo error: the two buy nearly the same, or this run is too short to tell",
        )
    return (
        words,
        "the covariance is estimated: choosing among more sets costs a little where one rater is nearly best",
    )


def paper_beside(world: World, runs: Runs) -> str:
    """The sentences of section 6 about one experiment."""
    first, last = min(b for _, b in runs), max(b for _, b in runs)
    rows = [("MultiPPI improves on all baselines in all regimes", *wins(runs))]
    if world.name == "arena":
        ever = any(name == "PPI++ Pro" for name, _, _ in margins(runs, cascade=False).values())
        joint = max(
            sum(v for n, v in spending(world, LABELLED, b)[0].items() if "+" in n) for _, b in runs
        )
        rows += [
            (
                "PPI++ with Flash is the best baseline at low budgets, vector PPI++ at large ones",
                baselines_by_budget(runs),
                "–",
            ),
            (
                "PPI++ with Pro is suboptimal in all regimes",
                "it is the best baseline " + ("somewhere" if ever else "nowhere"),
                "–",
            ),
            (
                "the share of the joint set grows with the budget (Figure 2)",
                f"the joint set gets at most {100 * joint:.0f} % of the budget",
                "prices add and both weights are positive: separate answers are worth more; joint ones pay where signs differ",
            ),
        ]
    if world.name == "thinking":
        rows += [
            (
                "cheaper models are better in PPI++ at small budgets, more expensive ones at large",
                baselines_by_budget(runs),
                "–",
            ),
            (
                "vector PPI++ is best of the baselines only at the highest budgets",
                "; ".join(
                    f"at {b:g} vector {ratio(runs, VECTOR)[b]:.3f}, best {ratio(runs, best_baseline(runs, b, cascade=False))[b]:.3f}"
                    for b in (first, last)
                ),
                "–"
                if best_baseline(runs, last, cascade=False) == VECTOR
                else "here the longest stop says nearly all that all stops say",
            ),
        ]
    if world.name == "debate":
        coverage = ", ".join(
            f"{name} {runs[name, last].coverage:.3f}"
            for name in (VECTOR, MULTIPPI, CROSSFIT, KNOWN)
        )
        rows += [
            (
                "coverage of MultiPPI and vector PPI++ falls about 1 % short at large budgets, because of the bias of the weights (E.5)",
                coverage,
                "what is lost against a known covariance is mostly that residuals are in-sample; weights from other folds mend it",
            ),
            (
                "A ≤ 3 and costs as in equation (8) (section 5)",
                "A ≤ 5, costs A·R that add (I.1.3)",
                "the paper contradicts itself; I.1.3 is the detailed one",
            ),
        ]
    return sentences(rows)


# ---------------------------------------------------------------------------------------------------------------------------------
# page


def show_shapes(
    page: Page, worlds: Sequence[World], size: Size, out: Path | None
) -> dict[str, Runs]:
    """Figure 1, and Figures 2 to 5."""
    page.add(
        "Figure 1: results by budget",
        f"N = {LABELLED} labelled rows, in hand; one unit of budget is one query of the most expensive rater. Intervals as in the paper "
        f"(weights and residuals from the same rows, normal quantile), but in the line '{CROSSFIT}' the default "
        "of this package (five folds, Student's t; no rater dropped). Width and MSE are shares of the classical ones. The "
        "covariance is shrunk on the correlation scale, for all methods. Counts are rounded down and the rest "
        "goes to the set with most of the budget. The MSE is exact given the "
        "labelled rows, so that only these make it noisy.",
    )
    results = {}
    for world in worlds:
        runs = results[world.name] = experiment(world, size)
        page.add(
            f"Experiment: {world.name}",
            f"{world.source}. {size.worlds(world):,} repetitions (the paper: 500,000), {len(world.sets):,} sets of raters. Correlations "
            f"with the label {', '.join(f'{n} {r:.2f}' for n, r in zip(world.names[1:], world.correlation(), strict=True))}.",
            results_table(runs),
            paper_beside(world, runs),
        )
    rows = [(w, results[w.name]) for w in worlds]
    page.add(
        "MultiPPI against the best baseline",
        "Shares of the classical MSE, ± one Monte-Carlo standard error. The cascade counts as a baseline here, not in the sentences above: "
        "the paper writes it down (equation 4) but does not compare with it.",
        margins_table(rows),
    )
    page.add(
        "Figures 2 to 5: what is bought, and the weights",
        "With the true covariance. "
        "The paper: the cheapest rater takes most of the budget when it is small, the joint set when it is large, and in joint samples the "
        "cheaper rater has the opposite sign, as in a cascade. With thinking budgets it is so: equation (8) makes the short stop nearly "
        "free beside the long one, and what it says is already in the long one's answer. In the arena prices add and both raters know "
        "something of their own, so that joint samples do not pay.",
        *(f"{w.name}:\n\n{spending_table(w, size.budgets)}" for w in worlds[:2]),
    )
    if out:
        results_figure(rows, f"N = {LABELLED} labelled rows", out / "figure1.svg")
        shares = {w.name: budget_shares(w, size.budgets) for w in worlds[:2]}
        lines_figure(shares, "share of the budget", "What is bought", out / "figure2.svg")
    return results


def budget_shares(world: World, budgets: Sequence[float]) -> dict[str, dict[float, float]]:
    """The share of the budget of each set that is bought, by budget."""
    found = {b: spending(world, LABELLED, b)[0] for b in budgets}
    names = [
        n
        for n in dict.fromkeys(n for s in found.values() for n in s)
        if max(s.get(n, 0.0) for s in found.values()) >= 0.01
    ]
    return {n: {b: found[b].get(n, 0.0) for b in budgets} for n in names}


def show_labelled(
    page: Page, worlds: Sequence[World], size: Size, main: Mapping[str, Runs], out: Path | None
) -> None:
    """Figures 6, 7 and 8."""
    series: dict[str, dict[str, dict[float, float]]] = {w.name: {} for w in worlds}
    coverage: dict[str, dict[str, dict[float, float]]] = {w.name: {} for w in worlds}
    for n in sorted({*size.labelled, LABELLED}):
        full = n in (min(size.labelled), max(size.labelled))
        rows = []
        for world in worlds:
            if n == LABELLED:
                runs = main[world.name]
            else:
                runs = (
                    experiment(world, size, labelled=n, part=4)
                    if full
                    else few_methods(world, size, n)
                )
            rows.append((world, runs))
            usual = world.cov[0, 0] / LABELLED
            series[world.name][f"N = {n}"] = {
                b: runs[MULTIPPI, b].mse / usual for b in size.budgets
            }
            coverage[world.name][f"N = {n}"] = {b: runs[MULTIPPI, b].coverage for b in size.budgets}
        if full:
            page.add(
                f"Figure {6 if n == min(size.labelled) else 7}: N = {n} labelled rows",
                *(f"{w.name}:\n\n{results_table(r)}" for w, r in rows),
                margins_table(rows),
                sentences([about_labelled(n, rows)]),
            )
            if out:
                results_figure(
                    rows,
                    f"N = {n} labelled rows",
                    out / f"figure{6 if n == min(size.labelled) else 7}.svg",
                )
    page.add(
        "Figure 8: MultiPPI with more or fewer labelled rows",
        f"MSE in units of the classical MSE with {LABELLED} labels.",
        *(f"{name}:\n\n{mse_table(s, 'MSE')}" for name, s in series.items()),
        "Coverage of the paper's interval:",
        *(f"{name}:\n\n{mse_table(s, 'coverage')}" for name, s in coverage.items()),
    )
    if out:
        lines_figure(
            series,
            "MSE / classical with 250 labels",
            "MultiPPI by number of labelled rows",
            out / "figure8.svg",
        )


def about_labelled(n: int, rows: Sequence[tuple[World, Runs]]) -> tuple[str, str, str]:
    """What the paper says about so many labelled rows, what is found, and why they differ."""
    worst = {
        w.name: max((excess, se) for _, excess, se in margins(r, cascade=False).values())
        for w, r in rows
    }
    found = "; ".join(f"{name} {excess:+.4f} ± {se:.4f}" for name, (excess, se) in worst.items())
    lost = any(excess > 2 * se + 5e-4 for excess, se in worst.values())
    if n < 50:
        low = min(f.coverage for _, r in rows for (name, _), f in r.items() if name == MULTIPPI)
        return (
            "even at N = 10 MultiPPI improves on all baselines in MSE; coverage of all methods is far below 95 %",
            f"worst excess over the best baseline {found}; lowest coverage {low:.3f}",
            "weights from 10 rows are mostly noise, and MultiPPI has the most of them: one good rater with one weight can be better"
            if lost
            else "none beyond Monte-Carlo error",
        )
    covered = ", ".join(
        f"{w.name} {r[MULTIPPI, max(b for _, b in r)].coverage:.3f}" for w, r in rows
    )
    return (
        "with N = 1000 the loss of coverage at large budgets does not occur, and MultiPPI is best",
        f"coverage at the largest budget {covered}; worst excess over the best baseline {found}",
        "few raters for many labels: the weights are estimated well"
        if not lost
        else "one rater is nearly best at the smallest budget",
    )


def show_covariance(page: Page, worlds: Sequence[World], size: Size, out: Path | None) -> None:
    """Figure 9: shrunk against empirical covariance, N = 50."""
    panels = {}
    for world in worlds:
        shrunk, plain = few_methods(world, size, 50), few_methods(world, size, 50, shrink=False)
        panels[world.name] = {"shrunk": ratio(shrunk), "empirical": ratio(plain)}
    better = [
        f"{name}: {sum(p['shrunk'][b] <= p['empirical'][b] for b in size.budgets)}"
        for name, p in panels.items()
    ]
    page.add(
        "Figure 9: shrinkage, N = 50",
        "MSE / classical.",
        *(f"{name}:\n\n{mse_table(p, 'covariance')}" for name, p in panels.items()),
        sentences(
            [
                (
                    "Ledoit-Wolf shrinkage is best in all regimes",
                    f"shrunk is no worse at so many of {len(size.budgets)} budgets: {'; '.join(better)}",
                    "with two raters there is little to shrink; the gain comes with many",
                )
            ]
        ),
    )
    if out:
        lines_figure(
            panels, "MSE / classical", "Covariance shrunk or not, N = 50", out / "figure9.svg"
        )


def show_restricted(page: Page, worlds: Sequence[World], size: Size, out: Path | None) -> None:
    """Figure 10: the restricted collection."""
    panels = {}
    for world in worlds:
        runs = few_methods(world, size, LABELLED, restricted=True)
        panels[world.name] = {MULTIPPI: ratio(runs), RESTRICTED: ratio(runs, RESTRICTED)}
    worst = max(
        p[RESTRICTED][b] / p[MULTIPPI][b] - 1 for p in panels.values() for b in size.budgets
    )
    page.add(
        "Figure 10: each rater alone and all together, instead of all sets",
        "MSE / classical.",
        *(f"{name}:\n\n{mse_table(p, 'sets')}" for name, p in panels.items()),
        sentences(
            [
                (
                    "results are very comparable to those with all subsets",
                    f"at most {100 * worst:+.1f} % MSE here",
                    "true here, not in general: up to 38 % more variance in random problems; column generation makes it unnecessary",
                )
            ]
        ),
    )
    if out:
        lines_figure(
            panels, "MSE / classical", "All sets or the restricted ones", out / "figure10.svg"
        )


def bias_groups(
    world: World, runs: Runs, budget: float, worlds: int, seed: int
) -> dict[str, dict[str, Found]]:
    """Classical, raw autoraters, and debiased ones, at one budget."""
    raw = raw_raters(world, budget, worlds, [seed, 15])
    debiased = {
        name: f for (name, b), f in runs.items() if b == budget and name not in (CLASSICAL, KNOWN)
    }
    return {
        "classical": {CLASSICAL: runs[CLASSICAL, budget]},
        "raw": {f"raw {n}": f for n, f in raw.items()},
        "debiased": debiased,
    }


def add_bias(
    page: Page, world: World, groups: Mapping[str, Mapping[str, Found]], budget: float
) -> None:
    """The numbers of Figure 15."""
    body = [
        [
            group,
            name,
            f"{f.value.mean():.4f}",
            f"{f.bias:+.4f}",
            f"{f.value.std():.4f}",
            f"{f.coverage:.3f}",
        ]
        for group, members in groups.items()
        for name, f in members.items()
    ]
    page.add(
        "Figure 15: raw autoraters against debiased ones",
        f"Thinking budgets, B = {budget:g}, truth {world.truth:.3f}. A raw autorater's answers are taken for labels.",
        text_table(["scheme", "estimate", "mean", "bias", "sd", "coverage"], body),
        sentences(
            [
                (
                    "models that think longer are not less biased, and debiasing resolves this",
                    "raw bias "
                    + ", ".join(f"{f.bias:+.3f}" for f in groups["raw"].values())
                    + "; debiased at most "
                    f"{max(abs(f.bias) for f in groups['debiased'].values()):.4f}",
                    "the population was made so that it shows this: it says what follows, not that models are so",
                )
            ]
        ),
    )


def show_bias(page: Page, world: World, runs: Runs, size: Size, out: Path | None) -> None:
    """Figure 15: raw autoraters against debiased ones."""
    budget = 500.0
    groups = bias_groups(world, runs, budget, size.worlds(world), size.seed)
    add_bias(page, world, groups, budget)
    if out:
        bias_figure(groups, f"Thinking budgets, B = {budget:g}", out / "figure15.svg")


def show_real(page: Page, size: Size, out: Path | None) -> tuple[World, Runs]:
    """The same on answers of language models."""
    world = agreement(LABELLED, size.budgets, size.seed, size.pilots)
    runs = experiment(world, size)
    some = len(world.sets) < 2 ** (world.k - 1) - 1
    related = world.correlation()
    prices = [
        [
            world.names[c],
            f"{world.price((c,)):.3f}",
            f"{world.means[c]:.3f}",
            f"{related[c - 1]:.2f}",
        ]
        for c in world.raters
    ]
    words = (
        f"{world.source}. Wanted is its accuracy ({world.truth:.3f}). A rater says 1 where it gives the same answer (an agreement, not a "
        "judgement, and biased). Prices go by size; the unit is the most expensive one: parameters that are used per word, a plain table "
        f"of ours and not anybody's price list. {LABELLED} questions have a key; {size.worlds(world):,} repetitions."
    )
    parts = [
        words,
        markdown(["rater", "price", "mean", "correlation"], prices),
        results_table(runs),
        margins_table([(world, runs)]),
    ]
    if some:
        loss = loss_of_likely_sets(world, size)
        parts.append(
            f"MultiPPI chooses from {len(world.sets)} likely sets (singles, pairs, all, and what exact plans for other pilots buy). "
            f"Against all {2 ** (world.k - 1) - 1:,} sets this and the rounding lose at most {100 * loss:.2f} % variance in new "
            "pilots, proved by column generation."
        )
    page.add("Real answers: agreement of other systems as raters", *parts)
    if out:
        results_figure([(world, runs)], "Agreement of other systems", out / "figure-agreement.svg")
    return world, runs


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page; write it and the figures where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repetitions",
        type=int,
        help="worlds of the smallest experiment, larger ones have fewer (default 20000)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="three budgets and 1200 repetitions")
    parser.add_argument(
        "--out", type=Path, help="folder for multippi.md and the figures (SVG and PNG)"
    )
    options = parser.parse_args(argv)
    if options.quick:
        size = Size(options.repetitions or 1200, options.seed, (50.0, 500.0, 2000.0), (10, 1000), 2)
    else:
        size = Size(
            options.repetitions or 20_000, options.seed, BUDGETS, (10, 50, 100, 200, 1000), 12
        )
    out = options.out
    page = Page("Several raters within a budget: the experiments of MultiPPI, re-created")
    worlds = [arena(), thinking(), debate()]
    results = show_shapes(page, worlds, size, out)
    show_labelled(page, worlds, size, results, out)
    show_covariance(page, worlds, size, out)
    show_restricted(page, worlds, size, out)
    show_bias(page, worlds[1], results["thinking"], size, out)
    show_real(page, size, out)
    if out:
        page.write(out / "multippi.md")
        figures = ", ".join(sorted(p.name for p in out.glob("figure*.svg")))
        print(f"\nwritten: {out / 'multippi.md'}; {figures} and the same as PNG")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
