"""The work of ``noracle learn fit``: hold items out, train, save, and estimate on what was held
out.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noracle.cli._files import read_json, read_matrix
from noracle.cli._learn_model import CHECKPOINT, fit_input, save_model
from noracle.cli._learn_report import Training
from noracle.cli._output import settings as flags
from noracle.cli._output import working
from noracle.errors import ArgumentError, EvidenceError, SingularTransition, fault
from noracle.learn.readers import LabelledItems
from noracle.learn.transition import Transition
from noracle.results import Estimate

Rows = NDArray[np.intp]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How to train, as the options say."""

    transition: str
    scale: bool
    max_words: int
    hidden: tuple[int, ...]
    validation_share: float
    confidence: float
    seed: int
    others: dict[str, Any]


def read_transition(value: str, n_classes: int) -> str | Transition:
    """``uniform``, ``anchors``, or a matrix in a file; a file that says ``oracle`` keeps the word."""
    if value in ("uniform", "anchors"):
        return value
    path = Path(value)
    if not path.is_file():
        raise ArgumentError(
            f"--transition must be uniform, anchors or a JSON, CSV or npy file; got {value!r}. Check the path."
        )
    matrix: Any
    if path.suffix.lower() == ".npy":
        from noracle.learn.files import read_npy

        found = Transition(np.asarray(read_npy(path)), "given", path.name)
    else:
        stored = read_json(value, "--transition") if path.suffix.lower() == ".json" else None
        if isinstance(stored, dict):
            if stored.get("schema") == "analysis/1":
                stored = next((t for t in stored.get("transitions", ()) if t.get("matrix")), {})
            matrix = stored.get("matrix")
            if not isinstance(matrix, list) or any(
                not isinstance(row, list) or None in row for row in matrix
            ):
                raise EvidenceError(
                    fault("--transition", "must hold a full matrix", f"none in {value!r}")
                )
            found = Transition(
                np.array(matrix, dtype=np.float64),
                "given",
                path.name,
                bool(stored.get("oracle", False)),
            )
        else:
            matrix = read_matrix(value)
            found = Transition(np.array(matrix, dtype=np.float64), "given", path.name)
    if found.n_classes != n_classes:
        raise ArgumentError(
            f"--transition must have a row for each of the {n_classes} classes; got {found.n_classes} in {value!r}."
        )
    return found


def train(read: LabelledItems, folder: Path, wishes: Wishes, *, use_labels: bool) -> Training:
    """Train, save the folder and say what happened."""
    from noracle.learn.classifier import ComplementaryClassifier

    if read.items is None:
        raise EvidenceError(
            fault(
                "FILE",
                "must hold items to train on",
                "labels only",
                remedy="Name their columns with --items.",
            )
        )
    if read.ruled_out is None and not (use_labels and read.label is not None):
        raise EvidenceError(
            fault(
                "FILE",
                "must hold ruled-out classes",
                "none",
                remedy="Name their column with --ruled-out.",
            )
        )
    if read.n_classes < 2:
        raise EvidenceError(
            fault(
                "classes",
                "must be at least two",
                read.n_classes,
                remedy="Name all of them with --classes.",
            )
        )
    transition = read_transition(wishes.transition, read.n_classes)
    ruled_out = np.full((len(read), 1), -1) if read.ruled_out is None else read.ruled_out
    label = read.label if use_labels and read.label is not None else np.full(len(read), -1)
    some = (ruled_out >= 0).any(axis=1) | (label >= 0)
    rows, held = _split(some, (ruled_out >= 0).any(axis=1) & (label < 0), wishes)
    with working("reading words and numbers"):
        made = fit_input(read, rows, scale=wishes.scale, max_words=wishes.max_words)
        X = made.prepare(read.items)
    classifier = ComplementaryClassifier(
        transition=transition,
        hidden=wishes.hidden,
        classes=list(range(read.n_classes)),
        checkpoint=folder / CHECKPOINT,
        validation_share=wishes.validation_share if wishes.others["patience"] is not None else 0.0,
        verbose=sys.stderr.isatty() and not flags.quiet,
        random_state=wishes.seed,
        **wishes.others,
    )
    # Held-out items are there without a label, so that a memory-mapped file need not be copied.
    known_out, known = ruled_out.copy(), label.copy()
    known_out[held], known[held] = -1, -1
    classifier.fit(X, known_out, label=known if use_labels else None)
    folder.mkdir(parents=True, exist_ok=True)
    save_model(folder, made, classifier, read.classes)
    validation, reason = _validated(classifier, X, ruled_out, held, folder.resolve().name, wishes)
    trained = np.setdiff1d(rows, classifier.held_out_)
    counts = {
        "items": len(read),
        "trained": len(trained),
        "stopping": len(classifier.held_out_),
        "held_out": len(held),
        "ruled_out": int((ruled_out[trained] >= 0).sum()),
        "labels": int((known >= 0).sum()),
        "unlabelled": int((~some).sum()),
        "words": len(made.words),
    }
    said = {**wishes.others, "validation_share": wishes.validation_share, "seed": wishes.seed}
    return Training(
        system=folder.resolve().name,
        folder=str(folder),
        classes=read.classes,
        counts=counts,
        settings=said,
        transition={**classifier.transition_.summary(), "source": classifier.transition_source_},
        history=classifier.history_.rows,
        validation=validation,
        reason=reason,
    )


def _split(
    some: NDArray[np.bool_], may_be_held: NDArray[np.bool_], wishes: Wishes
) -> tuple[Rows, Rows]:
    """Items to train on, and items held out for the estimate; these have ruled-out classes and no
    true label.
    """
    share = wishes.validation_share
    if not 0 <= share < 1:
        raise ArgumentError(f"--validation-share must be in [0, 1); got {share}.")
    if not some.any():
        raise EvidenceError(
            fault(
                "ruled_out", "must name a class for some item", "none", remedy="Check --ruled-out."
            )
        )
    candidates = np.flatnonzero(may_be_held)
    n = min(round(share * len(candidates)), int(some.sum()) - 1)
    held = np.sort(np.random.default_rng([wishes.seed, 1]).permutation(candidates)[:n])
    chosen = some.copy()
    chosen[held] = False
    return np.flatnonzero(chosen), held


def _validated(
    classifier: Any, X: Any, ruled_out: NDArray[np.int64], held: Rows, system: str, wishes: Wishes
) -> tuple[Estimate | None, str]:
    """Accuracy on held-out items from their ruled-out classes alone, or why there is none."""
    from noracle.learn.validation import estimate_model_accuracy

    if not len(held):
        return None, "none: no items were held out (--validation-share)"
    with working("estimating"):
        predicted = classifier.predict(X[held])
        try:
            found = estimate_model_accuracy(
                predicted,
                ruled_out[held],
                transition=classifier.transition_,
                system=system,
                confidence=wishes.confidence,
            )
        except SingularTransition as error:
            return None, f"none: {error}"
    return found, ""
