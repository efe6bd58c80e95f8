"""What leaves the service: evidence that the estimators read as it is, and an archive that
verifies.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("argon2", reason="the extra collect is not installed")

from noracle.accuracy.estimate import estimate_accuracy
from noracle.cli import app
from noracle.collect.archive import read_archive
from noracle.collect.errors import Conflict, Refused
from noracle.collect.formats import read_items
from noracle.collect.model import Item, ProjectSpec
from noracle.collect.protocols import draw_routes
from noracle.collect.service import exports, projects
from noracle.collect.service.exports import judgements, one_propensity, ratings
from noracle.collect.verify import verify_archive
from noracle.counts import count_accuracy
from noracle.evidence import Evidence
from tests.unit.collect.service_world import Ready, Service, open_service, spec_of, texts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = open_service(tmp_path, fast=True)
    yield made
    made.store.close()


def truth_of(text: str, k: int) -> int:
    return random.Random(text).randrange(k)


def filled(
    service: Service,
    spec: ProjectSpec,
    items: list[Item],
    *,
    accuracy: float = 0.7,
    most: int = 10**9,
    **seal: Any,
) -> Ready:
    """A project that honest people answered, and two systems: ``good`` is right with ``accuracy``,
    ``lazy`` answers every second item.
    """
    k = spec.n_classes
    ready = service.ready(spec, items, people_a_pool=2, **seal)
    rng = random.Random(1)

    def say(text: str, shown: tuple[int, ...]) -> str:
        truth = truth_of(text, k)
        if spec.protocol in ("partitioned", "judge-all"):
            return "|".join("yes" if truth == c else "no" for c in shown)
        if spec.protocol == "pick-wrong":
            return str(rng.choice([c for c in shown if c != truth]))
        return str(truth)

    answers = {}
    for item in items:
        truth = truth_of(item.content["text"], k)
        answers[item.name] = truth if rng.random() < accuracy else (truth + rng.randrange(1, k)) % k
    lazy = {name: answer if i % 2 else None for i, (name, answer) in enumerate(answers.items())}
    for name, given in (("good", answers), ("lazy", lazy)):
        service.write(
            lambda w, n=name, g=given: projects.add_system(
                w, ready.project, n, g, actor="system", now=service.now
            )
        )  # type: ignore[misc]
    service.work(ready, say, most=most)  # after the systems, which would be late
    return ready


def known(items: list[Item], spec: ProjectSpec) -> list[Item]:
    return [
        Item(name=i.name, content=i.content, truth=truth_of(i.content["text"], spec.n_classes))
        for i in items
    ]


SPECS = {
    "partitioned": spec_of(k=4, gold_rate=0.1, panel_items=3, reasks=1),
    "several draws": spec_of(k=4, draws=2),
    "judge-all": spec_of("judge-all", k=6),
    "pick-wrong": spec_of("pick-wrong", k=6, draws=3, trap=True),
    "ordinary": spec_of("ordinary", k=4, draws=2),
}


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("closed", [False, True])
def test_archive_of_every_protocol_verifies(service: Service, name: str, closed: bool) -> None:
    spec = SPECS[name]
    items = texts(30) + (known(texts(6, start=50), spec) if spec.gold_rate else [])
    ready = filled(service, spec, items, most=40)
    if closed:
        service.write(
            lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 1)
        )
    archive = service.read(lambda w: exports.archive_of(w, ready.project))
    checked = verify_archive(archive)
    assert checked.passed, checked.findings
    assert checked.revealed is closed
    _, media, data = service.read(lambda w: exports.export_one(w, ready.project, "archive"))
    assert media == "application/zip"
    assert verify_archive(read_archive(io.BytesIO(data))).passed
    assert b"text of" not in b"".join(
        zipfile.ZipFile(io.BytesIO(data)).read(n)
        for n in zipfile.ZipFile(io.BytesIO(data)).namelist()
    )


def test_archive_with_texts_and_targeted_chances_verifies(service: Service) -> None:
    items = texts(40)
    ready = filled(service, spec_of(), items, propensities={i.name: [0.6, 0.3, 0.1] for i in items})
    service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 1)
    )
    archive = service.read(lambda w: exports.archive_of(w, ready.project, texts=True))
    assert verify_archive(archive).passed, verify_archive(archive).findings
    assert archive.items[0]["content"]["text"].startswith("text of")
    assert archive.items[0]["chances"] == [0.6, 0.3, 0.1]


def test_archive_hides_gold_until_the_project_is_closed(service: Service) -> None:
    spec = spec_of(k=4, gold_rate=0.2)
    ready = filled(service, spec, texts(20) + known(texts(5, start=50), spec), most=10)
    before = service.read(lambda w: exports.archive_of(w, ready.project))
    quality = service.read(lambda w: exports.evidence_tables(w, ready.project))["quality"]
    assert {record["truth"] for record in before.items} == {None}
    assert {row[-1] for row in quality.rows} <= {None}
    assert before.project["seed"] is None
    service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 1)
    )
    after = service.read(lambda w: exports.archive_of(w, ready.project))
    assert sum(record["truth"] is not None for record in after.items) == 5


def test_draft_has_no_archive(service: Service) -> None:
    project = service.project(service.person("ann"))
    with pytest.raises(Conflict):
        service.read(lambda w: exports.archive_of(w, project))
    with pytest.raises(Refused):
        service.read(lambda w: exports.export_files(w, project, "xml"))


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_estimate_runs_on_the_exported_files(service: Service, tmp_path: Path, kind: str) -> None:
    spec = spec_of(k=4, gold_rate=0.1, panel_items=5, reasks=1)
    items = [*texts(300), *known(texts(20, start=500), spec)]
    ready = filled(service, spec, items, seed=bytes(range(32)))
    service.close(ready.project)
    files = service.read(lambda w: exports.export_files(w, ready.project, kind))
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert set(files) == {
        f"{t}.{kind}" for t in ("answers", "judgements", "items", "quality", "classes")
    }
    base = [
        "estimate",
        "--answers",
        str(tmp_path / f"answers.{kind}"),
        "--judgements",
        str(tmp_path / f"judgements.{kind}"),
        "--json",
    ]
    ended = CliRunner().invoke(
        app, [*base, "--items", str(tmp_path / f"items.{kind}")], catch_exceptions=False
    )
    assert ended.exit_code == 0, ended.output
    found = {r["subject"]: r for r in json.loads(ended.stdout)["results"]}
    values = {name: (r["low"], r["value"], r["high"]) for name, r in found.items()}
    assert 0.55 < values["good"][1] < 0.85
    assert values["good"][0] < 0.7 < values["good"][2]
    assert values["lazy"][0] < 0.35 < values["lazy"][2]
    alone = CliRunner().invoke(app, [*base, "--n-classes", "4"], catch_exceptions=False)
    assert alone.exit_code == 0, alone.output
    assert json.loads(alone.stdout)["results"][0]["value"] == found["good"]["value"]


def evidence(service: Service, ready: Ready) -> Evidence:
    tables = service.read(lambda w: exports.evidence_tables(w, ready.project))
    columns = {
        name: dict(zip(t.columns, map(list, zip(*t.rows, strict=True)), strict=True))
        for name, t in tables.items()
        if t.rows
    }
    return Evidence.from_tables(
        columns["answers"],
        columns["judgements"],
        {k: columns["items"][k] for k in ("item", "n_classes")},
    )


def weighted(rows: list[dict[str, Any]], answers: dict[str, int | None]) -> float:
    """The mean over items of the mean over their judgements of 1{class = answer, yes}/propensity:
    unbiased if the propensity is right.
    """
    scores: dict[str, list[float]] = {}
    for row in rows:
        scores.setdefault(row["item"], []).append(
            (row["class"] == answers[row["item"]] and row["verdict"] == "yes") / row["propensity"]
        )
    return sum(sum(each) / len(each) for each in scores.values()) / len(scores)


UNIFORM = {
    "partitioned": spec_of(k=4),
    "several draws": spec_of(k=4, draws=2),
    "judge-all": spec_of("judge-all", k=6, draws=2),
    "targeted": spec_of(k=4),
    "pick-wrong": spec_of("pick-wrong", k=6),
}


def drawn(name: str, items: list[Item], seed: bytes) -> list[dict[str, Any]]:
    """Judgements of honest people, straight from the draw."""
    spec = UNIFORM[name]
    chances = {i.name: [0.4, 0.3, 0.2, 0.1] for i in items} if name == "targeted" else None
    truths = {i.name: truth_of(i.content["text"], spec.n_classes) for i in items}
    rows = []
    for route in draw_routes(spec, items, seed, propensities=chances)[0]:
        if spec.protocol == "pick-wrong":
            classes = [
                random.Random(f"{seed!r}{route.item}").choice(
                    [c for c in route.shown if c != truths[route.item]]
                )
            ]
        else:
            classes = list(route.shown)
        chance = one_propensity(spec, {"kind": route.kind, "propensity": route.propensity})
        rows += [
            {
                "item": route.item,
                "class": c,
                "verdict": "yes" if c == truths[route.item] else "no",
                "propensity": chance,
            }
            for c in classes
        ]
    return rows


def ordered(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((r["item"], r["class"], r["verdict"], r["propensity"]) for r in rows)


@pytest.mark.parametrize("name", ["partitioned", "several draws", "judge-all", "targeted"])
def test_service_exports_just_what_was_drawn_and_said(service: Service, name: str) -> None:
    items = texts(40)
    seal: dict[str, Any] = (
        {"propensities": {i.name: [0.4, 0.3, 0.2, 0.1] for i in items}}
        if name == "targeted"
        else {}
    )
    ready = filled(service, UNIFORM[name], items, seed=bytes(32), **seal)
    service.close(ready.project)
    assert ordered(service.read(lambda w: judgements(w, ready.project))) == ordered(
        drawn(name, items, bytes(32))
    )


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] * (n in ("several draws", "judge-all")))
        for n in UNIFORM
    ],
)
def test_exported_evidence_gives_unbiased_estimates(name: str) -> None:
    """Over many seeds, the mean error of plain weights and of the library's estimator is within 4
    standard errors of 0.
    """
    spec, items, rng = UNIFORM[name], texts(60), random.Random(1)
    truths = {i.name: truth_of(i.content["text"], spec.n_classes) for i in items}
    answers = {
        i: t if rng.random() < 0.7 else (t + rng.randrange(1, spec.n_classes)) % spec.n_classes
        for i, t in truths.items()
    }
    real = sum(answers[i] == truths[i] for i in truths) / len(truths)
    seeds = [hashlib.sha256(f"seed {run}".encode()).digest() for run in range(400)]
    errors = (
        [[weighted(drawn(name, items, seed), answers) - real for seed in seeds]]
        if name != "pick-wrong"
        else []
    )
    by_estimator = []
    for seed in seeds[:12]:
        rows = drawn(name, items, seed)
        table = {
            key: [row[key] for row in rows]
            for key in ("item", "class", "verdict")
            + (("propensity",) if name != "pick-wrong" else ())
        }
        given = {
            "item": list(answers),
            "system": ["s"] * len(answers),
            "answer": list(answers.values()),
        }
        counts = count_accuracy(Evidence.from_tables(given, table, n_classes=spec.n_classes))
        by_estimator.append(estimate_accuracy(counts.of("s")).value - real)
    for each in [*errors, by_estimator]:
        mean = sum(each) / len(each)
        spread = (sum((e - mean) ** 2 for e in each) / (len(each) - 1) / len(each)) ** 0.5
        assert abs(mean) < 4 * spread, (mean, spread)
        assert (
            spread < 0.07
        )  # about 0.045 is expected with the 12 seeds of the estimator, less with 400


def test_gold_and_panel_stay_out_of_the_evidence(service: Service) -> None:
    spec = spec_of(k=4, gold_rate=0.2, panel_items=4)
    gold = known(texts(8, start=50), spec)
    ready = filled(service, spec, texts(40) + gold)
    service.close(ready.project)
    tables = service.read(lambda w: exports.evidence_tables(w, ready.project))
    main = {row[0] for row in tables["judgements"].rows}
    assert len(main) == 36
    assert {row[0] for row in tables["answers"].rows} == main
    assert not main & {item.name for item in gold}
    checked = tables["quality"]
    assert len({row[0] for row in checked.rows}) > 4
    at = list(checked.columns)
    for row in checked.rows:
        said = dict(zip(at, row, strict=True))
        assert said["expected"] == (said["verdict"] if said["kind"] == "gold" else None)


def test_question_asked_again_is_one_label(service: Service) -> None:
    spec = spec_of(k=3, reasks=1)
    ready = service.ready(spec, texts(9), people_a_pool=2)
    seen: set[str] = set()

    def say(text: str, _: tuple[int, ...]) -> str:
        first = text not in seen
        seen.add(text)
        return "unsure" if first else "yes"

    assert service.work(ready, say) == 18
    rows = service.read(lambda w: judgements(w, ready.project))
    assert sorted({(row["kind"], row["verdict"]) for row in rows}) == [
        ("main", "unsure"),
        ("reask", "yes"),
    ]
    assert {round(row["propensity"], 9) for row in rows} == {round(1 / 3, 9)}
    service.write(
        lambda w: projects.add_system(
            w,
            ready.project,
            "s",
            {f"i{i:04}": 0 for i in range(9)},
            actor="system",
            now=service.now,
        )
    )
    service.close(ready.project)
    counts = count_accuracy(evidence(service, ready))
    assert counts.total(verdict="yes", hit=True) + counts.total(verdict="yes", hit=False) == 9


def test_ordinary_labels_are_ratings(service: Service, tmp_path: Path) -> None:
    spec = spec_of("ordinary", k=3, draws=2)
    ready = filled(service, spec, texts(30))
    service.close(ready.project)
    rows = service.read(lambda w: ratings(w, ready.project))
    assert len(rows) == 60
    assert service.read(lambda w: judgements(w, ready.project)) == []
    files = service.read(lambda w: exports.export_files(w, ready.project, "csv"))
    assert "judgements.csv" not in files
    (tmp_path / "ratings.csv").write_bytes(files["ratings.csv"])
    ended = CliRunner().invoke(
        app,
        ["agreement", "--ratings", str(tmp_path / "ratings.csv"), "--json"],
        catch_exceptions=False,
    )
    assert ended.exit_code == 0, ended.output


def test_label_studio_export_has_every_first_answer_and_comes_back_as_items(
    service: Service,
) -> None:
    ready = filled(service, SPECS["judge-all"], texts(12))
    service.close(ready.project)
    name, media, data = service.read(
        lambda w: exports.export_one(w, ready.project, "label-studio", texts=True)
    )
    tasks = json.loads(data)
    assert (name, media, len(tasks)) == ("demo.json", "application/json", 12)
    assert sum(len(task["annotations"]) for task in tasks) == 12
    result = tasks[0]["annotations"][0]["result"]
    assert len(result) == 4
    assert {r["type"] for r in result} == {"choices"}
    again = read_items(data, spec=SPECS["judge-all"], name="x.json").items
    assert [(i.name, i.content) for i in again] == [(i.name, i.content) for i in texts(12)]
    bare = json.loads(service.read(lambda w: exports.label_studio(w, ready.project)))
    assert set(bare[0]["data"]) == {"item"}


def test_tables_of_a_zip_are_the_same_every_time(service: Service) -> None:
    ready = filled(service, spec_of(), texts(12))
    one, two = (
        service.read(lambda w: exports.export_one(w, ready.project, "csv")) for _ in range(2)
    )
    assert one == two
    assert one[0] == "demo-csv.zip"


def test_no_export_holds_personal_data(service: Service) -> None:
    ready = filled(service, spec_of(), texts(12))
    service.write(
        lambda w: projects.close_project(w, ready.project, actor="system", now=service.now + 1)
    )
    for kind in exports.FORMATS:
        files = service.read(
            lambda w, k=kind: exports.export_files(w, ready.project, k, texts=True)
        )  # type: ignore[misc]
        for name, data in files.items():
            parts = [data]
            if data.startswith(b"PK"):
                with zipfile.ZipFile(io.BytesIO(data)) as whole:
                    parts = [whole.read(member) for member in whole.namelist()]
            for part in parts:
                assert b"example.org" not in part, name
                assert b"Demo-Rater" not in part, name


def everything(service: Service, project: int, *, texts: bool = True) -> dict[str, bytes]:
    """All files of all formats, unpacked."""
    found: dict[str, bytes] = {}
    for kind in exports.FORMATS:
        files = service.read(lambda w, k=kind: exports.export_files(w, project, k, texts=texts))  # type: ignore[misc]
        for name, data in files.items():
            if name.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(data)) as whole:
                    found |= {f"{kind}/{n}": whole.read(n) for n in whole.namelist()}
            else:
                found[f"{kind}/{name}"] = data
    return found


@pytest.mark.parametrize("name", [*SPECS, "attention"])
def test_an_open_project_exports_the_same_whatever_is_gold_panel_or_comes_next(
    service: Service, name: str
) -> None:
    """Two projects that differ in gold, panel and all that was drawn, and in nothing else, give the
    same files while they are open, but for hashes: nobody can tell one question from another.
    """
    spec = SPECS.get(name, SPECS["partitioned"])
    items = texts(30) + (known(texts(6, start=50), spec) if spec.gold_rate else [])
    if name == "attention":
        tests = [Item(name="t1", content={"text": "t", "attention": True}, truth=1)]
        items += [*tests, Item(name="t2", content={"text": "u"})]
    ready = filled(service, spec, items, most=60)
    files = everything(service, ready.project)
    told = {n: data for n, data in files.items() if not n.endswith(("project.json", "csv"))}
    for file, data in told.items():
        if file.endswith((".jsonl", ".json")) and not file.endswith("events.jsonl"):
            for word in (b"kind", b"gold", b"panel", b"propensity", b"draw", b"attention"):
                assert word not in data, (file, word)
    assert not any(n.split("/")[1].startswith(("judgements", "quality", "ratings")) and data
                   for n, data in files.items())  # fmt: skip
    archive = service.read(lambda w: exports.export_one(w, ready.project, "archive"))[2]
    opened = read_archive(io.BytesIO(archive))
    assert opened.routes == opened.answers == opened.judgements == []
    for event in opened.events:
        about = event["payload"] and json.loads(event["payload"]).keys()
        assert not about or not about & {"place", "question", "answer", "item", "value"}
        hidden = event["kind"] in ("answer", "amended", "undone", "left", "lease-expired")
        assert (event["payload"] == "") == hidden
    checked = verify_archive(opened)
    assert checked.passed, checked.findings
    late = {c.name: c.status for c in checked.checks if c.status == "not yet"}
    assert set(late) == {"routes", "draws", "answers", "judgements"}
    answered = {row[0] for row in map(tuple, [(i.name,) for i in items])}
    systems = service.read(lambda w: exports.evidence_tables(w, ready.project))["answers"].rows
    assert {row[0] for row in systems} == answered, "which items have main questions shows nowhere"
    inside = service.read(lambda w: exports.archive_of(w, ready.project))
    assert verify_archive(inside).passed
    assert len(inside.answers) > 0


def test_a_withheld_payload_is_a_fault_once_the_project_is_closed(service: Service) -> None:
    import dataclasses

    ready = filled(service, spec_of(), texts(12), most=8)
    opened = service.read(lambda w: exports.export_one(w, ready.project, "archive"))[2]
    archive = read_archive(io.BytesIO(opened))
    for kind in ("sealed", "system-added", "created"):
        blank = [
            {**e, "payload": "" if e["kind"] == kind else e["payload"]} for e in archive.events
        ]
        assert not verify_archive(dataclasses.replace(archive, events=blank)).passed, kind
    changed = [dict(e) for e in archive.events]
    changed[-3]["hash"] = "0" * 64
    assert not verify_archive(dataclasses.replace(archive, events=changed)).passed
    service.close(ready.project)
    whole = service.read(lambda w: exports.archive_of(w, ready.project))
    blank = [{**e, "payload": "" if e["kind"] == "answer" else e["payload"]} for e in whole.events]
    assert not verify_archive(dataclasses.replace(whole, events=blank)).passed
    bare = dataclasses.replace(whole, routes=[], answers=[], judgements=[])
    assert not verify_archive(bare).passed


HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''@x", "＝1", "'", "'a"]


def test_no_cell_of_a_csv_is_a_formula_and_our_reader_gives_the_text_back() -> None:
    import csv

    table = exports.ExportTable(
        columns={"item": "text", "text": "text", "n": "number", "options": "list"},
        rows=[(f"i{k}", text, -0.5, [text]) for k, text in enumerate(HOSTILE)],
    )
    data = exports.table_bytes(table, "csv")
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))[1:]
    assert [row[2] for row in rows] == ["-0.5"] * len(HOSTILE)
    for row in rows:
        assert row[1][0] not in "=+-@\t\r\n＝＋－＠"
        assert row[3][0] == "["
    from noracle.collect.formats import rows_of

    assert [row["text"] for row in rows_of(io.BytesIO(data), "x.csv")] == HOSTILE


def test_names_of_systems_and_classes_are_no_formulas_in_an_exported_csv(service: Service) -> None:
    import csv

    spec = ProjectSpec.from_dict(
        {"protocol": "partitioned", "classes": ["=cmd|' /C calc'!A0", "b"]}
    )
    items = [
        Item(name=f"={k}", content={"text": "=1+1", "options": ["@a", "-b"]}) for k in range(9)
    ]
    ready = service.ready(spec, items, people_a_pool=1)
    service.write(
        lambda w: projects.add_system(
            w, ready.project, "=HYPERLINK(1)", {"=0": 1}, actor="system", now=service.now
        )
    )
    service.work(ready, lambda _text, _shown: "no")
    service.close(ready.project)
    files = service.read(lambda w: exports.export_files(w, ready.project, "csv", texts=True))
    assert {"answers.csv", "items.csv", "judgements.csv", "classes.csv"} <= set(files)
    for name, data in files.items():
        for row in csv.reader(io.StringIO(data.decode(), newline="")):
            assert not any(cell[:1] in tuple("=+-@\t\r") for cell in row if cell), (name, row)
