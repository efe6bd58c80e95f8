"""The trials of studies that ended, one JSON line each."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from noracle.errors import EvidenceError
from noracle.learn.trial import LabelSetting, Trial


class Journal:
    """Trials that ended, one JSON line each, among other lines; one that a crash cut short is
    ignored, and the trial is run anew.

    Parameters
    ----------
    same
        What a line must say for its trial to count: digests of the data, and how models are
        trained. What a line of an older version says nothing about is not compared.
    labels
        Ways to make labels; a trial counts where its labels were made in the same way under the
        same name.
    """

    def __init__(self, path: Path, same: Mapping[str, Any], labels: Iterable[LabelSetting]) -> None:
        self.path, self.same, self.lock = path, dict(same), threading.Lock()
        self.labels = {setting.name: dataclasses.asdict(setting) for setting in labels}
        self.done: dict[Trial, dict[str, Any]] = {}
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        self.cut_short = bool(text) and not text.endswith("\n")
        for number, line in enumerate(text.split("\n"), start=1):
            try:
                found = json.loads(line)
            except json.JSONDecodeError:
                continue
            if not isinstance(found, dict):
                raise EvidenceError(
                    f"journal must hold JSON objects; got something else in line {number} of {path}."
                )
            if "trial" in found:
                self._take(found, number)

    def _take(self, found: dict[str, Any], number: int) -> None:
        made = found.get("made")
        if made not in self.labels.values() or any(
            found.get(name, value) != value for name, value in self.same.items()
        ):
            return
        try:
            trial = Trial(**found.pop("trial"))
        except TypeError:
            raise EvidenceError(
                f"journal must name the fields of a trial; got others in line {number} of {self.path}."
            ) from None
        self.done[trial] = found

    def add(self, trial: Trial, found: Mapping[str, Any]) -> None:
        """Keep a trial; it is on the disk when this returns."""
        whole = {
            "bench": "learn-trial",
            "trial": dataclasses.asdict(trial),
            "made": self.labels[trial.labels],
            **self.same,
            **found,
        }
        line = json.dumps(whole, allow_nan=False, ensure_ascii=False)
        with self.lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(("\n" if self.cut_short else "") + line + "\n")
                file.flush()
                os.fsync(file.fileno())
            self.cut_short = False
            self.done[trial] = dict(found)
