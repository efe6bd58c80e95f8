"""Five-option questions out of open ones (MATH-MC, Appendix H): wrong answers of models become
distractors.

    python examples/papers/math_mc.py tries.jsonl items.jsonl [--seed 0]

Each line of ``tries.jsonl`` has ``question``, ``answer`` (the right one) and ``tries``, answers that
models gave. The four wrong answers that were given most often join the right one, in a random order.
A question with fewer than four different wrong answers is left out, and so is one that came before.
The lines of ``items.jsonl`` are read by ``noracle ask --preset math-mc``.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

N_DISTRACTORS = 4
_FRACTION = re.compile(r"\\[dt]?frac\{([^{}]+)\}\{([^{}]+)\}")


def normal(answer: str) -> str:
    """An answer without what does not change it: dollars, spaces, units of LaTeX; numbers in lowest
    terms.
    """
    text = re.sub(r"\\(?:left|right|,|;|!|text\{[^{}]*\}|\$|%)|[$\s]|\.$", "", answer)
    text = _FRACTION.sub(r"\1/\2", text).rstrip(".")
    try:
        return str(Fraction(text.replace(",", "")))
    except (ValueError, ZeroDivisionError):
        return text.casefold()


def distractors(answer: str, tries: Iterable[str]) -> list[str]:
    """The wrong answers that were given most often, the first spelling of each; where they are
    level, the one that came first.
    """
    spelt: dict[str, str] = {}
    count: Counter[str] = Counter()
    for said in tries:
        key = normal(said)
        if key and key != normal(answer):
            spelt.setdefault(key, said.strip())
            count[key] += 1
    return [spelt[key] for key, _ in count.most_common(N_DISTRACTORS)]


def multiple_choice(rows: Iterable[Mapping[str, Any]], *, seed: int) -> Iterator[dict[str, str]]:
    """Items with options A to E and the letter of the right one."""
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    for row in rows:
        question = str(row["question"]).strip()
        wrong = distractors(str(row["answer"]), map(str, row["tries"]))
        if len(wrong) < N_DISTRACTORS or question in seen:
            continue
        seen.add(question)
        options = [str(row["answer"]).strip(), *wrong]
        order = rng.permutation(len(options)).tolist()
        shown = {letter: options[i] for letter, i in zip("ABCDE", order, strict=True)}
        yield {"Question": question, **shown, "Answer": "ABCDE"[order.index(0)]}


def main(argv: Sequence[str] | None = None) -> int:
    """Read, convert, say how many were left out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tries", type=Path)
    parser.add_argument("items", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    rows = [json.loads(line) for line in options.tries.read_text("utf-8").splitlines() if line]
    made = list(multiple_choice(rows, seed=options.seed))
    lines = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in made)
    options.items.write_text(lines, encoding="utf-8")
    print(f"{len(made)} of {len(rows)} questions have {N_DISTRACTORS} distractors")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
