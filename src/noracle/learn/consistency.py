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

Such evidence can be learnt by heart: the loss of a label falls until its item is in the class that
makes the label likeliest, whatever the item shows, and targets ∝ p·L follow (L counts again once p
has learnt it). A hard mask has nothing more to say once its class is out. So the evidence fades,
L^a with a from 1 to 0, and what then remains is hard: a class is out that was ruled out by a label
to be relied on (T[k, k] at most a fifth of what column k has on average), unless the model holds
that label to be wrong. Where no label can be relied on, views go on alone.

T may be estimated while the model learns, until the evidence fades. After every epoch it maximises
Π_i Σ_j p_ij^(1/τ) L_ij (EM) over the items that are trained on, with what was ruled out where each
class is likeliest as a prior: a model that is not sure of itself makes EM overshoot. Labels of spared
items, whose views must agree and that is all, choose the temperature τ ≥ 1, by which targets are
tempered too, and how far T is from one with few free numbers (of five mixtures the plainest that is
not worse by more than a standard error).

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
NEAREST = 0.7
"""Items that are held to be of a class, as a share of n / K, to see what is ruled out there."""
SEEN_THERE = 1 / 3
"""What that counts for, as a share of all labels."""
ROUNDS = 15
"""Steps of EM after an epoch."""
RELIABLE = 0.2
"""A label is relied on if its class is ruled out so much less often where it is the true one."""
SOFT = 1 / 3
"""Weight of the loss of the ruled-out classes where labels may be wrong."""
SHARES = (0, 0.25, 0.5, 0.75, 1)
"""Mixtures of a T with few free numbers and the likeliest that are tried."""
SCALES = [2 ** (i / 4) for i in range(13)]
"""Temperatures that are tried. None makes targets sharper than predictions: with few labels that
can fix mistakes for good.
"""


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
        Items (n,) whose labels teach nothing: T is estimated, and starts from ``transition`` with a
        share of noise. None: T stays as it is.
    believe, fade
        Steps with a = 1, in which T is estimated, and steps over which a then falls to 0.

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
    predicted: Tensor
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
        believe: int = 10_000,
        fade: int = 5000,
    ) -> None:
        super().__init__()
        given = {"strong": strong, "weight": weight, "delay": delay, "ramp": ramp}
        given |= {"believe": believe, "fade": fade}
        for name, value in given.items():
            least = 1 if name in ("ramp", "fade") else 0
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
        self.soft = not torch.allclose(T, ((1 - torch.eye(k)) / (k - 1)).to(T), atol=1e-6)
        require_class_left((ruled_out.float() @ (T <= 0).float().T > 0).cpu())
        self.views, self.strong, self.weight = views, strong, weight
        self.delay, self.ramp, self.believe, self.fade = delay, ramp, believe, fade
        for name, tensor in (
            ("ruled_out", ruled_out),
            ("target", evidence(ruled_out, T).softmax(dim=1)),
            ("step", torch.zeros(())),
            ("prior", shares),
            ("seen", torch.full((k,), 1 / k)),
            ("moved", torch.zeros(n, dtype=torch.bool)),
            ("transition", T.clone()),
            ("start", T),
            ("predicted", torch.zeros((n if spared is not None else 0, k))),
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
        weak = log_p[0].detach()
        taught = self._taught(places, said, weak) if self.soft else evidence(said, self.transition)
        # One ruled-out class says 1/(K - 1) of what a label says; without the factor the targets
        # drown it.
        left = log_p[: self.labelled] + taught
        factor = (SOFT if self.soft else 1) * (said.shape[1] - 1)
        excluded = -left.logsumexp(dim=2) * (factor / (said > 0).sum(dim=1).clamp(min=1))
        agreed = -(self.target[places] * log_p).sum(dim=2)
        share = self._move(places, weak, taught)
        losses = excluded.mean(dim=0) + share * agreed.mean(dim=0)
        return mean_loss(losses, weight)

    @torch.no_grad()
    def _taught(self, places: Tensor, said: Tensor, log_p: Tensor) -> Tensor:
        """What labels say that may be wrong: log L^a, and -inf where a hard mask has taken over."""
        likely, T = evidence(said, self.transition), self.transition
        a = ((self.believe + self.fade - self.step) / self.fade).clamp(0, 1)
        relied_on = T.diagonal() < RELIABLE * T.mean(dim=0)
        held_wrong = (self._fair(log_p) / self.temperature + likely).softmax(dim=1) > 0.5
        out = (said > 0) & relied_on & ~held_wrong & (a < 1) | likely.isneginf()
        taught = torch.where(out, -torch.inf, a * likely)
        if self.spared is None:
            return taught
        return taught.masked_fill(self.spared[places].unsqueeze(1), 0)

    @torch.no_grad()
    def _move(self, places: Tensor, log_p: Tensor, taught: Tensor) -> Tensor:
        """New targets of these items from the predictions of their weak views; returns λ."""
        self.step += 1
        self.seen.lerp_(log_p.exp().mean(dim=0), 0.01)
        fair = self._fair(log_p)
        if self.spared is not None:
            self.predicted[places] = fair
        self.target[places] = (fair / self.temperature + taught).softmax(dim=1)
        self.moved.index_fill_(0, places, True)
        return self.weight * ((self.step - self.delay) / self.ramp).clamp(0, 1)

    def _fair(self, log_p: Tensor) -> Tensor:
        return log_p + self.prior.log() - self.seen.clamp(min=RAREST).log()

    @torch.no_grad()
    def after_epoch(self, team: Team) -> None:
        """Several processes: each item's target from the process that moved it. Then T and τ from
        the predictions of the epoch.
        """
        if team.size > 1:
            moved = self.moved.unsqueeze(1)
            anyone = self.moved.to(self.target.dtype)
            parts = [self.target, *([] if self.spared is None else [self.predicted])]
            mine = [moved * part for part in parts]
            team.sum_([*mine, anyone])
            for part, new in zip(parts, mine, strict=True):
                part.copy_(torch.where(anyone.unsqueeze(1) > 0, new, part))
            team.mean_([self.seen])
        self.moved.zero_()
        if self.spared is not None and self.step > self.delay:
            self._estimate(self.spared)

    def _estimate(self, spared: Tensor) -> None:
        tried = [self.transition]
        if self.step <= self.believe:
            T = self._likeliest(self.predicted[~spared], self.ruled_out[~spared].float())
            plain = plain_of(T)
            tried = [plain.lerp(T, share) for share in SHARES]
        scales = torch.tensor(SCALES, device=spared.device)
        p, said = self.predicted[spared] / scales[:, None, None], self.ruled_out[spared].float()
        found = [(p.log_softmax(dim=2) + said @ log_of(T).T).logsumexp(dim=2) for T in tried]
        best = [each[(each.sum(dim=1) - scales.log().abs()).argmax()] for each in found]
        lost = torch.stack(best)[torch.stack(best).sum(dim=1).argmax()] - torch.stack(best)
        # The plainest that is not worse by more than the standard error.
        near = lost.sum(dim=1) <= lost.std(dim=1, correction=0) * len(said) ** 0.5
        chosen = int(near.int().argmax())
        self.transition.copy_(tried[chosen])
        fit = found[chosen].sum(dim=1) - scales.log().abs()
        self.temperature.copy_(scales[fit.argmax()])

    def _likeliest(self, p: Tensor, said: Tensor) -> Tensor:
        """EM, warm from the last epoch."""
        k = len(self.start)
        nearest = p.topk(max(1, int(NEAREST * len(p) / k)), dim=0).indices
        there = said[nearest].sum(dim=0) + self.start
        there *= SEEN_THERE * said.sum() / k / there.sum(dim=1, keepdim=True)
        q, T = (p / self.temperature).log_softmax(dim=1), self.transition
        for _ in range(ROUNDS):
            posterior = (q + said @ log_of(T).T).softmax(dim=1)
            T = posterior.T @ said + there + BELIEF * self.start
            T = T / T.sum(dim=1, keepdim=True)
        return T

    def learnt(self) -> Transition:
        """T as it is now."""
        matrix = self.transition.double().cpu().numpy()
        if self.spared is None:
            return Transition(matrix)
        n = int((~self.spared).sum())
        return Transition(matrix, "estimated", f"from the labels of {n} items, while they taught")


def start_of(ruled_out: Tensor, transition: Tensor) -> Tensor:
    """A T with a share of noise whose columns are as frequent as the classes were ruled out, where
    true classes are equally frequent.

    Examples
    --------
    >>> mask = torch.tensor([[True, False, False], [False, True, False], [True, False, False], [True, False, False]])
    >>> start_of(mask, torch.full((3, 3), 1 / 3)).round(decimals=2)[0].tolist()
    [0.75, 0.25, 0.0]
    """
    T = (1 - DOUBT) * transition + DOUBT / len(transition)
    shares = ruled_out.float().sum(dim=0) / ruled_out.sum().clamp(min=1)
    return with_shares(T, shares.clamp(min=RAREST))


def with_shares(T: Tensor, shares: Tensor) -> Tensor:
    """Rows that sum to 1, columns with these means."""
    for _ in range(50):
        T = T * (shares / T.mean(dim=0))
        T = T / T.sum(dim=1, keepdim=True)
    return T


def plain_of(T: Tensor) -> Tensor:
    """The like with few free numbers: how often each class is ruled out, and how much less often
    where it is the true one.

    Examples
    --------
    >>> plain_of(torch.tensor([[0.1, 0.5, 0.4], [0.4, 0.1, 0.5], [0.5, 0.4, 0.1]]))[0].mul(100).round().tolist()
    [10.0, 45.0, 45.0]
    """
    k, own = len(T), T.diagonal()
    others = (T.sum(dim=0) - own) / (k - 1)
    less = (own / others.clamp(min=RAREST)).mean().clamp(0, 1)
    return with_shares(1 - (1 - less) * torch.eye(k, device=T.device), T.mean(dim=0))


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
