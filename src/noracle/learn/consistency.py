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
was ruled out twice says more than once. The loss of the ruled-out classes is
-log Σ_j p_j L_ij, and the target the posterior, ∝ p_j L_ij: a label that the model holds to be wrong
keeps its class in the target, in proportion. With uniform T and no noise L is 1 on the classes that
remain and 0 on the others: the hard mask, bit for bit.

T may be estimated while the model learns, from the labels of some items that teach nothing: their
views must agree, and that is all. T then maximises the likelihood Π_i Σ_j p_ij T[j, ȳ_i] of their
labels, step by step (EM, which forgets at the pace of two epochs, since p moves). Labels of items
that are trained on would not do: a model that learnt a wrong label by heart says that it is right.
The same labels choose the temperature τ of the predictions that become targets, p^(1/τ), of some
from 1/2 to 8 the likeliest. A model that agrees with itself before the labels taught it much is
surer than it is right: its targets then stay soft, where they would fix its mistakes for good.

References
----------
Wu, Wang and Zhang (2022), ICML, "Revisiting consistency regularization for deep partial label
learning"; Berthelot et al. (2020), ICLR, "ReMixMatch" (distribution alignment); Dempster, Laird and
Rubin (1977) for EM.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from noracle.errors import require
from noracle.learn.batches import Views, as_model
from noracle.learn.loop import Team
from noracle.learn.losses import Weights, mean_loss
from noracle.learn.transition import Transition, require_class_left, shares_of

