"""One fit: its items and labels, what it minimises, its model, and the call of the loop."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from noracle.errors import ArgumentError, EvidenceError, require, require_evidence, require_rows
from noracle.learn.batches import Batches, Items, Views, as_model, as_tensor
from noracle.learn.consistency import BELIEF, Recipe, epochs_alone
from noracle.learn.loop import PlainObjective, all_logits, read_checkpoint, train
from noracle.learn.losses import (
    Context,
    Loss,
    Weights,
    best_scel,
    cpe_i_loss,
    get_loss,
    label_counts,
    scel,
)
from noracle.learn.models import channels_last, make_model
from noracle.learn.settings import History, Settings
from noracle.learn.transition import (
    Transition,
    estimate_transition,
    likeliest_transition,
)

Array = NDArray[Any]
Mask = NDArray[np.bool_]
READ_ROWS = 8192
_ONE_KIND = "must be all text or all numbers"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownLabels:
    """Sorted names, ruled-out classes (n, s) padded with -1 and how often each was ruled out (n, K),
    the class where it is known, else -1.
    """

    classes: Array
    codes: NDArray[np.int64]
    counts: NDArray[np.float32]
    known: NDArray[np.int64]

    @property
    def mask(self) -> Mask:
        """Which classes were ruled out (n, K)."""
        return np.asarray(self.counts > 0)

    @property
    def some(self) -> Mask:
        """Items of which anything is known."""
        return np.asarray(self.mask.any(axis=1) | (self.known >= 0))


def check_items(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Features (n, d) as 32-bit floats, dense or CSR, or images (n, h, w, c) as uint8 or 32-bit
    floats; a memory map stays on the disk.

    With ``reset`` the estimator learns the shape of an item, else X must have it.
    """
    from sklearn.utils.validation import check_array, validate_data

    if isinstance(X, np.memmap) and X.ndim in (2, 4):
        found: Any = _checked_map(X)
    elif _is_images(X):
        pixels = (X[0] if isinstance(X, (list, tuple)) else X).dtype == np.uint8
        kind = np.uint8 if pixels else np.float32
        found = check_array(X, allow_nd=True, dtype=kind, input_name="X", estimator=estimator)
    else:
        found = validate_data(estimator, X, accept_sparse="csr", dtype=np.float32, reset=reset)
    shape = tuple(int(size) for size in found.shape[1:])
    if reset:
        estimator.item_shape_ = shape
        if len(shape) == 3 or isinstance(X, np.memmap):
            estimator.n_features_in_ = int(np.prod(shape))
            if hasattr(estimator, "feature_names_in_"):
                del estimator.feature_names_in_
    own = estimator.item_shape_
    require(shape == own, f"X must have items of shape {own}, as in fit; got {shape}.")
    return found


def _is_images(X: Any) -> bool:
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and getattr(X[0], "ndim", 0) == 3
    return getattr(X, "ndim", 2) == 4


def _checked_map(X: np.memmap[Any, Any]) -> np.memmap[Any, Any]:
    ok, came = len(X) and X.dtype.kind in "fiub", f"{X.dtype} with shape {X.shape}"
    require(ok, f"X must hold numbers and at least one item; got {came}.")
    for start in range(0, len(X) if X.dtype.kind == "f" else 0, READ_ROWS):
        block = np.asarray(X[start : start + READ_ROWS])
        finite = (np.abs(block) <= np.finfo(np.float32).max).reshape(len(block), -1).all(axis=1)
        wrong = (start + np.flatnonzero(~finite)[:5]).tolist()
        if wrong:
            rule, came = "must be finite in 32 bits", "NaN, infinity or a larger number"
            raise EvidenceError.of("X", rule, came, where=wrong)
    return X


