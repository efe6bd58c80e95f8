"""What the verbs of ``noracle collect`` share: which database, which project, who acts, and
questions to the user.
"""

from __future__ import annotations

import contextlib
import dataclasses
import getpass
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from noracle.cli._options import argument, flags, option
from noracle.cli._output import bar, say_card, say_json, working
from noracle.collect.errors import NotFound
from noracle.collect.server import DEFAULT_DB, database_url, sqlite_path
from noracle.errors import ArgumentError, require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from noracle.collect.archive import ProjectArchive
    from noracle.collect.live.records import LiveView
    from noracle.collect.service.access import Member
    from noracle.collect.store.base import Row, Store, Work


def db_option() -> Any:
    """The option ``--db``."""
    text = "sqlite:///path (or a path), or postgresql://user@host/name."
    return option(text, "URL", DEFAULT_DB, envvar="NORACLE_DB")


def key_option() -> Any:
    """The option ``--key-file``."""
    text = "The secret key; default beside a SQLite database."
    return option(text, "FILE", envvar="NORACLE_KEY_FILE")


def yes_option() -> Any:
    """The option ``--yes``."""
    return option("Do not ask.", None, False, "--yes", "-y")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAt:
    """A project, and the database that holds it."""

    slug: str = argument("The short name of the project, as in its address.", "PROJECT", ...)
    db: str = db_option()

    def store(self) -> contextlib.AbstractContextManager[Store]:
        """The store that holds the project."""
        return opened(self.db)


@contextlib.contextmanager
def opened(db: str, *, unsafe: bool = False) -> Iterator[Store]:
    """The store at this address; a SQLite file must be there already."""
    from noracle.collect.store import open_store

    url = database_url(db)
    file = sqlite_path(url)
    rule = f"--db must be a database of noracle collect; got no file {str(file)!r}"
    require(file is None or file.is_file(), f"{rule}. Make it with: noracle collect init")
    store = open_store(url, unsafe=unsafe)
    try:
        yield store
    finally:
        store.close()


def project_row(work: Work, slug: str) -> Row:
    """The row of a project; raises where there is none, and says which there are."""
    from noracle.collect.service import projects

    try:
        return projects.project_row(work, slug)
    except NotFound:
        rows = work.all("SELECT slug FROM project ORDER BY slug LIMIT 6")
    there = f"there are {', '.join(str(row['slug']) for row in rows)}"
    if not rows:
        there = "there is none; make one with: noracle collect project"
    raise NotFound(f"PROJECT must be the short name of a project; got {slug!r} ({there}).")


def owner_of(work: Work, slug: str) -> Member:
    """The project's first owner, in whose name the command line acts: whoever can write the
    database may do what the owner may.
    """
    from noracle.collect.service.access import member_of

    project = int(project_row(work, slug)["id"])
    row = work.one(
        "SELECT person_id FROM membership WHERE project_id = :project AND role = 'owner' "
        "AND left_at IS NULL ORDER BY joined_at, person_id LIMIT 1",
        project=project,
    )
    found = None if row is None else member_of(work, int(row["person_id"]), project)
    if found is None:
        raise NotFound(f"the project {slug!r} must have an owner; it has none.")
    return found


def link(work: Work, url: str | None, path: str) -> str:
    """A link to the server: at the address that is given, else at that of the last start."""
    from noracle.collect.store.base import SQL

    row = work.one(SQL.setting, name="url")
    known = url or (str(row["value"]) if row is not None else "http://127.0.0.1:8000")
    return f"{known.rstrip('/')}/{path}"


def url_option() -> Any:
    """The option ``--url``."""
    return option("Where the server is; default where it was served last.", "URL")


def now() -> float:
    """Seconds since 1970."""
    return time.time()


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone; stops with exit code 130 if the answer is no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise ArgumentError("--yes must be given where nobody can be asked; got none.")
    typer.confirm(question, abort=True, err=True)


def ask_password(who: str) -> str:
    """A password, asked twice on a terminal, else the first line of stdin. It never stands among
    the arguments, where others see it.
    """
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
        rule = (
            "the password must be the first line of stdin where nobody can be asked; got nothing."
        )
        require(password, rule)
        return password
    first = getpass.getpass(f"Password for {who} (10 characters or more): ")
    if getpass.getpass("Again: ") != first:
        raise ArgumentError("the two passwords must be the same; they differ.")
    return first


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr if that is a terminal; call what it yields after each step."""
    with bar() as shown:
        if shown is None:
            yield lambda: None
            return
        task = shown.add_task(what, total=total)
        yield lambda: shown.advance(task)


def address_of(address: str) -> tuple[str, str]:
    """Database and short name of a project in ``DB#SLUG``."""
    db, mark, slug = address.rpartition("#")
    rule = "--project must be a database and the short name of a project, as noracle.db#survey"
    require(mark and db and slug, f"{rule}; got {address!r}.")
    return db, slug


def look_at(slug: str, db: str) -> LiveView:
    """The estimates and checks of a project now. The look is logged first, as every look is."""
    from noracle.collect.live import live_view
    from noracle.collect.service import projects

    def look(work: Work) -> int:
        member = owner_of(work, slug)
        projects.note(work, member, "look", now=now())
        return member.project

    with opened(db) as store, working("estimating"):
        project = store.write_now(look)
        return store.read_now(lambda work: live_view(work, project, now=now()))


def look_alone(address: str, others: Mapping[str, object]) -> LiveView:
    """The live view behind ``--project``, which goes with no other evidence: how to estimate was
    decided when the project was sealed.
    """
    given = ", ".join(flags({name: value is not None for name, value in others.items()}))
    remedy = "Export the project to use it with others."
    require(not given, f"--project must be the only evidence; got {given} too. {remedy}")
    db, slug = address_of(address)
    return look_at(slug, db)


def archive_at(address: str) -> ProjectArchive:
    """The archive of a running project, as an export would write it."""
    from noracle.collect.service import exports

    db, slug = address_of(address)
    with opened(db) as store:
        project = store.read_now(lambda work: owner_of(work, slug).project)
        return store.read_chained_now(project, lambda work: exports.archive_of(work, project))


def show_live(slug: str, db: str, *, as_json: bool) -> None:
    """Print what the dashboard says."""
    view = look_at(slug, db)
    if as_json:
        say_json(view.to_dict())
        return
    for card in cards(view):
        say_card(card)


def cards(view: LiveView) -> list[str]:
    """A card for each system, and what else the dashboard shows."""
    found = []
    for system in view.systems:
        fixed, corrected = system.fixed, system.corrected
        bounds = f"[{system.worst:.3f}, {system.best:.3f}]"
        lines = [
            str(system.estimate),
            f"  bounds      {bounds} whatever the unsure and the absent would have said",
        ]
        if fixed is not None:
            interval = f"[{fixed.low:.3f}, {fixed.high:.3f}]"
            lines.append(f"  declared n  {fixed.value:.3f} {interval}")
        if corrected is not None:
            errors = "for the errors on gold and panel questions"
            lines.append(f"  corrected   {corrected.value:.3f} {errors}")
        found.append("\n".join(lines))
    answered = f"{view.answered:,} of {view.asked:,} main questions are answered"
    done = [
        f"  {c.name:<20} {c.answered:>8,} of {c.asked:,}    people {c.people}"
        for c in view.classes[:50]
    ]
    found.append("\n".join([f"{answered}; the project is {view.state}", *(done or [""])]))
    failed = [str(check) for check in view.checks if not check.passed]
    found.append("\n".join([f"{len(view.checks)} checks, {len(failed)} failed", *failed]))
    return [*found, *view.notes]
