"""A model folder: the classifier, and how items become its features. Nothing in it is code.

model.json, weights.pt    the classifier (see ``ComplementaryClassifier.save``)
input.json                kind and columns of the items, names of the classes, words of the texts
input.npz                 weights of the words, or means and standard deviations of the features
checkpoint.pt             where training stands; a killed run goes on from it
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noracle._version import __version__
from noracle.cli._files import read_json, replacing, write_json
from noracle.errors import ArgumentError, EvidenceError, fault
from noracle.learn.readers import LabelledItems

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCHEMA = "input/1"
CHECKPOINT = "checkpoint.pt"
Kind = Literal["text", "features", "sparse", "images"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """How items become features: TF-IDF of texts, scaled numbers, or as they are."""

    kind: Kind
    columns: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    arrays: dict[str, NDArray[np.float64]] = dataclasses.field(default_factory=dict)

    def prepare(self, items: Any) -> Any:
        """What the classifier takes."""
        found = kind_of(items)
        if found != self.kind:
            raise EvidenceError(
                fault("items", f"must be {self.kind}, as the model was trained on", found)
            )
        if self.kind == "text":
            return self._vectoriser().transform(items)
        if "mean" in self.arrays:
            if items.shape[1] != len(self.arrays["mean"]):
                raise EvidenceError(
                    fault(
                        "items",
                        f"must have {len(self.arrays['mean'])} features, as in training",
                        items.shape[1],
                    )
                )
            return (np.asarray(items, dtype=np.float64) - self.arrays["mean"]) / self.arrays["sd"]
        return items

    def _vectoriser(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectoriser = TfidfVectorizer(
            vocabulary=list(self.words), sublinear_tf=True, dtype=np.float32
        )
        vectoriser.idf_ = self.arrays["idf"].astype(np.float32)
        return vectoriser


def kind_of(items: Any) -> Kind:
    """What kind of items these are."""
    if isinstance(items, list):
        return "text"
    if hasattr(items, "tocsr"):
        return "sparse"
    return "images" if items.ndim == 4 else "features"


def fit_input(read: LabelledItems, rows: NDArray[np.intp], *, scale: bool, max_words: int) -> Input:
    """Learn words and scales from the items to train on, and from no other."""
    kind = kind_of(read.items)
    if kind == "text":
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectoriser = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, max_features=max_words)
        try:
            vectoriser.fit([read.items[i] for i in rows])
        except ValueError:
            raise EvidenceError(
                fault("items", "must have texts with words of two letters or more", "none")
            ) from None
        words = tuple(str(word) for word in vectoriser.get_feature_names_out())
        return Input(
            kind=kind,
            columns=read.columns,
            words=words,
            arrays={"idf": np.asarray(vectoriser.idf_, dtype=np.float64)},
        )
    if kind == "features" and scale and not isinstance(read.items, np.memmap):
        chosen = np.asarray(read.items[rows], dtype=np.float64)
        sd = chosen.std(axis=0)
        return Input(
            kind=kind,
            columns=read.columns,
            arrays={"mean": chosen.mean(axis=0), "sd": np.where(sd > 0, sd, 1.0)},
        )
    return Input(kind=kind, columns=read.columns)


def save_model(folder: Path, made: Input, classifier: Any, classes: Sequence[str]) -> None:
    """Write the folder; ``model.json`` comes last, so that a folder with it is complete."""
    with replacing(folder / "input.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **made.arrays)  # type: ignore[arg-type]
    head = {
        "schema": SCHEMA,
        "version": __version__,
        "kind": made.kind,
        "columns": made.columns,
        "classes": list(classes),
    }
    write_json(folder / "input.json", {**head, "words": made.words})
    classifier.save(folder)


def load_model(folder: Path, *, device: str) -> tuple[Input, Any, list[str]]:
    """How to prepare items, the classifier, and the names of its classes."""
    from noracle.learn.classifier import ComplementaryClassifier

    if not (folder / "model.json").is_file():
        raise ArgumentError(
            f"MODEL_DIR must be a folder that 'noracle learn fit' finished; got {str(folder)!r}. Run fit again to go on."
        )
    head = read_json(str(folder / "input.json"), "MODEL_DIR: input.json")
    classifier = ComplementaryClassifier.load(folder)
    classifier.set_params(device=device, verbose=False)
    try:
        if head["schema"] != SCHEMA:
            raise ValueError
        with np.load(folder / "input.npz", allow_pickle=False) as stored:
            arrays = {name: np.asarray(stored[name], dtype=np.float64) for name in stored.files}
        made = Input(
            kind=head["kind"],
            columns=tuple(head["columns"]),
            words=tuple(head["words"]),
            arrays=arrays,
        )
        names = [str(name) for name in head["classes"]]
        if len(names) != len(classifier.classes_) or (
            made.words and len(made.words) != classifier.n_features_in_
        ):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
        raise ArgumentError(
            f"MODEL_DIR must hold input.json and input.npz of the same model; got others in {str(folder)!r}. Run fit again."
        ) from None
    return made, classifier, names
