"""The public names, pinned: adding or removing one is a decision, seen in this file."""

from __future__ import annotations

import inspect

import pytest

import noracle
import noracle.gate
import noracle.learn
import noracle.oversight
import noracle.search

PUBLIC = (
    "__version__",
    # evidence and counts
    "AccuracyCounts",
    "Evidence",
    "JudgementCounts",
    "PatternCounts",
    "Preferences",
    "RatingCounts",
    "Ratings",
    "Sketch",
    "count_accuracy",
    "count_decisions",
    "count_judgements",
    "count_patterns",
    "count_ratings",
    # verbs
    "AccuracyStream",
    "CertificateStream",
    "Race",
    "aggregate_labels",
    "certify_panel",
    "certify_published",
    "certify_superhuman",
    "certify_thresholds",
    "check_assumptions",
    "check_clusters",
    "check_grading",
    "check_hits",
    "check_judge",
    "check_label_rates",
    "check_missing",
    "check_overlap",
    "check_position",
    "check_questions",
    "check_routing",
    "check_sensitivity",
    "check_yes_rate",
    "checks_for",
    "compare_systems",
    "detect_drift",
    "estimate_accuracies",
    "estimate_accuracy",
    "estimate_agreement",
    "estimate_ceiling",
    "estimate_ceilings",
    "estimate_mean",
    "estimate_win_rates",
    "estimate_with_judges",
    "label_checks",
    "plan_budget",
    "plan_certificate",
    "plan_accuracy",
    "plan_labels",
    "plan_pairs",
    "prove_by_axioms",
    "prove_conflict",
    "prove_disagreement",
    "prove_malfunction",
    "race_systems",
    "range_accuracies",
    "range_agreement",
    "range_checks",
    "range_dissenters",
    "range_prevalence",
    "range_threshold",
    "range_unsure",
    "range_violators",
    "rank_systems",
    "route_items",
    "route_judged",
    # what answers alone prove
    "Spec",
    # results
    "Assumption",
    "Certificate",
    "Check",
    "Comparison",
    "Difference",
    "Drift",
    "Estimate",
    "Guarantee",
    "Kind",
    "Plan",
    "Proof",
    "Range",
    "Ranges",
    "Rank",
    "Routing",
    "read_result",
    # errors
    "ArgumentError",
    "AssumptionError",
    "EvidenceError",
    "EvidenceWarning",
    "GuaranteeWarning",
    "MissingExtra",
    "NoracleError",
    "NoracleWarning",
)
LEARN = (
    # training
    "ComplementaryClassifier",
    "Batches",
    "Consistency",
    "History",
    "LOSSES",
    "Loss",
    "Settings",
    "Views",
    "get_loss",
    "label_mask",
    "make_model",
    "plain_objective",
    "train",
    # the matrix, and labels drawn with it
    "Transition",
    "ask_annotators",
    "biased_transition",
    "count_transition",
    "count_transitions",
    "draw_ruled_out",
    "drop_wrong",
    "estimate_transition",
    "feature_chances",
    "resample_ruled_out",
    # labels and items
    "LabelAnalysis",
    "LabelledItems",
    "analyse_labels",
    "read_items",
    # validation
    "compare_models",
    "estimate_model_accuracy",
    "estimate_scel",
    "fit_temperature",
    "plan_validation",
    "scel_scorer",
    "zero_one_scorer",
    "zero_one_standard_error",
    # studies
    "ALGORITHMS",
    "LabelSetting",
    "StudyPlan",
    "StudyRow",
    "Training",
    "TrialData",
    "run_study",
)
SEARCH = (
    # models and calls
    "Budget",
    "BudgetReached",
    "Cache",
    "Caller",
    "Calls",
    "Completion",
    "Ledger",
    "Message",
    "Model",
    "ModelError",
    "CallPrices",
    "Projection",
    "Request",
    "Usage",
    "open_model",
    "record",
    # tasks, answers, judges
    "Asked",
    "PosedQuestion",
    "Task",
    "TaskItem",
    "answers_table",
    "ask_items",
    "judge_claims",
    "parse_answer",
    "pose",
    "ratings_table",
    "read_claims",
    "read_task",
    "scores_table",
    # workflows
    "Workflow",
    "WorkflowError",
    "draw_workflow",
    "load_workflow",
    "parse_workflow",
    "parse_workflow_text",
    "run_workflow",
    "workflow_svg",
    # search
    "Entry",
    "Found",
    "Outcome",
    "Proposal",
    "Scored",
    "Strategy",
    "Vault",
    "make_strategy",
    "search_workflows",
    "standardised",
    # scores and choices
    "AimedLabels",
    "Decision",
    "Gate",
    "ItemLabels",
    "ItemScores",
    "PairedScores",
    "Picked",
    "Pool",
    "estimate_fitness",
    "paired",
    "race_pool",
    "score_outcomes",
)
RETURNS = {
    "estimate": "Estimate",
    "compare": "Comparison",
    "race": "Comparison",
    "certify": "Certificate",
    "prove": "Proof",
    "plan": "Plan",
    "check": "Check",
    "detect": "Drift",
    "route": "Routing",
    "range": "Ranges",
}
VERBS = [name for name in PUBLIC if name.split("_")[0] in RETURNS]


