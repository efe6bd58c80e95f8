"""One fit: which rows are used, the model, the transition matrix, and the call of the training
loop.
"""

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
from numpy.typing import NDArray
from torch import Tensor, nn

from noracle.errors import ArgumentError
from noracle.learn._inputs import Labels
from noracle.learn._objective import (
    EXACT,
    ChannelsFirst,
    Floats,
    Marked,
    MixedObjective,
    held_out_scel,
)
from noracle.learn.augment import Views
from noracle.learn.batches import Batches, Items, as_tensor
from noracle.learn.checkpoint import read_checkpoint
from noracle.learn.consistency import Consistency
from noracle.learn.context import Context
from noracle.learn.loop import PlainObjective, all_logits, train
from noracle.learn.losses import Loss, get_loss
from noracle.learn.models import channels_last, make_model
from noracle.learn.settings import History, Settings
from noracle.learn.transition import Transition, estimate_transition

MEASURED_IMAGES = 50_000
SMALL_SIDE = 64
Rows = NDArray[np.intp]
Progress = Callable[[int, dict[str, float]], None]
ModelMaker = Callable[[tuple[int, ...], int], nn.Module]


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
class Fit:
    """Everything that does not change between the models of one fit."""

    items: Items
    labels: Labels
    weight: NDArray[np.float64] | None
    settings: Settings
    device: torch.device
    make: Callable[[int], nn.Module]
    prepare: nn.Module | None
    recipe: str = "plain"
    recipe_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
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
        """Train one model on these rows; stop early by the labels of the ``held`` ones."""
        table, model = self.table, self.make(seed).to(self.device)
        if self.prepare is not None:
            self.prepare.to(self.device)
        weight = None if self.weight is None else torch.tensor(self.weight, dtype=torch.float32)
        items, table, weight, used = _training_part(self.items, table, weight, rows)
        context = _context(
            loss, transition, table[used], None if weight is None else weight[used], prior
        ).to(self.device)
        objective, data = self._objective(
            loss, context, Batches(items=items, labels=table, weight=weight)
        )
        file = (
            None
            if self.checkpoint is None
            else self.checkpoint.with_name(self.checkpoint.name + stage)
        )
        if file is not None:
            objective = Marked(objective, self._mark(loss, transition, rows))
            _same_mark(file, objective.mark)
        validate = self._validate(loss, context, held) if len(held) else None
        settings = dataclasses.replace(
            self.settings, seed=seed, patience=self.settings.patience if len(held) else None
        )
        history = train(
            model, data, objective, settings, validate=validate, checkpoint=file, progress=progress
        )
        return model, context, history

    def _objective(self, loss: Loss, context: Context, data: Batches) -> tuple[nn.Module, Batches]:
        mask = data.labels[:, :-1].contiguous()
        if self.recipe == "consistency":
            options = dict(self.recipe_options)
            views = copy.deepcopy(self.prepare)
            if not isinstance(views, Views):
                raise ArgumentError(
                    "recipe consistency must have images of uint8 (n, height, width, channels); got other items."
                )
            steps = self.settings.epochs * max(1, len(data) // self.settings.batch_size)
            views.flip, views.pad = bool(options.pop("flip", True)), int(options.pop("pad", 4))
            options.setdefault("delay", min(1000, steps // 10))
            options.setdefault("ramp", max(1, min(5000, steps // 3)))
            if options.get("prior") is not None:
                options["prior"] = torch.as_tensor(options["prior"])
            recipe = Consistency(mask.to(self.device), views, **options)
            return recipe, dataclasses.replace(data, labels=torch.arange(len(data)))
        if loss.name in EXACT or not data.labels[:, -1].any():
            return PlainObjective(loss, context, self.prepare), dataclasses.replace(
                data, labels=mask
            )
        return MixedObjective(loss, context, self.prepare), data

    def _validate(self, loss: Loss, context: Context, held: Rows) -> Callable[[nn.Module], float]:
        labels = self.table[torch.from_numpy(held)].to(self.device)
        weight = (
            None if self.weight is None else torch.tensor(self.weight[held], device=self.device)
        )

        def score(model: nn.Module) -> float:
            logits = all_logits(model, Chosen(self.items, held), prepare=self.prepare)
            return -held_out_scel(logits.to(self.device), labels, weight, loss, context)

        return score

    def estimate_transition(
        self, rows: Rows, *, seeds: Sequence[int], progress: Progress | None = None
    ) -> Transition:
        """T from anchor points: two cpe_i models, each fitted to one half of the items, say which
        items of the other half are anchors.

        Row j is what was in fact ruled out at the anchors of class j, which forgives chances that
        are badly scaled.
        """
        with_labels = rows[self.labels.mask[rows].any(axis=1) & (self.labels.known[rows] < 0)]
        if len(with_labels) < 2:
            raise ArgumentError(
                f"transition anchors must have 2 items with ruled-out classes at least; got {len(with_labels)}."
            )
        order = np.random.default_rng(seeds[0]).permutation(with_labels)
        halves = (np.sort(order[::2]), np.sort(order[1::2]))
        k = len(self.labels.classes)
        loss, plain = get_loss("cpe_i"), dataclasses.replace(self, recipe="plain")
        chances, codes = [], []
        for number, (own, other) in enumerate((halves, halves[::-1])):
            model, _, _ = plain.run(
                loss,
                Transition.uniform(k),
                own,
                held=np.empty(0, np.intp),
                seed=seeds[1 + number],
                stage=f".anchors{number}",
                progress=progress,
            )
            chances.append(
                all_logits(model, Chosen(self.items, other), prepare=self.prepare)
                .double()
                .softmax(dim=1)
                .numpy()
            )
            codes.append(self.labels.codes[other])
        return estimate_transition(np.concatenate(chances), ruled_out=np.concatenate(codes))

    def _mark(self, loss: Loss, transition: Transition, rows: Rows) -> bytes:
        """A digest of what is trained and on what; of a memory map, of some rows."""
        digest = hashlib.sha256()
        options = (
            sorted(loss.options.items()),
            sorted((k, str(v)) for k, v in self.recipe_options.items()),
        )
        digest.update(repr((loss.name, options, self.recipe, self.items.shape)).encode())
        items = self.items
        if isinstance(items, np.memmap):
            arrays = [
                np.asarray(items[np.linspace(0, len(items) - 1, min(len(items), 1000)).astype(int)])
            ]
        else:
            arrays = (
                [items.data, items.indices, items.indptr] if hasattr(items, "indptr") else [items]
            )
        arrays += [transition.matrix, rows, self.labels.mask, self.labels.known]
        for array in arrays if self.weight is None else [*arrays, self.weight]:
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()


def _training_part(
    items: Items, table: Tensor, weight: Tensor | None, rows: Rows
) -> tuple[Items, Tensor, Tensor | None, Tensor]:
    """The chosen rows; those of a memory map stay where they are, and the others get weight 0.
    Last: which places are chosen.
    """
    chosen = torch.from_numpy(rows)
    if len(rows) == items.shape[0]:
        return items, table, weight, chosen
    if isinstance(items, np.memmap):
        only = torch.zeros(len(table))
        only[chosen] = 1 if weight is None else weight[chosen]
        return items, table, only, chosen
    return (
        items[rows],
        table[chosen],
        None if weight is None else weight[chosen],
        torch.arange(len(rows)),
    )


def _context(
    loss: Loss, transition: Transition, table: Tensor, weight: Tensor | None, prior: Any
) -> Context:
    """What the loss knows of all items with ruled-out classes alone."""
    alone = ~table[:, -1] & table[:, :-1].any(dim=1)
    mask, each = table[alone][:, :-1], None if weight is None else weight[alone]
    if loss.name == "scarce" and prior is None and len(mask):
        parts = mask / mask.sum(dim=1, keepdim=True) * (1.0 if each is None else each.unsqueeze(1))
        prior = transition.class_shares(parts.sum(dim=0).double().numpy())
    return loss.make_context(
        transition, ruled_out=mask if len(mask) else None, weight=each, prior=prior
    )


def _same_mark(file: Path, mark: Tensor) -> None:
    state = read_checkpoint(file, same={})
    found = None if state is None else state.get("whole", {}).get("objective.mark")
    if state is not None and (found is None or not torch.equal(found, mark.cpu())):
        raise ArgumentError(
            f"checkpoint must come from the same items, labels, loss and transition; got {file} of another fit. "
            "Remove it or name another file."
        )


def model_maker(
    model: Any, *, shape: tuple[int, ...], n_outputs: int, hidden: Sequence[int]
) -> Callable[[int], nn.Module]:
    """A function from a seed to a new model for items of this shape; a module is copied as it is."""
    inner = (shape[2], shape[0], shape[1]) if len(shape) == 3 else shape

    def make(seed: int) -> nn.Module:
        if isinstance(model, nn.Module):
            return copy.deepcopy(model)
        if isinstance(model, str):
            stem = "small" if len(shape) == 3 and max(shape[:2]) <= SMALL_SIDE else "imagenet"
            made = make_model(
                model,  # type: ignore[arg-type]
                shape=inner,
                n_outputs=n_outputs,
                hidden=tuple(hidden),
                stem=stem,  # type: ignore[arg-type]
                seed=seed,
            )
            return channels_last(made) if model.startswith("resnet") else made
        if not callable(model):
            raise ArgumentError(
                f"model must be a name, a module or a function of (shape, n_outputs); got {type(model).__name__}."
            )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            found = model(inner, n_outputs)
        if not isinstance(found, nn.Module):
            raise ArgumentError(f"model must make a torch.nn.Module; got {type(found).__name__}.")
        return found

    return make


def check_outputs(
    model: nn.Module, items: Items, prepare: nn.Module | None, n_outputs: int
) -> None:
    """Raise unless the model gives one number a class."""
    first = as_tensor(items[:1])
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        was_training = model.training
        found = model.eval()(first if prepare is None else prepare(first))
        model.train(was_training)
    if not isinstance(found, Tensor) or tuple(found.shape) != (1, n_outputs):
        came = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise ArgumentError(
            f"model must give {n_outputs} logits an item, shape {(1, n_outputs)}; got {came}."
        )


def make_input(items: Items) -> nn.Module | None:
    """What comes before the model: images of uint8 are standardised by channel, of floats only
    turned; features stay as they are.
    """
    if len(items.shape) != 4:
        return None if items.dtype.kind == "f" else Floats()
    if items.dtype != np.uint8:
        return ChannelsFirst()
    rows = np.linspace(0, len(items) - 1, min(len(items), MEASURED_IMAGES)).astype(int)
    return Views.of(as_tensor(items[rows]))


def split_rows(rows: Rows, share: float, *, patience: int | None, seed: int) -> tuple[Rows, Rows]:
    """Rows to train on, and a share that is held out."""
    if not 0 <= share < 1:
        raise ArgumentError(f"validation_share must be in [0, 1); got {share}.")
    if patience is not None and share == 0:
        raise ArgumentError(
            "patience must come with validation_share, whose items say what is better; got validation_share 0."
        )
    if share == 0:
        return rows, np.empty(0, dtype=np.intp)
    if len(rows) < 2:
        raise ArgumentError(
            f"validation_share must leave items to train on; got {len(rows)} items with labels."
        )
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

    words = rich.TextColumn("{task.description}"), rich.TextColumn("{task.fields[loss]}")
    columns = (
        words[0],
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
        words[1],
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=epochs, loss="")
        yield lambda epoch, row: bar.update(task, completed=epoch, loss=f"loss {row['loss']:.4f}")