RAREST = 1e-4
"""Smallest share of a class, so that its logarithm is finite."""
DOUBT = 0.1
"""Share of labels at random in the T that an estimate starts from: zeros could not move."""
BELIEF = 100
"""Labels of each class that count as if drawn from the T that an estimate starts from."""
MEMORY = 2
"""Epochs of which an estimate of T remembers the labels."""
SCALES = [2 ** (i / 4) for i in range(-4, 13)]
"""Temperatures that are tried."""


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
        T (K, K), rows true classes; uniform by default.
    spared
        Items (n,) whose labels teach nothing, so that T can be estimated from them: it then starts
        from ``transition`` with a share of noise. None: T stays as it is.

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
    start: Tensor
    tally: Tensor
    scales: Tensor
    surprise: Tensor
    temperature: Tensor
    spared: Tensor | None

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
        spared: Tensor | None = None,
    ) -> None:
        super().__init__()
        given = {"strong": strong, "weight": weight, "delay": delay, "ramp": ramp}
        for name, value in given.items():
            least = 1 if name == "ramp" else 0
            require(value >= least, f"{name} must be at least {least}; got {value}.")
        views_ok = label_views in ("weak", "all")
        require(views_ok, f"label_views must be weak or all; got {label_views!r}.")
        self.labelled = 1 if label_views == "weak" else 1 + strong
        n, k = ruled_out.shape
        even = np.ones(k) if prior is None else torch.as_tensor(prior).cpu().numpy()
        shares = torch.from_numpy(shares_of("prior", even, k)).float().clamp(min=RAREST)
        T = (1 - torch.eye(k)) / (k - 1) if transition is None else transition.float()
        require(T.shape == (k, k), f"transition must be {k} × {k}; got {tuple(T.shape)}.")
        if spared is not None:
            require(spared.shape == (n,), f"spared must have {n} rows; got {tuple(spared.shape)}.")
            T = start_of(ruled_out, T.to(ruled_out.device))
        T = T.to(ruled_out.device)
        require_class_left((ruled_out.float() @ (T <= 0).float().T > 0).cpu())
        self.views, self.strong, self.weight = views, strong, weight
        self.delay, self.ramp = delay, ramp
        for name, tensor in (
            ("ruled_out", ruled_out),
            ("target", evidence(ruled_out, T).softmax(dim=1)),
            ("step", torch.zeros(())),
            ("prior", shares),
            ("seen", torch.full((k,), 1 / k)),
            ("moved", torch.zeros(n, dtype=torch.bool)),
            ("transition", T.clone()),
            ("start", T),
            ("tally", T * (0.0 if spared is None else MEMORY * float(spared.sum()) / k)),
            ("scales", torch.tensor(SCALES)),
            ("surprise", 1e-6 * torch.tensor(SCALES).log().abs()),  # starts from 1
            ("temperature", torch.ones(())),
            ("spared", spared),
        ):
            self.register_buffer(name, None if tensor is None else tensor.to(ruled_out.device))

    def forward(self, model: nn.Module, items: Tensor, places: Tensor, weight: Weights) -> Tensor:
        """The loss of a batch; also moves the targets of its items."""
        shown = self.views(items, "weak")
        if self.strong:
            shown = torch.cat([shown, self.views(items.repeat(self.strong, 1, 1, 1), "strong")])
        logits: Tensor = model(as_model(model, shown)).float()
        log_p = logits.log_softmax(dim=1).reshape(1 + self.strong, len(items), -1)
        said = self.ruled_out[places]
        likely = evidence(said, self.transition)
        taught = likely
        if self.spared is not None:
            taught = likely.masked_fill(self.spared[places].unsqueeze(1), 0)
        # One ruled-out class says 1/(K - 1) of what a label says; without the factor the targets
        # drown it.
        left = log_p[: self.labelled] + taught
        factor = (said.shape[1] - 1) / (said > 0).sum(dim=1).clamp(min=1)
        excluded = -left.logsumexp(dim=2) * factor
        agreed = -(self.target[places] * log_p).sum(dim=2)
        weak, tempered = log_p[0].detach(), left[0].detach()
        if self.spared is not None:
            self._judge(places, weak, likely)
            weak = (weak / self.temperature).log_softmax(dim=1)
            tempered = weak + taught
            self._count(places, weak + likely)
        share = self._move(places, weak, tempered)
        losses = excluded.mean(dim=0) + share * agreed.mean(dim=0)
        return mean_loss(losses, weight)

    @torch.no_grad()
    def _move(self, places: Tensor, log_p: Tensor, left: Tensor) -> Tensor:
        """New targets of these items from the predictions of their weak views; returns λ."""
        self.step += 1
        self.seen.lerp_(log_p.exp().mean(dim=0), 0.01)
        self.target[places] = self._fair(left).softmax(dim=1)
        self.moved.index_fill_(0, places, True)
        return self.weight * ((self.step - self.delay) / self.ramp).clamp(0, 1)

    def _fair(self, log_p: Tensor) -> Tensor:
        return log_p + self.prior.log() - self.seen.clamp(min=RAREST).log()

    def _forget(self, values: Tensor, places: Tensor) -> None:
        values *= 1 - len(places) / (MEMORY * len(self.target))

    @torch.no_grad()
    def _judge(self, places: Tensor, log_p: Tensor, likely: Tensor) -> None:
        """How surprising labels of spared items are at each temperature."""
        tried = (log_p / self.scales[:, None, None]).log_softmax(dim=2) + likely
        self._forget(self.surprise, places)
        self.surprise -= (tried.logsumexp(dim=2) * self.spared[places]).sum(dim=1)  # type: ignore[index]

    @torch.no_grad()
    def _count(self, places: Tensor, joint: Tensor) -> None:
        """One step of EM: labels of spared items count for each class as much as it is likely."""
        posterior = self._fair(joint).softmax(dim=1) * self.spared[places].unsqueeze(1)  # type: ignore[index]
        self._forget(self.tally, places)
        said = self.ruled_out[places].float()
        with torch.autocast(said.device.type, enabled=False):
            self.tally += posterior.T @ said
        self._estimate()

    def _estimate(self) -> None:
        rows = self.tally / MEMORY + BELIEF * self.start
        self.transition.copy_(rows / rows.sum(dim=1, keepdim=True))
        best = self.surprise.argmin(dim=0, keepdim=True)  # a plain number would wait for the GPU
        self.temperature.copy_(self.scales[best].squeeze(0))

    def learnt(self) -> Transition:
        """T as it is now."""
        matrix = self.transition.double().cpu().numpy()
        if self.spared is None:
            return Transition(matrix)
        n = int(self.spared.sum())
        return Transition(matrix, "estimated", f"from the labels of {n} items that taught nothing")

    def share(self, team: Team) -> None:
        """After an epoch of several processes: each item's target from the process that moved it."""
        mine = self.moved.unsqueeze(1) * self.target
        anyone = self.moved.to(self.target.dtype)
        team.sum_([mine, anyone])
        self.target.copy_(torch.where(anyone.unsqueeze(1) > 0, mine, self.target))
        team.mean_([self.seen])
        if self.spared is not None:
            team.mean_([self.tally, self.surprise])
            self._estimate()
        self.moved.zero_()


def start_of(ruled_out: Tensor, transition: Tensor) -> Tensor:
    """A T with a share of noise whose columns are as frequent as the classes were ruled out, where
    true classes are equally frequent.

    Examples
    --------
    >>> mask = torch.tensor([[True, False, False], [False, True, False], [True, False, False], [True, False, False]])
    >>> start_of(mask, torch.full((3, 3), 1 / 3)).round(decimals=2)[0].tolist()
    [0.75, 0.25, 0.0]
    """
    k = len(transition)
    T = (1 - DOUBT) * transition + DOUBT / k
    shares = (ruled_out.float().sum(dim=0) / ruled_out.sum().clamp(min=1)).clamp(min=RAREST)
    for _ in range(50):  # rows sum to 1, columns to their shares
        T = T * (shares / T.mean(dim=0))
        T = T / T.sum(dim=1, keepdim=True)
    return T


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
