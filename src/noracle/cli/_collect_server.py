"""``noracle collect init``, ``serve``, ``backup`` and ``restore``: the database and its server."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noracle.cli import _collect_common as common
from noracle.cli._output import check_target, say, working
from noracle.collect.errors import Conflict
from noracle.collect.server import (
    ServerSettings,
    database_url,
    key_path,
    make_key,
    read_key,
    sqlite_path,
)
from noracle.errors import ArgumentError

if TYPE_CHECKING:
    from noracle.collect.store.base import Work

INIT_EXAMPLE = """Example:

noracle collect init --db sqlite:///labels.db --email ann@example.org --name Ann

printf '%s' "$PASSWORD" | noracle collect init --db postgresql://db.example.org/labels --email ann@example.org --name Ann"""

SERVE_EXAMPLE = """Example:

noracle collect serve --db sqlite:///labels.db

noracle collect serve --db postgresql://db.example.org/labels --workers 4 --host 0.0.0.0 --behind-proxy https://labels.example.org"""

BACKUP_EXAMPLE = """Example:

noracle collect backup monday.backup --db sqlite:///labels.db

The server may go on serving meanwhile."""

RESTORE_EXAMPLE = """Example:

noracle collect restore monday.backup --db sqlite:///again.db"""

_WHERE, _TLS = "Where to listen", "TLS"


def init(
    db: common.Db = common.DB,
    email: Annotated[
        str | None,
        typer.Option(
            "--email", metavar="ADDRESS", help="The owner's e-mail address; asked for if left out."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="The owner's name; default the address before the @."
        ),
    ] = None,
    locale: Annotated[
        str, typer.Option("--locale", metavar="LANG", help="The owner's language.")
    ] = "en",
    key_file: common.KeyFile = None,
) -> None:
    """Make the database, its secret key and the owner's account.

    The password is asked for; without a terminal it is the first line of stdin. There are no
    default accounts or passwords.
    """
    from noracle.collect.service import people
    from noracle.collect.store import open_store

    url = database_url(db)
    file, key = sqlite_path(url), key_path(url, key_file)
    for path, what in ((file, "the database"), (key, "--key-file")):
        if path is not None and not path.parent.is_dir():
            raise ArgumentError(
                f"{what} must lie in a folder that exists; got {str(path)!r}. Make the folder {str(path.parent)!r} first."
            )
    address = email or typer.prompt("E-mail address of the owner", err=True)
    people.normal_email(address)
    if key.exists():
        read_key(key)
    store = open_store(url)
    try:
        store.read_now(_without_accounts)
        hashed = people.hash_password(common.ask_password(address))

        def add(work: Work) -> int:
            _without_accounts(work)
            who = name or address.partition("@")[0]
            return people.add_person(
                work, email=address, name=who, password_hash=hashed, locale=locale, now=common.now()
            )

        store.write_now(add)
    finally:
        store.close()
    if not key.exists():
        make_key(key)
    say(f"database {url if file is None else file}")
    say(f"key      {key} (keep it secret; it is not in the database)")
    say(f"owner    {people.normal_email(address)}")
    say("next     noracle collect project NAME --spec project.toml, then noracle collect serve")


def _without_accounts(work: Work) -> None:
    if work.one("SELECT id FROM person WHERE active = 1 LIMIT 1") is not None:
        raise Conflict(
            "--db must be a database without accounts; this one has some. Invite more people with: noracle collect invite"
        )


def serve(
    db: common.Db = common.DB,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Where to listen.", rich_help_panel=_WHERE),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="0 takes a free one.", rich_help_panel=_WHERE)
    ] = 8000,
    behind_proxy: Annotated[
        str | None,
        typer.Option(
            "--behind-proxy",
            metavar="URL",
            help="The https address of a proxy that speaks TLS for this server.",
            rich_help_panel=_TLS,
        ),
    ] = None,
    trust_proxy: Annotated[
        str,
        typer.Option(
            "--trust-proxy",
            metavar="ADDRESSES",
            help="Proxies whose X-Forwarded-For is believed.",
            rich_help_panel=_TLS,
        ),
    ] = "127.0.0.1",
    tls_cert: Annotated[
        str | None,
        typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM).", rich_help_panel=_TLS),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(
            "--tls-key", metavar="FILE", help="Its private key (PEM).", rich_help_panel=_TLS
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="With --tls-cert: the https address that people use.",
            rich_help_panel=_TLS,
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", metavar="N", help="Server processes; more than one needs PostgreSQL."
        ),
    ] = 1,
    answers_per_minute: Annotated[
        int | None,
        typer.Option(
            "--answers-per-minute",
            metavar="N",
            help="Most questions and answers of one session in a minute; default 300, for people.",
        ),
    ] = None,
    key_file: common.KeyFile = None,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Accept database settings that may lose acknowledged answers when the power fails.",
        ),
    ] = False,
) -> None:
    """Serve the pages and the JSON interface until Ctrl-C.

    Plain http is for this machine alone: any other address needs a certificate, or a proxy that has
    one. An answer is acknowledged when it is on the disk. With $NORACLE_METRICS_TOKEN set, /metrics
    answers whoever sends it as a bearer token.
    """
    from noracle.collect.server import serve as run

    for option, path in (("--tls-cert", tls_cert), ("--tls-key", tls_key)):
        if path is not None and not Path(path).is_file():
            raise ArgumentError(f"{option} must be a readable file; got {path!r}.")
    url = database_url(db)
    settings = ServerSettings(
        url=url,
        key_file=key_path(url, key_file),
        host=host,
        port=port,
        proxy=behind_proxy,
        trusted=trust_proxy,
        tls_cert=tls_cert,
        tls_key=tls_key,
        public_url=public_url,
        workers=workers,
        unsafe=unsafe,
        answers_per_minute=answers_per_minute,
    )
    with common.opened(
        db, unsafe=unsafe
    ):  # so that a wrong database is one line here, whatever the number of processes
        pass
    run(settings, ready=lambda address: say(f"serving at {address} (stop with Ctrl-C)"))
    say("stopped")


def backup(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Where the copy goes; it must not exist yet.")
    ],
    db: common.Db = common.DB,
) -> None:
    """Copy the database while work goes on; the copy is consistent.

    The secret key is not in it: keep its file elsewhere.
    """
    check_target("file", file)
    if Path(file).exists():
        raise ArgumentError(f"FILE must not exist yet; got {file!r}.")
    with common.opened(db) as store, working("copying"):
        store.backup(Path(file))
    say(f"wrote {file} ({Path(file).stat().st_size:,} bytes)")


def restore(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A copy that noracle collect backup wrote.")
    ],
    db: common.Db = common.DB,
    key_file: common.KeyFile = None,
) -> None:
    """Fill a new database from a copy; an existing one is never overwritten.

    A new secret key is made if there is none: then forms that were open must be loaded again, and
    nothing else changes.
    """
    from noracle.collect.store import restore_store

    if not Path(file).is_file():
        raise ArgumentError(f"FILE must be a readable file; got {file!r}.")
    url = database_url(db)
    target = sqlite_path(url)
    if target is not None and target.exists():
        raise ArgumentError(
            f"--db must be a new database; got the file {str(target)!r}. Name another, or move it away."
        )
    with working("restoring"):
        restore_store(Path(file), url)
    key = key_path(url, key_file)
    with contextlib.suppress(ArgumentError):
        make_key(key)
    say(f"restored {url if target is None else target}")
    say(f"key      {key}")
