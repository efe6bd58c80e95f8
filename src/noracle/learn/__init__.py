"""Training from labels that say what an item is *not*, and validation with such labels alone (extra
``learn``: torch, scikit-learn).

Start with :class:`ComplementaryClassifier` and :func:`estimate_model_accuracy`. Names are loaded
when they are first used.

classifier.py              the scikit-learn estimator
validation.py, comparing.py, planning.py, scorers.py, temperature.py   choosing between models without true labels
analysis.py, dependence.py how noisy and how biased labels are
readers.py                 items and labels out of files
transition.py              P(ruled out | true class), and where it came from
labels.py                  ruled-out labels drawn in every way that is studied
context.py, losses.py, risks.py   what a loss knows; one table of losses; risks of a batch
batches.py, settings.py, run.py, checkpoint.py, loop.py, distributed.py   one training loop
models.py, augment.py      models, and views of images
consistency.py             a modern recipe: views of an item must agree
trial.py, study.py, journal.py   algorithms × ways to make labels × learning rates × seeds
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from noracle.errors import MissingExtra

if TYPE_CHECKING:
    from noracle.learn.analysis import analyse_labels
    from noracle.learn.batches import Batches, Views
    from noracle.learn.bench.study import StudyPlan, StudyRow, run_study
    from noracle.learn.bench.trial import ALGORITHMS, LabelSetting, Training, TrialData
    from noracle.learn.classifier import ComplementaryClassifier
    from noracle.learn.compare import compare_models, plan_validation, zero_one_standard_error
    from noracle.learn.consistency import Consistency
    from noracle.learn.labels import (
        ask_annotators,
        biased_transition,
        draw_ruled_out,
        drop_wrong,
        feature_chances,
        resample_ruled_out,
    )
    from noracle.learn.loop import plain_objective, train
    from noracle.learn.losses import LOSSES, Loss, get_loss, label_mask
    from noracle.learn.models import make_model
    from noracle.learn.readers import LabelledItems, read_items
    from noracle.learn.scorers import scel_scorer, zero_one_scorer
    from noracle.learn.scores import fit_temperature
    from noracle.learn.settings import History, Settings
    from noracle.learn.transition import (
        Transition,
        count_transition,
        count_transitions,
        estimate_transition,
    )
    from noracle.learn.validation import estimate_model_accuracy, estimate_scel
    from noracle.results import LabelAnalysis

__all__ = [
    "ALGORITHMS",
    "Batches",
    "ComplementaryClassifier",
    "Consistency",
    "History",
    "LOSSES",
    "LabelAnalysis",
    "LabelSetting",
    "LabelledItems",
    "Loss",
    "Settings",
    "StudyPlan",
    "StudyRow",
    "Training",
    "Transition",
    "TrialData",
    "Views",
    "analyse_labels",
    "ask_annotators",
    "biased_transition",
    "compare_models",
    "count_transition",
    "count_transitions",
    "draw_ruled_out",
    "drop_wrong",
    "estimate_model_accuracy",
    "estimate_scel",
    "estimate_transition",
    "feature_chances",
    "fit_temperature",
    "get_loss",
    "label_mask",
    "make_model",
    "plain_objective",
    "plan_validation",
    "read_items",
    "resample_ruled_out",
    "run_study",
    "scel_scorer",
    "train",
    "zero_one_scorer",
    "zero_one_standard_error",
]

_MODULES = {
    "analysis": ("analyse_labels",),
    "batches": ("Batches", "Views"),
    "classifier": ("ComplementaryClassifier",),
    "compare": ("compare_models", "plan_validation", "zero_one_standard_error"),
    "consistency": ("Consistency",),
    "labels": (
        "ask_annotators",
        "biased_transition",
        "draw_ruled_out",
        "drop_wrong",
        "feature_chances",
        "resample_ruled_out",
    ),
    "loop": ("plain_objective", "train"),
    "losses": ("LOSSES", "Loss", "get_loss", "label_mask"),
    "models": ("make_model",),
    "readers": ("LabelledItems", "read_items"),
    "scorers": ("scel_scorer", "zero_one_scorer"),
    "settings": ("History", "Settings"),
    "bench.study": ("StudyPlan", "StudyRow", "run_study"),
    "scores": ("fit_temperature",),
    "transition": ("Transition", "count_transition", "count_transitions", "estimate_transition"),
    "bench.trial": ("ALGORITHMS", "LabelSetting", "Training", "TrialData"),
    "validation": ("estimate_model_accuracy", "estimate_scel"),
}
_HOME = {
    name: f"noracle.learn.{module}" for module, names in _MODULES.items() for name in names
} | {"LabelAnalysis": "noracle.results"}
_LIBRARIES = {"torch": "torch", "sklearn": "scikit-learn"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noracle.learn' has no attribute {name!r}")
    try:
        module = importlib.import_module(_HOME[name])
    except ModuleNotFoundError as error:
        library = _LIBRARIES.get((error.name or "").split(".")[0])
        if library is None:
            raise
        raise MissingExtra(name, library, "learn") from None
    globals()[name] = getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
