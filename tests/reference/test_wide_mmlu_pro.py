"""A wide file of predictions as people have it, MMLU-Pro with 20 models: one shell line for each
question, no converter, no error.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from noracle.evidence import TABLES

MMLU_PRO = Path(os.environ.get("NORACLE_DATA") or "missing") / "mmlu_pro_predictions.parquet"
pytestmark = pytest.mark.skipif(
    not MMLU_PRO.is_file(), reason="NORACLE_DATA has no mmlu_pro_predictions.parquet"
)

NO_GRADES = pytest.mark.skipif("grades" not in TABLES, reason="there is no table of grades")
LABELS = [
    ("questions", "--judgements questions.csv", "--n-classes 10"),
    pytest.param("grades", "--grades grades.csv", "", marks=NO_GRADES),
]
"""A file of questions about options, and a file that says of each model's answer whether it is
right.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import duckdb

    place = tmp_path_factory.mktemp("mmlu-pro")
    shutil.copy(MMLU_PRO, place / "answers.parquet")
    table = duckdb.connect().sql(f"SELECT * FROM '{MMLU_PRO}'")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]
    draw = random.Random(20)
    chosen = draw.sample(rows, 800)
    models = [c for c in table.columns if c not in ("item", "category", "n_options", "answer")]
    asked = [(row["item"], draw.randrange(10), row["answer"]) for row in chosen]
    lines = [f"{item},{'ABCDEFGHIJ'[c]},{'yes' if c == key else 'no'}" for item, c, key in asked]
    (place / "questions.csv").write_text(
        "\n".join(["question_id,option,is_correct", *lines]) + "\n", encoding="utf-8"
    )
    lines = [
        f"{row['item']},{m},{'right' if row[m] == row['answer'] else 'wrong'}"
        for row in chosen
        for m in models
    ]
    (place / "grades.csv").write_text(
        "\n".join(["item,model,grade", *lines]) + "\n", encoding="utf-8"
    )
    truth = {m: sum(row[m] == row["answer"] for row in rows) / len(rows) for m in models}
    (place / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return place


def shell(line: str, folder: Path) -> str:
    words = shlex.split(line)
    ended = subprocess.run(
        [sys.executable, "-m", "noracle", *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode in (0, 3), (
        ended.stderr
    )  # 3: not all labels that are wanted can be had, or not separable
    assert "error" not in ended.stderr
    return ended.stdout


@pytest.mark.full
@pytest.mark.parametrize(("kind", "labels", "classes"), LABELS)
def test_accuracy_of_all_systems_in_one_line(
    kind: str, labels: str, classes: str, folder: Path
) -> None:
    out = json.loads(
        shell(
            f"noracle estimate --answers answers.parquet {labels} {classes} --no-answer -1 --json",
            folder,
        )
    )
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    found = {r["subject"]: (r["low"], r["high"]) for r in out["results"]}
    assert found.keys() == truth.keys()
    assert (
        sum(not low <= truth[m] <= high for m, (low, high) in found.items()) <= 3
    )  # 20 intervals at 95 %, one draw of items


@pytest.mark.full
@pytest.mark.parametrize(("kind", "labels", "classes"), LABELS)
def test_comparison_in_one_line(kind: str, labels: str, classes: str, folder: Path) -> None:
    out = json.loads(
        shell(
            f"noracle compare --answers answers.parquet {labels} {classes} --no-answer -1 --json",
            folder,
        )
    )
    assert len(out["systems"]) == 20


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "labels", "classes"), LABELS)
def test_plan_and_report_in_one_line_each(
    kind: str, labels: str, classes: str, folder: Path
) -> None:
    files = f"answers.parquet {labels.split()[1]}"
    assert "plan for half-width" in shell(
        f"noracle plan {files} {classes} --half-width 0.03 --no-answer -1", folder
    )
    out = shell(f"noracle report {files} {classes} --no-answer -1 --out {kind}.html", folder)
    assert "one row per item, with a column for each of 20 systems" in out
    assert (folder / f"{kind}.html").is_file()