def check_weight(weight: ArrayLike | None, X: Any) -> NDArray[np.float64] | None:
    """One finite number per item, none negative, not all zero."""
    if weight is None:
        return None
    found, n = np.asarray(weight, dtype=np.float64), X.shape[0]
    if found.ndim == 0:
        found = np.full(n, float(found))
    name, rule = "sample_weight", f"must be one number for each of the {n} items"
    require_evidence(found.shape == (n,), name, rule, f"shape {found.shape}")
    good = np.isfinite(found) & (found >= 0)
    require_rows(good, name, "must be finite and not negative", found)
    require_evidence(found.sum() > 0, name, "must be positive somewhere", "zeros only")
    return found


def read_labels(ruled_out: Any, label: Any, *, classes: Any, n: int) -> KnownLabels:
    """Names to class numbers; see :class:`ComplementaryClassifier` for what may come."""
    given = None if classes is None else _class_names(classes)
    table = None if ruled_out is None else _table("ruled_out", ruled_out)
    said, marks = None, None
    if table is not None and table.ndim == 2 and table.dtype == bool:
        k = table.shape[1] if given is None else len(given)
        ok, rule = given is None or table.shape == (n, k), f"a mask with {n} rows and {k} columns"
        require_evidence(ok, "ruled_out", f"must be {rule}", f"shape {table.shape}")
        require_sorted(classes, given, "a mask of ruled-out classes")
        marks = np.where(table, np.arange(table.shape[1]), -1)
    elif table is not None:
        wide = table.ndim == 2 and table.shape[1] > 2 and table.dtype.kind in "iuf"
        numbers = wide and np.isin(table, (0, 1)).all()
        rule, came = "must be a table of classes, or a mask of bools", "a table of 0 and 1"
        require_evidence(not numbers, "ruled_out", rule, came, remedy="Pass bools.")
        said = _Names.read("ruled_out", table, n)
    told = _Names.read("label", label, n, width=1)
    if given is None:
        given = _found_names([told] if said is None else [said, told])
    codes = marks if said is None else said.encode(given)
    codes = np.full((n, 1), -1) if codes is None else codes
    counts = label_counts(torch.from_numpy(codes), len(given)).numpy()
    codes = np.take_along_axis(codes, np.argsort(codes < 0, axis=1, kind="stable"), axis=1)
    codes = codes[:, : max(1, int((codes >= 0).sum(axis=1).max(initial=0)))]
    known = told.encode(given)[:, 0]
    labels = KnownLabels(classes=given, codes=codes, counts=counts, known=known)
    _require_some(labels.some.any())
    return labels


def _require_some(ok: object) -> None:
    rule, remedy = "must name a class for at least one item", "-1, None and '' mean no label."
    require_evidence(ok, "ruled_out", rule, "none", remedy=remedy)


def require_sorted(classes: Any, names: Array | None, what: str) -> None:
    """Raise for classes in another order than ``classes_``, which columns and rows follow."""
    if names is None:
        rule = f"classes must be given with {what}, whose columns have no names"
        raise ArgumentError(f"{rule}; got None.")
    came, own = np.asarray(classes).tolist(), names.tolist()
    rule = f"classes must be sorted with {what}, whose order is that of classes_"
    require(came == own, f"{rule} ({own[:8]}); got {came[:8]}.")


@dataclasses.dataclass(frozen=True, slots=True)
class _Names:
    """A table of names with gaps."""

    name: str
    values: Array
    missing: Mask

    @classmethod
    def read(cls, name: str, values: Any, n: int, *, width: int | None = None) -> _Names:
        table = _table(name, np.full((n, 1), -1) if values is None else values)
        rule = f"must have one row for each of the {n} items"
        require_evidence(len(table) == n, name, rule, f"{len(table)} rows")
        table = table.reshape(n, -1)
        columns, rule = table.shape[1], "must be one class per item"
        ok = width in (None, columns)
        require_evidence(ok, name, rule, f"a table with {columns} columns")
        return cls(name, *_with_gaps(name, table))

    @property
    def present(self) -> Array:
        return np.asarray(self.values[~self.missing])

    def encode(self, classes: Array) -> NDArray[np.int64]:
        """(n, s) class numbers, -1 in the gaps."""
        codes = np.full(self.values.shape, -1, dtype=np.int64)
        if self.missing.all():
            return codes
        rule = f"must have names like those of classes, {classes.tolist()[:5]}"
        same = _is_text(classes) == _is_text(self.present)
        require_evidence(same, self.name, rule, self.present[:3].tolist())
        places = np.searchsorted(classes, self.present).clip(max=len(classes) - 1)
        found = classes[places] == self.present
        codes[~self.missing] = np.where(found, places, -2)
        rule = f"must be among the classes {classes.tolist()[:8]}"
        first = next((repr(v) for v in self.present[~found][:1]), "")
        require_rows(codes != -2, self.name, rule, first)
        return codes


