"""What a server is told: the database, the secret key, and where it may listen.

Plain http is for this machine alone. Whoever listens elsewhere gives a certificate, or says which
https address a proxy answers at.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import secrets
import stat
import urllib.parse
from pathlib import Path

from noracle.errors import ArgumentError

DEFAULT_DB = "sqlite:///noracle.db"
METRICS_TOKEN = "NORACLE_METRICS_TOKEN"  # noqa: S105 (the name of a variable)
_KEY_BYTES = 32
_TOKEN_LETTERS = 16


def database_url(text: str) -> str:
    """The address of a database; a plain path is a file of SQLite.

    Examples
    --------
    >>> database_url("labels.db"), database_url("postgresql://db.example.org/labels")
    ('sqlite:///labels.db', 'postgresql://db.example.org/labels')
    """
    scheme, mark, _ = text.partition("://")
    if not text or text.isspace():
        raise ArgumentError(
            "--db must be sqlite:///path, postgresql://host/name or a path; got nothing."
        )
    if not mark:
        return f"sqlite:///{text}"
    if scheme not in ("sqlite", "postgresql", "postgres"):
        raise ArgumentError(
            f"--db must be sqlite:///path, postgresql://host/name or a path; got {scheme}://…."
        )
    return text


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite database; None for PostgreSQL."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def key_path(url: str, given: str | None = None) -> Path:
    """Where the secret key is: beside a SQLite database, else ``noracle.key`` in this folder."""
    if given:
        return Path(given)
    file = sqlite_path(url)
    return Path("noracle.key") if file is None else file.with_name(file.name + ".key")


def make_key(path: Path) -> None:
    """Write a new random key that only its owner can read; an existing one is never replaced."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ArgumentError(
            f"the key file must not exist yet; got {str(path)!r}. Keep it, or name another with --key-file."
        ) from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(_KEY_BYTES) + "\n")


def read_key(path: Path) -> bytes:
    """The secret key; refused if others can read it, or if it is not one that ``make_key`` writes."""
    try:
        text, mode = path.read_text(encoding="ascii").strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError):
        raise ArgumentError(
            f"the key file must be readable; got {str(path)!r}. Make one with: noracle collect init"
        ) from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ArgumentError(
            f"the key file must be readable by its owner alone; got mode {mode & 0o777:o}. Run: chmod 600 {path}"
        )
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES or len(set(key)) < 8:
        raise ArgumentError(
            f"the key file must hold {_KEY_BYTES} random bytes as hexadecimal digits; got something else in {str(path)!r}."
        )
    return key


def metrics_token() -> str | None:
    """The token that ``/metrics`` wants, from the environment: arguments can be seen by others.
    None if it is not set or empty.
    """
    token = os.environ.get(METRICS_TOKEN, "")
    if not token:
        return None
    if len(token) < _TOKEN_LETTERS or not all("!" <= c <= "~" for c in token):
        raise ArgumentError(
            f"${METRICS_TOKEN} must be {_TOKEN_LETTERS} or more ASCII letters, digits and signs without spaces; got {len(token)} "
            "characters that are not. Make one with: openssl rand -hex 32"
        )
    return token


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, and what it serves.

    Parameters
    ----------
    url
        The database.
    key_file
        The secret key that signs forms.
    host, port
        Where to listen; port 0 takes a free one.
    proxy
        The https address that people use, if a proxy on this or another machine speaks TLS for the
        server.
    trusted
        Addresses of proxies whose word about the caller's address is believed.
    tls_cert, tls_key
        Files of a certificate and its key, if the server speaks TLS itself.
    public_url
        With a certificate: the https address that people use; default ``https://host:port``.
    workers
        Server processes; more than one only with PostgreSQL.
    unsafe
        Also serve a database that may lose acknowledged answers when the power fails.
    answers_per_minute
        Most questions and answers of one session in a minute; None for the usual limit.
    """

    url: str
    key_file: Path
    host: str = "127.0.0.1"
    port: int = 8000
    proxy: str | None = None
    trusted: str = "127.0.0.1"
    tls_cert: str | None = None
    tls_key: str | None = None
    public_url: str | None = None
    workers: int = 1
    unsafe: bool = False
    answers_per_minute: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ArgumentError(f"--port must be from 0 to 65535; got {self.port}.")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ArgumentError("--tls-cert and --tls-key must come together; got one of them.")
        if self.proxy is not None and self.tls_cert is not None:
            raise ArgumentError("--behind-proxy must come without --tls-cert; got both.")
        for option, address in (("--behind-proxy", self.proxy), ("--public-url", self.public_url)):
            if address is not None:
                _check_public(option, address)
        if self.public_url is not None and self.tls_cert is None:
            raise ArgumentError(
                "--public-url must come with --tls-cert; got none. Behind a proxy, pass --behind-proxy URL."
            )
        if not self.secure and not is_loopback(self.host):
            raise ArgumentError(
                f"--host must be this machine (127.0.0.1) for plain http; got {self.host!r}. "
                "Pass --behind-proxy https://public.address, or --tls-cert and --tls-key."
            )
        if (
            self.tls_cert is not None
            and self.public_url is None
            and self.host in ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)
        ):
            raise ArgumentError(
                f"--public-url must say at which https address people find host {self.host!r}; got none."
            )
        if self.workers < 1 or (self.workers > 1 and sqlite_path(self.url) is not None):
            raise ArgumentError(
                f"--workers must be 1 with SQLite, which has one writer; got {self.workers}. More need PostgreSQL."
            )
        if self.answers_per_minute is not None and self.answers_per_minute < 1:
            raise ArgumentError(
                f"--answers-per-minute must be 1 or more; got {self.answers_per_minute}."
            )
        if self.workers > 1 and self.port == 0:
            raise ArgumentError("--port must be given with --workers; got 0.")

    @property
    def secure(self) -> bool:
        """Whether people reach the server through TLS."""
        return self.proxy is not None or self.tls_cert is not None

    def base_url(self, port: int) -> str:
        """The address that people use, without a slash at its end."""
        public = self.proxy or self.public_url
        if public is not None:
            return public.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    Examples
    --------
    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.0.4", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_public(option: str, address: str) -> None:
    parts = urllib.parse.urlsplit(address)
    if (
        parts.scheme != "https"
        or not parts.hostname
        or parts.path not in ("", "/")
        or parts.query
        or parts.fragment
        or parts.username
    ):
        raise ArgumentError(f"{option} must be an https address without a path; got {address!r}.")
