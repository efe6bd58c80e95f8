"""The state of one training run, and its steps."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from noracle.errors import ArgumentError
from noracle.learn.batches import Batches, Loader, Part, cut_evenly
from noracle.learn.checkpoint import read_checkpoint, write_checkpoint
from noracle.learn.distributed import Team, in_parallel
from noracle.learn.settings import History, Settings

Objective = Callable[[nn.Module, Tensor, Tensor, Tensor | None], Tensor]
"""(model, raw items, labels, weights) → the loss of a batch. If it is a module, its parameters are
trained too.
"""


@runtime_checkable
class Shares(Protocol):
    """A module whose state the processes must put together after an epoch."""

    def share(self, team: Team, /) -> None:
        """Make the state the same in all processes."""


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


class Whole(nn.Module):
    """Model and objective as one module, as data parallelism and checkpoints want it."""

    def __init__(self, model: nn.Module, objective: Objective, extra: nn.Module | None) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.extra = None if extra is objective else extra

    def forward(self, items: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
        """The loss of a batch."""
        return self.objective(self.model, items, labels, weight)


class Run:
    """The state of one training run."""

    def __init__(
        self, whole: Whole, data: Batches, settings: Settings, device: torch.device, team: Team
    ) -> None:
        self.whole, self.model, self.settings, self.device, self.team = (
            whole,
            whole.model,
            settings,
            device,
            team,
        )
        if settings.batch_size % team.size:
            raise ArgumentError(
                f"batch_size must be a multiple of the {team.size} processes; got {settings.batch_size}, {len(data)} items."
            )
        if len(data) < team.size:
            raise ArgumentError(
                f"items must be at least as many as the {team.size} processes; got {len(data)}."
            )
        self.parameters = [p for p in whole.parameters() if p.requires_grad]
        self.loader = Loader(data, device, settings.batch_size)
        self.normalised = any(isinstance(m, _NormBase) for m in whole.modules())
        self.steps = settings.epochs * sum(
            len(self._cuts(n // team.size)) for n in self.loader.lengths()
        )
        may_graph = device.type == "cuda" and team.size == 1 and not data.sparse
        self.graphed = may_graph if settings.graph is None else settings.graph and may_graph
        self.optimiser = self._optimiser()
        self.average = [torch.zeros_like(t) for t in self._averaged()] if settings.average else []
        exact = torch.float32 if device.type == "mps" else torch.float64
        self.totals = torch.zeros(2, device=device, dtype=exact)  # loss times weight, weight
        self.graph: tuple[torch.cuda.CUDAGraph, Tensor] | None = None
        self.done, self.rate, self.since_best = 0, settings.lr, 0
        self.history = History()
        self.best: tuple[float, dict[str, Tensor]] | None = None
        self.forward = in_parallel(whole, team)
        self.turn = CARD if device.type == "cuda" else contextlib.nullcontext()

    def _optimiser(self) -> torch.optim.Optimizer:
        s = self.settings
        rate = torch.tensor(s.lr, device=self.device) if self.graphed else s.lr
        if s.optimiser == "adam":
            return torch.optim.Adam(
                self.parameters,
                lr=rate,
                weight_decay=s.weight_decay,
                fused=True,
                capturable=self.graphed,
            )
        nesterov = s.momentum > 0
        return torch.optim.SGD(
            self.parameters,
            lr=rate,
            weight_decay=s.weight_decay,
            momentum=s.momentum,
            nesterov=nesterov,
            fused=True,
        )

    def _averaged(self) -> list[Tensor]:
        """What is averaged: all that is trained, and the running means and variances of
        normalisation.
        """
        return [*(p.detach() for p in self.parameters), *self._statistics()]

    def _statistics(self) -> list[Tensor]:
        norms = (m for m in self.model.modules() if isinstance(m, _NormBase))
        return [t for m in norms for t in (m.running_mean, m.running_var) if t is not None]

    def _cuts(self, n: int) -> list[tuple[int, int]]:
        """Where batches begin and end. One last item alone is left out where a batch must have a
        variance.
        """
        size = self.settings.batch_size // self.team.size
        cuts = cut_evenly(n, size, size / 2)
        alone = len(cuts) > 1 and size > 1 and cuts[-1] == (n - 1, n)
        return cuts[:-1] if self.normalised and alone else cuts

    def _seed(self, epoch: int) -> torch.Generator:
        """Chance in views and dropout differs from process to process, the order of the items does
        not.
        """
        order, noise = (
            int(
                np.random.SeedSequence((self.settings.seed, epoch, what)).generate_state(
                    1, np.uint64
                )[0]
                >> 1
            )
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

    def _step(self, part: Part, chosen: Tensor) -> None:
        items, labels, weight = part.take(chosen)
        with torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.settings.precision == "bf16"
        ):
            loss = self.forward(items, labels, weight)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        self.optimiser.step()
        if self.average:
            torch._foreach_lerp_(self.average, self._averaged(), 1 - self.settings.average)
        mass = len(chosen) if weight is None else weight.sum()
        self.totals[0] += loss.detach() * mass
        self.totals[1] += mass

    def _replay(self, part: Part, chosen: Tensor) -> None:
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

    def _warm_up(self, part: Part, held: Tensor, stream: torch.cuda.Stream) -> None:
        """Plain steps whose effect is undone, so that a graphed run takes the same steps as a plain
        one.
        """
        tensors = [*self._tensors().values(), *self.average, self.totals]
        before = [t.detach().clone() for t in tensors]
        optimiser, chance = (
            _copied(self.optimiser.state_dict()),
            torch.cuda.get_rng_state(self.device),
        )
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
        """After an epoch all processes have the same statistics and state; weights are the same
        anyhow.
        """
        self.team.sum_([self.totals])
        self.team.mean_(t for t in self.model.buffers() if t.is_floating_point())
        self.team.mean_(self.average[len(self.parameters) :])
        for module in self.whole.modules() if self.team.size > 1 else ():
            if isinstance(module, Shares):
                module.share(self.team)

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
        """What ``validate`` says; a better score than ever is remembered with its weights. NaN is
        never better.
        """
        with self.averaged():
            self.whole.eval()
            score: float = self.team.from_first(float(validate(self.model)))
            if not math.isnan(score) and (self.best is None or score > self.best[0]):
                self.best, self.since_best = (
                    (score, _copied(self._trained()) if self.settings.patience else {}),
                    0,
                )
            else:
                self.since_best += 1
        return score

    def _trained(self) -> dict[str, Tensor]:
        trained = {name for name, _ in self.whole.named_parameters()}
        return {
            name: t
            for name, t in self._tensors().items()
            if name in trained or name.startswith("model.")
        }

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
        """Give the graph back now: one that dies later takes scratch memory along that the next
        graph on its stream uses.
        """
        if self.graph is not None:
            with self.turn:
                torch.cuda.current_stream(self.device).synchronize()
                self.graph[0].reset()
            self.graph = None

    def _same(self) -> dict[str, Any]:
        shapes = {name: list(t.shape) for name, t in self._tensors().items()}
        return {
            "settings": dataclasses.asdict(self.settings),
            "n_items": len(self.loader.data),
            "shapes": shapes,
        }

    def save(self, path: str | Path | None, epoch: int) -> None:
        """Everything that decides the rest; the first process alone writes."""
        if path is None or self.team.rank:
            return
        state = {
            "epoch": epoch,
            "done": self.done,
            "whole": self.whole.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "average": self.average,
            "history": self.history.rows,
            "best": self.best,
            "since_best": self.since_best,
        }
        write_checkpoint(Path(path), {**self._same(), **state})

    def load(self, path: str | Path | None) -> int:
        """Go back to a checkpoint where there is one; the number of epochs that are done."""
        state = (
            read_checkpoint(Path(path), same=self._same())
            if path is not None and self.team.rank == 0
            else None
        )
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
        self.history.rows, self.best, self.since_best, self.done = (
            state["history"],
            state["best"],
            state["since_best"],
            state["done"],
        )
        return int(state["epoch"])


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value
