"""What is said about proofs from answers alone, about traces, violators and items to check, and how
they are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from noracle.errors import ArgumentError
from noracle.report import words
from noracle.report.content import Content, ContentTable, guaranteed, method_and_evidence, table
from noracle.results import Proof, Ranges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_GROUPS = 50_000
_UNSEEN = {
    "alarm": "which of them breaks the claim, unless the conflict is a single one; how badly",
    "consistent": "classifiers that are bad in ways that the answers do not show: this verdict never means that they are healthy",
    "undecided": "anything: the time was up before a proof or a witness was found",
}

# ------------------------------------------------------------------------------------------------------
# proofs


def describe(proof: Proof) -> Content:
    """Describe a proof: its status, the claim, how it was proved, and what it cannot see."""
    if "order" in proof.spec:
        return _orders_content(proof)
    n, status = len(proof.sketch.get("classifiers", ())), proof.status
    broken = "it is broken, whatever the key is"
    if n > 1:
        broken = f"at least one of {n} classifiers breaks it, whatever the answer key is"
    said = {
        "alarm": broken,
        "consistent": "some answer key allows it; this says nothing about how good they are",
        "undecided": "neither proved nor refuted in time",
    }[status]
    conflict = ", ".join(proof.diagnostics.get("conflict") or ())
    unsure = proof.diagnostics.get("undecided") or ()
    if conflict and unsure:
        conflict += f" (undecided without {', '.join(unsure)})"
    uses, given = uses_of(proof), (proof.spec.get("prevalence") or {}).items()
    return guaranteed(
        proof,
        (f"{status.upper() if status == 'alarm' else status}: {proof.claim}", said),
        ("claim", proof.claim),
        ("prevalence", ", ".join(f"{label} {low} to {high}" for label, (low, high) in given)),
        ("proved by", _how(proof)),
        ("conflict", conflict),
        ("evidence", words.evidence(proof.counts)),
        ("cannot see", _UNSEEN[status]),
        tables=() if uses is None else (_uses_table(proof, uses),),
    )


def _orders_content(proof: Proof) -> Content:
    n, status = len(proof.sketch["raters"]), proof.status
    one = proof.spec["order"] == "one"
    said = {
        "alarm": f"at least one of {n} judges breaks it, whatever the {'ranking' if one else 'orders'}",
        "consistent": f"some {'ranking allows' if one else 'orders allow'} it; this says nothing about how good they are",
        "undecided": "neither proved nor refuted in time",
    }[status]
    conflict = ", ".join(proof.diagnostics.get("conflict") or ())
    rows = ((name, words.count(k)) for name, k in zip(*_decided(proof), strict=True))
    return guaranteed(
        proof,
        (f"{status.upper() if status == 'alarm' else status}: {proof.claim}", said),
        ("claim", proof.claim),
        ("proved by", _how(proof)),
        ("ranking", " > ".join(proof.witness.get("ranking", ()))),
        ("conflict", conflict),
        ("evidence", words.evidence(proof.counts)),
        (
            "cannot see",
            _UNSEEN[status].replace("classifiers", "judges").replace("answers", "preferences"),
        ),
        tables=(table("Decided verdicts of each judge", ("judge", "verdicts"), rows),),
    )


def _decided(proof: Proof) -> tuple[list[str], list[int]]:
    """The judges, and how many decided verdicts each gave."""
    sketch = proof.sketch
    totals = [0] * len(sketch["raters"])
    for n, group in zip(sketch["n"], sketch["verdicts"], strict=True):
        for rater, _, _, number in group:
            totals[rater] += n * number
    return [str(name) or "(one judge)" for name in sketch["raters"]], totals


def _how(proof: Proof) -> str:
    certificate = proof.certificate
    kind = certificate.get("kind")
    if kind == "weights" and "cycles" in certificate:
        cycles = len(certificate["cycles"])
        text = f"whole weights on {len(certificate['weights'])} claims"
        return f"{proof.method}; {text}{f' and {cycles} cycles' if cycles else ''}"
    if kind == "weights":
        text = f"whole weights on {len(certificate['weights'])} claims: together they reach at most {certificate['largest']}"
        strictly = " or more" if certificate["largest"] < certificate["needed"] else ""
        return f"{proof.method}; {text}, but need {certificate['needed']}{strictly}"
    if kind == "cases":
        return f"{proof.method}; {_leaves(certificate)} cases, each refuted by whole weights"
    if kind == "axioms":
        return f"{proof.method}; the labels leave room for {sum(certificate['most'])} items only"
    if kind == "solver":
        return f"{proof.method}; rests on the solver, verify() has nothing to check"
    return (
        f"{proof.method}; the witness is {'orders' if 'orders' in proof.witness else 'an answer key'}"
        if proof.witness
        else proof.method
    )


def _leaves(node: Mapping[str, Any]) -> int:
    return _leaves(node["below"]) + _leaves(node["above"]) if node.get("kind") == "cases" else 1


def uses_of(proof: Proof) -> list[list[int]] | None:
    """How often each classifier gave each answer, then none; None for too many patterns."""
    sketch = proof.sketch
    if "uses" in sketch:
        return [[*map(int, row), 0] for row in sketch["uses"]]
    if len(sketch.get("n", ())) > _MOST_GROUPS or not sketch.get("n"):
        return None
    from noracle.counts.sketch import Sketch

    known = Sketch.from_dict({**sketch, "allowed": None})
    return [[*row, known.n_items - sum(row)] for row in known.uses.tolist()]


def _uses_table(proof: Proof, uses: Sequence[Sequence[int]]) -> ContentTable:
    header = ["classifier", *map(str, proof.sketch["labels"]), "no answer"]
    header = header if any(row[-1] for row in uses) else header[:-1]
    rows = (
        (str(name), *map(words.count, row[: len(header) - 1]))
        for name, row in zip(proof.sketch["classifiers"], uses, strict=True)
    )
    return table("How often each classifier gave each answer", header, rows)


def draw(proof: Proof, ax: Axes | None = None) -> Axes:
    """Draw how often each classifier gave each answer: what the verdict is about."""
    from noracle.report.plots import INK, draw_bars, name_rows, new_axes

    if "order" in proof.spec:
        judges, totals = _decided(proof)
        ax = new_axes(ax, len(judges))
        draw_bars(ax, totals, [words.count(k) for k in totals])
        name_rows(ax, judges)
        ax.set_xlabel(f"decided verdicts; {proof.status}")
        return ax
    uses = uses_of(proof) or []
    names = list(proof.sketch.get("classifiers", ()))[: len(uses)]
    ax = new_axes(ax, len(names))
    colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442"]
    labels = [*map(str, proof.sketch.get("labels", ())), "no answer"]
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
    written: Any = {"ha": "center", "va": "center", "fontsize": 8, "color": INK, "bbox": ground}
    look: Any = {"height": 0.62, "edgecolor": INK, "linewidth": 0.6}
    for y, row in enumerate(uses):
        start = 0
        for k, value in enumerate(row):
            colour = "#ffffff" if k == len(row) - 1 else colours[k % len(colours)]
            ax.barh(y, value, left=start, color=colour, hatch="//" if k % 2 else None, **look)
            if value and value >= 0.06 * sum(row):
                ax.text(start + value / 2, y, labels[k][:8], parse_math=False, **written)
            start += value
    name_rows(ax, names)
    ax.set_xlabel(f"answers given; {proof.status}")
    return ax


# ------------------------------------------------------------------------------------------------------
# traces, violators, next items


def is_trace(result: Ranges) -> bool:
    """Whether the ranges are windows of a prevalence."""
    return "trace" in result.diagnostics


def ranges_content(result: Ranges) -> Content | None:
    """Describe windows, numbers of classifiers and gains; None for ranges that are shares."""
    special = {"trace": _trace_content, "violators": _violators_content, "checks": _checks_content}
    return next(
        (tell(result) for name, tell in special.items() if name in result.diagnostics), None
    )


def _trace_content(result: Ranges) -> Content:
    said = result.diagnostics
    windows = [(words.count(int(r.low)), words.count(int(r.high))) for r in result.ranges[:6]]
    text = ", ".join(a if a == b else f"{a} to {b}" for a, b in windows) or "none"
    rows = [(a, b, status) for status in ("possible", "undecided") for a, b in said[status]]
    rows.sort(key=lambda row: row[0])
    shown = ((words.count(a), words.count(b), what) for a, b, what in rows)
    caption = f"Numbers of items that can have label {said['trace']}"
    name, n = f"prevalence of {said['trace']} if {said['claim']}", words.count(said["items"])
    return guaranteed(
        result,
        (name, f"{text} of {n} items"),
        ("claim", said["claim"]),
        *method_and_evidence(result),
        tables=[table(caption, ("from", "to", ""), shown, text=(-1,))],
    )


def _violators_content(result: Ranges) -> Content:
    said = result.diagnostics
    (found,) = result.ranges
    least = words.count(found.low)
    if found.low != found.high:
        least += f" (perhaps up to {words.count(found.high)})"
    who = _who(result)
    n = result.counts.get("classifiers", result.counts.get("raters"))
    broken = f"{least} of {n} {who} break it: {said['claim']}"
    enough = f"without {', '.join(said['violators']) or 'anybody'} the others can keep it"
    conflicts = [(", ".join(c),) for c in said["conflicts"]]
    caption = "Sets of which at least one breaks the claim"
    return guaranteed(
        result,
        (f"at least {broken}",),
        ("claim", said["claim"]),
        ("enough", enough),
        ("suspects", ", ".join(said.get("suspects", ()))),
        *method_and_evidence(result),
        tables=[table(caption, ("conflict",), conflicts)] if conflicts else (),
    )


def _who(result: Ranges) -> str:
    return "judges" if "order" in result.diagnostics else "classifiers"


def _checks_content(result: Ranges) -> Content:
    said = result.diagnostics
    rows = []
    for r, row in zip(result.ranges, said["rows"], strict=True):
        figures = (f"{v:.3g}" for v in (r.low, row["expected"], r.high))
        rows.append((r.name, words.count(row["items"]), *figures, ", ".join(row["fires"])))
    first = result.ranges[0].name if result.ranges else "nothing to check"
    header = ("answers", "items", "at least", "expected", "at most", "settles the alarm if")
    caption = "What the true label of one item would gain"
    return guaranteed(
        result,
        (f"check next for {said['checks']}: {first}",),
        *method_and_evidence(result),
        tables=[table(caption, header, rows, text=(0, -1))] if rows else (),
    )


def trace_plot(
    traces: Sequence[Ranges], names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw traces over a prevalence: a bar where claims can hold, else a thin line.

    Examples
    --------
    >>> from noracle.counts.sketch import Sketch
    >>> from noracle.logic.prevalence import range_prevalence
    >>> counts = {("a", "a"): 1, ("a", "b"): 1, ("b", "a"): 1, ("b", "b"): 1}
    >>> sketch = Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"])
    >>> trace_plot([range_prevalence(sketch, "accuracy > 1/2", label="a")], ["x and y"]).get_xlabel()
    'items of a; bars: all claims can hold, crosses: alarm'
    """
    from noracle.report.plots import BLUE, GREY, ORANGE, name_rows, new_axes

    if not traces or not all(is_trace(t) for t in traces):
        raise ArgumentError("traces must be results of trace; got something else.")
    labels = {t.diagnostics["trace"] for t in traces}
    named = list(names) if names is not None else [t.diagnostics["claim"] for t in traces]
    if len(named) != len(traces):
        raise ArgumentError(
            f"names must be one for each of the {len(traces)} traces; got {len(named)}."
        )
    ax = new_axes(ax, len(traces))
    for y, t in enumerate(traces):
        items = int(t.diagnostics["items"])
        ax.plot([0, items], [y, y], color=GREY, linewidth=1, linestyle=":")
        for low, high in t.diagnostics["undecided"]:
            look: Any = {"color": "white", "edgecolor": ORANGE, "hatch": "//", "linewidth": 0.6}
            ax.barh(y, high - low + 0.8, left=low - 0.4, height=0.3, **look)
        for low, high in t.diagnostics["possible"]:
            ax.barh(y, high - low + 0.8, left=low - 0.4, height=0.5, color=BLUE, linewidth=0)
        if not t.ranges:
            ax.plot([items / 2], [y], "x", color=ORANGE, markersize=8, markeredgewidth=2)
    name_rows(ax, named)
    most = max(int(t.diagnostics["items"]) for t in traces)
    ax.set_xlim(-0.02 * most - 0.5, 1.02 * most + 0.5)
    items_of = f"items of {' or '.join(sorted(labels))}"
    ax.set_xlabel(f"{items_of}; bars: all claims can hold, crosses: alarm")
    return ax


def ranges_plot(result: Ranges, ax: Axes | None = None) -> Axes | None:
    """Draw ranges that are not shares; None for all others."""
    if is_trace(result):
        return trace_plot([result], ax=ax)
    if "violators" in result.diagnostics or "checks" in result.diagnostics:
        from noracle.report.plots import draw_bars, name_rows, new_axes

        ax = new_axes(ax, len(result.ranges))
        told = [f"{r.low:.3g} to {r.high:.3g}" for r in result.ranges]
        draw_bars(ax, [r.high for r in result.ranges], told)
        name_rows(ax, [r.name for r in result.ranges])
        ax.set_xlabel(_who(result) if "violators" in result.diagnostics else "gain")
        return ax
    return None
