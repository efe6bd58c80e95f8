"""One trial of a study: an algorithm, a way to make labels, a learning rate, a seed → how good the
model was, epoch by epoch, on held-out items and on test items.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from noracle.errors import ArgumentError, NoracleError, require
from noracle.learn.batches import Batches, Views, as_tensor
from noracle.learn.consistency import Recipe
from noracle.learn.labels import (
    ask_annotators,
    biased_transition,
    draw_ruled_out,
    drop_wrong,
    resample_ruled_out,
)
from noracle.learn.loop import CARD, all_logits, plain_objective, train
from noracle.learn.losses import (
    Loss,
    best_scel,
    decode_logits,
    get_loss,
    label_counts,
    label_mask,
    scel,
)
from noracle.learn.models import ModelName, channels_last, make_model
from noracle.learn.settings import Optimiser, Precision, Schedule, Settings, require_fields
from noracle.learn.transition import Transition, count_transition


class TrialPoints(nn.Module):
    """What a judge saw so far; a checkpoint keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch, self.points = 0, list[dict[str, float]]()
        self.answers = list[int]()

    def get_extra_state(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"epoch": self.epoch, "points": self.points, "answers": self.answers}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.epoch, self.points = state["epoch"], state["points"]
        self.answers = state["answers"]


class Judge:
    """Points of one trial; see :func:`noracle.learn.bench.trial.run_trial`."""

    def __init__(
        self,
        data: TrialData,
        said: np.ndarray[Any, Any],
        held: np.ndarray[Any, Any],
        loss: Loss,
        transition: Transition,
        training: Training,
        epochs: int,
        device: torch.device,
    ) -> None:
        self.items, self.test = on_device(data.items, device), on_device(data.test_items, device)
        self.views = Views.of(self.items, flip=training.flip).to(device) if data.images else None
        self.loss, self.training, self.device = loss, training, device
        self.context, self.estimated = loss.make_context(transition), False
        self.believe(transition)
        self.held_items = rows_of(self.items, held)
        self.held_truth = torch.from_numpy(data.truth[held].astype(np.int64))
        self.test_truth = torch.from_numpy(data.test_truth.astype(np.int64))
        self.said = torch.from_numpy(said[held].astype(np.int64))
        self.held_mask = label_mask(self.said, data.n_classes)
        self.seen, self.epochs = TrialPoints(), epochs
        self.keep_answers = data.keep_answers

    def believe(self, transition: Transition, *, estimated: bool = False) -> None:
        """The T by which held-out labels judge."""
        self.transition, self.estimated = transition, estimated
        self.scel_context = get_loss("fwd").make_context(transition)
        self.inverse = None
        if estimated or transition.strength > 0:
            self.inverse = torch.from_numpy(np.linalg.pinv(transition.matrix))

    def __call__(self, model: nn.Module) -> float:
        """For the training loop: a score every few epochs, NaN between."""
        self.seen.epoch += 1
        if self.seen.epoch % self.training.every and self.seen.epoch != self.epochs:
            return math.nan
        point = {"epoch": self.seen.epoch, **self.look(model)}
        self.seen.points.append(point)
        return point.get("accuracy", math.nan)

    def look(self, model: nn.Module) -> dict[str, float]:
        """The model as it is now; what cannot be said (no label, a singular T) is left out."""
        logits = all_logits(model, self.test, prepare=self.views)
        test = decode_logits(logits, self.loss, self.context)
        point = {"test": 100 * float((test == self.test_truth).double().mean())}
        if len(self.held_truth):
            held = all_logits(model, self.held_items, prepare=self.views)
            guess = decode_logits(held, self.loss, self.context)
            point["accuracy"] = 100 * float((guess == self.held_truth).double().mean())
            some = self.held_mask.any(dim=1)
            if self.estimated:
                counts = label_counts(self.said[some], self.held_mask.shape[1])
                about = held[some], counts, self.scel_context
                point["scel"] = -best_scel(*about)[0]
            else:
                losses = scel(held, self.held_mask, self.scel_context)
                point["scel"] = -float(losses[some].double().mean())
            if self.inverse is not None:
                scores = self.inverse[self.said.clamp(min=0), guess[:, None]]
                point["zero_one"] = 100 * float(scores[self.said >= 0].mean())
        before = (p["scel"] for p in self.seen.points if "scel" in p)
        if self.keep_answers and point.get("scel", -math.inf) > max(before, default=-math.inf):
            self.seen.answers = test.tolist()
        return {name: round(value, 4) for name, value in point.items() if math.isfinite(value)}


