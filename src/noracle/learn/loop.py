"""One training loop for every loss and model: state, steps, checkpoints, several processes."""

from __future__ import annotations

import atexit
import contextlib
import copy
import dataclasses
import inspect
import math
import os
import pickle
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.flop_counter import FlopCounterMode

from noracle.errors import ArgumentError, NoracleError, require
from noracle.learn.batches import Batches, ItemBlock, Items, Loader, as_model, as_tensor, cut_evenly
from noracle.learn.losses import Context, Loss, Weights
from noracle.learn.settings import History, Settings

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The processes that train together, and which of them this is."""

    rank: int = 0
    size: int = 1
    device: torch.device = dataclasses.field(default_factory=lambda: torch.device("cpu"))

    def share_of(self, order: Tensor) -> Tensor:
        """Every ``size``-th place of an order. The rest of the division is left out, so that all
        processes take the same steps.

        Examples
        --------
        >>> Team(rank=1, size=2).share_of(torch.tensor([4, 0, 3, 1, 2])).tolist()
        [0, 1]
        """
        return order[: len(order) - len(order) % self.size][self.rank :: self.size]

    def sum_(self, tensors: Iterable[Tensor]) -> None:
        """Add up the tensors of all processes, in place."""
        for tensor in tensors if self.size > 1 else ():
            dist.all_reduce(tensor)

    def mean_(self, tensors: Iterable[Tensor]) -> None:
        """Average the tensors of all processes, in place."""
        for tensor in tensors if self.size > 1 else ():
            dist.all_reduce(tensor)
            tensor /= self.size

    def from_first(self, value: Value) -> Value:
        """What the first process has, in all of them."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def wait(self) -> None:
        """Go on when all are here."""
        if self.size > 1:
            dist.barrier()


def own_device() -> torch.device:
    """Where this process should compute: its own GPU where there are any, else the processor."""
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


def join_team(device: torch.device) -> Team:
    """The team of this process. A process group that someone made is used; else ``torchrun`` says
    who belongs to it.

    A group that is made here lasts until the process ends: to make a second one over the same store
    is a race.
    """
    if not dist.is_available():
        return Team()
    if not dist.is_initialized():
        if not (dist.is_torchelastic_launched() and int(os.environ.get("WORLD_SIZE", "1")) > 1):
            return Team()
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(_leave)
    return Team(rank=dist.get_rank(), size=dist.get_world_size(), device=device)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def in_parallel(module: nn.Module, team: Team) -> nn.Module:
    """The module with averaged gradients; weights and state of the first process go to all."""
    if team.size == 1:
        return module
    for tensor in module.state_dict().values():
        if isinstance(tensor, Tensor):
            dist.broadcast(tensor, src=0)
    wrap: Callable[..., nn.Module] = nn.parallel.DistributedDataParallel
    new = "forward_sync_buffers" in inspect.signature(wrap).parameters  # torch 2.13 renamed it
    return wrap(module, **{"forward_sync_buffers" if new else "broadcast_buffers": False})


# Checkpoints: one file that is either the old one or the new one, whenever the process is killed.

SCHEMA = "checkpoint/1"
_UNREADABLE = (
    *(RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError),
    *(pickle.UnpicklingError, struct.error),
)


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write to a temporary name, force it to the disk, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as file:
        torch.save({"schema": SCHEMA, **state}, file)


def read_checkpoint(path: Path, *, same: dict[str, Any]) -> dict[str, Any] | None:
    """What was written, never code, or None without a file; ``same`` must be as it was then."""
    if not path.exists():
        return None
    rule = "checkpoint must be a file that training wrote"
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise ArgumentError(f"{rule}; got {path}, which cannot be read. Remove it.") from error
    ours = isinstance(state, dict) and state.get("schema") == SCHEMA
    require(ours, f"{rule} ({SCHEMA}); got {path}. Name another file.")
    others = [name for name, value in same.items() if state.get(name) != value]
    came = ", ".join(f"{name} {_difference(state.get(name), same[name])}" for name in others)
    rule, remedy = "checkpoint must come from the same run", "Remove it or name another file."
    require(not others, f"{rule}; got {path} with other {came}. {remedy}")
    found: dict[str, Any] = state
    return found


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)][:5]
        return f"({', '.join(f'{name} {old.get(name)}, now {new.get(name)}' for name in names)})"
    return f"({old}, now {new})"


# The state of one training run, and its steps.

