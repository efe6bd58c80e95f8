"""What is said about a training run: text, JSON, and a page with the loss curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from noracle._version import __version__
from noracle.report import plots, words
from noracle.report.content import Content, Table, content, labelled
from noracle.results import Estimate
from noracle.results.base import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Training(Result):
    """One training run. ``transition`` says where T came from, and ``oracle`` in it whether true
    labels were seen.
    """

    schema: ClassVar[str] = "training/1"

    system: str
    folder: str
    classes: tuple[str, ...]
    counts: Mapping[str, int]
    settings: Mapping[str, Any]
    transition: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]
    validation: Estimate | None = None
    reason: str = ""
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values; the validation estimate carries its own schema."""
        inside = None if self.validation is None else self.validation.to_dict()
        return {**Result.to_dict(self), "validation": inside}

    def plot(self, ax: Axes | None = None) -> Axes:
        """The loss over the epochs."""
        ax = plots.new_axes(ax, 6)
        epochs = [row["epoch"] for row in self.history]
        ax.plot(
            epochs,
            [row["loss"] for row in self.history],
            color=plots.BLUE,
            marker="o" if len(epochs) < 30 else None,
            markersize=3,
        )
        ax.grid(axis="y", color=plots.LINE, linewidth=0.8)
        ax.set_xlabel("epoch")
        ax.set_ylabel("mean loss", color=plots.INK, fontsize=8.5)
        ax.locator_params(axis="x", integer=True)
        return ax


@content.register
def _(result: Training) -> Content:
    last = result.history[-1] if result.history else {}
    transition = result.transition
    epochs = len(result.history)
    figures = [f"loss {words.scalar(last['loss'])}"] if last else []
    return Content(
        headline=(
            f"training of {result.system!r}",
            f"{epochs} epoch{'' if epochs == 1 else 's'}",
            *figures,
        ),
        alerts=("ORACLE: true labels were seen in T",) if transition["oracle"] else (),
        lines=labelled(
            ("evidence", _evidence(result.counts)),
            (
                "classes",
                f"{len(result.classes)}: {', '.join(result.classes[:12])}{', …' if len(result.classes) > 12 else ''}",
            ),
            (
                "settings",
                ", ".join(
                    f"{name.replace('_', ' ')} {value}"
                    for name, value in result.settings.items()
                    if value is not None
                ),
            ),
            ("transition", _transition(transition)),
            ("validation", result.reason),
            ("model", result.folder),
        ),
        tables=(_curve(result.history),),
    )


def _evidence(counts: Mapping[str, int]) -> str:
    parts = (
        f"{counts['items']} items",
        f"{counts['trained']} trained on",
        f"{counts['ruled_out']} ruled-out classes",
        f"{counts['labels']} true labels used in training"
        if counts["labels"]
        else "no true label used",
        f"{counts['stopping']} held out to stop" if counts["stopping"] else "",
        f"{counts['held_out']} held out for the estimate",
        f"{counts['unlabelled']} without any label" if counts["unlabelled"] else "",
    )
    return ", ".join(part for part in parts if part)


def _transition(transition: Mapping[str, Any]) -> str:
    seen = "oracle: true labels were seen" if transition["oracle"] else "no true label was seen"
    detail = f" ({transition['detail']})" if transition["detail"] else ""
    return (
        f"{transition['source']}{detail}; {seen}; condition number {words.scalar(transition['condition'])}, "
        f"1 − ηK {words.scalar(transition['strength'])}"
    )


def _curve(history: Sequence[Mapping[str, float]]) -> Table:
    scored = any("score" in row for row in history)
    header = (
        "epoch",
        "loss",
        "learning rate",
        "seconds",
        *(("score of held-out items",) if scored else ()),
    )
    rows = tuple(
        (
            f"{row['epoch']:.0f}",
            f"{row['loss']:.5g}",
            f"{row['lr']:.3g}",
            f"{row['seconds']:.2f}",
            *((f"{row['score']:.5g}" if "score" in row else "—",) if scored else ()),
        )
        for row in history
    )
    few = tuple(sorted({0, *range(max(0, len(rows) - 3), len(rows))})) if rows else ()
    return Table(
        caption="Loss of every epoch",
        header=header,
        rows=rows,
        numeric=(True,) * len(header),
        shown=few,
    )