def on_device(items: Any, device: torch.device) -> Any:
    """Items as a tensor on the device; sparse ones stay, and become dense batch by batch."""
    return items.tocsr() if hasattr(items, "tocsr") else as_tensor(items).to(device)


def rows_of(items: Any, rows: np.ndarray[Any, Any]) -> Any:
    """The items at these places."""
    tensor = isinstance(items, Tensor)
    return items[torch.from_numpy(rows).to(items.device) if tensor else rows]


CHECKPOINT_SECONDS = 60.0
"""What a trial that is killed loses at most, and an epoch."""
WAYS = ("uniform", "noisy", "weak", "strong", "people", "given", "acl")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """A loss, and where its T comes from: ``counted`` from the true labels is an oracle,
    ``estimated`` sees held-out ruled-out labels alone.
    """

    name: str
    loss: str
    transition: Literal["uniform", "counted", "estimated"] = "uniform"
    recipe: Literal["plain", "consistency"] = "plain"
    paper: float | None = None


_RECIPES: Mapping[str, Literal["uniform", "counted", "estimated"]] = {
    "consistency": "uniform",
    "consistency-R": "counted",
    "consistency-E": "estimated",
}
_ROBUST = {"CCE": "ure_ga", "WMAE": "ure_wmae_ga", "GCE": "ure_gce_ga", "SL": "ure_sl_ga"}

