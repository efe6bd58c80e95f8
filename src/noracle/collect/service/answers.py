"""Which values are answers, and answers as rows of evidence.

Only first answers (revision 0) are evidence; amendments stay in the archive. Gold, panel and
attention questions have rows too, marked by their kind: they measure the people, not the systems,
and an estimate must leave them out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from noracle.collect.archive import verdicts
from noracle.collect.errors import NotFound, Refused
from noracle.collect.model import ProjectSpec
from noracle.collect.service.access import read_spec
from noracle.collect.store.base import Row, Work
from noracle.collect.store.hot import fits

ESTIMATED = ("main", "reask")
"""Kinds of questions whose answers are evidence about systems."""

_FIRST = (
    "SELECT a.id AS answer, a.value, a.shown_at, a.received_at, q.id AS question, q.draw, q.kind, q.place, q.shown, q.propensity, "
    "i.name AS item, m.alias AS rater FROM answer a JOIN question q ON q.id = a.question_id JOIN item i ON i.id = q.item_id "
    "JOIN membership m ON m.project_id = a.project_id AND m.person_id = a.person_id WHERE a.project_id = :project AND a.revision = 0 "
    "ORDER BY a.id"
)


def check_value(spec: ProjectSpec, shown: Sequence[int], value: str) -> str:
    """The value as it is stored, if it answers a question that shows these classes.

    Raises
    ------
    Refused
        If it does not.

    Examples
    --------
    >>> spec = ProjectSpec.from_dict({"protocol": "judge-all", "classes": ["a", "b", "c"], "shown": 2})
    >>> check_value(spec, (2, 0), "no|yes"), check_value(spec, (2, 0), "unsure")
    ('no|yes', 'unsure|unsure')
    """
    text = value.strip() if isinstance(value, str) else ""
    if spec.protocol == "judge-all" and text == "unsure":
        text = "|".join(["unsure"] * len(shown))
    if not fits(spec, shown, text):
        rule = {
            "partitioned": "yes, no or unsure",
            "judge-all": f"{len(shown)} of yes, no or unsure with | between them",
            "pick-wrong": "one of the classes that are shown, unsure"
            + (", or none" if spec.trap else ""),
            "ordinary": "one of the classes, or unsure",
        }[spec.protocol]
        raise Refused(f"value must be {rule}; got {str(value)[:40]!r}.")
    return text


def first_answers(work: Work, project: int) -> list[Row]:
    """First answers with their question, item name and the alias of who gave them, in the order in
    which they came.
    """
    return work.all(_FIRST, project=project)


def judgements(
    work: Work, project: int, *, kinds: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """First answers as rows of the foundation's judgements table.

    Each row has ``item, class, verdict, rater, propensity, at`` and besides ``draw, kind, revision,
    question``. One answer gives one row (partitioned) or one for each class shown (judge-all); a
    class that was picked as wrong is a ``no``, without a propensity, because a person chose it
    (pick-wrong); an answer that names no class gives none. Ordinary labels are :func:`ratings`.

    Parameters
    ----------
    kinds
        Only answers to questions of these kinds, for instance :data:`ESTIMATED`. Default all.

    Notes
    -----
    The propensity is that of *one* judgement. Where d of K classes are asked, or m are shown, a
    class is among them with chance d/K or m/K, and the foundation takes the mean of 1{class =
    answer, yes}/propensity over the judgements of an item; so each has the chance 1/K.
    """
    spec = _spec(work, project)
    if spec.protocol == "ordinary":
        return []
    rows: list[dict[str, Any]] = []
    for row in first_answers(work, project):
        if kinds is not None and row["kind"] not in kinds:
            continue
        shown = json.loads(row["shown"])
        for asked, verdict in verdicts(spec, shown, row["value"]):
            if asked is not None:
                rows.append(
                    {
                        "item": row["item"],
                        "class": asked,
                        "verdict": verdict,
                        "rater": row["rater"],
                        "propensity": one_propensity(spec, row),
                        "at": row["received_at"],
                        "draw": row["draw"],
                        "kind": row["kind"],
                        "revision": 0,
                        "question": row["question"],
                    }
                )
    return rows


def one_propensity(spec: ProjectSpec, question: Mapping[str, Any]) -> float | None:
    """The chance of one judgement; None where a person chose the class."""
    if spec.protocol == "pick-wrong":
        return None
    if question["kind"] not in ESTIMATED:
        return float(question["propensity"])
    if spec.protocol == "judge-all":
        return 1.0 / spec.n_classes
    return float(question["propensity"]) / spec.draws


def ratings(
    work: Work, project: int, *, kinds: Sequence[str] | None = ESTIMATED
) -> list[dict[str, Any]]:
    """First answers of the ordinary protocol as rows of a ratings table: ``item, rater, label, at,
    kind``; "unsure" is an empty label.
    """
    spec = _spec(work, project)
    if spec.protocol != "ordinary":
        return []
    return [
        {
            "item": row["item"],
            "rater": row["rater"],
            "label": None if row["value"] == "unsure" else int(row["value"]),
            "at": row["received_at"],
            "kind": row["kind"],
        }
        for row in first_answers(work, project)
        if kinds is None or row["kind"] in kinds
    ]


def _spec(work: Work, project: int) -> ProjectSpec:
    row = work.one("SELECT spec FROM project WHERE id = :project", project=project)
    if row is None:
        raise NotFound("There is no such project.")
    return read_spec(row["spec"])
