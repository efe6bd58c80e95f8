"""``noracle alarm``: can all systems be as good as claimed?"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from noracle.cli import _options as opt
from noracle.cli import _sketch as sk
from noracle.cli._options import Sources
from noracle.cli._output import Output, working
from noracle.errors import ArgumentError
from noracle.logic.cascade import prove_malfunction
from noracle.logic.spec import Linear, Spec, Statement
from noracle.logic.trace import threshold as find_threshold
from noracle.logic.trace import trace as find_trace

EXAMPLE = """Example:

noracle alarm --answers answers.csv --spec "accuracy > 1/2" --prevalence spam=200..260 --time-limit 30

Exit code 0: consistent, which never means healthy. 1: ALARM, at least one system breaks the claim. 3: undecided."""

EXIT = {"consistent": 0, "alarm": 1, "undecided": 3}


def command(
    spec: sk.SpecText,
    answers: opt.AnswersFile = None,
    judgements: opt.JudgementsFile = None,
    items: opt.ItemsFile = None,
    wide: opt.IsWide = False,
    systems: opt.SystemNames = None,
    item: opt.ItemColumn = None,
    label: opt.LabelColumn = None,
    ruled_out: opt.RuledOutColumn = None,
    columns: opt.ColumnNames = None,
    no_answer: opt.NoAnswer = None,
    invalid: opt.InvalidChoice = "wrong",
    sketch: sk.StoredSketches = None,
    save_sketch: sk.SaveSketch = None,
    known: sk.KnownFile = None,
    prevalence: sk.Prevalence = None,
    use_judgements: sk.UseJudgements = True,
    n_classes: opt.NClasses = None,
    classes: opt.Classes = None,
    conflicts: opt.ConflictChoice = "error",
    per_label: Annotated[
        bool,
        typer.Option(
            "--per-label/--overall",
            help="Read 'accuracy' as that on each label, or as the grade over all labels.",
        ),
    ] = True,
    trace: Annotated[
        str | None,
        typer.Option("--trace", metavar="LABEL", help="Also: how many items can have this label."),
    ] = None,
    threshold: Annotated[
        bool, typer.Option("--threshold", help="Also: the largest accuracy that raises no alarm.")
    ] = False,
    time_limit: sk.TimeLimit = 30.0,
    as_json: opt.AsJson = False,
    html: opt.Html = None,
) -> None:
    """Prove from the answers alone that not all systems can be as good as claimed.

    No answer key and no probability: the proof holds for every possible key. JSON output can be
    checked again with noracle verify.
    """
    output = Output(title="Can all be as good as claimed?", as_json=as_json, html=html)
    claim = _read(spec, per_label=per_label)
    sources = Sources(
        answers=answers,
        judgements=judgements,
        items=items,
        wide=wide,
        systems=opt.names(systems),
        item=item,
        label=label,
        ruled_out=ruled_out,
        n_classes=n_classes,
        classes=classes,
        conflicts=conflicts,
        columns=columns,
        no_answer=no_answer,
        invalid=invalid,
    )
    bounds = sk.prevalences(prevalence)
    with working("counting"):
        gathered = sk.gather(
            sources, sketches=sketch, known=known, use_judgements=use_judgements, save=save_sketch
        )
    with working("proving"):
        proof = prove_malfunction(gathered, claim, prevalence=bounds, time_limit=time_limit)
        results: list[Any] = [proof]
        if trace is not None:
            results.append(
                find_trace(gathered, claim, label=trace, prevalence=bounds, time_limit=time_limit)
            )
        if threshold:
            kinds = {s.kind for s in claim.statements if not isinstance(s, Linear)}
            kind = "grade" if kinds == {"grade"} else "accuracy"
            results.append(
                find_threshold(gathered, kind=kind, prevalence=bounds, time_limit=time_limit)  # type: ignore[arg-type]
            )
    output.emit(results, single=len(results) == 1)
    if EXIT[proof.status]:
        raise typer.Exit(EXIT[proof.status])


def _read(text: str, *, per_label: bool) -> Spec:
    spec = Spec.parse(text)
    if per_label:
        return spec
    changed: list[Statement | Linear] = []
    for s in spec.statements:
        if not isinstance(s, Linear) and s.kind == "accuracy":
            if s.on is not None:
                raise ArgumentError(
                    f"--overall must come without a claim about one label; got '{s}'."
                )
            changed.append(dataclasses.replace(s, kind="grade"))
        else:
            changed.append(s)
    return Spec(statements=tuple(changed))