def _table(name: str, values: Any) -> Array:
    try:
        table = np.asarray(values.cpu() if isinstance(values, Tensor) else values)
    except ValueError as error:
        rule = "must be one class per item or rows of equal length"
        remedy = "Pad short rows with -1 or ''."
        raise EvidenceError.of(name, rule, "rows that differ", remedy=remedy) from error
    if table.dtype.kind in "US" and not isinstance(values, np.ndarray):
        texts = all(isinstance(v, str) for v in np.asarray(values, dtype=object).flat)
        require_evidence(texts, name, _ONE_KIND, "both")
    rule = "must have one or two dimensions"
    require_evidence(table.ndim in (1, 2), name, rule, f"shape {table.shape}")
    return table


def _with_gaps(name: str, table: Array) -> tuple[Array, Mask]:
    """The names, and where there are none: -1, "", None, NaN."""
    names = "must be names of classes: text, whole numbers or bools"
    if table.dtype.kind in "US":
        return table, np.asarray(table == np.array("", dtype=table.dtype))
    missing = np.zeros(table.shape, dtype=bool)
    if table.dtype.kind == "O":
        missing = np.array([_nothing(v) for v in table.ravel()], dtype=bool).reshape(table.shape)
        present = table[~missing]
        text = {isinstance(v, str) for v in present}
        require_evidence(len(text) < 2, name, _ONE_KIND, "both")
        if text == {True}:
            return table, missing
        numbers = np.asarray(present.tolist()) if len(present) else np.empty(0, np.int64)
        ok = numbers.ndim == 1 and numbers.dtype.kind in "biuf"
        require_evidence(ok, name, names, repr(next(iter(present), None)))
        kind = np.dtype(np.int64) if numbers.dtype.kind == "u" else numbers.dtype
        table = np.full(table.shape, -1, dtype=kind)
        table[~missing] = numbers
    require_evidence(table.dtype.kind in "biuf", name, names, f"an array of {table.dtype}")
    if table.dtype.kind != "b":
        missing = missing | (table == -1) | (table != table)
    if table.dtype.kind == "f":
        seen = table[~missing]
        require_evidence(np.isfinite(seen).all(), name, "must be finite", "infinity")
        between = seen[seen != np.round(seen)]
        came = f"the continuous value {between[0]}" if len(between) else ""
        remedy = "Unknown label type: a regression target?"
        require_evidence(not came, name, "must be classes", came, remedy=remedy)
    return table, missing


def _nothing(value: Any) -> bool:
    if value is None or type(value).__name__ == "NAType":
        return True
    return not value if isinstance(value, str) else bool(value != value)


def _class_names(classes: Any) -> Array:
    table = _table("classes", list(classes) if isinstance(classes, (set, frozenset)) else classes)
    values, missing = _with_gaps("classes", table)
    ok, rule = values.ndim == 1 and not missing.any(), "none of them -1, '' or None (no label)"
    require(ok, f"classes must be a list of names, {rule}; got {table.tolist()[:8]}.")
    names = np.unique(values)
    require(len(names) == len(values), f"classes must differ; got {values.tolist()[:8]}.")
    return _enough(names)


