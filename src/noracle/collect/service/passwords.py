"""Passwords: Argon2id, outside every transaction."""

from __future__ import annotations

import functools
import secrets
import threading
import unicodedata
from typing import TYPE_CHECKING

from noracle.collect.errors import Refused
from noracle.errors import MissingExtra

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST_PASSWORD, LONGEST_PASSWORD = 10, 1000
_two_at_a_time = threading.BoundedSemaphore(2)  # each takes 64 MiB and most of a core


@functools.cache
def _hasher() -> PasswordHasher:
    try:
        from argon2 import PasswordHasher
    except ImportError:
        raise MissingExtra("noracle.collect", "argon2-cffi", "collect") from None
    return PasswordHasher()


@functools.cache
def _nobody() -> str:
    """The hash of a password that nobody has, so that an unknown address takes as long as a wrong
    password.
    """
    return _hasher().hash(secrets.token_urlsafe(32))


def hash_password(password: str) -> str:
    """Argon2id of a password of at least 10 characters; about 0.3 s, so never inside a write and
    never on the event loop.

    Raises
    ------
    Refused
        If the password is too short or too long.
    """
    text = unicodedata.normalize("NFC", password)
    if not SHORTEST_PASSWORD <= len(text) <= LONGEST_PASSWORD:
        raise Refused(
            f"password must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters; got {len(text)}."
        )
    if len(set(text)) < 3:
        raise Refused("password must not repeat one or two characters.")
    with _two_at_a_time:
        return _hasher().hash(text.encode("utf-8", "surrogatepass"))


def password_fits(hashed: str | None, password: str) -> bool:
    """Whether this is the password; takes as long where there is none (``hashed`` None) as where it
    is wrong.
    """
    from argon2.exceptions import Argon2Error, InvalidHashError

    text = unicodedata.normalize("NFC", password)[: LONGEST_PASSWORD + 1]
    with _two_at_a_time:
        try:
            _hasher().verify(hashed or _nobody(), text.encode("utf-8", "surrogatepass"))
        except (Argon2Error, InvalidHashError):
            return False
    return bool(hashed)
