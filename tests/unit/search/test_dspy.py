"""Weak labels for DSPy: real optimisers and ``dspy.Evaluate``, and nothing held out reaches them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dspy", reason="needs the extra dspy")

import dspy

from noracle import Evidence, count_accuracy, estimate_accuracy
from noracle.errors import ArgumentError
from noracle.search.dspy import WeakLabels
from noracle.search.task import Task, TaskItem

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
K, N = 4, 240


class Oracle(dspy.BaseLM):
    """Right as often as its instruction says, as ``be right in NN of 100``; the key is in here alone."""

    def __init__(self, truth: dict[int, int], fails: bool = False) -> None:
        super().__init__(model="oracle")
        self.truth, self.fails, self.asked = truth, fails, list[int]()

    def forward(self, prompt: Any = None, messages: Any = None, **_: Any) -> Any:
        text = "\n".join(str(m["content"]) for m in messages)
        if self.fails:
            raise ConnectionError("the server is down")
        item = int(re.findall(r"item number (\d+)", text)[-1])
        self.asked.append(item)
        rate = int((re.findall(r"be right in (\d+) of 100", text) or ["40"])[-1]) / 100
        rng = np.random.default_rng([item, 5])
        wrong = (self.truth[item] + int(rng.integers(1, K))) % K
        said = self.truth[item] if rng.random() < rate else wrong
        from types import SimpleNamespace as Plain

        message = Plain(
            content=f"[[ ## answer ## ]]\noption {said}\n\n[[ ## completed ## ]]", role="assistant"
        )
        return Plain(
            choices=[Plain(message=message, finish_reason="stop")], usage={}, model="oracle"
        )


@pytest.fixture
def world() -> tuple[WeakLabels, Oracle, Task, dict[str, list[Any]]]:
    rng = np.random.default_rng(3)
    truth = {i: int(rng.integers(K)) for i in range(N)}
    options = tuple(f"option {k}" for k in range(K))
    items = tuple(TaskItem(id=i, text=f"This is item number {i}.", options=options) for i in truth)
    asked = [int(rng.integers(K)) for _ in truth]
    verdicts = ["yes" if k == t else "no" for k, t in zip(asked, truth.values(), strict=True)]
    judgements: dict[str, list[Any]] = {"item": list(truth), "class": asked, "verdict": verdicts}
    task = Task(name="t", items=items)
    return WeakLabels(task, judgements, seed=1), Oracle(truth), task, judgements


def program(rate: int) -> Any:
    return dspy.Predict(dspy.Signature("question -> answer", f"Please be right in {rate} of 100."))


def test_the_mean_of_evaluate_is_our_estimate_on_the_same_items(world: Any) -> None:
    labels, oracle, _, judgements = world
    with dspy.context(lm=oracle):
        run = dspy.Evaluate(devset=labels.examples(), metric=labels.metric, num_threads=1)
        result = run(program(70))
    answers = {"item": [], "system": [], "answer": []}
    for example, said, _ in result.results:
        answers["item"].append(example.item)
        answers["system"].append("m")
        answers["answer"].append(int(said.answer.split()[-1]))
    kept = set(answers["item"])
    rows = [r for r in zip(*judgements.values(), strict=True) if r[0] in kept]
    table = {name: [row[i] for row in rows] for i, name in enumerate(judgements)}
    evidence = Evidence.from_tables(answers, table, n_classes=K)
    estimate = estimate_accuracy(count_accuracy(evidence).of("m"), method="ivw")
    assert len(kept) == 120
    # The plain mean of unbiased scores; the estimate weighs the two kinds of labels.
    assert result.score / 100 == pytest.approx(estimate.value, abs=0.12)
    assert 0.4 < result.score / 100 < 1.0


def test_a_metric_of_held_out_items_is_refused(world: Any) -> None:
    labels, *_ = world
    for part in ("confirm", "final"):
        with pytest.raises(ArgumentError, match="must be of the validation part"):
            labels.metric(labels.examples(part)[0], dspy.Prediction(answer="A"))
    assert not {e.item for e in labels.examples()} & {e.item for e in labels.examples("final")}
    for example in labels.examples():
        assert set(example.keys()) == {"item", "question"}


def test_scores_bootstraps_and_reasons(world: Any) -> None:
    labels, _, _, judgements = world
    said = {i: (k, v) for i, k, v in zip(*judgements.values(), strict=True)}
    seen = set()
    for example in labels.examples():
        k, verdict = said[example.item]
        for answer in range(K):
            told = dspy.Prediction(answer=f"option {answer}")
            score = labels.metric(example, told)
            excluded = (answer == k) == (verdict == "no")
            assert score == pytest.approx(
                (1 - (K - 1) if verdict == "no" else 0) if excluded else 1
            )
            assert labels.metric(example, told, trace=[]) is (not excluded)
            why = labels.metric(example, told, None, "predict", None)
            assert float(why.score) == score
            assert ("An expert excluded" in why.feedback) == excluded
            seen.add((excluded, verdict))
        silent = labels.metric(example, dspy.Prediction(answer=""), None, "predict", None)
        assert (silent.score, "could be read" in silent.feedback) == (0.0, True)
        assert labels.metric(example, dspy.Prediction()) == 0.0
    assert len(seen) == 4


def test_a_better_program_is_accepted_and_an_equal_one_is_not(world: Any) -> None:
    labels, oracle, *_ = world
    with dspy.context(lm=oracle):
        assert not labels.challenge(program(40), program(40))["accepted"]
        assert labels.challenge(program(99), program(20))["accepted"]
        value, comparison = labels.final(program(99), program(20))
    assert value.low > 0.7
    assert value.guarantee.kind.label == "finite-sample"
    assert comparison.differences[0].low > 0
    with dspy.context(lm=oracle), pytest.raises(ArgumentError, match="once"):
        labels.final(program(99), program(20))


def test_an_outage_is_no_answer_and_opens_no_final_label(world: Any) -> None:
    labels, oracle, *_ = world
    with dspy.context(lm=Oracle(oracle.truth, fails=True)):
        for judge in (labels.challenge, labels.final):
            with pytest.raises(Exception, match=r"cancelled|down"):
                judge(program(99), program(20))
    with dspy.context(lm=oracle):
        assert labels.final(program(99), program(20))[0].low > 0.7


def test_bootstrapping_takes_demonstrations_that_no_expert_excluded(world: Any) -> None:
    labels, oracle, *_ = world
    train = labels.examples()[:24]
    with dspy.context(lm=oracle):
        shots = dspy.BootstrapFewShot(
            metric=labels.metric, max_bootstrapped_demos=2, max_labeled_demos=0
        )
        taught = shots.compile(program(60), trainset=train)
        assert len(taught.demos) == 2
        held = {e.item for part in ("confirm", "final") for e in labels.examples(part)}
        assert not held & set(oracle.asked)


def test_gepa_reads_the_reasons(world: Any) -> None:
    labels, oracle, *_ = world
    told: list[str] = []

    class Reflect(dspy.BaseLM):
        def __init__(self) -> None:
            super().__init__(model="reflect")

        def forward(self, prompt: Any = None, messages: Any = None, **_: Any) -> Any:
            from types import SimpleNamespace as Plain

            told.append(str(prompt or messages))
            said = '{"new_instruction": "Please be right in 95 of 100."}'
            message = Plain(content=said, role="assistant")
            return Plain(
                choices=[Plain(message=message, finish_reason="stop")], usage={}, model="r"
            )

    train = labels.examples()
    with dspy.context(lm=oracle):
        gepa = dspy.GEPA(
            metric=labels.metric,
            max_metric_calls=400,
            reflection_lm=Reflect(),
            seed=0,
            num_threads=1,
        )
        best = gepa.compile(program(40), trainset=train[:40], valset=train[40:])
        assert "95 of 100" in best.signature.instructions
        assert any("An expert excluded this answer." in text for text in told)
        held = {e.item for part in ("confirm", "final") for e in labels.examples(part)}
        assert not held & set(oracle.asked)
        assert labels.challenge(best, program(20))["accepted"]
