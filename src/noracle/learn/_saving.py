"""A fitted classifier as two files: plain JSON, and weights that are read as tensors only. No
pickled code.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from noracle._version import __version__
from noracle.errors import ArgumentError
from noracle.learn._fitting import model_maker
from noracle.learn._objective import ChannelsFirst, Floats
from noracle.learn.augment import Views
from noracle.learn.losses import get_loss
from noracle.learn.settings import History
from noracle.learn.transition import Transition

SCHEMA = "classifier/1"
NAMED = ("linear", "mlp", "resnet18", "resnet34")


def save(fitted: Any, folder: Path) -> None:
    """Weights first, then the JSON that names their digest: a half-written pair is noticed."""
    params = fitted.get_params(deep=False)
    named = isinstance(fitted.model, str)
    params["model"] = fitted.model if named else None
    params["transition"] = (
        fitted.transition
        if isinstance(fitted.transition, str)
        else _from_transition(_as_transition(fitted.transition))
    )
    params["classes"] = (
        None if fitted.classes is None else np.asarray(list(fitted.classes)).tolist()
    )
    params["hidden"] = [int(size) for size in fitted.hidden]
    params["loss_options"] = (
        None
        if fitted.loss_options is None
        else {k: _plain(v) for k, v in fitted.loss_options.items()}
    )
    params["checkpoint"] = None if fitted.checkpoint is None else str(fitted.checkpoint)
    params["random_state"] = fitted.random_state if isinstance(fitted.random_state, int) else None
    file = io.BytesIO()
    torch.save({"model": _on_host(fitted.model_), "context": _on_host(fitted.context_)}, file)
    state = {
        "schema": SCHEMA,
        "version": __version__,
        "weights": hashlib.sha256(file.getvalue()).hexdigest(),
        "named_model": named,
        "params": {name: _plain(value) for name, value in params.items()},
        "classes": fitted.classes_.tolist(),
        "classes_dtype": "object" if fitted.classes_.dtype == object else fitted.classes_.dtype.str,
        "item_shape": list(fitted.item_shape_),
        "n_features_in": fitted.n_features_in_,
        "feature_names_in": getattr(fitted, "feature_names_in_", np.empty(0)).tolist(),
        "transition": _from_transition(fitted.transition_),
        "start": _from_transition(fitted.context_.transition),
        "transition_source": fitted.transition_source_,
        "history": fitted.history_.rows,
        "held_out": fitted.held_out_.tolist(),
        "input": _from_input(fitted._prepare),
    }
    text = json.dumps(state, indent=1, allow_nan=False, ensure_ascii=False)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "weights.pt", file.getvalue())
    _write(folder / "model.json", text.encode("utf-8"))


def load(cls: Any, folder: Path, *, model: Any = None) -> Any:
    """The classifier that was saved."""
    try:
        state = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        weights = (folder / "weights.pt").read_bytes()
    except (OSError, ValueError) as error:
        raise ArgumentError(
            f"path must be a folder with model.json and weights.pt; got {folder}, which cannot be read: {error}."
        ) from error
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise ArgumentError(
            f"path must hold a classifier ({SCHEMA}); got {folder} with another content."
        )
    if hashlib.sha256(weights).hexdigest() != state["weights"]:
        raise ArgumentError(
            f"weights.pt must be the file that model.json names; got another one in {folder}. Save the classifier again."
        )
    if not state["named_model"] and model is None:
        raise ArgumentError(
            f"model must be passed to load, since no name of it was saved; got None for {folder}."
        )
    params = state["params"]
    params["hidden"] = tuple(params["hidden"])
    params["model"] = params["model"] if model is None else model
    if isinstance(params["transition"], dict):
        params["transition"] = _to_transition(params["transition"])
    fitted = cls(**params)
    fitted.classes_ = np.array(state["classes"], dtype=np.dtype(state["classes_dtype"]))
    fitted.item_shape_, fitted.n_features_in_ = tuple(state["item_shape"]), state["n_features_in"]
    if state["feature_names_in"]:
        fitted.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
    fitted.transition_, fitted.transition_source_ = (
        _to_transition(state["transition"]),
        state["transition_source"],
    )
    fitted.history_, fitted.held_out_ = (
        History(state["history"]),
        np.array(state["held_out"], dtype=np.intp),
    )
    fitted._prepare = _to_input(state["input"])
    _fill(fitted, state, weights)
    return fitted


def _fill(fitted: Any, state: dict[str, Any], weights: bytes) -> None:
    """Module and context with the saved numbers."""
    k = len(fitted.classes_)
    module = model_maker(fitted.model, shape=fitted.item_shape_, n_outputs=k, hidden=fitted.hidden)(
        0
    )
    options = fitted.loss_options if fitted.recipe == "plain" else None
    fitted.loss_ = get_loss(fitted.loss, {n: v for n, v in (options or {}).items() if n != "prior"})
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
        raise ArgumentError(
            f"weights.pt must fit the model that model.json describes; got others: {error}."
        ) from error
    fitted.model_, fitted.context_ = module.eval(), context


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _on_host(module: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in module.state_dict().items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _as_transition(value: Any) -> Transition:
    return value if isinstance(value, Transition) else Transition(value)


def _from_transition(transition: Transition) -> dict[str, Any]:
    return {
        "matrix": transition.matrix.tolist(),
        "source": transition.source,
        "detail": transition.detail,
        "oracle": transition.oracle,
    }


def _to_transition(state: dict[str, Any]) -> Transition:
    return Transition(np.array(state["matrix"]), state["source"], state["detail"], state["oracle"])


def _from_input(prepare: nn.Module | None) -> dict[str, Any] | None:
    if isinstance(prepare, Views):
        return {
            "kind": "pixels",
            "mean": prepare.mean.flatten().tolist(),
            "sd": prepare.sd.flatten().tolist(),
        }
    return (
        None
        if prepare is None
        else {"kind": "images" if isinstance(prepare, ChannelsFirst) else "floats"}
    )


def _to_input(state: dict[str, Any] | None) -> nn.Module | None:
    if state is None:
        return None
    if state["kind"] == "pixels":
        return Views(state["mean"], state["sd"])
    return ChannelsFirst() if state["kind"] == "images" else Floats()
