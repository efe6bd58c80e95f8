"""Checkpoints: one file that is either the old one or the new one, whenever the process is killed."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import torch

from noracle.errors import ArgumentError

SCHEMA = "checkpoint/1"


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write to a temporary name, force it to the disk, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as file:
        torch.save({"schema": SCHEMA, **state}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_checkpoint(path: Path, *, same: dict[str, Any]) -> dict[str, Any] | None:
    """What was written, on the host, or None where there is no file; ``same`` must be as it was
    then.

    Only tensors and plain values are read, never code.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        EOFError,
        pickle.UnpicklingError,
        struct.error,
    ) as error:
        raise ArgumentError(
            f"checkpoint must be a file that training wrote; got {path}, which cannot be read. Remove it."
        ) from error
    if not isinstance(state, dict) or state.get("schema") != SCHEMA:
        raise ArgumentError(
            f"checkpoint must be a file that training wrote ({SCHEMA}); got {path}. Name another file."
        )
    others = [name for name, value in same.items() if state.get(name) != value]
    if others:
        came = ", ".join(f"{name} {_difference(state.get(name), same[name])}" for name in others)
        raise ArgumentError(
            f"checkpoint must come from the same run; got {path} with other {came}. Remove it or name another file."
        )
    return state


def _difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        return (
            f"({', '.join(f'{name} {old.get(name)}, now {new.get(name)}' for name in names[:5])})"
        )
    return f"({old}, now {new})"