Objective = Callable[[nn.Module, Tensor, Tensor, Tensor | None], Tensor]
"""(model, raw items, labels, weights) → the loss of a batch. If it is a module, its parameters are
trained too.
"""


CARD = threading.RLock()
"""Held for the moment in which a run gives work to a GPU: runs in several threads share the card,
but one graph is captured at a time.
"""


@contextlib.contextmanager
def own_chance(device: torch.device) -> Iterator[None]:
    """The global generators are afterwards as they were before."""
    fork = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    with CARD:
        fork.__enter__()
    try:
        yield
    finally:
        with CARD:
            fork.__exit__(None, None, None)


SMALL_STEP = 5e9
"""Operations of a step up to which one thread trains: about a tenth of a second."""


@contextlib.contextmanager
def own_threads() -> Iterator[None]:
    """The number of threads is afterwards as it was before."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)


class ModelWithObjective(nn.Module):
    """Model and objective as one module, as data parallelism and checkpoints want it."""

    def __init__(self, model: nn.Module, objective: Objective, extra: nn.Module | None) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.extra = None if extra is objective else extra

    def forward(self, items: Tensor, labels: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch."""
        return self.objective(self.model, items, labels, weight)


class Run:
    """The state of one training run."""

    def __init__(
        self,
        whole: ModelWithObjective,
        data: Batches,
        settings: Settings,
        device: torch.device,
        team: Team,
    ) -> None:
        self.whole, self.model, self.settings = whole, whole.model, settings
        self.device, self.team = device, team
        n, size, processes = len(data), settings.batch_size, f"the {team.size} processes"
        rule = f"batch_size must be a multiple of {processes}"
        require(size % team.size == 0, f"{rule}; got {size}, {n} items.")
        require(n >= team.size, f"items must be at least as many as {processes}; got {n}.")
        self.parameters = [p for p in whole.parameters() if p.requires_grad]
        self.loader = Loader(data, device, settings.batch_size)
        self.normalised = any(isinstance(m, _NormBase) for m in whole.modules())
        steps = sum(len(self._cuts(length // team.size)) for length in self.loader.lengths())
        self.steps = settings.epochs * steps
        may_graph = device.type == "cuda" and team.size == 1 and not data.sparse
        self.graphed = may_graph if settings.graph is None else settings.graph and may_graph
        self.optimiser = self._optimiser()
        self.average = [torch.zeros_like(t) for t in self._averaged()] if settings.average else []
        exact = torch.float32 if device.type == "mps" else torch.float64
        self.totals = torch.zeros(2, device=device, dtype=exact)  # loss times weight, weight
        self.graph: tuple[torch.cuda.CUDAGraph, Tensor] | None = None
        self.done, self.rate, self.since_best = 0, settings.lr, 0
        self.saved = time.monotonic()
        self.history = History()
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self.threads, self.work = torch.get_num_threads(), self._known_work()
        self._set_threads()
        self.forward = in_parallel(whole, team)
        self.turn = CARD if device.type == "cuda" else contextlib.nullcontext()

    def _optimiser(self) -> torch.optim.Optimizer:
        s = self.settings
        rate = torch.tensor(s.lr, device=self.device) if self.graphed else s.lr
        shared: dict[str, Any] = {"lr": rate, "weight_decay": s.weight_decay, "fused": True}
        if s.optimiser == "adam":
            return torch.optim.Adam(self.parameters, capturable=self.graphed, **shared)
        nesterov = s.momentum > 0
        return torch.optim.SGD(self.parameters, momentum=s.momentum, nesterov=nesterov, **shared)

    def _averaged(self) -> list[Tensor]:
        return [*(p.detach() for p in self.parameters), *self._statistics()]

    def _statistics(self) -> list[Tensor]:
        norms = (m for m in self.model.modules() if isinstance(m, _NormBase))
        return [t for m in norms for t in (m.running_mean, m.running_var) if t is not None]

    def _known_work(self) -> float | None:
        """Operations of a step: six a weight and item; None where convolutions must be counted."""
        dense = not any(isinstance(m, nn.modules.conv._ConvNd) for m in self.model.modules())
        if dense:
            return 6.0 * sum(p.numel() for p in self.model.parameters()) * self.settings.batch_size
        return None if self.team.size == 1 and self.device.type == "cpu" else math.inf

    def _set_threads(self) -> None:
        """One thread for small steps, and for the first of all, which may be one."""
        if self.device.type == "cpu":
            large = self.work is not None and self.work > SMALL_STEP
            torch.set_num_threads(self.threads if large else 1)

    def _first_step(self, part: ItemBlock, chosen: Tensor) -> None:
        """A step whose operations are counted."""
        with FlopCounterMode(display=False) as counter:
            self._step(part, chosen)
        self.work = float(counter.get_total_flops())
        self._set_threads()

    def _cuts(self, n: int) -> list[tuple[int, int]]:
        """Where batches begin and end."""
        size = self.settings.batch_size // self.team.size
        cuts = cut_evenly(n, size, size / 2)
        alone = len(cuts) > 1 and size > 1 and cuts[-1] == (n - 1, n)
        return cuts[:-1] if self.normalised and alone else cuts

    def _seed(self, epoch: int) -> torch.Generator:
        """Chance in views and dropout differs between processes, the order of items does not."""
        seed = self.settings.seed
        order, noise = (
            int(np.random.SeedSequence((seed, epoch, what)).generate_state(1, np.uint64)[0] >> 1)
            for what in (0, 1 + self.team.rank)
        )
        with self.turn:
            torch.default_generator.manual_seed(noise)
            if self.device.type == "cuda":
                with torch.cuda.device(self.device):
                    torch.cuda.manual_seed(noise)
        return torch.Generator().manual_seed(order)

    def epoch(self, number: int) -> float:
        """Train on all items once; returns the mean loss."""
        generator = self._seed(number)
        self.whole.train()
        self.totals.zero_()
        for part, order in self.loader.parts(generator):
            mine = self.team.share_of(order)
            for start, stop in self._cuts(len(mine)):
                chosen = mine[start:stop]
                with self.turn:
                    self._set_rate()
                    if self.graphed and len(chosen) == self.settings.batch_size:
                        self._replay(part, chosen)
                    elif self.work is None:
                        self._first_step(part, chosen)
                    else:
                        self._step(part, chosen)
                self.done += 1
        self._agree()
        total, weight = self.totals.tolist()
        return total / weight if weight else 0.0

    def _set_rate(self) -> None:
        self.rate = self.settings.rate(self.done / self.steps)
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(self.rate)
            else:
                group["lr"] = self.rate

    def _step(self, part: ItemBlock, chosen: Tensor) -> None:
        items, labels, weight = part.take(chosen)
        half = self.settings.precision == "bf16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half):
            loss = self.forward(items, labels, weight)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        if self.average:
            torch._foreach_lerp_(self.average, self._averaged(), 1 - self.settings.average)
        mass = len(chosen) if weight is None else weight.sum()
        self.totals[0] += loss.detach() * mass
        self.totals[1] += mass

    def _replay(self, part: ItemBlock, chosen: Tensor) -> None:
        """One step as a CUDA graph; made at the first full batch, after a few plain steps.

        The graph is made on a stream that no other run has: graphs that were made on one stream
        share the scratch memory of matrix products, and spoil each other where they run at the same
        time (pytorch/pytorch#193402).
        """
        if self.graph is None:
            held = chosen.clone()
            now = torch.cuda.current_stream(self.device)
            alone = now == torch.cuda.default_stream(self.device)  # on which no graph can be made
            stream = torch.cuda.Stream(self.device) if alone else now  # type: ignore[no-untyped-call]
            self._warm_up(part, held, stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self._step(part, held)
            self.graph = (graph, held)
        graph, held = self.graph
        held.copy_(chosen)
        graph.replay()

    def _warm_up(self, part: ItemBlock, held: Tensor, stream: torch.cuda.Stream) -> None:
        """Plain steps whose effect is undone, so that a graphed run takes the same steps."""
        tensors = [*self._tensors().values(), *self.average, self.totals]
        before = [t.detach().clone() for t in tensors]
        optimiser = copy.deepcopy(self.optimiser.state_dict())
        chance = torch.cuda.get_rng_state(self.device)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._step(part, held)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.no_grad():
            for t, old in zip(tensors, before, strict=True):
                t.copy_(old)
            for state in self.optimiser.state.values():
                for value in state.values():
                    if isinstance(value, Tensor):
                        value.zero_()
        if optimiser["state"]:
            self.optimiser.load_state_dict(optimiser)
        torch.cuda.set_rng_state(chance, self.device)

    def _agree(self) -> None:
        """After an epoch all processes have the same statistics and state."""
        self.team.sum_([self.totals])
        self.team.mean_(t for t in self.model.buffers() if t.is_floating_point())
        self.team.mean_(self.average[len(self.parameters) :])
        for module in self.whole.modules():
            after: Callable[[Team], None] | None = getattr(module, "after_epoch", None)
            if after is not None:  # state that the processes must put together
                after(self.team)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The averaged weights, for as long as this lasts."""
        live = [t.clone() for t in self._averaged()] if self.average else []
        self._put_average()
        try:
            yield
        finally:
            for t, value in zip(self._averaged(), live, strict=False):
                t.copy_(value)

    def _put_average(self) -> None:
        """Sums of (1 - d)·d^i over the steps are 1 - d^t, not 1: the average began at zero."""
        share = 1 - self.settings.average**self.done
        for t, value in zip(self._averaged(), self.average, strict=False):
            torch.div(value, share, out=t)

    @torch.no_grad()
    def score(self, validate: Callable[[nn.Module], float]) -> float:
        """What ``validate`` says; a better score than ever is kept with its weights, NaN never."""
        with self.averaged():
            self.whole.eval()
            score: float = self.team.from_first(float(validate(self.model)))
            if not math.isnan(score) and (self.best is None or score > self.best[0]):
                kept = copy.deepcopy(self._trained()) if self.settings.patience else {}
                self.best, self.since_best = (score, kept), 0
            else:
                self.since_best += 1
        return score

    def _trained(self) -> dict[str, Tensor]:
        own = {name for name, _ in self.whole.named_parameters()}
        found = self._tensors().items()
        return {name: t for name, t in found if name in own or name.startswith("model.")}

    def _tensors(self) -> dict[str, Tensor]:
        return {name: t for name, t in self.whole.state_dict().items() if isinstance(t, Tensor)}

    def finish(self) -> None:
        """Leave the best weights, else the averaged ones, else the last."""
        with torch.no_grad():
            if self.settings.patience and self.best is not None:
                now = self._trained()
                for name, value in self.best[1].items():
                    now[name].copy_(value)
            elif self.average:
                self._put_average()
        self.whole.eval()

    def close(self) -> None:
        """Give the graph back now: later it would take scratch memory of the next one along."""
        if self.graph is not None:
            with self.turn:
                torch.cuda.current_stream(self.device).synchronize()
                self.graph[0].reset()
            self.graph = None

    def _same(self) -> dict[str, Any]:
        shapes = {name: list(t.shape) for name, t in self._tensors().items()}
        settings, n = dataclasses.asdict(self.settings), len(self.loader.data)
        return {"settings": settings, "n_items": n, "shapes": shapes}

    def save(self, path: str | Path | None, epoch: int, seconds: float) -> None:
        """Everything that decides the rest, where the last is so old; the first process writes."""
        if path is None or self.team.rank or time.monotonic() < self.saved + seconds:
            return
        state = {
            "epoch": epoch,
            "done": self.done,
            "work": self.work,
            "whole": self.whole.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
            "history": self.history.rows,
            "best": self.best,
            "since_best": self.since_best,
        }
        write_checkpoint(Path(path), {**self._same(), **state})
        self.saved = time.monotonic()

    def load(self, path: str | Path | None) -> int:
        """Go back to a checkpoint where there is one; the number of epochs that are done."""
        state = None
        if path is not None and self.team.rank == 0:
            state = read_checkpoint(Path(path), same=self._same())
        state = self.team.from_first(state)
        if state is None:
            return 0
        self.whole.load_state_dict(state["whole"])
        self.optimiser.load_state_dict(state["optimiser"])
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"] = group["lr"].to(self.device)
        for mine, theirs in zip(self.average, state["average"], strict=True):
            mine.copy_(theirs)
        self.history.rows, self.best = state["history"], state["best"]
        self.since_best, self.done = state["since_best"], state["done"]
        self.work = state.get("work", self.work)
        self._set_threads()
        return int(state["epoch"])


# One training loop for every loss and model.


class PlainObjective(nn.Module):
    """The loss of the logits of prepared items; trains a T that is a parameter."""

    def __init__(
        self, loss: Loss, context: Context, prepare: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        super().__init__()
        self.loss, self.context, self.prepare = loss, context, prepare

    def forward(self, model: nn.Module, items: Tensor, labels: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch."""
        shown = items if self.prepare is None else self.prepare(items)
        return self.loss(model(as_model(model, shown)), labels, self.context, weight)


def plain_objective(
    loss: Loss, context: Context, prepare: Callable[[Tensor], Tensor] | None = None
) -> PlainObjective:
    """See :class:`PlainObjective`.

    It is the mean of the loss over a batch, weighted where items have weights; ``prepare`` turns
    items as they lie in memory into what the model takes.

    Examples
    --------
    >>> from noracle.learn.losses import get_loss, label_mask
    >>> from noracle.learn.transition import Transition
    >>> loss, mask = get_loss("scl_nl"), label_mask(torch.tensor([1, 2, 0]), 3)
    >>> isinstance(plain_objective(loss, loss.make_context(Transition.uniform(3), ruled_out=mask)), PlainObjective)
    True
    """
    return PlainObjective(loss, context, prepare)


def train(
    model: nn.Module,
    data: Batches,
    objective: Objective,
    settings: Settings,
    *,
    extra: nn.Module | None = None,
    validate: Callable[[nn.Module], float] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 0.0,
    progress: Callable[[int, dict[str, float]], None] | None = None,
) -> History:
    """Train in place, where the model lies; returns the history. With ``average`` the model ends
    with the averaged weights.

    On the processor the same seed and number of threads give the same bits. A small model is
    trained by one thread: several gain little there, and on a busy machine they wait for each
    other, which took 15 times as long.

    Parameters
    ----------
    extra
        A module with further parameters to train or state to keep; needed only if ``objective`` is
        a plain function.
    validate
        Called after every epoch with the model (averaged where asked) in evaluation mode; larger is
        better.
    checkpoint
        A file that is written after every epoch and read at the start where it exists.
    checkpoint_seconds
        How old the file must be to be written again before the end: with short epochs of a large
        model, writing takes as long as training.
    progress
        Called after every epoch with its number and its row of the history. What it raises ends the
        training, with a checkpoint of this epoch.

    Examples
    --------
    >>> from noracle.learn.losses import get_loss, label_mask
    >>> from noracle.learn.transition import Transition
    >>> x = torch.eye(3).repeat(20, 1)
    >>> mask = label_mask((torch.arange(60) + 1 + torch.arange(60) // 30) % 3, 3)
    >>> loss = get_loss("scl_nl")
    >>> model = nn.Linear(3, 3)
    >>> objective = plain_objective(loss, loss.make_context(Transition.uniform(3), ruled_out=mask))
    >>> history = train(model, Batches(items=x, labels=mask), objective, Settings(epochs=20, batch_size=10, lr=0.1))
    >>> model(torch.eye(3)).argmax(dim=1).tolist()
    [0, 1, 2]
    """
    rule = "patience must come with validate, which says what is better"
    require(settings.patience is None or validate is not None, f"{rule}; got no validate.")
    device = next((p.device for p in model.parameters() if p.requires_grad), None)
    if device is None:
        raise ArgumentError("model must have parameters to train; got none.")
    whole = ModelWithObjective(model, objective, extra).to(device)
    if settings.precision == "fp64":
        whole.double()
    team = join_team(device)
    with (
        own_threads(),
        own_chance(device),
        contextlib.closing(Run(whole, data, settings, device, team)) as run,
    ):
        start = run.load(checkpoint)
        for epoch in range(start, settings.epochs):
            if settings.patience is not None and run.since_best >= settings.patience:
                break
            began = time.perf_counter()
            loss = run.epoch(epoch)
            seconds = time.perf_counter() - began
            row = {"epoch": epoch + 1.0, "loss": loss, "lr": run.rate, "seconds": seconds}
            if not math.isfinite(loss):
                came = f"{loss} in epoch {epoch + 1}. Lower lr (now {settings.lr})"
                raise NoracleError(f"loss must stay finite; got {came}.")
            if validate is not None:
                row["score"] = run.score(validate)
            run.history.rows.append(row)
            last = epoch + 1 == settings.epochs
            run.save(checkpoint, epoch + 1, 0.0 if last else checkpoint_seconds)
            if progress is not None and team.rank == 0:
                try:
                    progress(epoch + 1, row)
                except BaseException:  # who stops here goes on here
                    run.save(checkpoint, epoch + 1, 0.0)
                    raise
        run.finish()
        team.wait()
    return run.history


@torch.no_grad()
def all_logits(
    model: nn.Module,
    items: Items,
    *,
    prepare: Callable[[Tensor], Tensor] | None = None,
    batch_size: int = 2048,
) -> Tensor:
    """Logits of all items, in evaluation mode, on the host."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    parts = []
    for start in range(0, max(1, items.shape[0]), batch_size):
        x = as_tensor(items[start : start + batch_size]).to(device)
        parts.append(model(as_model(model, x if prepare is None else prepare(x))).cpu())
    model.train(was_training)
    found = torch.cat(parts)
    return found if found.dtype == torch.float64 else found.float()
