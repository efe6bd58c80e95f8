"""What a server is told when it starts."""

from __future__ import annotations

import dataclasses
import urllib.parse

from noracle.errors import ArgumentError

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """How pages and the JSON interface behave.

    Parameters
    ----------
    base_url
        The address that people type, without a path: ``http://127.0.0.1:8000``,
        ``https://labels.example.org``.
    secure
        Whether people reach the server through TLS (its own, or a declared proxy's): ``__Host-``
        cookies that are Secure, and HSTS.
    key
        At least 32 random bytes of this server, kept in a file: they sign CSRF tokens.
    max_body, max_upload
        Bytes of an ordinary request, and of a file of items or answers.
    sign_ins, sign_in_seconds
        Attempts to sign in or to join, per account and (ten times as many) per address, in this
        time.
    answers_per_minute
        Questions and answers of one session, at each server process. It stops a script that runs
        away, no person.
    changes_per_minute
        Other changes and exports of one session.
    metrics_token
        If given, ``/metrics`` wants it as a bearer token; else it answers direct calls from this
        machine alone.

    Examples
    --------
    >>> WebSettings(base_url="http://127.0.0.1:8000", secure=False, key=bytes(range(32))).cookie
    'noracle'
    >>> sorted(WebSettings(base_url="https://labels.example.org", secure=True, key=bytes(range(32))).origins)
    ['https://labels.example.org']
    """

    base_url: str
    secure: bool
    key: bytes = dataclasses.field(repr=False)
    max_body: int = 256 * 1024
    max_upload: int = 256 * 1024 * 1024
    sign_ins: int = 10
    sign_in_seconds: float = 900.0
    answers_per_minute: int = 300
    changes_per_minute: int = 240
    session_seconds: int = 7 * 86400
    metrics_token: str | None = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.base_url)
        fits = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.path in ("", "/")
            and not parts.query
            and not parts.fragment
        )
        if not fits or "@" in parts.netloc:
            raise ArgumentError(
                f"base_url must be http(s)://host[:port] without a path; got {self.base_url!r}."
            )
        if self.secure != (parts.scheme == "https"):
            raise ArgumentError(
                f"secure must be True for https and False for http; got {self.secure} for {self.base_url!r}."
            )
        for name in ("sign_ins", "answers_per_minute", "changes_per_minute"):
            if getattr(self, name) < 1:
                raise ArgumentError(f"{name} must be 1 or more; got {getattr(self, name)}.")
        if len(self.key) < 32 or len(set(self.key)) < 8:
            raise ArgumentError(
                f"key must be 32 random bytes or more; got {len(self.key)} bytes. Make one with secrets.token_bytes(32)."
            )

    @property
    def hosts(self) -> frozenset[str]:
        """Values of the Host header that are ours; on a loopback address, its other names too."""
        parts = urllib.parse.urlsplit(self.base_url)
        names = set(_LOOPBACK) if parts.hostname in ("127.0.0.1", "localhost", "::1") else set()
        port = "" if parts.port is None else f":{parts.port}"
        return frozenset({parts.netloc.lower()} | {f"{name}{port}" for name in names})

    @property
    def origins(self) -> frozenset[str]:
        """Values of the Origin header that are ours."""
        scheme = urllib.parse.urlsplit(self.base_url).scheme
        return frozenset(f"{scheme}://{host}" for host in self.hosts)

    @property
    def cookie(self) -> str:
        """Name of the session's cookie."""
        return "__Host-noracle" if self.secure else "noracle"
