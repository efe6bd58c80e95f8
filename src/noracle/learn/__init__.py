"""Training from labels that say what an item is *not*, and validation with such labels alone (extra
``learn``: torch, scikit-learn).

Start with :class:`ComplementaryClassifier` and :func:`estimate_model_accuracy`. Names are loaded
when they are first used.

classifier.py, fit.py            the scikit-learn estimator, and one fit of it
validation.py, compare.py, scores.py   choosing between models without true labels
analysis.py, label_table.py      how noisy and how biased labels are
readers.py, files.py             items and labels out of files
transition.py                    P(ruled out | true class), and where it came from
labels.py                        ruled-out labels drawn in every way that is studied
losses.py                        one table of losses; risks of a batch; what a loss knows
settings.py, batches.py, loop.py one training loop
models.py, consistency.py        models; a modern recipe: views of an item must agree
bench/                           algorithms × ways to make labels × learning rates × seeds
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noracle._lazy import lazy

if TYPE_CHECKING:
    from noracle.learn.analysis import analyse_labels as analyse_labels
    from noracle.learn.batches import Batches as Batches
    from noracle.learn.batches import Views as Views
    from noracle.learn.bench.study import StudyPlan as StudyPlan
    from noracle.learn.bench.study import StudyRow as StudyRow
    from noracle.learn.bench.study import run_study as run_study
    from noracle.learn.bench.trial import ALGORITHMS as ALGORITHMS
    from noracle.learn.bench.trial import LabelSetting as LabelSetting
    from noracle.learn.bench.trial import Training as Training
    from noracle.learn.bench.trial import TrialData as TrialData
    from noracle.learn.classifier import ComplementaryClassifier as ComplementaryClassifier
    from noracle.learn.compare import compare_models as compare_models
    from noracle.learn.compare import plan_validation as plan_validation
    from noracle.learn.compare import zero_one_standard_error as zero_one_standard_error
    from noracle.learn.consistency import Consistency as Consistency
    from noracle.learn.labels import ask_annotators as ask_annotators
    from noracle.learn.labels import biased_transition as biased_transition
    from noracle.learn.labels import draw_ruled_out as draw_ruled_out
    from noracle.learn.labels import drop_wrong as drop_wrong
    from noracle.learn.labels import feature_chances as feature_chances
    from noracle.learn.labels import resample_ruled_out as resample_ruled_out
    from noracle.learn.loop import plain_objective as plain_objective
    from noracle.learn.loop import train as train
    from noracle.learn.losses import LOSSES as LOSSES
    from noracle.learn.losses import Loss as Loss
    from noracle.learn.losses import get_loss as get_loss
    from noracle.learn.losses import label_mask as label_mask
    from noracle.learn.models import make_model as make_model
    from noracle.learn.readers import LabelledItems as LabelledItems
    from noracle.learn.readers import read_items as read_items
    from noracle.learn.scores import fit_temperature as fit_temperature
    from noracle.learn.scores import scel_scorer as scel_scorer
    from noracle.learn.scores import zero_one_scorer as zero_one_scorer
    from noracle.learn.settings import History as History
    from noracle.learn.settings import Settings as Settings
    from noracle.learn.transition import Transition as Transition
    from noracle.learn.transition import count_transition as count_transition
    from noracle.learn.transition import count_transitions as count_transitions
    from noracle.learn.transition import estimate_transition as estimate_transition
    from noracle.learn.validation import estimate_model_accuracy as estimate_model_accuracy
    from noracle.learn.validation import estimate_scel as estimate_scel
    from noracle.results import LabelAnalysis as LabelAnalysis

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        ".analysis": "analyse_labels",
        ".batches": "Batches Views",
        ".bench.study": "StudyPlan StudyRow run_study",
        ".bench.trial": "ALGORITHMS LabelSetting Training TrialData",
        ".classifier": "ComplementaryClassifier",
        ".compare": "compare_models plan_validation zero_one_standard_error",
        ".consistency": "Consistency",
        ".labels": "ask_annotators biased_transition draw_ruled_out drop_wrong feature_chances resample_ruled_out",
        ".loop": "plain_objective train",
        ".losses": "LOSSES Loss get_loss label_mask",
        ".models": "make_model",
        ".readers": "LabelledItems read_items",
        ".scores": "fit_temperature scel_scorer zero_one_scorer",
        ".settings": "History Settings",
        ".transition": "Transition count_transition count_transitions estimate_transition",
        ".validation": "estimate_model_accuracy estimate_scel",
        "noracle.results": "LabelAnalysis",
    },
    libraries={"torch": "torch", "sklearn": "scikit-learn"},
)
