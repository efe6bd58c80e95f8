"""Proofs are checked in whole numbers, and what is not a proof is refused."""

from __future__ import annotations

import ast
import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.counts.sketch import Sketch
from noracle.errors import ArgumentError
from noracle.logic.cascade import prove_by_axioms, prove_malfunction
from noracle.logic.verify import verify_values
from noracle.results import Proof, read_result
from tests.unit.logic.brute import random_instance
from tests.unit.logic.seed_table import table_2

SCRIPT = Path(__file__).parents[3] / "examples" / "check_proof.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("check_proof", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(proof: Proof) -> dict[str, Any]:
    return dict(json.loads(proof.to_json()))


def one_of_each() -> dict[str, Proof]:
    """Proofs of every kind: weights, cases, axioms, witnesses, with side information and
    prevalence.
    """
    counts = {("a", "a"): 1, ("b", "a"): 1, ("b", "b"): 1}
    known = Sketch.from_arrays(
        [[0, 1, 1], [0, 0, -1], [1, 0, 0]], labels=["a", "b"], known=[0, -1, -1]
    )
    return {
        "weights": prove_malfunction(table_2().of(["Mistral", "GPT4"]), "accuracy > 1/2"),
        "cases": prove_malfunction(
            Sketch.from_counts(counts, classifiers=["x", "y"], labels=["a", "b"]), "accuracy > 1/2"
        ),
        "grade": prove_malfunction(table_2(), "grade > 0.7"),
        "prevalence": prove_malfunction(
            table_2().of(["Claude", "GPT4"]), "accuracy > 1/2", prevalence={"A": (0, 187)}
        ),
        "witness": prove_malfunction(
            table_2().of(["Claude", "Mistral"]), "accuracy > 1/2", prevalence={"A": (12, 53)}
        ),
        "known": prove_malfunction(known, "accuracy > 0.6"),
    }


KINDS = list(one_of_each())


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_proof_verifies_here_and_in_the_script(kind: str) -> None:
    proof = one_of_each()[kind]
    assert proof.verify()
    assert script().check(values(proof))
    assert read_result(values(proof)) == proof
    assert read_result(values(proof)).verify()  # type: ignore[attr-defined]


def test_script_is_short_and_needs_the_standard_library_only() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130
    found = {
        a.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import)
        for a in node.names
    }
    found |= {
        str(node.module) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)
    }
    assert found <= set(sys.stdlib_module_names)


def test_script_runs_alone(tmp_path: Path) -> None:
    proof = values(one_of_each()["weights"])
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(proof))
    proof["certificate"]["weights"] = [[1, 1]]
    bad.write_text(json.dumps(proof))
    runs = [
        subprocess.run(
            [sys.executable, "-I", "-S", str(SCRIPT), str(f)],
            capture_output=True,
            text=True,
            check=False,
        )
        for f in (good, bad)
    ]
    assert (runs[0].returncode, runs[0].stdout) == (0, "proved\n")
    assert (runs[1].returncode, runs[1].stderr) == (1, "not proved\n")


def test_checker_imports_no_numpy_and_no_solver() -> None:
    import noracle.logic.verify as module

    text = Path(module.__file__).read_text(encoding="utf-8")
    names = {str(n.module) for n in ast.walk(ast.parse(text)) if isinstance(n, ast.ImportFrom)}
    names |= {
        a.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for a in n.names
    }
    assert not any(
        word in name
        for name in names
        for word in ("numpy", "scipy", "program", "dual", "solver", "branch", "cascade")
    )


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("weights", ("certificate", "weights"), []),
        ("weights", ("certificate", "weights", 0, 1), -1),
        ("weights", ("certificate", "weights", 0, 1), 0.5),
        ("weights", ("certificate", "weights", 0, 0), 99),
        ("weights", ("certificate", "weights", 0, 0), -1),
        ("weights", ("certificate", "kind"), "solver"),
        ("weights", ("certificate", "group"), 77),
        ("weights", ("certificate",), {}),
        ("weights", ("status",), "consistent"),
        ("weights", ("status",), "undecided"),
        ("weights", ("claim",), "accuracy > 1/4"),
        ("weights", ("sketch", "n", 2), 20),
        ("weights", ("sketch", "n", 2), -208),
        ("weights", ("sketch", "patterns", 2), "2x"),
        ("weights", ("sketch", "patterns", 2), "1"),
        ("weights", ("sketch", "allowed"), [[], [], [], []]),
        ("weights", ("spec", "statements", 0, "above"), "1/10"),
        ("weights", ("spec", "statements", 0, "kind"), "taste"),
        ("cases", ("certificate", "at"), 0.5),
        ("cases", ("certificate", "at"), 7),
        ("cases", ("certificate", "form"), ["prevalence", 5]),
        ("cases", ("certificate", "form"), ["colour", 0]),
        ("cases", ("certificate", "below"), {"kind": "weights", "weights": [], "group": None}),
        ("cases", ("certificate", "above"), {"kind": "weights", "weights": [], "group": None}),
        ("prevalence", ("spec", "prevalence", "A"), [0, 188]),
        ("prevalence", ("spec", "prevalence"), {}),
        ("witness", ("witness", "label"), [0, 0, 0, 0]),
        ("witness", ("witness", "label", 0), 2),
        ("witness", ("witness", "others"), [[0, 1, 1000]]),
        ("witness", ("witness", "others"), [[0, 1, -1]]),
        ("witness", ("witness", "others"), [[0, 1, 0.5]]),
        ("witness", ("witness",), {}),
    ],
)
def test_tampered_proof_is_refused(kind: str, path: tuple[Any, ...], value: Any) -> None:
    data = values(one_of_each()[kind])
    place: Any = copy.deepcopy(data)
    changed = place
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert changed != data
    assert not verify_values(changed)


