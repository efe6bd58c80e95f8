"""Table 2 of "A logical alarm for misaligned binary classifiers": three graders, 281 items, counts
by pattern and by true label.
"""

from __future__ import annotations

from noracle.counts.sketch import Sketch

BY_TRUTH = {
    ("A", "A", "A"): (12, 0),
    ("A", "A", "B"): (0, 0),
    ("A", "B", "A"): (113, 8),
    ("B", "A", "A"): (14, 0),
    ("B", "B", "A"): (72, 15),
    ("B", "A", "B"): (0, 1),
    ("A", "B", "B"): (11, 2),
    ("B", "B", "B"): (15, 18),
}
GRADERS = ("Claude", "Mistral", "GPT4")


def table_2() -> Sketch:
    return Sketch.from_counts(
        {p: a + b for p, (a, b) in BY_TRUTH.items()}, classifiers=GRADERS, labels=["A", "B"]
    )
