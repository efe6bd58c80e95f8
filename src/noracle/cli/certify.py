"""``noracle certify``: is a system better than its annotators?"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import typer

from noracle.cli import _options as opt
from noracle.cli._options import Output, option, values, with_options
from noracle.cli._output import read_json, working
from noracle.cli._ratings import RatingSources
from noracle.counts.ratings import count_ratings
from noracle.errors import ArgumentError, require
from noracle.evidence import Ratings
from noracle.results import Certificate, Check
from noracle.superhuman.assumptions import check_assumptions
from noracle.superhuman.certify import Aggregate, Test, certify_superhuman
from noracle.superhuman.difference import CeilingName, Ties
from noracle.superhuman.statement import Trained, recorded_training
from noracle.superhuman.thresholds import certify_thresholds

EXAMPLE = opt.paragraphs("""Example:
noracle certify --answers answers.csv --ratings ratings.csv --trained-on-annotators no
noracle certify --answers answers.csv --ratings ratings.csv --margin 0.02 --confidence 0.99 --trained-on-annotators no
noracle certify --answers answers.csv --ratings scores.csv --thresholds --trained-on-annotators no
Exit code 0 says certified, 1 not certified.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CertifyOptions:
    system: str | None = option("Only this system; default all, each at --confidence.", "S")
    margin: float = option("How much better it must be, as 0.02 for 2 points.", "M", 0.0)
    trained_on_annotators: Trained = option(
        "Was the system trained on labels of these annotators? It must be stated.",
        default="unknown",
    )
    model: str | None = option(
        "Model that 'learn fit' made: its record of who made the labels settles the question above.",
        "MODEL_DIR",
    )
    known: opt.File = option("item, label: true labels of some items, to check assumption (6).")
    test: Test = option("How the claim is tested.", default="betting")
    aggregate: Aggregate = option(
        "The label of an item that answers are compared with.", default="plurality"
    )
    ties: Ties | None = option("Ties in the vote: shared, or drawn. Default shared.")
    ceiling: CeilingName | None = option("For tests of two sides: the annotators' ceiling.")
    thresholds: bool = option(
        "Labels are scores: a certificate at every threshold, all at --confidence together.",
        default=False,
    )
    confidence: float = opt.confidence()
    seed: int = opt.seed()


@with_options()
def command(given: RatingSources, own: _CertifyOptions, output: Output) -> None:
    """Certify that a system is more accurate than the average annotation, or say why not."""
    checks: list[Check] = []
    with working("certifying"):
        rule = "--known must come with --ratings and without --counts; got no items."
        require(own.known is None or given.whole, rule)
        loaded = given.load() if given.whole else None
        counted = given.count() if loaded is None else count_ratings(loaded)
        names = sorted(counted.answers) if own.system is None else [own.system]
        rule = "--answers must be given (or --systems, columns of the ratings)"
        require(names, f"{rule}; got no system to judge.")
        simple = given.items is None and own.aggregate in ("plurality", "majority")
        evidence = counted if loaded is None or simple else loaded
        results: list[Certificate] = []
        about = values(own, "system", "known", "model", "thresholds")
        if own.model is not None:
            about["trained_on_annotators"] = _recorded(loaded, own.model, own.trained_on_annotators)
        if own.thresholds:
            names, some = names[:0], names
            rule = "--thresholds must come with --test, --margin and --trained-on-annotators alone"
            plain = own.known is None and own.aggregate == "plurality"
            plain = plain and own.ties is None and own.ceiling is None and given.items is None
            require(plain, f"{rule}; got other options of a certificate.")
            for option_ in ("aggregate", "ties", "ceiling"):
                del about[option_]
            for name in some:
                results += certify_thresholds(counted, system=name, **about)
        for name in names:
            check = None
            if own.known is not None and loaded is not None:
                same = {"confidence": own.confidence, "seed": own.seed}
                check = check_assumptions(loaded, own.known, system=name, **same)  # type: ignore[arg-type]
                checks.append(check)
            results.append(certify_superhuman(evidence, system=name, check=check, **about))
    one = len(results) == 1
    output.emit("Better than the annotators?", results, single=one, seed=own.seed, more=checks)
    raise typer.Exit(0 if all(r.certified for r in results) else 1)


def _recorded(ratings: Ratings | None, model: str, stated: Trained) -> Trained:
    """What the record of a model says of its training."""
    rule = "--model must come with --ratings and without --counts; got no names of raters."
    if ratings is None:
        raise ArgumentError(rule)
    head = read_json(str(Path(model) / "model.json"), "--model: model.json")
    params = head.get("params") if isinstance(head, dict) else None
    if not isinstance(params, dict):
        rule = "--model must be a folder that 'noracle learn fit' finished"
        raise ArgumentError(f"{rule}; got {model!r} with another model.json.")
    return recorded_training(ratings, params.get("said_by"), stated=stated)
