"""A scikit-learn classifier that learns from what items are *not*."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from noracle._version import __version__
from noracle.accuracy.score import transition_scores
from noracle.errors import ArgumentError, EvidenceWarning, MissingExtra, require

try:
    import torch
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.metadata_routing import UNUSED
    from sklearn.utils.validation import check_is_fitted
    from torch import nn
except ImportError as error:
    library = "torch" if (error.name or "").startswith("torch") else "scikit-learn"
    raise MissingExtra("ComplementaryClassifier", library, "learn") from None

from noracle.learn.batches import Views
from noracle.learn.fit import (
    ChannelsFirst,
    Floats,
    KnownLabels,
    ModelFit,
    check_items,
    check_outputs,
    check_weight,
    make_input,
    model_maker,
    read_labels,
    require_sorted,
    show_progress,
    split_rows,
)
from noracle.learn.loop import all_logits, own_device, replaced
from noracle.learn.losses import Loss, get_loss, row_distances
from noracle.learn.settings import History, Optimiser, Precision, Schedule, Settings
from noracle.learn.transition import Transition

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SCHEMA = "classifier/1"


def _on_host(module: nn.Module) -> dict[str, torch.Tensor]:
    state = module.state_dict().items()
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


_TRANSITION = ("matrix", "source", "detail", "oracle")


def _from_transition(transition: Any) -> dict[str, Any]:
    known = transition if isinstance(transition, Transition) else Transition(transition)
    return {name: _plain(getattr(known, name)) for name in _TRANSITION}


def _to_transition(state: dict[str, Any]) -> Transition:
    return Transition(*(state[name] for name in _TRANSITION))


_INPUTS: dict[str, type[nn.Module]] = {"images": ChannelsFirst, "floats": Floats}


def _from_input(prepare: nn.Module | None) -> dict[str, Any] | None:
    if isinstance(prepare, Views):
        mean, sd = prepare.mean.flatten().tolist(), prepare.sd.flatten().tolist()
        return {"kind": "pixels", "mean": mean, "sd": sd}
    return next(({"kind": k} for k, made in _INPUTS.items() if isinstance(prepare, made)), None)


def _to_input(state: dict[str, Any] | None) -> nn.Module | None:
    if state is None:
        return None
    made = _INPUTS.get(state["kind"])
    return Views(state["mean"], state["sd"]) if made is None else made()


RECIPE_OPTIONS = (
    *("strong", "weight", "delay", "ramp", "contrast"),
    *("prior", "label_views", "flip", "pad"),
)


class ComplementaryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Train on classes that are ruled out; predict classes.

    ``fit(X, ruled_out)`` takes for each item one class, or several, that it does *not* belong to.
    What is minimised is a row of
    :mod:`noracle.learn.losses`; the transition matrix T[j, k] = P(k is ruled out | the class is j) says how such labels come about.

    Assumes that a ruled-out class depends on the item through its class alone, as T says. With the
    default, uniform T no label is wrong and every wrong class is equally likely to be named.
    Features should have like scales, as from a ``StandardScaler``.

    Parameters
    ----------
    loss, loss_options
        A row of the table of losses, and its options: ``beta`` and ``q`` of the ure rows, ``prior``
        (class shares) of scarce. With recipe consistency the options are its own: strong, weight,
        delay, ramp, prior, label_views, flip, pad, and contrast: epochs in which images alone
        teach, before the labels (0 with uniform T, else as many as ``epochs``).
    transition
        ``"uniform"``; a matrix whose rows and columns follow the sorted classes; a
        :class:`Transition`, which knows whether true labels were seen; or ``"anchors"``: T is first
        estimated from the labels alone, see :func:`noracle.learn.transition.estimate_transition`.
        Anchors need thousands of items and classes that a model can tell apart; with few, uniform
        is often nearer. ``"estimated"`` (recipe consistency, labels that may be wrong and biased):
        T is estimated while the model learns; the labels of the held-out items say how free it may
        be, and in the end what it is, see :func:`noracle.learn.transition.likeliest_transition`.
    model, hidden
        ``"linear"``, ``"mlp"`` with these hidden layers, ``"resnet18"``, ``"resnet34"`` (3×3 stem
        up to 64 pixels), a ``torch.nn.Module`` that gives logits (it is copied), or a function
        (shape, n_classes) → module. Images reach a model as (channels, height, width).
    recipe
        ``"plain"``, or ``"consistency"`` (images of uint8; see consistency.py). It flips images
        unless ``loss_options={"flip": False}``.
    classes
        All class names; by default all that occur in ``ruled_out`` and ``label``.
    said_by
        Who made the labels, for the record that ``save`` keeps: a certificate against people whose
        labels it was trained on is refused, see :func:`noracle.superhuman.recorded_training`.
    epochs, batch_size, lr, weight_decay, optimiser, schedule, precision, average, patience
        See :class:`noracle.learn.settings.Settings`.
    validation_share, patience
        A share of the items with labels is held out. After every epoch the history says their SCEL
        (as a score: minus the mean of -log (Tᵀp)_ȳ); after ``patience`` epochs without a better one
        training stops and the best weights stay.
    device
        ``"auto"`` (a GPU if there is one), or a name that torch knows.
    checkpoint
        A file that is written after every epoch (with recipe consistency also files beside it, named
        after it). ``fit`` with the same data and parameters goes on
        from it.
    verbose
        Show a progress bar on stderr.
    random_state
        Seed of first weights, order and held-out items: int, None or ``numpy.random.RandomState``.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn; ``item_shape_`` is the shape of one item.
    transition_, transition_source_
        The matrix that was used, and where it came from; the source says "oracle" if true labels
        were seen.
    history_
        A :class:`noracle.learn.settings.History`, one row per epoch.
    held_out_
        Rows of X that were held out.
    model_, loss_, context_
        The fitted module, the row of the table, and what it knows.

    References
    ----------
    Ishida et al. (2017, 2019), Yu et al. (2018), Feng et al. (2020), Chou et al. (2020) and others;
    see losses.py row by row.

    Examples
    --------
    >>> X = np.repeat(np.eye(3), 40, axis=0)
    >>> truth = np.repeat([0, 1, 2], 40)
    >>> said = np.array(["ant", "bee", "cat"])[(truth + 1 + np.arange(120) % 2) % 3]
    >>> fitted = ComplementaryClassifier(epochs=40, lr=0.05).fit(X, said)
    >>> fitted.predict(np.eye(3)).tolist(), fitted.transition_source_
    (['ant', 'bee', 'cat'], 'uniform')
    >>> fitted.score(X, said)
    1.0
    """

    __metadata_request__fit = {"ruled_out": UNUSED}  # noqa: RUF012 (scikit-learn's way to say so)
    __metadata_request__score = {"ruled_out": UNUSED, "label": UNUSED}  # noqa: RUF012

    def __init__(
        self,
        *,
        loss: str = "scl_nl",
        loss_options: Mapping[str, Any] | None = None,
        transition: Any = "uniform",
        model: Any = "linear",
        hidden: Sequence[int] = (500,),
        recipe: Literal["plain", "consistency"] = "plain",
        classes: Any = None,
        said_by: Sequence[str] | None = None,
        epochs: int = 50,
        batch_size: int = 256,
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        optimiser: Optimiser = "adam",
        schedule: Schedule = "constant",
        precision: Precision = "fp32",
        average: float = 0.0,
        validation_share: float = 0.0,
        patience: int | None = None,
        device: str = "auto",
        checkpoint: str | Path | None = None,
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        given = locals()  # every argument is an attribute, as scikit-learn wants it
        for name in self._get_param_names():
            setattr(self, name, given[name])

    def fit(
        self,
        X: Any,
        ruled_out: Any = None,
        *,
        label: Any = None,
        sample_weight: ArrayLike | None = None,
        y: Any = None,
    ) -> Self:
        """Train on what the items are not.

        Parameters
        ----------
        X
            Features (n, d), dense or sparse (made dense batch by batch), or images (n, height,
            width, channels) of uint8 or floats; a ``numpy.memmap`` is read by blocks.
        ruled_out
            One class name an item; or several, (n, s), padded with -1, "" or None; or a mask of
            bools (n, K) in the order of the sorted ``classes``, which must then be given. An item
            may have none. Named twice counts twice where T is not uniform.
        label
            Ordinary labels where there are some, else -1, "", None or NaN. Such an item counts as
            "all classes but one ruled out" where that is the cross-entropy (scl_nl, supervised,
            partial_log, multi_ure, recipe consistency). With other losses its cross-entropy is
            added: (Σ_A w·loss + Σ_B w·ce) / Σ w with A the items without and B those with a label;
            a risk of A counts as much as A weighs. So labels for all items mean supervised
            training, except for cpe_i, whose logits are the chances of the ruled-out class; there
            ce is -Σ_k T[y, k]·log q_k. What else is ruled out for an item with a label is not used.
        sample_weight
            One number per item; 0 is as if the item were not there.
        y
            Another name of ``ruled_out``, for tools that pass it by name. It still says what an
            item is *not*.
        """
        X = check_items(self, X, reset=True)
        weight = check_weight(sample_weight, X)
        said, n = self._one_of(ruled_out, y, label), X.shape[0]
        labels = read_labels(said, label, classes=self.classes, n=n)
        loss, recipe_options, prior = self._loss()
        repeatable = self.checkpoint is None or self.random_state is not None
        rule = "random_state must be a number with a checkpoint"
        require(repeatable, f"{rule}, so that a second fit goes on with the same; got None.")
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=5).tolist()
        rows = np.flatnonzero(labels.some if weight is None else labels.some & (weight > 0))
        rule = "sample_weight must be positive for an item with a label"
        require(len(rows), f"{rule}; got none.")
        rows, held = split_rows(rows, self.validation_share, patience=self.patience, seed=seeds[0])
        given = self._given_transition(labels)
        prepare, k = make_input(X), len(labels.classes)
        make = model_maker(self.model, shape=self.item_shape_, n_outputs=k, hidden=self.hidden)
        check_outputs(make(seeds[1]), X, prepare, k)
        own = self.get_params(deep=False)
        fit = ModelFit(
            items=X,
            labels=labels,
            weight=weight,
            settings=Settings(**{f.name: own[f.name] for f in fields(Settings) if f.name in own}),
            device=self._device(),
            make=make,
            prepare=prepare,
            recipe=self.recipe,
            recipe_options=recipe_options,
            estimated=self.transition == "estimated" if isinstance(self.transition, str) else False,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
        )
        if given is None:
            with show_progress("anchors", self.epochs, shown=self.verbose) as progress:
                given = fit.estimate_transition(rows, seeds=seeds[2:5], progress=progress)
        epochs = fit.contrast(given) + self.epochs
        with show_progress("training", epochs, shown=self.verbose) as progress:
            options: dict[str, Any] = {"seed": seeds[1], "progress": progress, "prior": prior}
            model, context, history = fit.run(loss, given, rows, held=held, **options)
        self.classes_ = labels.classes
        self.model_, self.context_, self.loss_, self.history_ = model, context, loss, history
        self.held_out_, self._prepare = held, prepare
        self.transition_ = context.trained()
        source, hidden = self.transition_.source, self.transition_.oracle
        hidden = hidden and source != "oracle"  # true labels were seen all the same
        self.transition_source_ = f"{source} (oracle)" if hidden else source
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest chance; for cpe losses that is the one whose row of T is
        nearest.
        """
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[chances.argmax(axis=1)])

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Chances of the classes, in the order of ``classes_``: softmax of the logits.

        A cpe model is decoded by the L1 distance d_k of its chances q of the ruled-out class to the
        rows T[k]; its chances are (1/d_k) / Σ_j (1/d_j): certain at a row of T, even where all rows
        are equally far. They rank, and are not calibrated.
        """
        logits = self._logits(X)
        if self.loss_.decode == "argmax":
            return np.asarray(logits.double().softmax(dim=1).float().numpy())
        near = 1 / row_distances(logits, self.loss_, self.context_).double().clamp(min=1e-12)
        return np.asarray((near / near.sum(dim=1, keepdim=True)).float().numpy())

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of ``predict_proba``, finite where a chance is too small for a float."""
        if not hasattr(self, "loss_") or self.loss_.decode == "argmax":
            return np.asarray(self._logits(X).double().log_softmax(dim=1).numpy())
        return np.asarray(np.log(np.maximum(self.predict_proba(X).astype(np.float64), 1e-30)))

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Logits, so that their softmax is ``predict_proba``; for two classes their difference, as
        everywhere in scikit-learn.
        """
        check_is_fitted(self)
        plain = self.loss_.decode == "argmax"
        found = self._logits(X).numpy() if plain else self.predict_log_proba(X).astype(np.float32)
        return np.asarray(found[:, 1] - found[:, 0] if found.shape[1] == 2 else found)

    def score(
        self,
        X: Any,
        ruled_out: Any = None,
        *,
        label: Any = None,
        sample_weight: ArrayLike | None = None,
        y: Any = None,
    ) -> float:
        """Estimated accuracy from ruled-out classes alone: the mean of T⁻¹[ruled out, predicted],
        over an item's labels, then over items.

        It is unbiased if T is right, and may lie outside [0, 1]. ``estimate_model_accuracy`` gives
        its interval. With ``label=``, the true classes, it is the accuracy on items that have one.

        Raises
        ------
        SingularTransition
            If T has no inverse to speak of.

        Warns
        -----
        EvidenceWarning
            If no accuracy explains the labels, as where true labels were passed as ruled-out ones.
        """
        check_is_fitted(self)
        answers = np.searchsorted(self.classes_, self.predict(X))
        n, weight = len(answers), check_weight(sample_weight, answers)
        if label is not None:
            rule = "label must come alone"
            require(ruled_out is None and y is None, f"{rule}; got ruled-out classes too.")
            known = read_labels(None, label, classes=self.classes_, n=n).known
            used = known >= 0 if weight is None else (known >= 0) & (weight > 0)
            each = (answers == known)[used]
            return float(np.average(each, weights=None if weight is None else weight[used]))
        said = self._one_of(ruled_out, y, None)
        labels = read_labels(said, None, classes=self.classes_, n=n)
        self.transition_.inverse()  # a singular T is named as such
        scores = transition_scores(self.transition_.matrix)
        used = labels.some if weight is None else labels.some & (weight > 0)
        mask = labels.mask[used]
        each = (mask * scores.T[answers[used]]).sum(axis=1) / mask.sum(axis=1)
        if each.mean() + 5 * each.std() / len(each) ** 0.5 + 5 / len(each) < 0:
            came = f"an estimated accuracy of {each.mean():.3g}, which no model has"
            remedy = "Pass true classes as label=; else the labels do not follow T"
            warnings.warn(
                f"ruled_out must be what the items are not; got {came}. {remedy}.",
                EvidenceWarning,
                stacklevel=2,
            )
        return float(np.average(each, weights=None if weight is None else weight[used]))

    def save(self, path: str | Path) -> None:
        """Write a folder with ``model.json`` and ``weights.pt``; nothing in it is code. See
        :meth:`load`.
        """
        check_is_fitted(self)
        folder = Path(path)
        params, T = self.get_params(deep=False), self.transition
        named, classes, options = isinstance(self.model, str), self.classes, self.loss_options
        params |= {
            "model": self.model if named else None,
            "transition": T if isinstance(T, str) else _from_transition(T),
            "classes": None if classes is None else np.asarray(list(classes)).tolist(),
            "hidden": [int(size) for size in self.hidden],
            "said_by": None if self.said_by is None else [str(name) for name in self.said_by],
            "loss_options": options and {k: _plain(v) for k, v in options.items()},
            "checkpoint": None if self.checkpoint is None else str(self.checkpoint),
            "random_state": self.random_state if isinstance(self.random_state, int) else None,
        }
        file = io.BytesIO()
        torch.save({"model": _on_host(self.model_), "context": _on_host(self.context_)}, file)
        state = {
            "schema": SCHEMA,
            "version": __version__,
            "weights": hashlib.sha256(file.getvalue()).hexdigest(),
            "named_model": named,
            "params": {name: _plain(value) for name, value in params.items()},
            "classes": self.classes_.tolist(),
            "classes_dtype": "object" if self.classes_.dtype == object else self.classes_.dtype.str,
            "item_shape": list(self.item_shape_),
            "n_features_in": self.n_features_in_,
            "feature_names_in": getattr(self, "feature_names_in_", np.empty(0)).tolist(),
            "transition": _from_transition(self.transition_),
            "start": _from_transition(self.context_.transition),
            "transition_source": self.transition_source_,
            "history": self.history_.rows,
            "held_out": self.held_out_.tolist(),
            "input": _from_input(self._prepare),
        }
        text = json.dumps(state, indent=1, allow_nan=False, ensure_ascii=False)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("weights.pt", file.getvalue()), ("model.json", text.encode())):
            with replaced(folder / name) as part:
                part.write(content)

    @classmethod
    def load(cls, path: str | Path, *, model: Any = None) -> Self:
        """Read what :meth:`save` wrote. A model that was no name (a module or a function) must be
        passed again.
        """
        folder = Path(path)
        try:
            state = json.loads((folder / "model.json").read_text(encoding="utf-8"))
            weights = (folder / "weights.pt").read_bytes()
        except (OSError, ValueError) as error:
            rule = "path must be a folder with model.json and weights.pt"
            raise ArgumentError(f"{rule}; got {folder}, which cannot be read: {error}.") from error
        ours = isinstance(state, dict) and state.get("schema") == SCHEMA
        require(ours, f"path must hold a classifier ({SCHEMA}); got {folder} with another content.")
        same = hashlib.sha256(weights).hexdigest() == state["weights"]
        rule = "weights.pt must be the file that model.json names"
        require(same, f"{rule}; got another one in {folder}. Save the classifier again.")
        rule = "model must be passed to load, since no name of it was saved"
        require(state["named_model"] or model is not None, f"{rule}; got None for {folder}.")
        params = state["params"]
        params["hidden"] = tuple(params["hidden"])
        params["model"] = params["model"] if model is None else model
        if isinstance(params["transition"], dict):
            params["transition"] = _to_transition(params["transition"])
        fitted = cls(**params)
        fitted.classes_ = np.array(state["classes"], dtype=np.dtype(state["classes_dtype"]))
        fitted.item_shape_ = tuple(state["item_shape"])
        fitted.n_features_in_ = state["n_features_in"]
        if state["feature_names_in"]:
            fitted.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
        fitted.transition_ = _to_transition(state["transition"])
        fitted.transition_source_ = state["transition_source"]
        fitted.history_ = History(state["history"])
        fitted.held_out_ = np.array(state["held_out"], dtype=np.intp)
        fitted._prepare = _to_input(state["input"])
        shape, k = fitted.item_shape_, len(fitted.classes_)
        make = model_maker(fitted.model, shape=shape, n_outputs=k, hidden=fitted.hidden)
        options = (fitted.loss_options or {}) if fitted.recipe == "plain" else {}
        options = {name: value for name, value in options.items() if name != "prior"}
        fitted.loss_, module = get_loss(fitted.loss, options), make(0)
        try:
            tensors = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
            context = fitted.loss_.make_context(_to_transition(state["start"]))
            if fitted.precision == "fp64":
                module.double()
                context.double()
            if "pi_bar" in tensors["context"]:
                context.pi_bar = torch.empty_like(tensors["context"]["pi_bar"])
            context.load_state_dict(tensors["context"])
            module.load_state_dict(tensors["model"])
        except (RuntimeError, KeyError, TypeError, pickle.UnpicklingError) as error:
            rule = "weights.pt must fit the model that model.json describes"
            raise ArgumentError(f"{rule}; got others: {error}.") from error
        fitted.model_, fitted.context_ = module.eval(), context
        return fitted

    def _one_of(self, ruled_out: Any, y: Any, label: Any) -> Any:
        rule = "ruled_out must not be given twice"
        both = ruled_out is not None and y is not None
        require(not both, f"{rule}; got y too, which is another name of it.")
        found = y if ruled_out is None else ruled_out
        rule = "this estimator requires y to be passed, but the target y is None"
        require(found is not None or label is not None, f"ruled_out must be given: {rule}.")
        return found

    def _loss(self) -> tuple[Loss, dict[str, Any], Any]:
        """The row of the table, options of the recipe, and class shares of scarce."""
        options = dict(self.loss_options or {})
        if self.recipe == "plain":
            prior = options.pop("prior", None) if self.loss == "scarce" else None
            return get_loss(self.loss, options), {}, prior
        known = self.recipe == "consistency"
        require(known, f"recipe must be plain or consistency; got {self.recipe!r}.")
        rule = "loss must be scl_nl with recipe consistency, which is built on it"
        require(self.loss == "scl_nl", f"{rule}; got {self.loss!r}.")
        rule = f"loss_options of recipe consistency must be among {', '.join(RECIPE_OPTIONS)}"
        for name in options:
            require(name in RECIPE_OPTIONS, f"{rule}; got {name!r}.")
        return get_loss(self.loss), options, None

    def _given_transition(self, labels: KnownLabels) -> Transition | None:
        """The matrix, or None where it is to be estimated."""
        k = len(labels.classes)
        if isinstance(self.transition, str):
            rule = "transition must be uniform, anchors, estimated, a matrix or a Transition"
            known = self.transition in ("uniform", "anchors", "estimated")
            require(known, f"{rule}; got {self.transition!r}.")
            if self.transition == "estimated":
                rule = "transition estimated must come with recipe consistency, a validation_share"
                came = f"{self.recipe}, {self.validation_share} and {(labels.known >= 0).sum()}"
                ok = self.recipe == "consistency" and self.validation_share > 0
                ok = ok and not (labels.known >= 0).any()
                require(ok, f"{rule} and no label; got {came}. Other recipes have anchors.")
            return None if self.transition == "anchors" else Transition.uniform(k)
        given = self.transition
        given = given if isinstance(given, Transition) else Transition(given)
        if self.classes is not None:
            require_sorted(self.classes, labels.classes, "a transition matrix")
        own = labels.classes.tolist()[:8]
        rule = f"transition must have a row for each of the {k} classes {own}"
        came, remedy = f"{given.n_classes} rows", "Pass classes= if some are never ruled out."
        require(given.n_classes == k, f"{rule}; got {came}. {remedy}")
        return given

    def _device(self) -> torch.device:
        if self.device == "auto":
            return own_device()
        try:
            return torch.device(self.device)
        except RuntimeError as error:
            rule = "device must be auto or a name that torch knows, as cpu or cuda:0"
            raise ArgumentError(f"{rule}; got {self.device!r}.") from error

    def _logits(self, X: Any) -> torch.Tensor:
        check_is_fitted(self)
        X = check_items(self, X, reset=False)
        images, pixels = len(self.item_shape_) == 3, isinstance(self._prepare, Views)
        rule = "X must have images of the kind that fit saw (uint8 or floats)"
        require(not images or pixels == (X.dtype == np.uint8), f"{rule}; got {X.dtype}.")
        device = self._device()
        if self._prepare is not None:
            self._prepare.to(device)
        return all_logits(self.model_.to(device), X, prepare=self._prepare)

    def __getstate__(self) -> dict[str, Any]:
        """Modules go to the host, so that a machine without a GPU can read them."""
        state: dict[str, Any] = super().__getstate__()
        for name in ("model_", "context_", "_prepare"):
            if isinstance(state.get(name), nn.Module):
                state[name] = copy.deepcopy(state[name]).cpu()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # y says what the class is not, so predictions must differ from it
        tags.classifier_tags.poor_score = True
        return tags
