"""A modern recipe: views of an item must agree on the classes that are not ruled out.

Each item has a target, a distribution over the classes that remain; it starts uniform. Every step
draws one weak and some strong views. The loss is that of the ruled-out classes on the weak view,
plus λ times the cross-entropy of every view against the target. Then the target becomes the
prediction of the weak view on the classes that remain, normalised, after the predictions of each
class were divided by their running mean over all items and multiplied by the class prior: else one
class can take all targets, which agrees perfectly and is wrong. λ is 0 for some time and then
rises, since the first targets are empty. Weights are averaged by the loop.

The first reference takes the geometric mean of all views as target and the loss of the ruled-out
classes on all of them. On digits (1,300 images, three seeds) that reached 93.2 %, targets of the
weak view alone 96.6 %, and with the loss there too 96.4 %; on 6,000 images of Fashion-MNIST (one
seed, 20 epochs) 74.4, 75.3 and 76.7 %.

Labels may be wrong and biased: with a transition matrix T what the labels say of an item is their
chance under each class, L_ij = Π_k T[j, k]^c_ik, where class k was ruled out c_ik times; that a class
was ruled out twice says more than once. With uniform T and no noise L is 1 on the classes that
remain and 0 on the others: the hard mask, bit for bit.

A network learns such evidence by heart: the loss of the labels falls until an item is in the class
that makes them likeliest, whatever it shows. And where classes begin and end they can hardly say (a
label of the human matrix of CLCIFAR-10 has .08 bits), but the items can. So there are three steps,
each from where the last one ended:

1. ``Contrast``: features without any label. Two parts of one image look alike, and unlike others.
2. ``Neighbours``: a linear layer over these features and, where T is unknown, T by EM. Items that
   look alike are of one class, classes are as frequent as the prior says, labels say which is which.
   An item's labels must be likely for its neighbours, not for itself: none is learnt by heart.
3. The whole network. Where labels can be relied on (one that is wrong is at most a fifth as frequent
   as if they were at random), ``Consistency`` with the mask, without labels that the model holds
   wrong. Else with fixed targets, the classes that the layer and the labels of an item are sure of,
   in three rounds; between them step 2 looks at the new features.

References
----------
Wu, Wang and Zhang (2022), ICML, "Revisiting consistency regularization for deep partial label
learning"; Berthelot et al. (2020), ICLR, "ReMixMatch" (distribution alignment); Chen et al. (2020),
ICML, "A simple framework for contrastive learning of visual representations"; Van Gansbeke et al.
(2020), ECCV, "SCAN" (neighbours); Dempster, Laird and Rubin (1977) for EM.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from noracle.errors import require
from noracle.learn.batches import Batches, Views, as_model, as_tensor
from noracle.learn.loop import Team, all_logits, join_team, train
from noracle.learn.losses import Weights, mean_loss
from noracle.learn.settings import History, Settings
from noracle.learn.transition import Transition, require_class_left, shares_of

STEPS = 750
"""Steps of the last layer."""
RAREST = 1e-4
"""Smallest share of a class, so that its logarithm is finite."""
DOUBT = 0.1
"""Share of labels at random in the T that an estimate starts from: zeros could not move."""
BELIEF = 100
"""Labels of each class that count as if drawn from the T that an estimate starts from."""
ROUNDS = 5
"""Steps of EM after an epoch."""
RELIABLE = 0.2
"""Labels are relied on if they are wrong so much less often than at random."""
SURE = 0.9
"""Chance above which a round teaches the class of an item."""
FRESH = 3
"""Rounds where labels cannot be relied on."""
GENTLE = 0.25
"""Learning rate of step 3 after step 1, as a share: what images have taught should last."""
NEAREST, AMONG = 20, 50_000
"""Neighbours of an item, and items among which they are looked for."""
ALIKE, EVEN = 0.3, 0.6
"""Weights of what neighbours have in common, and of the shares of the classes."""


class Consistency(nn.Module):
    """An objective for :func:`noracle.learn.loop.train` whose "labels" are the places of the items.

    Parameters
    ----------
    ruled_out
        Mask (n, K) of all items, or how often each class was ruled out.
    views
        Makes the views.
    strong
        Number of strong views.
    weight
        Largest λ.
    delay, ramp
        Steps with λ = 0, and steps over which it then rises.
    prior
        Shares of the true classes; uniform by default.
    label_views
        Which views the loss of the ruled-out classes sees.
    transition
        T (K, K), rows true classes; uniform by default. It says which labels the model holds wrong.
    start, fixed
        Logarithms of the chances (n, K) from which targets start, even by default; and whether
        targets stay there.

    Examples
    --------
    >>> from noracle.learn.losses import label_mask
    >>> images = torch.randint(0, 256, (6, 8, 8, 1), dtype=torch.uint8)
    >>> recipe = Consistency(label_mask(torch.tensor([0, 1, 2, 0, 1, 2]), 3), Views.of(images), delay=0, ramp=1)
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    >>> recipe(model, images, torch.arange(6), None).isfinite().item(), recipe.target[0, 0].item()
    (True, 0.0)
    """

    ruled_out: Tensor
    target: Tensor
    step: Tensor
    prior: Tensor
    seen: Tensor
    moved: Tensor
    transition: Tensor

    def __init__(
        self,
        ruled_out: Tensor,
        views: Views,
        *,
        strong: int = 2,
        weight: float = 1.0,
        delay: int = 1000,
        ramp: int = 5000,
        prior: Tensor | None = None,
        label_views: Literal["weak", "all"] = "weak",
        transition: Tensor | None = None,
        start: Tensor | None = None,
        fixed: bool = False,
    ) -> None:
        super().__init__()
        given = {"strong": strong, "weight": weight, "delay": delay, "ramp": ramp}
        for name, value in given.items():
            least = int(name == "ramp")
            require(value >= least, f"{name} must be at least {least}; got {value}.")
        views_ok = label_views in ("weak", "all")
        require(views_ok, f"label_views must be weak or all; got {label_views!r}.")
        self.labelled = 1 if label_views == "weak" else 1 + strong
        n, k = ruled_out.shape
        even = np.ones(k) if prior is None else torch.as_tensor(prior).cpu().numpy()
        shares = torch.from_numpy(shares_of("prior", even, k)).float().clamp(min=RAREST)
        T = (1 - torch.eye(k)) / (k - 1) if transition is None else transition.float()
        require(T.shape == (k, k), f"transition must be {k} × {k}; got {tuple(T.shape)}.")
        T = T.to(ruled_out.device)
        self.sure = is_uniform(T)
        target = evidence(ruled_out, T)
        if start is not None:
            target = start.to(target) + (target if self.sure else 0)
        require_class_left((ruled_out.float() @ (T <= 0).float().T > 0).cpu())
        self.views, self.strong, self.weight, self.fixed = views, strong, weight, fixed
        self.delay, self.ramp = delay, ramp
        for name, tensor in (
            ("ruled_out", ruled_out),
            ("target", target.softmax(dim=1)),
            ("step", torch.zeros(())),
            ("prior", shares),
            ("seen", torch.full((k,), 1 / k)),
            ("moved", torch.zeros(n, dtype=torch.bool)),
            ("transition", T.clone()),
        ):
            self.register_buffer(name, tensor.to(ruled_out.device))

    def forward(self, model: nn.Module, items: Tensor, places: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch; also moves the targets of its items."""
        shown = self.views(items, "weak")
        if self.strong:
            shown = torch.cat([shown, self.views(items.repeat(self.strong, 1, 1, 1), "strong")])
        logits: Tensor = model(as_model(model, shown)).float()
        log_p = logits.log_softmax(dim=1).reshape(1 + self.strong, len(items), -1)
        said, weak = self.ruled_out[places], log_p[0].detach()
        taught = evidence(said, self.transition)
        if not self.sure:
            taught = self._relied_on(said, weak, taught)
        left = log_p[: self.labelled] + taught
        # One ruled-out class says 1/(K - 1) of what a label says; without the factor the targets
        # drown it.
        factor = (said.shape[1] - 1) / (said > 0).sum(dim=1).clamp(min=1)
        excluded = -left.logsumexp(dim=2) * factor
        agreed = -(self.target[places] * log_p).sum(dim=2)
        share = self._move(places, weak, taught)
        losses = excluded.mean(dim=0) + share * agreed.mean(dim=0)
        return mean_loss(losses, weight)

    @torch.no_grad()
    def _relied_on(self, said: Tensor, log_p: Tensor, likely: Tensor) -> Tensor:
        """The mask of labels that may be wrong, without those that the model holds wrong."""
        held_wrong = (self._fair(log_p) + likely).softmax(dim=1) > 0.5
        out = (said > 0) & ~held_wrong | likely.isneginf()
        out = out & ~out.all(dim=1, keepdim=True)
        return torch.zeros_like(likely).masked_fill(out, -torch.inf)

    @torch.no_grad()
    def _move(self, places: Tensor, log_p: Tensor, taught: Tensor) -> Tensor:
        """New targets of these items from the predictions of their weak views; returns λ."""
        self.step += 1
        self.seen.lerp_(log_p.exp().mean(dim=0), 0.01)
        if not self.fixed:
            self.target[places] = (self._fair(log_p) + taught).softmax(dim=1)
        self.moved.index_fill_(0, places, True)
        return self.weight * ((self.step - self.delay) / self.ramp).clamp(0, 1)

    def _fair(self, log_p: Tensor) -> Tensor:
        return log_p + self.prior.log() - self.seen.clamp(min=RAREST).log()

    @torch.no_grad()
    def after_epoch(self, team: Team) -> None:
        """Several processes: each item's target from the process that moved it."""
        if team.size > 1:
            moved, anyone = self.moved.unsqueeze(1), self.moved.to(self.target.dtype)
            mine = moved * self.target
            team.sum_([mine, anyone])
            self.target.copy_(torch.where(anyone.unsqueeze(1) > 0, mine, self.target))
            team.mean_([self.seen])
        self.moved.zero_()


