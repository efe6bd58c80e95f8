"""Draws the pictures of the gallery and of the architecture page: ``python docs/make_gallery.py
[FOLDER]``.

Every picture is drawn from a result that the library returns here, on published counts or on a
simulated world with a fixed seed. The texts stay texts, so that the files are small and can be
searched; the numbers are in the page beside them.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG

import noracle
from noracle.report.plots import interval_plot, rank_plot
from noracle.simulate import simulate_world

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HERE = Path(__file__).parent
MOST_BYTES = 40_000


def accuracy() -> Axes:
    """Three systems, one question per item."""
    evidence = simulate_world(
        n_items=1500, n_classes=5, systems={"agent": 0.88, "baseline": 0.74, "small": 0.7}, seed=7
    ).evidence()
    return interval_plot(
        [noracle.estimate_accuracy(evidence, system=s) for s in ("agent", "baseline", "small")]
    )


def intervals() -> Axes:
    """One set of published counts, four promises."""
    counts = noracle.AccuracyCounts.from_counts(
        n_classes=10, ordinary=(300, 235), complementary=(2700, 2634), system="published"
    )
    found = [
        noracle.estimate_accuracy(counts, interval=i)
        for i in ("exact", "anytime", "betting", "profile")
    ]
    axes = interval_plot(found)
    axes.set_yticks(axes.get_yticks(), [f"{e.interval}, {e.guarantee.kind.label}" for e in found])
    return axes


def comparison() -> Axes:
    """Differences that hold together."""
    evidence = simulate_world(
        n_items=3000, n_classes=4, systems={"a": 0.9, "b": 0.75, "c": 0.73}, seed=3
    ).evidence()
    return noracle.compare_systems(evidence).plot()


def ranks() -> Axes:
    """The places that five systems can hold."""
    systems = {"a": 0.92, "b": 0.84, "c": 0.82, "d": 0.6, "e": 0.58}
    evidence = simulate_world(n_items=2500, n_classes=4, systems=systems, seed=3).evidence()
    return rank_plot(noracle.compare_systems(evidence))


def certificate() -> Axes:
    """A published benchmark: 97.1 % match on SST with three annotators whose U_e is 0.939."""
    return noracle.certify_published(
        0.971, 0.939**2, 1821, 3, n_classes=2, trained_on_annotators="no", system="published"
    ).plot()


def alarm() -> Axes:
    """What two graders can still be, from their published answers alone."""
    counts = {("A", "A"): 26, ("A", "B"): 1, ("B", "A"): 208, ("B", "B"): 46}
    sketch = noracle.Sketch.from_counts(counts, classifiers=["Mistral", "GPT4"], labels=["A", "B"])
    return noracle.range_accuracies(sketch, given={"GPT4": "accuracy > 1/2"}).plot()


def plan() -> Axes:
    """What each kind of label would cost for the same half-width."""
    prices = {"ordinary": 4.0, "complementary": 0.5, "question": 0.6, "targeted": 0.8}
    return noracle.plan_labels(n_classes=5, accuracy=0.85, half_width=0.03, costs=prices).plot()


PICTURES: dict[str, Callable[[], Axes]] = {
    "accuracy": accuracy,
    "intervals": intervals,
    "comparison": comparison,
    "ranks": ranks,
    "certificate": certificate,
    "alarm": alarm,
    "plan": plan,
}


def svg_of(axes: Axes) -> str:
    """The picture as text, the same at every run: no date, no random marks."""
    file = io.StringIO()
    with mpl.rc_context(
        {"svg.hashsalt": "noracle", "svg.fonttype": "none", "font.family": "sans-serif"}
    ):
        figure = axes.get_figure()
        FigureCanvasSVG(figure).print_svg(
            file, metadata={"Date": None, "Creator": None}, bbox_inches_restore=None
        )
    text = re.sub(r"[ \t]+$", "", file.getvalue(), flags=re.MULTILINE)
    return re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)


BOXES = (
    ("evidence", "tables of what was said", ("answers", "judgements", "ratings", "scores, prices")),
    ("counts", "all that an estimator sees", ("tallies", "patterns", "rating counts", "sketches")),
    ("bounds", "pure functions of numbers", ("exact", "anytime", "betting", "linear programs")),
    (
        "estimators",
        "the verbs",
        ("estimate, compare", "certify, prove", "check, range", "plan, route"),
    ),
    (
        "results",
        "frozen, with a guarantee",
        ("value, low, high", "assumptions", "verify()", "JSON, schema"),
    ),
    ("report", "the only place that formats", ("cards", "plots", "one HTML page", "next step")),
)


def data_flow() -> str:
    """The flow as a drawing: boxes from evidence to report, and the way back from the next step to
    new labels.
    """
    width, height, step, box = 1010, 250, 168, 150
    style = "text{font-family:sans-serif;font-size:13px;fill:#222}.t{font-weight:bold;font-size:15px}.s{font-size:11px;fill:#555}"
    dark = "@media (prefers-color-scheme: dark){text{fill:#eee}.s{fill:#bbb}rect{fill:#223;stroke:#9bd}path{stroke:#9bd}polygon{fill:#9bd}}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="flow-title flow-desc">',
        '<title id="flow-title">How evidence becomes a report</title>',
        '<desc id="flow-desc">'
        + " → ".join(f"{name} ({', '.join(rows)})" for name, _, rows in BOXES)
        + ". The next step of a report leads to new labels, which are new evidence.</desc>",
        f"<style>{style}rect{{fill:#eef4fa;stroke:#0072b2}}path{{stroke:#0072b2;fill:none}}polygon{{fill:#0072b2}}{dark}</style>",
    ]
    for i, (name, what, rows) in enumerate(BOXES):
        x = 6 + i * step
        parts.append(f'<rect x="{x}" y="20" width="{box}" height="150" rx="8"/>')
        parts.append(
            f'<text class="t" x="{x + 12}" y="44">{name}</text><text class="s" x="{x + 12}" y="62">{what}</text>'
        )
        parts += [
            f'<text x="{x + 12}" y="{88 + 20 * j}">{row}</text>' for j, row in enumerate(rows)
        ]
        if i:
            parts.append(
                f'<path d="M{x - step + box} 95H{x - 6}"/><polygon points="{x - 7},90 {x},95 {x - 7},100"/>'
            )
    end, start = 6 + 5 * step + box // 2, 6 + box // 2
    parts.append(
        f'<path d="M{end} 170V210H{start}V178" stroke-dasharray="5 4"/><polygon points="{start - 5},178 {start},171 {start + 5},178"/>'
    )
    parts.append(
        f'<text x="{(start + end) // 2}" y="230" text-anchor="middle">next step: which label to buy, which question to ask</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def main(folder: Path) -> None:
    """Write the pictures."""
    (folder / "gallery").mkdir(parents=True, exist_ok=True)
    drawn = {f"gallery/{name}.svg": svg_of(draw()) for name, draw in PICTURES.items()} | {
        "data-flow.svg": data_flow()
    }
    for name, text in drawn.items():
        if len(text.encode()) > MOST_BYTES:
            raise SystemExit(
                f"{name} has {len(text.encode())} bytes; at most {MOST_BYTES} are wanted."
            )
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}: {len(text.encode()):,} bytes\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "images")
