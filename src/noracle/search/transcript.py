"""Every exchange with a model as it happened: prompt, reply, tokens, cost, time and error. One zstd
frame of JSON for each, so that a killed run loses none that was paid.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any

import zstandard

from noracle.errors import EvidenceError

TRANSCRIPT = "transcript.jsonl.zst"
_PIECE = 2**14
ABOUT: ContextVar[Mapping[str, Any]] = ContextVar("about", default=MappingProxyType({}))
"""What the call that is made now is for: ``workflow``, ``item``, ``node``, ``place``, ``repeat``; or
``designer``, the number of the candidate that is being written."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One call. ``reply`` is None where there was none, and ``error`` says why; ``cached`` says that
    the reply came out of another run's calls. ``cost`` is None where no price is known.
    """

    at: float
    model: str
    digest: str
    about: Mapping[str, Any]
    messages: tuple[Mapping[str, str], ...]
    settings: Mapping[str, Any]
    reply: str | None = None
    finish: str = ""
    error: str = ""
    tries: int = 1
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    cached: bool = False


class Transcript(contextlib.AbstractContextManager["Transcript"]):
    """An open file of exchanges; one process at a time, which the run folder sees to.

    Examples
    --------
    >>> import tempfile
    >>> said = Exchange(at=0.0, model="m", digest="1f", about={"item": 7}, messages=(), settings={}, reply="Hi")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Transcript(Path(folder) / TRANSCRIPT) as transcript:
    ...         transcript.add(said)
    ...     [exchange.reply for exchange in read_exchanges(Path(folder) / TRANSCRIPT)]
    ['Hi']
    """

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        self._file, self._begun = path.open("r+b"), False
        self._pack = zstandard.ZstdCompressor()

    def add(self, exchange: Exchange) -> None:
        """Write one; it is on its way to the disk when this returns."""
        if not self._begun:  # only now is it certain that no other process writes
            whole = max((end for end, _ in _frames(self._file.read())), default=0)
            self._file.truncate(whole)  # half a frame is what a killed process left
            self._file.seek(whole)
            self._begun = True
        text = json.dumps(dataclasses.asdict(exchange), ensure_ascii=False) + "\n"
        self._file.write(self._pack.compress(text.encode("utf-8", "replace")))
        self._file.flush()

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where each whole frame ends, and what it holds."""
    at, view = 0, memoryview(data)
    while at < len(data):
        unpack, text = zstandard.ZstdDecompressor().decompressobj(), b""
        while not unpack.eof:
            piece, at = view[at : at + _PIECE], at + _PIECE
            try:
                text += unpack.decompress(piece)
            except zstandard.ZstdError:
                return
            if not piece:
                return
        at = min(at, len(data)) - len(unpack.unused_data)
        yield at, text


def read_exchanges(path: Path) -> Iterator[Exchange]:
    """All exchanges of a file, in the order in which they ended; none where there is no file."""
    if not path.exists():
        return
    names = {field.name for field in dataclasses.fields(Exchange)}
    for _, text in _frames(path.read_bytes()):
        try:
            values: dict[str, Any] = json.loads(text)
            messages = tuple(dict(message) for message in values["messages"])
            known = {name: value for name, value in values.items() if name in names}
            yield Exchange(**{**known, "messages": messages})
        except (ValueError, TypeError, KeyError):
            rule, came = "must hold one exchange a frame", f"something else in {str(path)!r}"
            raise EvidenceError.of("transcript", rule, came) from None


def show(exchange: Exchange) -> Iterator[str]:
    r"""An exchange in lines for a terminal.

    Examples
    --------
    >>> said = Exchange(at=0.0, model="m", digest="1f", about={"node": "a"}, messages=({"role": "user", "text": "Even?"},),
    ...     settings={}, reply="Yes", finish="stop", seconds=0.5, input_tokens=3, output_tokens=1)
    >>> print(*show(said), sep="\n")
    --- m, node a: stop, 3 + 1 tokens, 0.50 s
    [user]
    Even?
    [reply]
    Yes
    """
    yield f"--- {headline(exchange)}"
    for message in exchange.messages:
        yield f"[{message['role']}]"
        yield message["text"]
    yield "[reply]" if exchange.reply is not None else "[no reply]"
    yield exchange.reply if exchange.reply is not None else exchange.error


def headline(exchange: Exchange) -> str:
    """Who was asked, for what, how it ended and what it took."""
    node = exchange.about.get("node", "")
    place = f", node {node}" if node else ""
    tries = f", {exchange.tries} tries" if exchange.tries > 1 else ""
    cost = "" if exchange.cost is None else f", cost {exchange.cost:.6g}"
    how = "cached" if exchange.cached else exchange.finish or "failed"
    tokens = f"{exchange.input_tokens:,} + {exchange.output_tokens:,} tokens"
    return f"{exchange.model}{place}: {how}, {tokens}{cost}, {exchange.seconds:.2f} s{tries}"