def start_of(ruled_out: Tensor) -> Tensor:
    """A uniform T with a share of noise whose columns are as frequent as the classes were ruled out,
    where true classes are equally frequent.

    Examples
    --------
    >>> mask = torch.tensor([[True, False, False], [False, True, False], [True, False, False], [True, False, False]])
    >>> start_of(mask)[0].mul(100).round().tolist()
    [37.0, 63.0, 0.0]
    """
    k = ruled_out.shape[1]
    T = (1 - DOUBT) * (1 - torch.eye(k)) / (k - 1) + DOUBT / k
    shares = ruled_out.float().sum(dim=0) / ruled_out.sum().clamp(min=1)
    return with_shares(T.to(ruled_out.device), shares.clamp(min=RAREST))


def with_shares(T: Tensor, shares: Tensor) -> Tensor:
    """Rows that sum to 1, columns with these means."""
    for _ in range(50):
        T = T * (shares / T.mean(dim=0))
        T = T / T.sum(dim=1, keepdim=True)
    return T


def log_of(T: Tensor) -> Tensor:
    """Finite logarithms."""
    return T.clamp(min=RAREST**2).log()


def evidence(ruled_out: Tensor, transition: Tensor) -> Tensor:
    """What labels say: log L under each class (n, K), less its maximum; -inf where T makes a label
    impossible.

    Examples
    --------
    >>> T = torch.tensor([[0.2, 0.8, 0.0], [0.5, 0.0, 0.5], [0.6, 0.4, 0.0]])
    >>> evidence(torch.tensor([[False, True, False]]), T).exp().round(decimals=3).tolist()
    [[1.0, 0.0, 0.5]]
    """
    said, never = ruled_out.to(transition.dtype).unsqueeze(1), transition <= 0
    # No matrix product, which a run in 16 bits would round; and sums of the same numbers in another
    # order are equal.
    logs = (said * transition.masked_fill(never, 1).log()).sum(dim=2)
    logs = logs.masked_fill((said * never).sum(dim=2) > 0, -torch.inf)
    return (logs - logs.amax(dim=1, keepdim=True)).round(decimals=5)


