"""Start the service: the processes that serve, and how they stop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from noracle.collect.server_settings import ServerSettings, metrics_token, read_key
from noracle.errors import ArgumentError, MissingExtra

if TYPE_CHECKING:
    from noracle.collect.store.base import Store

_SETTINGS = (
    "NORACLE_COLLECT_SERVER"  # how the parent tells the processes that it starts what to serve
)
_START = 60
_GRACE = 10  # seconds that open requests have to finish


def make_application(settings: ServerSettings, store: Store, *, port: int) -> Any:
    """The web application on an open store."""
    from noracle.collect.web.app import WebSettings, make_app

    key = read_key(settings.key_file)
    web = WebSettings(
        base_url=settings.base_url(port),
        secure=settings.secure,
        key=key,
        metrics_token=metrics_token(),
    )
    if settings.answers_per_minute is not None:
        web = dataclasses.replace(web, answers_per_minute=settings.answers_per_minute)
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
    """Serve until the process is told to stop (Ctrl-C, SIGTERM); open requests are finished first.

    ``ready`` is called with the address when the server answers.
    """
    metrics_token()  # a bad one is found before anything starts
    if settings.workers == 1:
        with Running(settings, in_thread=False) as running:
            running.run(ready)
        return
    uvicorn = _uvicorn()
    read_key(settings.key_file)
    _listen(settings).close()  # a port that is taken is found before any process starts
    os.environ[_SETTINGS] = json.dumps(
        {**dataclasses.asdict(settings), "key_file": str(settings.key_file)}
    )
    ready(settings.base_url(settings.port))
    uvicorn.run(
        "noracle.collect.server:application",
        factory=True,
        workers=settings.workers,
        host=settings.host,
        port=settings.port,
        **_how(settings),
    )


class Running:
    """One server process on one store, in this thread or in one of its own (for the demo and
    tests).

    Examples
    --------
    ``with Running(settings) as server: …`` serves at ``server.url`` until the block ends.
    """

    def __init__(self, settings: ServerSettings, *, in_thread: bool = True) -> None:
        from noracle.collect.store import open_store

        uvicorn = _uvicorn()
        read_key(settings.key_file)
        self.store: Store = open_store(settings.url, unsafe=settings.unsafe)
        try:
            self._socket = _listen(settings)
        except BaseException:
            self.store.close()
            raise
        port = self._socket.getsockname()[1]
        self.url = settings.base_url(port)
        app = make_application(settings, self.store, port=port)
        self._server = _server_class(uvicorn)(uvicorn.Config(app, **_how(settings)))
        self._thread = (
            threading.Thread(target=self._serve, name="noracle-server", daemon=True)
            if in_thread
            else None
        )

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
                    raise ArgumentError(
                        f"the server must start within {_START} seconds; it did not."
                    )
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
        numbers = (
            (signal.SIGINT, signal.SIGTERM)
            if threading.current_thread() is threading.main_thread()
            else ()
        )
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
    """What every server process is told. Only behind a proxy does anybody else's word about the
    caller's address count.
    """
    return {
        "proxy_headers": settings.proxy is not None,
        "forwarded_allow_ips": settings.trusted if settings.proxy is not None else "",
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
        "server_header": False,
        "access_log": False,
        "log_config": None,
        "timeout_graceful_shutdown": _GRACE,
        "timeout_keep_alive": 75,  # longer than a proxy keeps its own connections, so that it never uses one that we have closed
        "ws": "none",
    }


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
        why = error.strerror or str(error)
        raise ArgumentError(
            f"--host and --port must be free; got {settings.host}:{settings.port} ({why}). Pass --port 0 for any free one."
        ) from None
    listening.set_inheritable(True)
    return listening
