"""Keys: read from the environment at the moment they are sent, kept nowhere, and struck out of
every text that comes back.
"""

from __future__ import annotations

import os
from urllib.parse import quote

from noracle.errors import ArgumentError

OURS, OPENAI = "NORACLE_API_KEY", "OPENAI_API_KEY"
SHORTEST_SECRET = 8
"""Shorter keys (``x``, ``EMPTY``) are placeholders for local servers; striking them out would spoil
replies.
"""

_ENDINGS = ("_API_KEY", "_KEY", "_TOKEN", "_SECRET", "_PASSWORD")


def key_name(named: str | None, *, openai: bool) -> str | None:
    """The environment variable that holds the key: the one that was named, else ours, else
    OpenAI's; None where none is set.

    ``openai`` says that the server is OpenAI's own or on this machine: OpenAI's key goes nowhere
    else unless its variable is named.
    """
    if named is not None:
        return named if os.environ.get(named) else None
    choices = (OURS, OPENAI) if openai else (OURS,)
    return next((name for name in choices if os.environ.get(name)), None)


def key_value(name: str) -> str:
    """The key in this variable. One that cannot stand in a header is refused here, for libraries
    would quote it in their errors.
    """
    value = os.environ[name].strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ArgumentError(
            f"{name} must hold a key of printable ASCII characters without spaces; it does not. Set it again."
        )
    return value


def api_keys() -> tuple[str, ...]:
    """The names of all environment variables that hold keys of models, by their ending."""
    return tuple(name for name in os.environ if name.upper().endswith("_API_KEY"))


def redact(text: str, *names: str | None, others: bool = True) -> str:
    """Strike out the values of these environment variables.

    With ``others`` (right for errors, too rough for replies) also those of every variable whose
    name says that it holds a secret.

    Examples
    --------
    >>> os.environ["EXAMPLE_API_KEY"] = "very-secret-key"
    >>> redact("Wrong key: very-secret-key")
    'Wrong key: [key]'
    >>> del os.environ["EXAMPLE_API_KEY"]
    """
    values = {
        value
        for name, value in os.environ.items()
        if name in names or (others and name.upper().endswith(_ENDINGS))
    }
    for value in sorted({v.strip() for v in values}, key=len, reverse=True):
        if len(value) >= SHORTEST_SECRET:
            text = text.replace(value, "[key]").replace(quote(value, safe=""), "[key]")
    return text