def epochs_alone(contrast: int | None, *, uniform: bool, epochs: int) -> int:
    """Epochs in which images alone teach; by default none where T is uniform, else as many as others.

    Examples
    --------
    >>> epochs_alone(None, uniform=False, epochs=40), epochs_alone(None, uniform=True, epochs=40)
    (40, 0)
    """
    found = (0 if uniform else epochs) if contrast is None else contrast
    whole = isinstance(found, (int, np.integer)) and not isinstance(found, bool)
    require(whole and found >= 0, f"contrast must be a whole number from 0; got {found!r}.")
    return int(found)


def is_uniform(T: Tensor) -> bool:
    """Whether no label is wrong and all others are equally likely."""
    k = len(T)
    return torch.allclose(T, ((1 - torch.eye(k)) / (k - 1)).to(T), atol=1e-6)


# Before the labels teach the network: what items look like, and what labels say of that.


class Contrast(nn.Module):
    """An objective without labels: two parts of one image look alike to the model, and unlike those
    of other images.

    With h what the model's last linear layer sees and z a small network's unit vectors of it, the
    loss of view i with the other view j of its image is -z_i·z_j / τ + log Σ_k exp(z_i·z_k / τ), the
    sum over all views but i.

    Parameters
    ----------
    model
        What will be trained; it must end in a linear layer.
    views
        Makes the views.
    temperature
        τ.

    Examples
    --------
    >>> images = torch.randint(0, 256, (6, 8, 8, 1), dtype=torch.uint8)
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    >>> Contrast(model, Views.of(images))(model, images, torch.arange(6), None).isfinite().item()
    True
    """

    def __init__(
        self, model: nn.Module, views: Views, *, temperature: float = 0.2, size: int = 128
    ) -> None:
        super().__init__()
        self.views, self.temperature = views, temperature
        n = last_linear(model).in_features
        between = min(n, 512)
        hidden = nn.Linear(n, between, bias=False)
        self.head = nn.Sequential(
            hidden, nn.BatchNorm1d(between), nn.ReLU(), nn.Linear(between, size)
        )

    def forward(self, model: nn.Module, items: Tensor, _places: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch."""
        n = len(items)
        logits, features = see(
            model, torch.cat([self.views(items, "crop"), self.views(items, "crop")])
        )
        z = functional.normalize(self.head(features).float(), dim=1)
        with torch.autocast(z.device.type, enabled=False):
            near = z @ z.T / self.temperature
        own = torch.eye(2 * n, dtype=torch.bool, device=z.device)
        losses = near.masked_fill(own, -torch.inf).logsumexp(dim=1) - near.diagonal(n).repeat(2)
        # Processes average the gradients of all parameters, those of the last layer too.
        return mean_loss(losses.reshape(2, n).mean(dim=0), weight) + 0 * logits.float().sum()


class Neighbours(nn.Module):
    """An objective for a linear layer over features, whose "labels" are the places of the items.

    With p the layer's chances of an item, p' those of a random neighbour, p̄ those at the mean of all
    its neighbours, and m the mean of p over the batch, the loss is

        -log Σ_j p̄_j L_j - α log Σ_j p_j p'_j + β Σ_j m_j log(m_j / prior_j);

    the last two terms come in over the first ``ramp`` steps.

    Parameters
    ----------
    head
        The layer.
    features
        (n, d).
    ruled_out
        How often each class was ruled out (n, K).
    transition
        T. None: it starts uniform with a share of noise, and after every epoch EM moves it.
    before
        The T from which EM starts.
    """

    features: Tensor
    near: Tensor
    around: Tensor
    ruled_out: Tensor
    start: Tensor
    transition: Tensor
    prior: Tensor
    step: Tensor

    def __init__(
        self,
        head: nn.Linear,
        features: Tensor,
        ruled_out: Tensor,
        *,
        transition: Tensor | None = None,
        before: Tensor | None = None,
        prior: Tensor | None = None,
        ramp: int = 1,
    ) -> None:
        super().__init__()
        k, near = ruled_out.shape[1], neighbours(features)
        around = torch.cat([features[part].mean(dim=1) for part in torch.split(near, 1024)])
        self.head, self.ramp, self.estimated = [head], ramp, transition is None
        T = start_of(ruled_out) if transition is None else transition.float().to(features.device)
        even = torch.full((k,), 1 / k) if prior is None else prior / prior.sum()
        for name, tensor in (
            ("features", features),
            ("near", near),
            ("around", around),
            ("ruled_out", ruled_out.float()),
            ("start", T),
            ("transition", T.clone() if before is None else before.float()),
            ("prior", even.float().clamp(min=RAREST)),
            ("step", torch.zeros(())),
        ):
            self.register_buffer(name, tensor.to(features.device), persistent=name in KEPT)

    def forward(self, model: nn.Module, items: Tensor, places: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch."""
        self.step += 1
        near = self.near[places]
        chosen = torch.randint(near.shape[1], (len(near), 1), device=near.device)
        other = self.features[near.gather(1, chosen).squeeze(1)]
        p, q = (model(x).float().log_softmax(dim=1) for x in (items, other))
        smooth = model(self.around[places]).float().log_softmax(dim=1)
        labels = -(smooth + evidence(self.ruled_out[places], self.transition)).logsumexp(dim=1)
        alike = -(p + q).logsumexp(dim=1)
        mean = p.exp().mean(dim=0)
        uneven = (mean * (mean.clamp(min=RAREST) / self.prior).log()).sum()
        share = (self.step / self.ramp).clamp(max=1)
        loss: Tensor = share * EVEN * uneven + mean_loss(labels + share * ALIKE * alike, weight)
        return loss

    @torch.no_grad()
    def after_epoch(self, _team: Team) -> None:
        """T by EM: it maximises Π_i Σ_j p_ij L_ij for the layer as it is."""
        if not self.estimated:
            return
        p, T = self.head[0](self.around).float().log_softmax(dim=1), self.transition
        for _ in range(ROUNDS):
            posterior = (p + self.ruled_out @ log_of(T).T).softmax(dim=1)
            T = posterior.T @ self.ruled_out + BELIEF * self.start
            T = T / T.sum(dim=1, keepdim=True)
        self.transition.copy_(T)

    @torch.no_grad()
    def wrong(self) -> float:
        """How often labels are wrong, as a share of how often they would be at random. Of a T that
        is estimated, seen where the layer is surest.
        """
        if not self.estimated:
            return float(self.transition.trace())
        chance, chosen = self.head[0](self.around).softmax(dim=1).max(dim=1)
        seen = (chance >= chance.max().clamp(max=0.95)).unsqueeze(1) * self.ruled_out
        usual = self.ruled_out.sum(dim=0) / self.ruled_out.sum().clamp(min=1)
        random = (seen.sum(dim=1) * usual[chosen]).sum()
        return float(seen.gather(1, chosen.unsqueeze(1)).sum() / random.clamp(min=RAREST))


KEPT = ("transition", "step")
"""What a checkpoint keeps; the rest can be computed again."""


Told = Callable[[int, dict[str, float]], None]


@dataclasses.dataclass(slots=True, kw_only=True)
class Recipe:
    """The three steps for one model.

    Parameters
    ----------
    model, items, views
        What is trained, all images that it may see, and what makes views of them.
    ruled_out
        How often each class was ruled out (n, K); of an item without labels never.
    transition
        T; None: it is estimated.
    options
        Of :class:`Consistency`.
    contrast, first
        Epochs of step 1 (see :func:`epochs_alone`), and its history where it is done.
    checkpoint
        A file for the state of the last round; those of what comes before it lie beside it.
    heard
        Called with every T that is estimated.
    wrap
        Around the objectives of steps 1 and 3.
    """

    model: nn.Module
    items: Any
    views: Views
    ruled_out: Tensor
    settings: Settings
    transition: Tensor | None = None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    weight: Tensor | None = None
    contrast: int | None = None
    first: History | None = None
    checkpoint: Path | None = None
    heard: Callable[[Transition], None] = lambda _: None
    wrap: Callable[[nn.Module], nn.Module] = lambda objective: objective

    def __post_init__(self) -> None:
        T = self.transition
        self.contrast = epochs_alone(
            self.contrast, uniform=T is not None and is_uniform(T), epochs=self.settings.epochs
        )
        if T is not None:
            never = (T <= 0).float().to(self.ruled_out.device)
            require_class_left((self.ruled_out.float() @ never.T > 0).cpu())

    @property
    def device(self) -> torch.device:
        """Where the model lies."""
        return next(self.model.parameters()).device

    def _file(self, stage: str) -> Path | None:
        file = self.checkpoint
        return None if file is None else file.with_name(f"{file.name}.{stage}")

    def learn_views(self, file: Path | None, progress: Told | None = None) -> History:
        """Step 1, on all items; its state goes to a file that others may share."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.settings.seed)
            objective = self.wrap(Contrast(self.model, self.views).to(self.device))
        data = Batches(items=self.items, labels=torch.arange(len(self.items)), weight=self.weight)
        own: dict[str, Any] = {"epochs": self.contrast, "average": 0, "patience": None}
        settings = dataclasses.replace(self.settings, **own)
        options: dict[str, Any] = {"checkpoint": file, "checkpoint_seconds": 60.0}
        return train(self.model, data, objective, settings, progress=progress, **options)

    def start_head(self, before: Tensor | None = None) -> tuple[Tensor, float]:
        """Step 2; returns T, and how often labels are wrong as a share of how often they would be at
        random. Later rounds go on from the layer and the T ``before``.
        """
        features, last, n = self._features(), last_linear(self.model), len(self.items)
        middle, scale = features.mean(dim=0), features.std(correction=0).clamp(min=RAREST)
        features = (features - middle) / scale
        head = nn.Linear(last.in_features, last.out_features).to(self.device)
        with torch.no_grad():
            share = 0 if before is None else 1
            head.weight.copy_(share * scale * last.weight)
            head.bias.copy_(share * (last.bias + last.weight @ middle))
        team = join_team(self.device).size
        size = team * max(1, min(1000, n // 4) // team)
        epochs, ramp = math.ceil(STEPS * size / n), 1 if before is not None else STEPS // 5
        about: dict[str, Any] = {"transition": self.transition, "before": before, "ramp": ramp}
        about["prior"] = self.options.get("prior")
        objective = Neighbours(head, features, self.ruled_out.to(self.device), **about)
        data = Batches(items=features, labels=torch.arange(n), weight=self.weight)
        own = Settings(epochs=epochs, batch_size=size, lr=5e-3, schedule="cosine")
        train(head, data, objective, dataclasses.replace(own, seed=self.settings.seed))
        with torch.no_grad():
            last.weight.copy_(head.weight / scale)
            last.bias.copy_(head.bias - head.weight @ middle / scale)
        if self.transition is None:
            n = int((self.ruled_out > 0).any(dim=1).sum())
            detail = f"from the labels of {n} items and their neighbours"
            matrix = objective.transition.double().cpu().numpy()
            self.heard(Transition(matrix, "estimated", detail))
        return objective.transition, objective.wrong()

    @torch.no_grad()
    def _features(self) -> Tensor:
        self.model.eval()
        found = []
        for start in range(0, len(self.items), 1024):
            shown = self.views(as_tensor(self.items[start : start + 1024]).to(self.device))
            logits, features = see(self.model, shown)
            found.append(features.float())
        rule = "model must end in a linear layer to learn from labels that may be wrong"
        ends = torch.allclose(last_linear(self.model)(features), logits, atol=1e-4, rtol=1e-3)
        require(ends, f"{rule}; got another.")
        return torch.cat(found)

    def run(self, *, progress: Told | None = None, **loop: Any) -> History:
        """All steps that are left; ``loop`` goes to :func:`noracle.learn.loop.train`."""
        whole, shift = History(), 0
        if self.contrast and self.first is None:
            self.first, shift = self.learn_views(self._file("views"), progress), self.contrast
        known = self.transition is not None and is_uniform(self.transition)
        if known and not self.contrast:
            return self._round(None, self.settings, self.checkpoint, progress=progress, **loop)
        T, wrong = self.start_head()
        trusted = wrong <= RELIABLE
        rounds = 1 if trusted else min(FRESH, self.settings.epochs)
        for number in range(rounds):
            if number:
                T, _ = self.start_head(T)
            done, last = len(whole.rows), number == rounds - 1
            epochs = self.settings.epochs - done if last else self.settings.epochs // rounds
            file = self.checkpoint if last else self._file(f"round{number}")
            rate = self.settings.lr * (GENTLE if self.contrast else 1)
            settings = dataclasses.replace(self.settings, epochs=epochs, lr=rate)

            def tell(epoch: int, row: dict[str, float], done: int = done) -> None:
                if progress is not None:
                    progress(shift + done + epoch, row)

            start = all_logits(self.model, self.items, prepare=self.views).log_softmax(dim=1)
            about = (T, start.to(self.device), trusted)
            rows = self._round(about, settings, file, progress=tell, **loop).rows
            whole.rows += [{**row, "epoch": row["epoch"] + done} for row in rows]
        return whole

    def _round(
        self,
        about: tuple[Tensor, Tensor, bool] | None,
        settings: Settings,
        file: Path | None,
        **loop: Any,
    ) -> History:
        """Step 3, or a part of it, after the T, the logarithms of chances, and whether labels are
        relied on.
        """
        n, said = len(self.items), self.ruled_out.to(self.device)
        labels, options = torch.arange(n), self.options
        if about is not None and about[2]:
            options = {**options, "transition": about[0], "start": about[1], "delay": 0}
        elif about is not None:
            start = (about[1] + evidence(said, about[0])).log_softmax(dim=1)
            chance = start.amax(dim=1).exp()
            labels = (chance >= min(SURE, float(chance.max()))).nonzero().squeeze(1).cpu()
            said = torch.zeros_like(said)
            options = {**options, "start": start, "fixed": True, "delay": 0, "ramp": 1}
            steps = settings.epochs * math.ceil(len(labels) / settings.batch_size)
            average = min(settings.average, max(0, 1 - 10 / steps))
            settings = dataclasses.replace(settings, average=average)
        items, weight = self.items, self.weight
        if len(labels) < n and isinstance(items, np.memmap):  # stays on the disk
            only = torch.zeros(n)
            only[labels] = 1 if weight is None else weight[labels].float()
            labels, weight = torch.arange(n), only
        elif len(labels) < n:
            tensor = isinstance(items, Tensor)
            items = items[labels.to(items.device) if tensor else labels.numpy()]
            weight = None if weight is None else weight[labels]
        data = Batches(items=items, labels=labels, weight=weight)
        objective = self.wrap(Consistency(said, self.views, **options).to(self.device))
        return train(self.model, data, objective, settings, checkpoint=file, **loop)


@torch.no_grad()
def neighbours(features: Tensor) -> Tensor:
    """Places (n, k) of those items whose features have the nearest direction."""
    unit = functional.normalize(features.float(), dim=1)
    n = len(unit)
    some = torch.linspace(0, n - 1, min(n, AMONG), dtype=torch.float64).long().to(unit.device)
    k, found = min(NEAREST, len(some) - 1), []
    for start in range(0, n, 1024):
        near = unit[start : start + 1024] @ unit[some].T
        own = some == torch.arange(start, start + len(near), device=some.device).unsqueeze(1)
        found.append(some[near.masked_fill(own, -torch.inf).topk(max(1, k), dim=1).indices])
    return torch.cat(found)


def see(model: nn.Module, shown: Tensor) -> tuple[Tensor, Tensor]:
    """The model's logits, and what its last linear layer sees."""
    seen: list[Tensor] = []
    hook = last_linear(model).register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        logits: Tensor = model(as_model(model, shown))
    finally:
        hook.remove()
    return logits, seen[-1]


def last_linear(model: nn.Module) -> nn.Linear:
    """The last linear layer, which gives the logits."""
    found = [module for module in model.modules() if isinstance(module, nn.Linear)]
    require(found, "model must end in a linear layer to learn from views alone; got none.")
    return found[-1]