ALGORITHMS: Mapping[str, Algorithm] = {
    row.name: row
    for row in (
        Algorithm(name="FWD-U", loss="fwd", paper=64.19),
        Algorithm(name="FWD-R", loss="fwd", transition="counted", paper=61.32),
        Algorithm(name="URE-GA-U", loss="ure_ga", paper=50.24),
        Algorithm(name="URE-GA-R", loss="ure_ga", transition="counted", paper=50.73),
        Algorithm(name="SCL-NL", loss="scl_nl", paper=63.76),
        Algorithm(name="SCL-EXP", loss="scl_exp", paper=63.29),
        Algorithm(name="L-W", loss="l_w", paper=54.32),
        Algorithm(name="L-UW", loss="l_uw", paper=57.52),
        Algorithm(name="PC-sigmoid", loss="pc_sigmoid", paper=37.78),
        Algorithm(name="ROB-MAE", loss="ure_mae_ga", transition="counted", paper=59.38),
        Algorithm(name="supervised", loss="supervised", paper=82.80),
        *(
            Algorithm(name=name, loss="scl_nl", recipe="consistency", transition=transition)
            for name, transition in _RECIPES.items()
        ),
        Algorithm(name="URE-NN-U", loss="ure_nn"),
        Algorithm(name="URE-NN-R", loss="ure_nn", transition="counted"),
        Algorithm(name="URE-U", loss="ure_free"),
        Algorithm(name="URE-R", loss="ure_free", transition="counted"),
        Algorithm(name="URE-MAE-U", loss="ure_mae_free"),
        *(
            Algorithm(name=f"ROB-{base}", loss=loss, transition="counted")
            for base, loss in _ROBUST.items()
        ),
        Algorithm(name="CPE-I", loss="cpe_i"),
        Algorithm(name="CPE-F", loss="cpe_f", transition="counted"),
        Algorithm(name="CPE-T", loss="cpe_t", transition="counted"),
        Algorithm(name="OP-W", loss="op_w"),
        Algorithm(name="SCARCE", loss="scarce"),
        *(Algorithm(name=f"MCL-{how}", loss=f"mcl_{how.lower()}") for how in ("MAE", "EXP", "LOG")),
    )
}
"""Rows by name: the ten of Table 1 of the CLImage paper with its figures on uniform-CIFAR10, the
control with true labels, and others.
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LabelSetting:
    """How the labels of a trial are made.

    Parameters
    ----------
    way
        ``uniform``; ``noisy`` (uniform, with a share ``noise`` that rules out the truth); ``weak``
        and ``strong`` bias; ``people``: every annotator of the data sees four classes and rules out
        one that is not the class they named; ``given``: the data's own labels, also named ``acl``;
        or a matrix of the data by its name, from which labels are drawn.
    ablation
        ``iid`` draws again from the counted T, so that labels depend on the class alone; ``evened``
        also spreads each row's wrong classes evenly, which takes the bias away and leaves the
        noise.
    removed
        Share of the wrong labels that is taken away, with their items.
    n_labels
        Labels an item that are used, the first ones: 1 is the standard set.

    Examples
    --------
    >>> LabelSetting(name="10 % wrong", way="noisy", noise=0.1).noise
    0.1
    """

    name: str
    way: str = "uniform"
    noise: float = 0.0
    ablation: Literal["none", "iid", "evened"] = "none"
    removed: float = 0.0
    n_labels: int = 1

    def __post_init__(self) -> None:
        people = self.way in ("people", "given", "acl")
        ablations = ("none", "iid", "evened")
        require_fields(
            self,
            ("noise", 0 <= self.noise < 1, "in [0, 1)"),
            ("ablation", self.ablation in ablations, "none, iid or evened"),
            ("removed", 0 <= self.removed <= 1, "in [0, 1]"),
            ("n_labels", self.n_labels >= 1, "at least 1"),
            ("noise", not (self.noise and people), "0, because people made them"),
            of=f" of labels {self.name}",
        )

    def draw(self, data: TrialData, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Labels (n, n_labels), -1 where one was removed."""
        y, k, s = data.truth, data.n_classes, self.n_labels
        if self.way in ("people", "given", "acl"):
            said = self._of_people(data, rng)
        else:
            known = self.way in {*WAYS, *data.matrices}
            rule = f"way of labels {self.name} must be {' or '.join([*WAYS, *data.matrices])}"
            require(known, f"{rule}; got {self.way!r}.")
            rows = data.matrices.get(self.way, Transition.uniform(k).matrix)
            T = Transition(rows / rows.sum(axis=1, keepdims=True))  # printed ones are rounded
            if self.way == "weak" or self.way == "strong":
                bias: Literal["weak", "strong"] = "weak" if self.way == "weak" else "strong"
                T = biased_transition(k, bias=bias, rng=rng)
            T = T.with_noise(self.noise) if self.noise else T
            again = self.way in data.matrices  # each label on its own, as people gave them
            drawn = draw_ruled_out(y, transition=T, n_labels=s, replace=again, rng=rng)
            said = drawn.reshape(len(y), -1)
        if self.ablation == "iid":
            said = resample_ruled_out(y, said, n_classes=k, rng=rng)
        elif self.ablation == "evened":
            T, s = count_transition(y, said, n_classes=k, prior=1e-9).evened(), said.shape[1]
            drawn = draw_ruled_out(y, transition=T, n_labels=s, replace=True, rng=rng)
            said = np.where(said >= 0, drawn.reshape(said.shape), -1)
        return drop_wrong(y, said, share=self.removed, rng=rng) if self.removed else said

    def _of_people(self, data: TrialData, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        said = data.ruled_out
        if self.way == "people":
            if data.annotators is None:
                rule = f"labels {self.name} must have data with the labels of annotators"
                raise ArgumentError(f"{rule}; got none.")
            k = data.n_classes
            options: dict[str, Any] = {"n_shown": min(4, k), "n_answers": 1, "rng": rng}
            people = np.maximum(data.annotators, 0).T
            asked = [ask_annotators(named, n_classes=k, **options) for named in people]
            said = np.column_stack([one.ruled_out[:, 0] for one in asked])
            said = np.where(data.annotators >= 0, said, -1)
        if said is None or said.shape[1] < self.n_labels:
            came = "none" if said is None else f"{said.shape[1]} an item"
            rule = f"labels {self.name} must have data with {self.n_labels} ruled-out labels"
            raise ArgumentError(f"{rule} an item; got {came}.")
        return said[:, : self.n_labels]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrialData:
    """What all trials share.

    Parameters
    ----------
    items, test_items
        uint8 images (n, H, W, C), floats (n, features), or a sparse matrix.
    ruled_out, annotators
        The data's own complementary labels (n, s), and ordinary labels of people (n, a), where
        there are some; -1 is none.
    version
        Says which items these are, in a journal; by default a digest of their bytes.
    matrices
        Transition matrices from which labels can be drawn, by name.
    keep_answers
        Whether a trial keeps the answers to the test items of the epoch with the best SCEL.

    Examples
    --------
    >>> y = np.arange(30) % 3
    >>> data = TrialData(name="corners", items=np.eye(3)[y], truth=y, test_items=np.eye(3), test_truth=np.arange(3), n_classes=3)
    >>> data.name, data.items.shape
    ('corners', (30, 3))
    """

    name: str
    items: Any
    truth: np.ndarray[Any, Any]
    test_items: Any
    test_truth: np.ndarray[Any, Any]
    n_classes: int
    ruled_out: np.ndarray[Any, Any] | None = None
    annotators: np.ndarray[Any, Any] | None = None
    version: str | None = None
    matrices: Mapping[str, np.ndarray[Any, Any]] = dataclasses.field(default_factory=dict)
    keep_answers: bool = False

    def __post_init__(self) -> None:
        n, n_test = self.items.shape[0], len(self.test_truth)
        for name in ("truth", "ruled_out", "annotators"):
            rows = getattr(self, name)
            size = n if rows is None else len(rows)
            rule = f"{name} must have one row for each of the {n} items"
            require(size == n, f"{rule}; got {size}.")
        rule = "test_truth must have one class for each test item, at least one"
        require(0 < n_test == self.test_items.shape[0], f"{rule}; got {n_test}.")

    @property
    def images(self) -> bool:
        """Whether items are images."""
        return len(self.items.shape) == 4

    def fingerprint(self) -> dict[str, str]:
        """Short digests of labels and items, so that a journal is not continued with other data."""
        shapes = tuple(self.items.shape), tuple(self.test_items.shape)
        digest = hashlib.sha256(repr((self.name, *shapes, self.n_classes)).encode())
        for array in (self.truth, self.test_truth, self.ruled_out, self.annotators):
            whole = None if array is None else np.ascontiguousarray(array, dtype=np.int64)
            digest.update(b"-" if whole is None else whole.tobytes())
        for name, matrix in sorted(self.matrices.items()):
            digest.update(name.encode() + np.ascontiguousarray(matrix, dtype=np.float64).tobytes())
        items = self.version or _digest(self.items, self.test_items)
        return {"data": digest.hexdigest()[:16], "items": items}


def _digest(*parts: Any) -> str:
    digest = hashlib.sha256()
    for items in parts:
        sparse = items.tocsr() if hasattr(items, "tocsr") else None
        for array in (items,) if sparse is None else (sparse.data, sparse.indices, sparse.indptr):
            values = np.asarray(array)
            digest.update(f"{values.dtype}{values.shape}".encode())
            for start in range(0, len(values), 4096):
                digest.update(np.ascontiguousarray(values[start : start + 4096]).tobytes())
    return digest.hexdigest()[:16]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What all trials do in the same way; the defaults are the paper's.

    Parameters
    ----------
    strong
        Strong views of the recipe.
    contrast
        Epochs in which the recipe learns from images alone, before the labels; by default as many as
        others where T is not uniform.

    Examples
    --------
    >>> Training(model="linear", batch_size=32).batch_size
    32
    """

    model: ModelName = "resnet18"
    stem: Literal["imagenet", "small"] = "imagenet"
    hidden: tuple[int, ...] = (500,)
    batch_size: int = 512
    weight_decay: float = 1e-4
    optimiser: Optimiser = "adam"
    schedule: Schedule = "constant"
    precision: Precision = "fp32"
    average: float = 0.0
    augment: bool = True
    flip: bool = True
    holdout: float = 0.1
    every: int = 5
    strong: int = 2
    contrast: int | None = None

    def __post_init__(self) -> None:
        holdout = ("holdout", 0 <= self.holdout < 1, "in [0, 1)")
        require_fields(self, holdout, ("every", self.every >= 1, "at least 1"))

    def journal(self) -> dict[str, Any]:
        """As a line of a journal says it; older lines say nothing of ``strong`` and ``contrast``."""
        said = json.loads(json.dumps(dataclasses.asdict(self)))
        usual = (("strong", 2), ("contrast", None))
        return {name: value for name, value in said.items() if (name, value) not in usual}

    def settings(self, trial: Trial) -> Settings:
        """For the training loop."""
        own = {**dataclasses.asdict(self), **dataclasses.asdict(trial)}
        names = {field.name for field in dataclasses.fields(Settings)}
        return Settings(**{name: value for name, value in own.items() if name in names})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One cell of a study; its fields are its name in the journal."""

    algorithm: str
    labels: str
    lr: float
    seed: int
    epochs: int


def run_trial(
    data: TrialData,
    trial: Trial,
    algorithm: Algorithm,
    labels: LabelSetting,
    training: Training,
    *,
    device: torch.device,
    checkpoint: Path | None = None,
    progress: Callable[[int, dict[str, float]], None] | None = None,
) -> dict[str, Any]:
    """Train one model; the points at which it was judged, and what the labels were like.

    Every point has the epoch, ``accuracy`` on held-out items (true labels), ``zero_one`` and
    ``scel`` on them (ruled-out labels alone; larger is better), and ``test``. The hold-out depends
    on the seed alone. A loss that does not stay finite ends the trial with a ``fault``. Where there
    is a ``checkpoint``, the trial goes on from it.
    """
    began = time.perf_counter()
    rng = np.random.default_rng([trial.seed, 1])
    said = labels.draw(data, rng)
    order = np.random.default_rng([trial.seed, 2]).permutation(len(data.truth))
    held = np.sort(order[: round(training.holdout * len(order))])
    kept = np.sort(order[len(held) :])
    kept = kept[(said[kept] >= 0).any(axis=1)]
    rule = f"labels {labels.name} must leave items to train on"
    require(len(kept), f"{rule}; got none of {len(order)}.")
    wrong = (said[kept] == data.truth[kept, None]).sum() / max(1, (said[kept] >= 0).sum())
    transition = Transition.uniform(data.n_classes)
    if algorithm.transition == "counted":
        transition = count_transition(data.truth[kept], said[kept], n_classes=data.n_classes)
    loss = get_loss(algorithm.loss)
    known, shown = loss.name == "supervised", kept
    if algorithm.transition == "estimated":
        shown = np.union1d(kept, held[(said[held] >= 0).any(axis=1)])
        rule = (
            f"algorithm {algorithm.name} must have held-out items, for their labels say what T is"
        )
        require(len(shown) > len(kept), f"{rule}; got none.")
    rows = torch.from_numpy((data.truth if known else said)[shown].astype(np.int64))
    mask = label_mask(rows, data.n_classes)
    mask = ~mask if known else mask
    if algorithm.recipe == "consistency" and algorithm.transition != "uniform":
        mask = label_counts(rows, data.n_classes)
    about = {
        "noise": round(float(wrong), 5),
        "n_items": len(kept),
        "n_held_out": len(held),
        "oracle": transition.oracle or algorithm.loss == "supervised",
    }
    try:
        loss.make_context(transition)
    except ArgumentError as error:  # this T does not suit this loss: a cell, not the whole study
        fault = {"fault": str(error), "points": [], "transition": transition.summary()}
        seconds_of = {"seconds": time.perf_counter() - began, "seconds_per_epoch": None}
        return {**fault, **about, **seconds_of}
    judge = Judge(data, said, held, loss, transition, training, trial.epochs, device)
    mask[torch.from_numpy(np.isin(shown, held))] = 0  # they judge
    shape = tuple(data.items.shape[1:])
    if data.images and training.model.startswith("resnet"):
        shape = (shape[2], *shape[:2])
    options: dict[str, Any] = {"hidden": training.hidden, "stem": training.stem}
    options |= {"n_outputs": data.n_classes, "seed": trial.seed}
    with CARD:  # trials in other threads use the same global generator
        model = make_model(training.model, shape=shape, **options)
    model = (channels_last(model) if data.images else model).to(device)
    items, settings = rows_of(judge.items, shown), training.settings(trial)
    history: list[dict[str, float]] = []
    first, spent = 0.0, 0.0

    def keep(epoch: int, row: dict[str, float]) -> None:
        history.append(row)
        if progress is not None:
            progress(epoch, row)

    fault = {}
    try:
        loop: dict[str, Any] = {"extra": judge.seen, "validate": judge, "progress": keep}
        loop["checkpoint_seconds"] = CHECKPOINT_SECONDS
        if algorithm.recipe == "consistency":
            recipe = _recipe(algorithm, judge, model, items, mask, settings, checkpoint)
            first, spent = _learn_views(recipe, data, judge, progress)
            whole = recipe.run(**loop).rows
        else:
            objective = _plain_objective(judge, mask).to(device)
            batches = Batches(items=items, labels=mask)
            whole = train(model, batches, objective, settings, checkpoint=checkpoint, **loop).rows
        before, history = whole[: len(whole) - len(history)], whole
    except NoracleError as error:
        if type(error) is not NoracleError:  # arguments and evidence, not the loss
            raise
        before, fault = [], {"fault": str(error)}
    seconds = [row["seconds"] for row in history]
    return {
        **fault,
        "points": judge.seen.points,
        **about,
        "transition": judge.transition.summary(),
        **({"transition_off": _off(judge.transition, data, said)} if judge.estimated else {}),
        **({"seconds_first": round(first, 2)} if first else {}),
        **({"answers": judge.seen.answers} if data.keep_answers else {}),
        "loss": [round(row["loss"], 5) for row in history][:: max(1, trial.epochs // 12)],
        "seconds": round(
            time.perf_counter() - began + first - spent + sum(row["seconds"] for row in before), 2
        ),
        "seconds_per_epoch": round(float(np.median(seconds)), 4) if seconds else None,
    }


def _off(T: Transition, data: TrialData, said: np.ndarray[Any, Any]) -> float:
    """Mean total variation of the rows of T from those of the counted one."""
    counted = count_transition(data.truth, said, n_classes=data.n_classes, prior=1e-9).matrix
    return round(float(np.abs(T.matrix - counted).sum(axis=1).mean()) / 2, 4)


def _recipe(
    a: Algorithm,
    judge: Judge,
    model: nn.Module,
    items: Tensor,
    mask: Tensor,
    settings: Settings,
    checkpoint: Path | None,
) -> Recipe:
    """The recipe; T is the judge's until it is estimated."""
    if judge.views is None:
        rule, shape = f"algorithm {a.name} must have images", tuple(judge.items.shape)
        raise ArgumentError(f"{rule}; got items of shape {shape}.")
    tenth = max(1, settings.epochs * math.ceil(len(items) / settings.batch_size) // 10)
    return Recipe(
        model=model,
        items=items,
        views=judge.views,
        ruled_out=mask,
        settings=settings,
        transition=None if a.transition == "estimated" else torch.tensor(judge.transition.matrix),
        options={"delay": tenth, "ramp": tenth, "strong": judge.training.strong},
        contrast=judge.training.contrast,
        checkpoint=checkpoint,
        heard=lambda T: judge.believe(T, estimated=True),
    )


def _learn_views(
    recipe: Recipe,
    data: TrialData,
    judge: Judge,
    progress: Callable[[int, dict[str, float]], None] | None,
) -> tuple[float, float]:
    """The step without labels: it sees all items, and trials share it. The seconds it took, and
    those that it took now.
    """
    if not recipe.contrast:
        return 0.0, 0.0

    def tell(_epoch: int, row: dict[str, float]) -> None:
        if progress is not None:
            progress(0, row)

    began, training = time.perf_counter(), judge.training
    about = (recipe.settings, recipe.contrast, training.model, training.stem)
    name = hashlib.sha256(repr((*about, data.fingerprint()["items"])).encode()).hexdigest()[:16]
    file = recipe.checkpoint and recipe.checkpoint.with_name(f"views-{name}.pt")
    recipe.first = dataclasses.replace(recipe, items=judge.items).learn_views(file, tell)
    return sum(recipe.first.column("seconds")), time.perf_counter() - began


def _plain_objective(judge: Judge, mask: Tensor) -> nn.Module:
    views = judge.views
    prepare = _Weak(views) if views is not None and judge.training.augment else views
    context = judge.loss.make_context(judge.transition, ruled_out=mask)
    return plain_objective(judge.loss, context, prepare)


class _Weak(nn.Module):
    """Weak views."""

    def __init__(self, views: Views) -> None:
        super().__init__()
        self.views = views

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = self.views(images, "weak")
        return out
