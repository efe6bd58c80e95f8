"""Answers of two versions, and labels that a world hands out."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable
from pathlib import Path

from noracle import Evidence
from noracle.gate import GateClaim, GateDecision, GateLedger, GateRun


@dataclasses.dataclass
class GateWorld:
    """Items 0 … n - 1 with class item % 5; ``base`` is right on a share of them, and ``order`` is
    random.
    """

    n: int = 1000
    accuracy: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        right = {i: rng.random() < self.accuracy for i in range(self.n)}
        self.answers = {
            "base": {i: self.key(i) if right[i] else self.key(i) + 5 for i in range(self.n)}
        }
        self.order, self._other = (rng.sample(range(self.n), self.n) for _ in range(2))

    @staticmethod
    def key(item: int) -> int:
        return item % 5

    def change(self, name: str, *, lost: int = 0, won: int = 0, of: str = "base") -> None:
        """A version that is right on ``won`` more items and wrong on ``lost`` more."""
        old = self.answers[of]
        right = [i for i in self._other if old[i] == self.key(i)][:lost]
        wrong = [i for i in self._other if old[i] != self.key(i)][:won]
        changed = {i: self.key(i) + 6 for i in right} | {i: self.key(i) for i in wrong}
        self.answers[name] = {**old, **changed}

    def evidence(self, labels: Iterable[int], systems: Iterable[str] = ()) -> Evidence:
        rows = [(i, s, a) for s in systems or self.answers for i, a in self.answers[s].items()]
        items, names, answers = zip(*rows, strict=True)
        table = {"item": items, "system": names, "answer": answers}
        said = list(labels)
        judgements = {
            "item": said,
            "class": [self.key(i) for i in said],
            "verdict": ["yes"] * len(said),
        }
        return Evidence.from_tables(
            {k: list(v) for k, v in table.items()}, judgements, n_classes=20
        )

    def decide(self, path: Path, labels: Iterable[int], *claims: GateClaim) -> list[GateDecision]:
        with GateLedger(path) as ledger:
            run = GateRun(self.evidence(labels), ledger=ledger)
            return run.decide(*claims)

    def write(self, folder: Path, labels: Iterable[int]) -> Path:
        """The same as files."""
        folder.mkdir(exist_ok=True)
        rows = [f"{i},{s},{a}" for s, own in self.answers.items() for i, a in own.items()]
        (folder / "answers.csv").write_text("\n".join(["item,system,answer", *rows, ""]))
        said = [f"{i},{self.key(i)},yes" for i in labels]
        (folder / "judgements.csv").write_text("\n".join(["item,class,verdict", *said, ""]))
        (folder / "noracle.toml").write_text("n_classes = 20\n")
        return folder
