"""A classifier of medical abstracts from experts who only said what each is *not*: trained, chosen
and judged without a true label.

    NORACLE_DATA=FOLDER python examples/learn_medical_abstracts.py

Medical Abstracts has 2,888 texts of five fields. Two experts looked at each; each ruled out one
field. Without the file (medical_abstracts.parquet) a made-up corpus stands in, and the script says
so. Takes ten seconds on one core. Needs the extra learn.

The true fields are sealed: they make the experts' labels, and are opened in the last line.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from noracle.learn import (
    ComplementaryClassifier,
    analyse_labels,
    compare_models,
    draw_ruled_out,
    estimate_model_accuracy,
    scel_scorer,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIELDS = ("neoplasms", "digestive", "nervous", "cardiovascular", "general")
CANDIDATES = [(loss, lr) for loss in ("scl_nl", "l_w", "pc_sigmoid") for lr in (1e-2, 1e-3)]


@dataclasses.dataclass(frozen=True, slots=True)
class Corpus:
    """Texts, what the experts ruled out, and the sealed key."""

    texts: list[str]
    ruled_out: NDArray[np.int64]
    source: str
    sealed: NDArray[np.int64]


def load(seed: int) -> Corpus:
    """The real texts, or made-up ones. Experts are simulated: each rules out a random wrong field,
    two experts two different ones.
    """
    path = Path(os.environ.get("NORACLE_DATA", "")) / "medical_abstracts.parquet"
    if path.is_file():
        import duckdb

        rows = duckdb.execute(
            "SELECT condition_label, medical_abstract FROM read_parquet(?)", [str(path)]
        ).fetchall()
        key, texts, source = (
            np.array([label - 1 for label, _ in rows]),
            [text for _, text in rows],
            "Medical Abstracts",
        )
    else:
        key, texts = stand_in(2888, np.random.default_rng(seed))
        source = "a made-up corpus (NORACLE_DATA has no medical_abstracts.parquet)"
    said = draw_ruled_out(
        key, n_classes=len(FIELDS), n_labels=2, rng=np.random.default_rng(seed + 1)
    )
    return Corpus(texts, said, source, key)


def stand_in(n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], list[str]]:
    """Texts of 40 words: one in eight belongs to the field, the rest to all fields."""
    key = rng.choice(len(FIELDS), size=n, p=(0.22, 0.10, 0.13, 0.21, 0.34))
    own = [[f"{field}{i}" for i in range(60)] for field in FIELDS]
    common = [f"word{i}" for i in range(800)]
    return key, [" ".join([*rng.choice(own[k], size=5), *rng.choice(common, size=35)]) for k in key]


def main(arguments: Sequence[str] = ()) -> int:
    """Train, choose, judge; open the key at the end."""
    seed = int(arguments[0]) if arguments else 0
    corpus = load(seed)
    print(
        f"{len(corpus.texts)} texts, {corpus.source}; two ruled-out fields each, no true label.\n"
    )

    print("1. What are the labels like? (nothing here needs a true label)\n")
    print(analyse_labels(corpus.ruled_out, classes=FIELDS), end="\n\n")

    # Three parts: to train on, to choose with, and to judge the chosen one, which must not have
    # been used for choosing.
    from sklearn.feature_extraction.text import TfidfVectorizer

    order = np.random.default_rng(seed).permutation(len(corpus.texts))
    train, choose, judge = np.split(order, [3 * len(order) // 5, 4 * len(order) // 5])
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english", dtype=np.float32)
    words.fit([corpus.texts[i] for i in train])
    X = words.transform(corpus.texts)

    print("2. Which candidate is best, by SCEL on ruled-out labels alone? (larger is better)\n")
    score = scel_scorer("uniform", classes=range(len(FIELDS)))
    fitted = {}
    for loss, lr in CANDIDATES:
        model = ComplementaryClassifier(
            loss=loss,
            lr=lr,
            epochs=15,
            batch_size=64,
            classes=range(len(FIELDS)),
            device="cpu",
            random_state=seed,
        )
        fitted[loss, lr] = model.fit(X[train], corpus.ruled_out[train])
    scores = {
        name: float(score(model, X[choose], corpus.ruled_out[choose]))
        for name, model in fitted.items()
    }
    ranking = sorted(scores, key=scores.__getitem__, reverse=True)
    for name in ranking:
        print(f"   {name[0]:<11} lr {name[1]:<6g} {scores[name]:.4f}")
    best, last = fitted[ranking[0]], fitted[ranking[-1]]

    print("\n3. How accurate is the chosen one, on items that nothing was chosen with?\n")
    answers = best.predict(X[judge])
    estimate = estimate_model_accuracy(
        answers,
        corpus.ruled_out[judge],
        transition="uniform",
        n_classes=len(FIELDS),
        system="chosen",
    )
    print(estimate, end="\n\n")

    print("4. Is it better than the last of the candidates?\n")
    names = ("chosen", "last")
    others = last.predict(X[judge])
    print(
        compare_models(
            answers,
            others,
            corpus.ruled_out[judge],
            transition="uniform",
            n_classes=len(FIELDS),
            names=names,
        ),
        end="\n\n",
    )

    print(
        f"5. The key, opened now: the chosen one is right for {float((answers == corpus.sealed[judge]).mean()):.3f} of these texts."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
