"""``noracle alarm``: can all systems be as good as claimed?"""

from __future__ import annotations

import dataclasses
from typing import Any

import typer

from noracle.cli._options import Output, option, paragraphs, with_options
from noracle.cli._output import working
from noracle.cli._sketch import Answers, Preferred, Sketches, spec
from noracle.errors import require
from noracle.logic.cascade import prove_malfunction
from noracle.logic.disagreement import prove_disagreement
from noracle.logic.prevalence import range_prevalence, range_threshold
from noracle.logic.spec import Linear, Spec, Statement

EXAMPLE = paragraphs("""Example:
noracle alarm --answers answers.csv --spec "accuracy > 1/2"
noracle alarm --answers answers.csv --spec "accuracy > 1/2" --prevalence spam=200..260 --time-limit 30
noracle alarm --preferences preferences.csv --spec "agreement > 0.7" --order one
noracle alarm --answers scores.csv --classes 1,2,3,4,5 --spec "grade at each > 0.8"
Exit code 0: consistent, which never means healthy. 1: ALARM, at least one system breaks the claim. 3: undecided.""")

EXIT = {"consistent": 0, "alarm": 1, "undecided": 3}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _AlarmOptions:
    spec: str = spec()
    per_label: bool = option(
        "Read 'accuracy' as that on each label, or as the grade over all labels.",
        None,
        True,
        "--per-label/--overall",
    )
    trace: str | None = option("Also: how many items can have this label.", "LABEL")
    threshold: bool = option("Also: the largest accuracy that raises no alarm.", default=False)


@with_options()
def command(
    given: Answers, own: _AlarmOptions, preferred: Preferred, sketched: Sketches, output: Output
) -> None:
    """Prove from the answers alone that not all systems can be as good as claimed.

    No answer key and no probability: the proof holds for every possible key. JSON output can be
    checked again with noracle verify. With --preferences: not all judges can agree with one order.
    """
    claim = _read(own.spec, per_label=own.per_label)
    limits = sketched.limits
    with working("counting"):
        table = preferred.load(given, sketched, trace=own.trace, threshold=own.threshold)
    if table is not None:
        with working("proving"):
            proof = prove_disagreement(table, claim, **preferred.limits(sketched))
        output.emit("Can all judges agree with one order?", [proof], single=True)
        raise typer.Exit(EXIT[proof.status])
    with working("counting"):
        gathered = sketched.gather(given)
    with working("proving"):
        proof = prove_malfunction(gathered, claim, **limits)
        results: list[Any] = [proof]
        if own.trace is not None:
            results.append(range_prevalence(gathered, claim, label=own.trace, **limits))
        if own.threshold:
            kinds = {s.kind for s in claim.statements if not isinstance(s, Linear)}
            kind = "grade" if kinds == {"grade"} else "accuracy"
            results.append(range_threshold(gathered, kind=kind, **limits))  # type: ignore[arg-type]
    output.emit("Can all be as good as claimed?", results, single=len(results) == 1)
    raise typer.Exit(EXIT[proof.status])


def _read(text: str, *, per_label: bool) -> Spec:
    spec = Spec.parse(text)
    if per_label:
        return spec
    changed: list[Statement | Linear] = []
    for s in spec.statements:
        if not isinstance(s, Linear) and s.kind == "accuracy":
            rule = f"--overall must come without a claim about one label; got '{s}'."
            require(s.on is None, rule)
            s = dataclasses.replace(s, kind="grade")
        changed.append(s)
    return Spec(statements=tuple(changed))