def test_witness_that_uses_a_forbidden_label_is_refused() -> None:
    sketch = Sketch.from_arrays(
        [[0, 0], [1, 1]], labels=["a", "b"], allowed=[[True, True], [True, True]]
    )
    data = values(prove_malfunction(sketch, "grade >= 0"))
    assert verify_values(data)
    data["sketch"]["allowed"] = [[1 - data["witness"]["label"][0]], None]
    assert not verify_values(data)


def test_weights_for_a_grade_cannot_differ_by_label() -> None:
    """A grade is one row, so that a certificate has one weight for all labels."""
    data = values(one_of_each()["grade"])
    assert {k for k, _ in data["certificate"]["weights"]} <= {0, 1, 2}


def test_axioms_are_refused_where_answers_are_missing() -> None:
    data = values(prove_by_axioms({"x": {"a": 1, "b": 9}, "y": {"a": 9, "b": 1}}, "accuracy > 1/2"))
    assert verify_values(data)
    full = values(one_of_each()["weights"])
    full["certificate"] = {"kind": "axioms", "most": [53, 93]}
    assert verify_values(full)
    full["sketch"]["patterns"][0] = ".0"
    assert not verify_values(full)


def test_axioms_are_refused_for_other_claims() -> None:
    data = values(one_of_each()["weights"])
    data["certificate"] = {"kind": "axioms", "most": [53, 93]}
    data["spec"]["statements"][0]["kind"] = "grade"
    data["claim"] = "grade > 1/2"
    assert not verify_values(data)


def test_alarm_that_rests_on_the_solver_is_not_verified() -> None:
    data = values(one_of_each()["weights"])
    data["certificate"] = {"kind": "solver"}
    assert not verify_values(data)


@pytest.mark.parametrize(
    "junk",
    [{}, {"status": "alarm"}, {"status": "consistent", "claim": "", "spec": {"statements": []}}],
)
def test_junk_is_refused(junk: dict[str, Any]) -> None:
    assert not verify_values(junk)


def test_random_certificates_prove_no_false_alarm() -> None:
    """Random weights and splits on instances that are consistent: neither checker accepts one."""
    check, tried = script().check, 0
    for seed in range(200):
        rng = np.random.default_rng([3, seed])
        instance = random_instance(rng)
        try:
            proof = prove_malfunction(
                instance.sketch, instance.spec, prevalence=instance.prevalence
            )
        except ArgumentError:
            continue
        if proof.status != "consistent":
            continue
        data = values(proof)
        data["status"] = "alarm"
        R, G, N = (
            len(proof.sketch["labels"]),
            len(proof.sketch["n"]),
            len(proof.sketch["classifiers"]),
        )

        n_rows = _n_rows(data, N, R)
        forms = [
            ["prevalence", 0],
            ["answered", 0, 1],
            ["correct", N - 1, 0],
            ["cell", G - 1, R - 1],
        ]
        for form in forms:
            data["certificate"] = {
                "kind": "cases",
                "form": form,
                "at": int(rng.integers(-1, 3)),
                "below": _leaf(rng, n_rows + 1, G),
                "above": _leaf(rng, n_rows + 1, G),
            }
            assert not verify_values(data), seed
            assert not check(data), seed
            data["certificate"] = _leaf(rng, n_rows, G)
            assert not verify_values(data), seed
            assert not check(data), seed
        tried += 1
    assert tried >= 40


def _leaf(rng: np.random.Generator, rows: int, groups: int) -> dict[str, Any]:
    weights = [[k, int(w)] for k, w in enumerate(rng.integers(0, 4, rows)) if w]
    return {
        "kind": "weights",
        "weights": weights,
        "group": int(rng.integers(groups)) if rng.random() < 0.7 else None,
    }


def _n_rows(data: dict[str, Any], N: int, R: int) -> int:
    total = 2 * len(data["spec"]["prevalence"])
    for s in data["spec"]["statements"]:
        total += (1 if s["of"] else N) * (1 if s["kind"] == "grade" or s["on"] else R)
    return total
