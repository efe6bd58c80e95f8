"""Simulated projects written straight into the tables of a store."""

from __future__ import annotations

import json

import numpy as np

from noracle.collect.live.records import KINDS, NO, TRAP, UNANSWERED, UNSURE, YES, Project
from noracle.collect.store.base import Store, Work

_WORDS = {YES: "yes", NO: "no", UNSURE: "unsure"}


def value_text(project: Project, row: int) -> str:
    rows = project.rows
    value = int(rows.value[row])
    if project.spec.protocol == "judge-all" and rows.verdicts is not None:
        return "|".join(_WORDS[int(v)] for v in rows.verdicts[row])
    if project.spec.protocol == "partitioned":
        return _WORDS[value]
    return {UNSURE: "unsure", TRAP: "none"}.get(value, str(value))


def keep_simulated(store: Store, project: Project) -> int:
    """Items, questions, first answers (in the order of the places) and the answers of the systems;
    returns the project's number.
    """
    rows, spec = project.rows, project.spec
    chance = {"partitioned": spec.draws / spec.n_classes}.get(
        spec.protocol, spec.shown / spec.n_classes
    )

    def fill(work: Work) -> int:
        others = int((work.one("SELECT COUNT(*) AS n FROM project") or {})["n"])
        made = work.one(
            "INSERT INTO project (slug, name, state, spec, created_at) VALUES (:slug, 'simulated', :state, :spec, 0) RETURNING id",
            slug=f"simulated-{others}",
            state=project.state,
            spec=json.dumps(spec.to_dict()),
        )
        number = int((made or {})["id"])
        person = work.one("INSERT INTO person (name, created_at) VALUES ('Rater', 0) RETURNING id")
        first = int((work.one("SELECT COALESCE(MAX(id), 0) AS n FROM item") or {})["n"]) + 1
        question = int((work.one("SELECT COALESCE(MAX(id), 0) AS n FROM question") or {})["n"]) + 1
        size = int(max(len(a) for a in project.answers.values()))
        work.many(
            "INSERT INTO item (id, project_id, name, content, sha256) VALUES (:id, :p, :name, :content, '-')",
            [
                {"id": first + i, "p": number, "name": f"item {i}", "content": '{"text": "…"}'}
                for i in range(size)
            ],
        )
        order = np.random.default_rng(len(rows.item)).permutation(
            len(rows.item)
        )  # the tables need not be in the sealed order
        work.many(
            "INSERT INTO question (id, project_id, item_id, place, draw, kind, pool, shown, propensity, status, lease) "
            "VALUES (:id, :p, :item, :place, 0, :kind, :pool, :shown, :chance, :status, :lease)",
            [
                {
                    "id": question + j,
                    "p": number,
                    "item": first + int(rows.item[i]),
                    "place": int(rows.place[i]),
                    "kind": KINDS[int(rows.kind[i])],
                    "pool": int(rows.pool[i]),
                    "shown": json.dumps(
                        [int(rows.pool[i])] if rows.shown is None else rows.shown[i].tolist()
                    ),
                    "chance": chance,
                    "status": 2 if rows.value[i] != UNANSWERED else 0,
                    "lease": int(rows.value[i] != UNANSWERED),
                }
                for j, i in enumerate(order.tolist())
            ],
        )
        at = {int(i): question + j for j, i in enumerate(order.tolist())}
        work.many(
            "INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, key) "
            "VALUES (:p, :q, 0, :who, :v, 0, 0, :k)",
            [
                {
                    "p": number,
                    "q": at[i],
                    "who": (person or {})["id"],
                    "v": value_text(project, i),
                    "k": f"{number}-{i}",
                }
                for i in range(len(rows.item))
                if rows.value[i] != UNANSWERED
            ],
        )
        for name, answers in project.answers.items():
            system = work.one(
                "INSERT INTO system (project_id, name, sha256, uploaded_at) VALUES (:p, :n, '-', 0) RETURNING id",
                p=number,
                n=name,
            )
            work.many(
                "INSERT INTO prediction (system_id, item_id, answer) VALUES (:s, :i, :a)",
                [
                    {"s": (system or {})["id"], "i": first + i, "a": None if a < 0 else a}
                    for i, a in enumerate(answers.tolist())
                ],
            )
        return number

    return store.write_now(fill)