def _found_names(tables: Sequence[_Names]) -> Array:
    some = [table.present for table in tables if not table.missing.all()]
    _require_some(some)
    rule, came = "must have names like those of ruled_out", "text against numbers"
    require_evidence(len({_is_text(part) for part in some}) == 1, "label", rule, came)
    return _enough(np.unique(np.concatenate(some)))


def _enough(names: Array) -> Array:
    came = f"one class, {names.tolist()[0]!r}" if len(names) else "none"
    remedy = "Pass classes= with all of them; -1 means no label."
    require_evidence(len(names) > 1, "classes", "must be two or more", came, remedy=remedy)
    return names


def _is_text(values: Array) -> bool:
    return bool(values.dtype.kind in "USO")


# What a fit minimises and how it is judged: ruled-out classes, and ordinary labels where there are.

EXACT = ("scl_nl", "supervised", "partial_log", "multi_ure")
"""Losses that are the cross-entropy where all classes but one are ruled out."""


class MixedObjective(PlainObjective):
    """The loss of the ruled-out classes, and the cross-entropy of items with an ordinary label.

    The labels are a mask (B, K + 1): the ruled-out classes, all but one where the class is known,
    and whether it is known. With weights w (1 by default), A the items of a batch without and B
    those with an ordinary label, and W = Σ_{A∪B} w,

        loss per item:   (Σ_A w·loss_i + Σ_B w·ce_i) / W
        risk:            (Σ_A w)/W·risk(A) + Σ_B w·ce_i / W,     ce_i = -log p_y.

    Where the model gives the chances of the *ruled-out* class (cpe_i), ce_i is what its loss is on
    average if the class is y: -Σ_k T[y, k]·log q_k.
    """

    def forward(self, model: nn.Module, items: Tensor, labels: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch."""
        logits = model(as_model(model, items if self.prepare is None else self.prepare(items)))
        mask, known = labels[:, :-1], labels[:, -1]
        alone = mask & ~known.unsqueeze(1)
        with torch.autocast(logits.device.type, enabled=False):
            z = logits.float() if torch.finfo(logits.dtype).bits < 32 else logits
            each = torch.ones_like(z[:, 0]) if weight is None else weight.to(z.dtype)
            total = each.sum()
            total = torch.where(total > 0, total, torch.ones_like(total))
            ordinary = ordinary_loss(z, mask, self.loss, self.context) * known * each
            ordinary = ordinary.sum() / total
            rest = each * ~known
            if self.loss.per_item:
                losses = self.loss.function(z, alone, self.context, **self.loss.options)
                return (losses * rest).sum() / total + ordinary
            return rest.sum() / total * self.loss(z, alone, self.context, rest) + ordinary


def ordinary_loss(logits: Tensor, mask: Tensor, loss: Loss, context: Context) -> Tensor:
    """Cross-entropy of the one class that is not ruled out; for cpe_i its mean loss."""
    target = (~mask).to(logits.dtype)
    if loss.decode == "nearest":
        target = target @ context.current_log_transition().exp().to(logits.dtype)
    return -(target * logits.log_softmax(dim=1)).sum(dim=1)


def held_out_scel(
    logits: Tensor, labels: Tensor, weight: Weights, loss: Loss, context: Context
) -> float:
    """Mean of -log (Tᵀp)_ȳ over items with ruled-out classes, of -log p_y over the others."""
    mask, known = labels[:, :-1], labels[:, -1]
    alone = mask & ~known.unsqueeze(1)
    scored = cpe_i_loss if loss.decode == "nearest" else scel
    found = scored(logits, alone, context)
    found = torch.where(known, ordinary_loss(logits, mask, loss, context), found).double()
    each = torch.ones_like(found) if weight is None else weight.double()
    return float((found * each).sum() / each.sum())


class Marked(nn.Module):
    """An objective with a mark in its state, which checkpoints keep: what it was trained on."""

    mark: Tensor

    def __init__(self, objective: nn.Module, mark: bytes) -> None:
        super().__init__()
        self.objective = objective
        self.register_buffer("mark", torch.frombuffer(bytearray(mark), dtype=torch.uint8).clone())

    def forward(self, model: nn.Module, items: Tensor, labels: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch."""
        found: Tensor = self.objective(model, items, labels, weight)
        return found


class ChannelsFirst(nn.Module):
    """Images (B, H, W, C) as models want them, (B, C, H, W); the numbers stay."""

    def forward(self, images: Tensor) -> Tensor:
        """The same images."""
        return images.float().permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


class Floats(nn.Module):
    """Whole numbers as floats."""

    def forward(self, items: Tensor) -> Tensor:
        """The same numbers."""
        return items.float()


# One fit: which rows are used, the model, the transition matrix, and the call of the training loop.

MEASURED_IMAGES = 50_000
SMALL_SIDE = 64
Rows = NDArray[np.intp]
Progress = Callable[[int, dict[str, float]], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """Some rows of the items, read only when they are wanted."""

    items: Items
    rows: Rows

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return (len(self.rows), *self.items.shape[1:])

    def __getitem__(self, part: slice) -> Items:
        return self.items[self.rows[part]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelFit:
    """Everything that does not change between the models of one fit."""

    items: Items
    labels: KnownLabels
    weight: NDArray[np.float64] | None
    settings: Settings
    device: torch.device
    make: Callable[[int], nn.Module]
    prepare: nn.Module | None
    recipe: str = "plain"
    recipe_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    estimated: bool = False
    checkpoint: Path | None = None

    @property
    def table(self) -> Tensor:
        """(n, K + 1): ruled-out classes, all but one where the class is known; whether it is known."""
        known = self.labels.known
        mask = self.labels.mask.copy()
        rows = np.flatnonzero(known >= 0)
        mask[rows] = True
        mask[rows, known[rows]] = False
        return torch.from_numpy(np.column_stack([mask, known >= 0]))

    def run(
        self,
        loss: Loss,
        transition: Transition,
        rows: Rows,
        *,
        held: Rows,
        seed: int,
        stage: str = "",
        progress: Progress | None = None,
        prior: Any = None,
    ) -> tuple[nn.Module, Context, History]:
        """Train one model on these rows; stop early by the labels of the ``held`` ones. Where T is
        estimated, their views are seen too, and their labels say what T is.
        """
        table, model = self.table, self.make(seed).to(self.device)
        own_rows, rows = rows, np.union1d(rows, held) if self.estimated else rows
        if self.prepare is not None:
            self.prepare.to(self.device)
        weight = None if self.weight is None else torch.tensor(self.weight, dtype=torch.float32)
        items, table, weight, used = _training_part(self.items, table, weight, rows)
        own = None if weight is None else weight[used]
        context = _context(loss, transition, table[used], own, prior).to(self.device)
        data = Batches(items=items, labels=table, weight=weight)
        file = self.checkpoint
        mark = self._mark(loss, transition, own_rows)
        if file is not None:
            file = file.with_name(file.name + stage)
            beside = [
                *file.parent.glob(f"{file.name}.round*"),
                file.with_name(f"{file.name}.views"),
            ]
            for known in (file, *sorted(beside)):
                _same_mark(known, mark)
        validate = None
        if self.estimated:
            believed = [transition]
            validate = self._validate_estimated(loss, believed, held)
        elif len(held):
            validate = self._validate(loss, context, held)
        patience = self.settings.patience if len(held) else None
        settings = dataclasses.replace(self.settings, seed=seed, patience=patience)
        options: dict[str, Any] = {"validate": validate, "progress": progress}

        def wrap(objective: nn.Module) -> nn.Module:
            return objective if file is None else Marked(objective, mark)

        if self.recipe == "consistency":
            whole = np.arange(len(data)) if len(data) == self.items.shape[0] else rows
            recipe = self._recipe(model, context, data, whole, held, settings)
            recipe.checkpoint, recipe.wrap = file, wrap
            if self.estimated:
                recipe.heard = believed.append
            history = recipe.run(**options)
        else:
            objective, data = self._objective(loss, context, data)
            history = train(model, data, wrap(objective), settings, checkpoint=file, **options)
        if self.estimated:
            likeliest = self._likeliest(model, believed[-1], held)
            context = loss.make_context(likeliest).to(self.device)
        return model, context, history

    def contrast(self, T: Transition | None) -> int:
        """Epochs in which images alone teach."""
        if self.recipe != "consistency":
            return 0
        plain = T is not None and T.is_uniform and not self.estimated
        asked = self.recipe_options.get("contrast")
        return epochs_alone(asked, uniform=plain, epochs=self.settings.epochs)

    def _recipe(
        self,
        model: nn.Module,
        context: Context,
        data: Batches,
        whole: Rows,
        held: Rows,
        settings: Settings,
    ) -> Recipe:
        """The recipe for these rows; labels of the held ones teach nothing."""
        own, T = dict(self.recipe_options), context.transition
        options = {name: value for name, value in own.items() if name != "contrast"}
        views, mask = copy.deepcopy(self.prepare), data.labels[:, :-1].contiguous()
        if not isinstance(views, Views):
            rule = "recipe consistency must have images of uint8 (n, height, width, channels)"
            raise ArgumentError(f"{rule}; got other items.")
        steps = settings.epochs * max(1, len(data) // settings.batch_size)
        views.flip, views.pad = bool(options.pop("flip", True)), int(options.pop("pad", 4))
        options.setdefault("delay", min(1000, steps // 10))
        options.setdefault("ramp", max(1, min(5000, steps // 3)))
        if options.get("prior") is not None:
            options["prior"] = torch.as_tensor(options["prior"])
        if self.estimated or not T.is_uniform:
            rule = "label must not come with recipe consistency and a T that is not uniform"
            require(not data.labels[:, -1].any(), f"{rule}; got some.")
            mask = torch.from_numpy(self.labels.counts[whole])
        if self.estimated:
            mask[torch.from_numpy(np.isin(whole, held))] = 0
        if data.weight is not None:
            mask = mask * (data.weight > 0).unsqueeze(1)
        return Recipe(
            model=model,
            items=data.items,
            views=views,
            ruled_out=mask.to(self.device),
            settings=settings,
            transition=None if self.estimated else torch.tensor(T.matrix),
            contrast=self.contrast(T),
            options=options,
            weight=data.weight,
        )

    def _objective(self, loss: Loss, context: Context, data: Batches) -> tuple[nn.Module, Batches]:
        if loss.name in EXACT or not data.labels[:, -1].any():
            plain = PlainObjective(loss, context, self.prepare)
            return plain, dataclasses.replace(data, labels=data.labels[:, :-1].contiguous())
        return MixedObjective(loss, context, self.prepare), data

    def _validate(self, loss: Loss, context: Context, held: Rows) -> Callable[[nn.Module], float]:
        labels = self.table[torch.from_numpy(held)].to(self.device)
        weight = None if self.weight is None else torch.tensor(self.weight[held]).to(self.device)

        def score(model: nn.Module) -> float:
            logits = all_logits(model, Chosen(self.items, held), prepare=self.prepare)
            return -held_out_scel(logits.to(self.device), labels, weight, loss, context)

        return score

    def _validate_estimated(
        self, loss: Loss, believed: Sequence[Transition], held: Rows
    ) -> Callable[[nn.Module], float]:
        """SCEL at the best temperature, with T as it is at the time."""
        counts = torch.from_numpy(self.labels.counts[held])

        def score(model: nn.Module) -> float:
            logits = all_logits(model, Chosen(self.items, held), prepare=self.prepare).float()
            return -best_scel(logits, counts, loss.make_context(believed[-1]))[0]

        return score

    def _likeliest(self, model: nn.Module, T: Transition, held: Rows) -> Transition:
        """T for the finished model, its chances at the best temperature."""
        logits = all_logits(model, Chosen(self.items, held), prepare=self.prepare).float()
        counts, loss = torch.from_numpy(self.labels.counts[held]), get_loss("fwd")
        scale = best_scel(logits, counts, loss.make_context(T))[1]
        chances = (logits / scale).double().softmax(dim=1).numpy()
        about: dict[str, Any] = {"expected": T.matrix, "belief": BELIEF}
        return likeliest_transition(chances, self.labels.codes[held], **about)[0]

    def estimate_transition(
        self, rows: Rows, *, seeds: Sequence[int], progress: Progress | None = None
    ) -> Transition:
        """T from anchor points: two cpe_i models, each fitted to one half of the items, say which
        items of the other half are anchors.

        Row j is what was in fact ruled out at the anchors of class j, which forgives chances that
        are badly scaled.
        """
        with_labels = rows[self.labels.mask[rows].any(axis=1) & (self.labels.known[rows] < 0)]
        n, rule = len(with_labels), "transition anchors must have 2 items with ruled-out classes"
        require(n >= 2, f"{rule} at least; got {n}.")
        order = np.random.default_rng(seeds[0]).permutation(with_labels)
        halves = (np.sort(order[::2]), np.sort(order[1::2]))
        loss, uniform = get_loss("cpe_i"), Transition.uniform(len(self.labels.classes))
        plain, none = dataclasses.replace(self, recipe="plain"), np.empty(0, np.intp)
        chances, codes = [], []
        for number, (own, other) in enumerate((halves, halves[::-1])):
            seed, stage = seeds[1 + number], f".anchors{number}"
            options: dict[str, Any] = {"seed": seed, "stage": stage, "progress": progress}
            model, _, _ = plain.run(loss, uniform, own, held=none, **options)
            logits = all_logits(model, Chosen(self.items, other), prepare=self.prepare)
            chances.append(logits.double().softmax(dim=1).numpy())
            codes.append(self.labels.codes[other])
        return estimate_transition(np.concatenate(chances), ruled_out=np.concatenate(codes))

    def _mark(self, loss: Loss, transition: Transition, rows: Rows) -> bytes:
        """A digest of what is trained and on what; of a memory map, of some rows."""
        items, recipe = self.items, sorted((k, str(v)) for k, v in self.recipe_options.items())
        how = f"{self.recipe} estimated" if self.estimated else self.recipe
        what = (loss.name, (sorted(loss.options.items()), recipe), how, items.shape)
        digest = hashlib.sha256(repr(what).encode())
        if isinstance(items, np.memmap):
            some = np.linspace(0, len(items) - 1, min(len(items), 1000)).astype(int)
            arrays = [np.asarray(items[some])]
        else:
            sparse = hasattr(items, "indptr")
            arrays = [items.data, items.indices, items.indptr] if sparse else [items]
        arrays += [transition.matrix, rows, self.labels.counts, self.labels.known]
        for array in arrays if self.weight is None else [*arrays, self.weight]:
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()


def _training_part(
    items: Items, table: Tensor, weight: Weights, rows: Rows
) -> tuple[Items, Tensor, Weights, Tensor]:
    chosen = torch.from_numpy(rows)
    if len(rows) == items.shape[0]:
        return items, table, weight, chosen
    if isinstance(items, np.memmap):
        only = torch.zeros(len(table))
        only[chosen] = 1 if weight is None else weight[chosen]
        return items, table, only, chosen
    own = None if weight is None else weight[chosen]
    return items[rows], table[chosen], own, torch.arange(len(rows))


def _context(loss: Loss, T: Transition, table: Tensor, weight: Weights, prior: Any) -> Context:
    """What the loss knows of all items with ruled-out classes alone."""
    alone = ~table[:, -1] & table[:, :-1].any(dim=1)
    mask, each = table[alone][:, :-1], None if weight is None else weight[alone]
    if loss.name == "scarce" and prior is None and len(mask):
        parts = mask / mask.sum(dim=1, keepdim=True) * (1.0 if each is None else each.unsqueeze(1))
        prior = T.class_shares(parts.sum(dim=0).double().numpy())
    said = mask if len(mask) else None
    return loss.make_context(T, ruled_out=said, weight=each, prior=prior)


def _same_mark(file: Path, mark: bytes) -> None:
    state = read_checkpoint(file, same={})
    found = None if state is None else state.get("whole", {}).get("objective.mark")
    same = state is None or (found is not None and bytes(found.tolist()) == mark)
    rule = "checkpoint must come from the same items, labels, loss and transition"
    remedy = "Remove it or name another file."
    require(same, f"{rule}; got {file} of another fit. {remedy}")


def model_maker(
    model: Any, *, shape: tuple[int, ...], n_outputs: int, hidden: Sequence[int]
) -> Callable[[int], nn.Module]:
    """A function from a seed to a new model for items of this shape; a module is copied as it is."""
    inner = (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape

    def make(seed: int) -> nn.Module:
        if isinstance(model, nn.Module):
            return copy.deepcopy(model)
        if isinstance(model, str):
            small = len(shape) == 3 and max(shape[:2]) <= SMALL_SIDE
            options: dict[str, Any] = {"hidden": tuple(hidden), "seed": seed}
            options["stem"] = "small" if small else "imagenet"
            made = make_model(model, shape=inner, n_outputs=n_outputs, **options)  # type: ignore[arg-type]
            return channels_last(made) if model.startswith("resnet") else made
        kind = type(model).__name__
        rule = "model must be a name, a module or a function of (shape, n_outputs)"
        require(callable(model), f"{rule}; got {kind}.")
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            found = model(inner, n_outputs)
        if not isinstance(found, nn.Module):
            raise ArgumentError(f"model must make a torch.nn.Module; got {type(found).__name__}.")
        return found

    return make


def check_outputs(model: nn.Module, items: Items, prepare: nn.Module | None, k: int) -> None:
    """Raise unless the model gives one number per class."""
    first = as_tensor(items[:1])
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        was_training = model.training
        found = model.eval()(first if prepare is None else prepare(first))
        model.train(was_training)
    came = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    rule = f"model must give {k} logits an item, shape {(1, k)}"
    require(came == (1, k), f"{rule}; got {came}.")


def make_input(items: Items) -> nn.Module | None:
    """What comes before the model: images are turned, those of uint8 also standardised."""
    if len(items.shape) != 4:
        return None if items.dtype.kind == "f" else Floats()
    if items.dtype != np.uint8:
        return ChannelsFirst()
    rows = np.linspace(0, len(items) - 1, min(len(items), MEASURED_IMAGES)).astype(int)
    return Views.of(as_tensor(items[rows]))


def split_rows(rows: Rows, share: float, *, patience: int | None, seed: int) -> tuple[Rows, Rows]:
    """Rows to train on, and a share that is held out."""
    require(0 <= share < 1, f"validation_share must be in [0, 1); got {share}.")
    rule = "patience must come with validation_share, whose items say what is better"
    require(patience is None or share, f"{rule}; got validation_share 0.")
    if share == 0:
        return rows, np.empty(0, dtype=np.intp)
    n = len(rows)
    rule = "validation_share must leave items to train on"
    require(n > 1, f"{rule}; got {n} items with labels.")
    n_held = min(max(1, round(share * len(rows))), len(rows) - 1)
    order = np.random.default_rng(seed).permutation(rows)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


@contextlib.contextmanager
def show_progress(what: str, epochs: int, *, shown: bool) -> Iterator[Progress | None]:
    """A bar on stderr, for as long as this lasts."""
    if not shown:
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    before, after = map(rich.TextColumn, ("{task.description}", "{task.fields[loss]}"))
    bars = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with rich.Progress(before, *bars, after, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=epochs, loss="")
        yield lambda epoch, row: bar.update(task, completed=epoch, loss=f"loss {row['loss']:.4f}")
