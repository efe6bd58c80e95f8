"""What is written: a file that is there as a whole or not at all, and values as one text with one
hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from noracle.errors import ArgumentError

encode_plain = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode
"""JSON as :func:`canonical` writes it, of values that are known to be plain."""


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = False) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name when all went well; ``durable``: once it
    is on the disk.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "a.txt") as part:
    ...         _ = part.write_text("whole")
    ...     [file.name for file in Path(folder).iterdir()]
    ['a.txt']
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if durable:
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        # A temporary file is private to the user; a result is like any other file.
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def canonical(value: object) -> str:
    """JSON with sorted names and without spaces; floats as ``repr`` writes them.

    Examples
    --------
    >>> canonical({"b": 0.1, "a": [1, None, "é"]})
    '{"a":[1,null,"é"],"b":0.1}'
    """
    try:
        text = encode_plain(value)
        text.encode()
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        rule = "value must be JSON: text in UTF-8, finite numbers, lists and names"
        raise ArgumentError(f"{rule}; got something else ({error}).") from None
    return text


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
