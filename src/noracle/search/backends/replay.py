"""A model that repeats a recording, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

from noracle.errors import EvidenceError
from noracle.search.model import Completion, ModelError, Request, Usage

_FINISHES = ("stop", "length", "refused", "empty")


class ReplayModel:
    """Replies out of a recording that :func:`~noracle.search.cache.record` wrote.

    ``name`` is the name of the recorded model, so that calls have the addresses that they had.
    ``model`` picks one where the recording holds several.
    """

    def __init__(self, recording: str | Path, *, model: str | None = None) -> None:
        self.path = Path(recording)
        replies = _read(self.path)
        names = sorted({name for name, _ in replies.values()})
        if model is None and len(names) != 1:
            raise EvidenceError(
                f"recording must hold one model, or model must name one; {str(self.path)!r} holds {', '.join(names) or 'none'}."
            )
        if model is not None and model not in names:
            raise EvidenceError(
                f"model must be in the recording; got {model!r}, {str(self.path)!r} holds {', '.join(names) or 'none'}."
            )
        self.name = model or names[0]
        self._replies = {
            digest: reply for digest, (name, reply) in replies.items() if name == self.name
        }

    async def complete(self, request: Request) -> Completion:
        """The recorded reply; :class:`ModelError` where this call was not recorded."""
        reply = self._replies.get(request.digest(self.name))
        if reply is None:
            raise ModelError(
                f"This call to {self.name} is not in the recording {self.path.name!r}: an item, a prompt, a setting or the seed"
                " differs from the recorded run. Record it again."
            )
        return reply

    async def close(self) -> None:
        """Nothing to let go of."""


def _read(path: Path) -> dict[str, tuple[str, Completion]]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise EvidenceError(
            f"recording must be a file that can be read; got {str(path)!r} ({error.strerror})."
        ) from error
    except UnicodeDecodeError as error:
        raise EvidenceError(f"recording must be UTF-8; {str(path)!r} is not.") from error
    replies = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if row["finish"] not in _FINISHES or not isinstance(row["text"], str):
                raise ValueError("text or finish is wrong")
            usage = Usage(int(row["input_tokens"]), int(row["output_tokens"]))
            replies[str(row["digest"])] = (
                str(row["model"]),
                Completion(text=row["text"], finish=row["finish"], usage=usage),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise EvidenceError(
                f"recording must hold one call a line; {str(path)!r} does not at line {number} ({error})."
            ) from error
    return replies