def test_public_names_are_the_pinned_ones() -> None:
    assert sorted(noracle.__all__) == sorted(PUBLIC)


def test_no_name_is_exported_twice() -> None:
    assert len(set(noracle.__all__)) == len(noracle.__all__)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(noracle, name)
    if callable(value):
        assert inspect.getdoc(value)


@pytest.mark.parametrize("name", VERBS)
def test_verbs_return_what_their_name_says(name: str) -> None:
    assert RETURNS[name.split("_", maxsplit=1)[0]] in str(
        inspect.signature(getattr(noracle, name)).return_annotation
    )


@pytest.mark.parametrize("name", VERBS)
def test_verbs_take_everything_but_the_evidence_by_keyword(name: str) -> None:
    parameters = list(inspect.signature(getattr(noracle, name)).parameters.values())
    # A plan stands beside the data that were collected by it, what is compared with ratings beside
    # them, a claim beside the answers.
    first = {
        "estimate_mean": 2,
        "certify_superhuman": 2,
        "check_assumptions": 2,
        "certify_published": 4,
        "prove_by_axioms": 2,
        "prove_conflict": 2,
        "prove_disagreement": 2,
        "prove_malfunction": 2,
        "range_checks": 2,
        "range_dissenters": 2,
        "range_prevalence": 2,
        "range_violators": 2,
    }.get(name, 1)
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[first:])
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    assert "alpha" not in [p.name for p in parameters]
    if "rng" in [p.name for p in parameters]:
        assert parameters[-1].name == "rng"


LEARN_VERBS = {
    "estimate_model_accuracy": ("Estimate", 2),
    "estimate_scel": ("Estimate", 2),
    "estimate_transition": ("Transition", 2),  # a part of a model, and no statement about a system
    "compare_models": ("Comparison", 3),
    "plan_validation": ("Plan", 0),
    "analyse_labels": ("LabelAnalysis", 1),
    "read_items": ("LabelledItems", 1),
    "run_study": ("list[StudyRow]", 2),
}


def test_public_names_of_learn_are_the_pinned_ones() -> None:
    assert sorted(noracle.learn.__all__) == sorted(LEARN)


@pytest.mark.parametrize("name", LEARN_VERBS)
def test_verbs_of_learn_keep_the_rules(name: str) -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    pytest.importorskip("sklearn", reason="the learn extra is not installed")
    signature = inspect.signature(getattr(noracle.learn, name))
    returned, first = LEARN_VERBS[name]
    assert returned == str(signature.return_annotation)
    parameters = list(signature.parameters.values())
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[first:])
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    assert not {"alpha"} & {p.name for p in parameters}


SEARCH_VERBS = {
    "ask_items": ("Asked", 3),
    "estimate_fitness": ("Estimate", 2),
    "judge_claims": ("Asked", 3),
    "race_pool": ("Picked", 2),
    "read_task": ("Task", 1),
    "run_workflow": ("Outcome", 3),
    "search_workflows": ("Found", 2),
}


def test_public_names_of_search_are_the_pinned_ones() -> None:
    assert sorted(noracle.search.__all__) == sorted(SEARCH)


@pytest.mark.parametrize("name", SEARCH)
def test_public_name_of_search_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(noracle.search, name))


@pytest.mark.parametrize("name", SEARCH_VERBS)
def test_verbs_of_search_keep_the_rules(name: str) -> None:
    signature = inspect.signature(getattr(noracle.search, name))
    returned, first = SEARCH_VERBS[name]
    assert returned == str(signature.return_annotation)
    parameters = list(signature.parameters.values())
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters[first:])
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    assert not {"alpha"} & {p.name for p in parameters}


OVERSIGHT = (
    "Finding",
    "Inventory",
    "NextStep",
    "Oversight",
    "FolderSettings",
    "Source",
    "Step",
    "SystemLine",
    "find_evidence",
    "oversee",
    "read_settings",
    "write_oversight",
)


GATE = (
    "GateClaim",
    "GateDecision",
    "GateDesign",
    "GateLedger",
    "GateRun",
    "GateSettings",
    "decide_gate",
)


def test_public_names_of_gate_are_the_pinned_ones() -> None:
    assert sorted(noracle.gate.__all__) == sorted(GATE)
    assert all(inspect.getdoc(getattr(noracle.gate, name)) for name in GATE)


def test_public_names_of_oversight_are_the_pinned_ones() -> None:
    assert sorted(noracle.oversight.__all__) == sorted(OVERSIGHT)
