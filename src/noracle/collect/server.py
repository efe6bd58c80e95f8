"""Start the service: the processes that serve, and how they stop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import json
import os
import secrets
import signal
import socket
import stat
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from noracle.errors import ArgumentError, MissingExtra, require

if TYPE_CHECKING:
    from noracle.collect.store.base import Store

DEFAULT_DB = "sqlite:///noracle.db"
OIDC_SECRET = "NORACLE_OIDC_SECRET"  # noqa: S105 (the name of a variable)
METRICS_TOKEN = "NORACLE_METRICS_TOKEN"  # noqa: S105 (the name of a variable)
_KEY_BYTES = 32
_TOKEN_LETTERS = 16


def database_url(text: str) -> str:
    """The address of a database; a plain path is a file of SQLite.

    >>> database_url("labels.db"), database_url("postgresql://db.example.org/labels")
    ('sqlite:///labels.db', 'postgresql://db.example.org/labels')
    """
    scheme, mark, _ = text.partition("://")
    known = text.strip() and (not mark or scheme in ("sqlite", "postgresql", "postgres"))
    rule = "--db must be sqlite:///path, postgresql://host/name or a path"
    require(known, f"{rule}; got {f'{scheme}://…' if mark else 'nothing'}.")
    return text if mark else f"sqlite:///{text}"


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
        rule = f"the key file must not exist yet; got {str(path)!r}"
        raise ArgumentError(f"{rule}. Keep it, or name another with --key-file.") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(_KEY_BYTES) + "\n")


def read_key(path: Path) -> bytes:
    """The secret key; refused if others can read it, or if it is not one that ``make_key`` writes."""
    try:
        text, mode = path.read_text(encoding="ascii").strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError):
        rule = f"the key file must be readable; got {str(path)!r}"
        raise ArgumentError(f"{rule}. Make one with: noracle collect init") from None
    private = os.name != "posix" or not mode & (stat.S_IRWXG | stat.S_IRWXO)
    rule = f"the key file must be readable by its owner alone; got mode {mode & 0o777:o}"
    require(private, f"{rule}. Run: chmod 600 {path}")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    rule = f"the key file must hold {_KEY_BYTES} random bytes as hexadecimal digits"
    random = len(key) == _KEY_BYTES and len(set(key)) >= 8
    require(random, f"{rule}; got something else in {str(path)!r}.")
    return key


def metrics_token() -> str | None:
    """The token that ``/metrics`` wants, from the environment; None if it is not set or empty."""
    token = os.environ.get(METRICS_TOKEN, "")
    rule = f"${METRICS_TOKEN} must be {_TOKEN_LETTERS} or more ASCII letters, digits and signs"
    came = f"{len(token)} characters that are not. Make one with: openssl rand -hex 32"
    fine = len(token) >= _TOKEN_LETTERS and all("!" <= c <= "~" for c in token)
    require(fine or not token, f"{rule} without spaces; got {came}")
    return token or None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where a server listens, and what it serves.

    ``key_file`` holds the secret key that signs forms; port 0 takes a free one. ``proxy`` is the
    https address that people use, if a proxy speaks TLS for the server; the word of those at the
    addresses ``trusted`` about a caller's address is believed. ``tls_cert`` and ``tls_key`` are
    files, if the server speaks TLS itself, at ``public_url`` (default ``https://host:port``). More
    than one of ``workers`` only with PostgreSQL. ``unsafe`` also serves a database that may lose
    acknowledged answers when the power fails. ``oidc_issuer`` and ``oidc_client`` are an OpenID
    Connect provider and our name there; the secret is in $NORACLE_OIDC_SECRET. At most
    ``answers_per_minute`` questions and answers of one session; None for the usual limit.
    ``webhook_hosts`` may be called by webhooks although they are private or without TLS.
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
    oidc_issuer: str | None = None
    oidc_client: str | None = None
    webhook_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tls, public, host, workers = self.tls_cert, self.public_url, self.host, self.workers
        limit, port = self.answers_per_minute, self.port
        require(0 <= port <= 65535, f"--port must be from 0 to 65535; got {port}.")
        together = (tls is None) == (self.tls_key is None)
        require(together, "--tls-cert and --tls-key must come together; got one of them.")
        require(None in (self.proxy, tls), "--behind-proxy must come without --tls-cert; got both.")
        for option, address in (("--behind-proxy", self.proxy), ("--public-url", public)):
            parts = urllib.parse.urlsplit("https://none" if address is None else address)
            more = parts.query or parts.fragment or parts.username or parts.path not in ("", "/")
            rule = f"{option} must be an https address without a path; got {address!r}."
            require(parts.scheme == "https" and parts.hostname and not more, rule)
        rule = "--public-url must come with --tls-cert; got none"
        require(public is None or tls, f"{rule}. Behind a proxy, pass --behind-proxy URL.")
        rule = f"--host must be this machine (127.0.0.1) for plain http; got {host!r}"
        remedy = "Pass --behind-proxy https://public.address, or --tls-cert and --tls-key."
        require(self.secure or is_loopback(host), f"{rule}. {remedy}")
        everywhere = host in ("0.0.0.0", "::", "")  # noqa: S104 (compared, not bound)
        rule = f"--public-url must say at which https address people find host {host!r}"
        require(tls is None or public or not everywhere, f"{rule}; got none.")
        rule = f"--workers must be 1 with SQLite, which has one writer; got {workers}"
        several = workers > 1 and sqlite_path(self.url) is None
        require(workers == 1 or several, f"{rule}. More need PostgreSQL.")
        rule = "--answers-per-minute must be 1 or more"
        require(limit is None or limit >= 1, f"{rule}; got {limit}.")
        both = (self.oidc_issuer is None) == (self.oidc_client is None)
        require(both, "--oidc-issuer and --oidc-client must come together; got one of them.")
        parts = urllib.parse.urlsplit(self.oidc_issuer or "https://none")
        near = parts.scheme == "http" and is_loopback(parts.hostname or "")
        rule = f"--oidc-issuer must be an https address; got {self.oidc_issuer!r}."
        require(near or parts.scheme == "https", rule)
        require(workers == 1 or port, "--port must be given with --workers; got 0.")

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

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.0.4", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_SETTINGS = "NORACLE_COLLECT_SERVER"  # tells the processes that are started what to serve
_START = 60
_GRACE = 10  # seconds that open requests have to finish


def make_application(settings: ServerSettings, store: Store, *, port: int) -> Any:
    """The web application on an open store."""
    from noracle.collect.store.base import SQL
    from noracle.collect.web.app import WebSettings, make_app
    from noracle.collect.web.security import Oidc

    limit, oidc = settings.answers_per_minute, None
    if settings.oidc_issuer is not None:
        secret = os.environ.get(OIDC_SECRET, "")
        oidc = Oidc(settings.oidc_issuer, settings.oidc_client or "", secret)
    about: Any = {} if limit is None else {"answers_per_minute": limit}
    about |= {"base_url": settings.base_url(port), "secure": settings.secure, "oidc": oidc}
    about |= {"metrics_token": metrics_token(), "webhook_hosts": tuple(settings.webhook_hosts)}
    web = WebSettings(key=read_key(settings.key_file), **about)
    # So that the command line knows where people find the server.
    store.write_now(lambda w: w.run(SQL.set_setting, name="url", value=web.base_url))
    return make_app(store, settings=web)


def application() -> Any:
    """The application of one of several processes; its settings are in the environment."""
    from noracle.collect.store import open_store

    values = json.loads(os.environ[_SETTINGS])
    settings = ServerSettings(**{**values, "key_file": Path(values["key_file"])})
    store = open_store(settings.url, unsafe=settings.unsafe)
    app = make_application(settings, store, port=settings.port)
    begin = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(served: Any) -> AsyncIterator[Any]:
        try:
            async with begin(served) as state:
                yield state
        finally:
            await asyncio.to_thread(store.close)

    app.router.lifespan_context = lifespan
    return app


def serve(settings: ServerSettings, *, ready: Callable[[str], None]) -> None:
    """Serve until the process is told to stop; ``ready`` gets the address when the server answers."""
    metrics_token()  # a bad one is found before anything starts
    if settings.workers == 1:
        with RunningServer(settings, in_thread=False) as running:
            running.run(ready)
        return
    uvicorn = _uvicorn()
    read_key(settings.key_file)
    _listen(settings).close()  # a port that is taken is found before any process starts
    os.environ[_SETTINGS] = json.dumps(dataclasses.asdict(settings), default=str)
    ready(settings.base_url(settings.port))
    where = {"host": settings.host, "port": settings.port, "workers": settings.workers}
    uvicorn.run("noracle.collect.server:application", factory=True, **where, **_how(settings))


class RunningServer:
    """One server process on one store, in this thread or (for the demo and tests) in one of its own:
    ``with RunningServer(settings) as server: …`` serves at ``server.url`` until the block ends.
    """

    def __init__(self, settings: ServerSettings, *, in_thread: bool = True) -> None:
        from noracle.collect.store import open_store

        uvicorn = _uvicorn()
        read_key(settings.key_file)
        self.store: Store = open_store(settings.url, unsafe=settings.unsafe)
        try:
            self.store.check()
            self._socket = _listen(settings)
        except BaseException:
            self.store.close()
            raise
        port = self._socket.getsockname()[1]
        self.url = settings.base_url(port)
        app = make_application(settings, self.store, port=port)
        self._server = _server_class(uvicorn)(uvicorn.Config(app, **_how(settings)))
        thread = threading.Thread(target=self._serve, name="noracle-server", daemon=True)
        self._thread = thread if in_thread else None

    def run(self, ready: Callable[[str], None]) -> None:
        """Serve in this thread until told to stop."""
        self._server.ready = lambda: ready(self.url)
        self._serve()

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
            until = time.monotonic() + _START
            while not self._server.started:
                if time.monotonic() > until or not self._thread.is_alive():
                    self.__exit__()
                    rule = f"the server must start within {_START} seconds"
                    raise ArgumentError(f"{rule}; it did not.")
                time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=_GRACE + 5)
        self._socket.close()
        self.store.close()

    def wait(self) -> None:
        """Wait until the process is told to stop (Ctrl-C, SIGTERM), or the server ends."""
        told = threading.Event()
        ours = threading.current_thread() is threading.main_thread()
        numbers = (signal.SIGINT, signal.SIGTERM) if ours else ()
        before = {number: signal.signal(number, lambda *_: told.set()) for number in numbers}
        try:
            while self._thread is not None and self._thread.is_alive() and not told.wait(0.2):
                pass
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _uvicorn() -> Any:
    try:
        import fastapi  # noqa: F401 (the application needs it a moment later)
        import uvicorn
    except ImportError:
        raise MissingExtra("noracle collect", "fastapi and uvicorn", "collect") from None
    return uvicorn


def _how(settings: ServerSettings) -> dict[str, Any]:
    """What every server process is told; only a proxy's word about an address counts."""
    proxy, trusted = settings.proxy is not None, settings.trusted
    how = {"proxy_headers": proxy, "forwarded_allow_ips": trusted if proxy else "", "ws": "none"}
    how |= {"ssl_certfile": settings.tls_cert, "ssl_keyfile": settings.tls_key, "log_config": None}
    how |= {"server_header": False, "access_log": False, "timeout_graceful_shutdown": _GRACE}
    return how | {"timeout_keep_alive": 75}  # longer than a proxy keeps its own, which must be open


def _server_class(uvicorn: Any) -> Any:
    class Server(uvicorn.Server):  # type: ignore[misc]
        """Stops at a signal and does not raise it again: being told to stop is how a server ends."""

        ready: Callable[[], None] | None = None

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            try:
                with super().capture_signals():
                    yield
                    self._captured_signals.clear()
            finally:
                self._captured_signals.clear()

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            if self.started and self.ready is not None:
                self.ready()

    return Server


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(512)
    except OSError as error:
        listening.close()
        came = f"{settings.host}:{settings.port} ({error.strerror or error})"
        rule = "--host and --port must be free"
        raise ArgumentError(f"{rule}; got {came}. Pass --port 0 for any free one.") from None
    listening.set_inheritable(True)
    return listening
