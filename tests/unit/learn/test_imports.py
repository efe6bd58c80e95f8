"""What ``noracle.learn`` brings in, and what it says where a library is missing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the learn extra is not installed")
pytest.importorskip("sklearn", reason="the learn extra is not installed")

import noracle.learn


def python(code: str, *, blocked: tuple[str, ...] = ()) -> str:
    """What a fresh interpreter prints, without these libraries."""
    code = f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_alone_is_light() -> None:
    loaded = set(
        json.loads(python("import json, noracle.learn; print(json.dumps(sorted(sys.modules)))"))
    )
    assert "noracle.learn" in loaded
    assert (
        not {
            "torch",
            "sklearn",
            "scipy",
            "duckdb",
            "narwhals",
            "matplotlib",
            "pandas",
            "PIL",
            "typer",
        }
        & loaded
    )


@pytest.mark.parametrize(
    "names",
    [
        "losses, labels, transition",
        "loop, batches, settings",
        "models, consistency",
        "bench",
    ],
)
def test_training_needs_numpy_and_torch_alone(names: str) -> None:
    blocked = (
        "scipy",
        "sklearn",
        "duckdb",
        "narwhals",
        "typer",
        "rich",
        "jinja2",
        "matplotlib",
        "pandas",
        "PIL",
    )
    code = f"from noracle.learn import {names}; import noracle.learn.bench.study; print('fine')"
    assert python(code, blocked=blocked) == "fine\n"


def test_a_study_runs_with_numpy_and_torch_alone() -> None:
    code = """
import tempfile, numpy as np
from noracle.learn import LabelSetting, StudyPlan, Training, TrialData, run_study
y = np.arange(120) % 3
data = TrialData(name="corners", items=np.eye(3)[y], truth=y, test_items=np.eye(3), test_truth=np.arange(3), n_classes=3)
plan = StudyPlan(algorithms=("SCL-NL", "URE-NN-U"), labels=(LabelSetting(name="uniform"),), rates=(0.1,), epochs=5, select_epochs=2,
    rule="zero_one", training=Training(model="linear", batch_size=32))
with tempfile.TemporaryDirectory() as folder:
    print([row.mean for row in run_study(data, plan, journal=folder + "/j", device="cpu")])
"""
    assert python(code, blocked=("scipy", "sklearn", "duckdb", "narwhals")) == "[100.0, 100.0]\n"


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("ComplementaryClassifier", "torch"),
        ("train", "torch"),
        ("run_study", "torch"),
        ("ComplementaryClassifier", "sklearn"),
    ],
)
def test_a_missing_library_is_named_with_the_line_that_installs_it(name: str, library: str) -> None:
    code = f"""
from noracle.errors import MissingExtra
try:
    from noracle.learn import {name}
except MissingExtra as error:
    print(error)
"""
    said = {"sklearn": "scikit-learn"}.get(library, library)
    assert (
        python(code, blocked=(library,))
        == f"{name} needs {said}. Install it with: pip install 'noracle[learn]'\n"
    )


def test_labels_and_transitions_need_no_torch() -> None:
    code = "from noracle.learn import Transition, draw_ruled_out, estimate_model_accuracy, read_items, analyse_labels; print('fine')"
    assert python(code, blocked=("torch", "sklearn")) == "fine\n"


def test_every_name_is_there_once_and_documented() -> None:
    assert len(set(noracle.learn.__all__)) == len(noracle.learn.__all__)
    for name in noracle.learn.__all__:
        value = getattr(noracle.learn, name)
        if callable(value):
            assert inspect.getdoc(value), name
    with pytest.raises(AttributeError, match="unknown"):
        _ = noracle.learn.unknown
    assert set(noracle.learn.__all__) <= set(dir(noracle.learn))
