"""``noracle collect``: the service that collects labels so that the mathematics holds."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import math
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from noracle._version import __version__
from noracle.cli import _collect as common
from noracle.cli import _options as opt
from noracle.cli._collect import show_live
from noracle.cli._options import Output, argument, option, panel, values, with_options
from noracle.cli._output import (
    check_folder,
    check_target,
    say,
    say_json,
    settings,
    working,
)
from noracle.collect import server
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.model import ProjectSpec
from noracle.collect.store.base import SQL
from noracle.errors import ArgumentError, require
from noracle.files import replacing
from noracle.report import words

if TYPE_CHECKING:
    from noracle.collect.demo import Demo, DemoOutcome
    from noracle.collect.live.simulation import ProtocolRow
    from noracle.collect.service.access import Member
    from noracle.collect.service.projects import SealPreview
    from noracle.collect.store.base import Row, Store, Work

DEMO_EXAMPLE = opt.paragraphs("""Example:
noracle collect demo
noracle collect demo --n-items 200 --exit --out demo""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CollectDemo:
    n_items: int = option("Number of pictures.", "N", 1000, min=20, max=20000)
    port: int = option("Where to listen; 0 takes a free one.", "N", 0)
    out: str | None = option(
        "Keep database, key and export here; default a temporary folder.", "DIR"
    )
    leave: bool = option("Stop at the end instead of serving on.", None, False, "--exit")
    seed: int = opt.seed(7)


@with_options()
def demo(own: _CollectDemo, output: opt.JsonOutput) -> None:
    """Start a server, let simulated specialists fill a project over HTTP, and show estimate, truth
    and proof.

    Which shape occurs most often in a picture? Each specialist knows one shape and says yes, no or
    not sure. The truth is known here because the pictures are drawn by a rule; the estimates do not
    use it.
    """
    with contextlib.ExitStack() as stack:
        if own.out is None:
            temporary = tempfile.TemporaryDirectory(prefix="noracle-demo-")
            folder = Path(stack.enter_context(temporary))
        else:
            folder = Path(own.out)
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise ArgumentError(f"--out must be a new or empty folder; got {own.out!r}.")
            folder.mkdir(parents=True, exist_ok=True)
        _demo(folder, own, as_json=output.as_json)


def _demo(folder: Path, own: _CollectDemo, *, as_json: bool) -> None:
    from noracle.collect import demo as demos

    began = time.monotonic()
    with working("drawing pictures, sealing, starting the server"):
        running = demos.start(folder, n_items=own.n_items, port=own.port, seed=own.seed)
    try:
        if not as_json:
            say(f"dashboard   {running.server.url}/p/{demos.SLUG}")
            say(f"sign in as  {demos.EMAIL} with the password {running.password}")
            told = f"{running.questions:,} questions, sealed; {len(running.people)} simulated specialists"
            say(f"project     {told}, one per class")
        filling = time.monotonic()
        with common.progress("answers over HTTP", running.questions) as step:
            done = sum(running.fill(step))
        rate = done / (time.monotonic() - filling)
        outcome = demos.finish(running, folder)
        seconds = time.monotonic() - began
        if as_json:
            say_json(_as_dict(running, outcome, done, seconds))
        else:
            say(f"answers     {done:,} over HTTP, {rate:,.0f} a second\n")
            for line in _results(running, outcome):
                say(line)
            say(f"time        {seconds:.0f} s in all")
        if not outcome.check.passed:
            raise typer.Exit(1)
        if not (own.leave or as_json):
            say("\nstill serving; stop with Ctrl-C")
            running.server.wait()
    finally:
        demos.stop(running)


def _results(running: Demo, outcome: DemoOutcome) -> list[str]:
    lines = []
    for system in outcome.view.systems:
        found, fixed, corrected = system.estimate, system.fixed, system.corrected
        interval = f"95 % interval, valid at every look [{found.low:.3f}, {found.high:.3f}]"
        lines.append(f"accuracy of {system.name!r}    {found.value:.3f}    {interval}")
        if fixed is not None:
            interval = f"[{fixed.low:.3f}, {fixed.high:.3f}]"
            lines.append(f"  at the declared n    {fixed.value:.3f} {interval}")
        if corrected is not None:
            lines.append(f"  corrected for errors on gold and panel    {corrected.value:.3f}")
        lines.append(f"  truth, which you would not have    {running.accuracy[system.name]:.3f}")
    verdict = "verified: every route, answer and event fits the commitment, root and head"
    failed = ", ".join(outcome.view.alarms) or "none"
    return [
        *lines,
        f"checks      {len(outcome.view.checks)}, of which failed: {failed}",
        "",
        f"export      {verdict if outcome.check.verified else 'NOT verified'}",
        f"            {outcome.archive}",
    ]


def _as_dict(running: Demo, outcome: DemoOutcome, answers: int, seconds: float) -> dict[str, Any]:
    return {
        "answers": answers,
        "questions": running.questions,
        "seconds": round(seconds, 2),
        "verified": outcome.check.verified,
        "alarms": list(outcome.view.alarms),
        "systems": [
            {"name": s.name, "truth": running.accuracy[s.name], "estimate": s.estimate.to_dict()}
            for s in outcome.view.systems
        ],
    }


IMPORT_EXAMPLE = opt.paragraphs("""Example:
noracle collect import abstracts --items items.csv --gold gold.csv
noracle collect import pictures --items items.jsonl --images pictures/
noracle collect import abstracts --system agent-7=answers.csv (after sealing, before the first answer: a later one promises nothing)
noracle collect import abstracts --system agent-8=answers.csv --commit, and when it may be known --system agent-8=answers.csv --salt …
items: item, and text, markdown or image; options and truth if there are any. gold: item, label. A system's answers: item, answer.""")

EXPORT_EXAMPLE = opt.paragraphs("""Example:
noracle collect export abstracts --out abstracts.zip; noracle verify abstracts.zip
noracle collect export abstracts --format csv --out tables; noracle estimate --answers tables/answers.csv --judgements tables/judgements.csv
 --items tables/items.csv""")

Format = Literal["archive", "jsonl", "csv", "parquet", "label-studio"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ImportOptions:
    items: opt.File = option("Items: .csv, .jsonl, .json, .parquet, a folder or a zip.")
    images: str | None = option("The folder in which images of the items lie.", "DIR")
    gold: opt.File = option("item, label: the known class of some items.")
    system: list[str] | None = option(
        "item, answer (and system): answers of a system; repeat.", "[NAME=]FILE"
    )
    commit: bool = option(
        "With --system: keep only a hash of the answers, before the first answer comes.",
        default=False,
    )
    salt: str | None = option("With --system: reveal answers that were committed to.", "HEX")


@with_options()
def import_(at: common.ProjectAt, own: _ImportOptions) -> None:
    """Bring items into a draft, or the answers of systems into a sealed project (where they are
    graded: into the draft).

    All or nothing: if one row breaks a rule, nothing is kept. Images are decoded and encoded again.
    Nothing is fetched from the network.
    """
    rule = (
        "--items or --system must be given, one of them; items come before sealing, systems after."
    )
    require((own.items is None) == bool(own.system), rule)
    alone = own.items is None and (own.images is not None or own.gold is not None)
    require(not alone, "--images and --gold must come with --items; got none.")
    alone = own.items is not None and (own.commit or own.salt is not None)
    require(not alone, "--commit and --salt must come with --system; got none.")
    rule = "--commit or --salt must be given, not both; got both."
    require(not (own.commit and own.salt is not None), rule)
    with at.store() as store:
        member = store.read_now(lambda work: common.owner_of(work, at.slug))
        if own.items is not None:
            say(f"{_items(store, member, own.items, own.images, own.gold):,} items imported")
            return
        for line in _systems(store, member, own):
            say(line)


def _items(store: Store, member: Member, items: str, images: str | None, gold: str | None) -> int:
    from noracle.collect import formats
    from noracle.collect.service import projects

    if member.state != "draft":
        raise Conflict(f"PROJECT must be a draft for new items; {member.slug} is {member.state}.")
    with working("reading"):
        known = None if gold is None else formats.read_gold(gold, spec=member.spec)
        upload = formats.read_items(items, spec=member.spec, images=images, gold=known)

    with working("importing"):
        found = (upload.items, upload.pictures.values())
        return projects.import_in_steps(store, member.project, *found, actor=member.alias)


def _systems(store: Store, member: Member, own: _ImportOptions) -> list[str]:
    from noracle.collect import formats
    from noracle.collect.chain import salted_hash
    from noracle.collect.service import projects

    if member.state == "draft" and member.spec.protocol != "grade":
        why = "so that they cannot steer what is asked; it is a draft"
        raise Conflict(f"PROJECT must be sealed before systems come, {why}.")
    found: dict[str, dict[str, int | str | None]] = {}
    for text in own.system or ():
        name, mark, path = text.partition("=")
        if not mark or Path(text).is_file():
            name, path = "", text
        if not Path(path).is_file():
            raise ArgumentError(f"--system must be NAME=FILE or FILE; got no file {path!r}.")
        read = formats.read_answers(path, spec=member.spec, system=name.strip())
        for system, answers in read.items():
            if system in found:
                raise ArgumentError(f"--system must name each system once; got {system!r} twice.")
            found[system] = answers

    rule = "--salt must come with one system; got"
    require(own.salt is None or len(found) == 1, f"{rule} {len(found)}.")

    def keep(work: Work) -> list[str]:
        lines = []
        for name, answers in found.items():
            about: Any = {"actor": member.alias, "now": common.now()}
            if own.commit:
                salt = projects.new_salt()
                told = salted_hash(salt, answers)
                projects.commit_system(work, member.project, name, told, **about)
                lines += [f"{name}: commitment {told}", f"  keep file and salt: --salt {salt}"]
                continue
            about["salt"] = own.salt
            projects.add_system(work, member.project, name, answers, **about)
            lines.append(f"{name}: {len(answers):,} answers imported")
        late = [r["name"] for r in projects.systems_of(work, member.project) if r["late"]]
        marked = [n for n in late if n in found]
        return lines + [f"{n}: uploaded after answers, no guarantee is given" for n in marked]

    with working("importing"):
        return store.write_now(keep)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ExportOptions:
    file_format: Format = option(
        "archive proves itself; the others are tables to work with.", None, "archive", "--format"
    )
    out: str | None = option(
        "A file (archive, label-studio) or a folder (tables); default after the project.", "PATH"
    )
    texts: bool = option(
        "Also write the texts of the items; default their hashes only.", default=False
    )


@with_options()
def export(at: common.ProjectAt, own: _ExportOptions) -> None:
    """Write a project to a file or folder, without names of people; the export is logged.

    noracle verify checks an archive. noracle estimate, check and the other verbs read the tables of
    csv, jsonl and parquet.
    """
    from noracle.collect.service import exports, projects

    whole = own.file_format in ("archive", "label-studio")
    default = {"archive": f"{at.slug}.zip", "label-studio": f"{at.slug}.json"}
    target = Path(own.out or default.get(own.file_format, f"{at.slug}-{own.file_format}"))
    if whole:
        check_target("out", str(target))
    elif target.exists() and not target.is_dir():
        raise ArgumentError(f"--out must be a folder for the tables; got the file {str(target)!r}.")
    with at.store() as store, working("exporting"):
        member = store.read_now(lambda work: common.owner_of(work, at.slug))
        if member.state == "draft":
            rule = "PROJECT must be sealed before it can be exported"
            raise Conflict(f"{rule}; {at.slug} is a draft.")
        kind, number = own.file_format, member.project
        store.write_now(
            lambda work: projects.note(work, member, "exported", format=kind, now=common.now())
        )
        files = store.read_chained_now(
            number, lambda work: exports.export_files(work, number, kind, texts=own.texts)
        )
    if not whole:
        target.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = target if whole else target / name
        with replacing(path) as temporary:
            temporary.write_bytes(data)
        say(f"wrote {path} ({len(data):,} bytes)")


INVITE_EXAMPLE = opt.paragraphs("""Example:
noracle collect invite abstracts --class lung --url https://labels.example.org
noracle collect invite abstracts --each 2 (two links for every class)
noracle collect invite abstracts --role auditor
A link works once, and is shown once: only its SHA-256 is stored.""")

FORGET_EXAMPLE = opt.paragraphs("""Example:
noracle collect forget ann@example.org
The answers stay under the alias of the project, and noracle verify still passes.""")

Role = Literal["owner", "manager", "annotator", "auditor"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _InviteOptions:
    role: Role = option("What the person may do.", default="annotator")
    class_name: str | None = option(
        "The class that an annotator is asked about.", "NAME", None, "--class"
    )
    place: opt.Count = option("The place of an annotator (ordinary protocol).", min=0)
    each: int = option(
        "Links of each kind; without --class, for every class.", "N", 1, min=1, max=1000
    )
    days: float = option("How long the links work.", "D", 7.0)
    url: str | None = common.url_option()


@with_options()
def invite(at: common.ProjectAt, own: _InviteOptions, output: opt.JsonOutput) -> None:
    """Make links that let people join, bound to a role and a class."""
    from noracle.collect.service import people

    def make(work: Work) -> list[dict[str, object]]:
        member = common.owner_of(work, at.slug)
        found: list[dict[str, object]] = []
        for pool in (pool for pool in _pools(member.spec, own) for _ in range(own.each)):
            about: Any = {"role": own.role, "pool": pool}
            token = people.invite(work, member, **about, days=own.days, now=common.now())
            link = common.link(work, own.url, f"join/{token}")
            found.append({**about, "for": _called(member.spec, pool), "link": link})
        return found

    with at.store() as store:
        links = store.write_now(make)
    lines = (f"{one['for'] or own.role}: {one['link']}" for one in links)
    output.tell({"invitations": links}, lines)


def _pools(spec: ProjectSpec, own: _InviteOptions) -> list[int | None]:
    """The groups that links are wanted for; None for roles that are asked nothing, and where there
    is one group only.
    """
    name, place = own.class_name, own.place
    if own.role != "annotator":
        rule = f"--class and --place must be left out for the role {own.role}"
        require(name is None and place is None, f"{rule}; only annotators are asked questions.")
        return [None]
    classes = [c.name for c in spec.classes]
    if name is not None:
        rule = f"--class must be a class of a partitioned project ({', '.join(classes[:10])})"
        require(spec.protocol == "partitioned" and name in classes, f"{rule}; got {name!r}.")
        return [classes.index(name)]
    rule = f"--place must be left out in a project of the protocol {spec.protocol}."
    require(place is None or spec.protocol == "ordinary", rule)
    return list(spec.pools) if place is None else [place]


def _called(spec: ProjectSpec, pool: int | None) -> str:
    if pool is None or spec.drawn:
        return ""
    return spec.classes[pool].name if spec.protocol == "partitioned" else f"place {pool}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ForgetOptions:
    email: str = argument("The person's e-mail address.", "ADDRESS", ...)
    db: str = common.db_option()
    yes: bool = common.yes_option()


@with_options()
def forget(own: _ForgetOptions) -> None:
    """Erase a person: name, address, password, sessions and comments. What they answered stays,
    without a name.
    """
    from noracle.collect.service import people

    with common.opened(own.db) as store:
        if store.read_now(lambda work: people.find_person(work, own.email)) is None:
            raise NotFound("ADDRESS must be the e-mail address of an account; got one without.")
        common.confirm(f"Erase {own.email}? This cannot be undone.", yes=own.yes)
        store.write_now(lambda work: people.forget(work, own.email, now=common.now()))
        store.scrub()
    say("forgotten; copies that were made before still hold the person")


PASSWORD_EXAMPLE = opt.paragraphs("""Example:
noracle collect password ann@example.org
noracle collect password ann@example.org --link (a link that works once, for a day)
All sessions of the person end.""")

REMOVE_EXAMPLE = opt.paragraphs("""Example:
noracle collect remove abstracts ann@example.org
noracle collect remove abstracts rater-k3m9xq
The answers stay under the alias, and noracle verify still passes.""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _PasswordOptions:
    email: str = argument("The person's e-mail address.", "ADDRESS", ...)
    db: str = common.db_option()
    link: bool = option("Print a link instead of asking for the password.", default=False)
    url: str | None = common.url_option()


@with_options()
def password(own: _PasswordOptions) -> None:
    """Set a new password for a person, or make a link with which they set it.

    The password is asked for; without a terminal it is the first line of stdin.
    """
    from noracle.collect.service import people

    with common.opened(own.db) as store:
        found = store.read_now(lambda work: people.find_person(work, own.email))
        if found is None:
            raise NotFound("ADDRESS must be the e-mail address of an account; got one without.")
        person = int(found["id"])
        if not own.link:
            hashed = people.hash_password(common.ask_password(own.email))
            store.write_now(lambda work: people.set_password(work, person, hashed))
            say("changed; all sessions of the person have ended")
            return

        def make(work: Work) -> str:
            token = people.make_reset(work, person, project=None, now=common.now())
            return common.link(work, own.url, f"reset/{token}")

        say(store.write_now(make))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RemoveOptions:
    who: str = argument("The person's e-mail address, or alias in the project.", "WHO", ...)
    yes: bool = common.yes_option()


@with_options()
def remove(at: common.ProjectAt, own: _RemoveOptions) -> None:
    """Remove a member from a project; the answers stay."""
    from noracle.collect.service import people

    with at.store() as store:
        member = store.read_now(lambda work: common.owner_of(work, at.slug))
        common.confirm(f"Remove {own.who} from {at.slug}?", yes=own.yes)
        end, now = people.remove_member, common.now()
        say(f"removed {store.write_now(lambda work: end(work, member, own.who, now=now))}")


PROJECT_EXAMPLE = opt.paragraphs("""Example:
noracle collect project abstracts --spec project.toml --items items.csv
noracle collect project abstracts --protocol partitioned --classes "heart,lung,brain" --planned-n 2000 --panel-items 50
noracle collect project (lists all) · noracle collect project abstracts (shows one) · noracle collect project abstracts --live (estimates)
project.toml: name = "Abstracts", protocol = "partitioned", planned_n = 2000, and for each class [[classes]] with name and guideline.""")

SEAL_EXAMPLE = opt.paragraphs("""Example:
noracle collect seal abstracts
Everything random is drawn now, from a seed whose SHA-256 is published. Nothing of the project can be changed afterwards.""")

OPEN_EXAMPLE = opt.paragraphs("""Example:
noracle collect open abstracts""")

CLOSE_EXAMPLE = opt.paragraphs("""Example:
noracle collect close abstracts
The seed is revealed: anybody can draw the routes again, with noracle verify on the export. Publish the head that is printed.""")

ProtocolName = Literal["partitioned", "judge-all", "pick-wrong", "ordinary", "grade"]
_plain = panel("Without --spec")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ProjectOptions:
    slug: str | None = argument(
        "Its short name, as in its address; left out: list all.", "[PROJECT]"
    )
    db: str = common.db_option()
    spec: opt.File = option("What is asked and how (TOML or JSON).")
    items: opt.File = option("Import these items into the new project, as import does.")
    name: str | None = option("A name for people; default the short name.", "NAME")
    owner: str | None = option("E-mail of the owner; default the first account.", "ADDRESS")
    change: bool = option("Change the project, which must be a draft.", default=False)
    live: bool = option(
        "Show the estimates and checks now, as the dashboard does; the look is logged.",
        default=False,
    )
    protocol: ProtocolName | None = _plain("Who is asked what.")
    classes: str | None = _plain("Names of the classes.", "A,B,C")
    question: str | None = _plain("What is asked.", "TEXT")
    draws: opt.Count = _plain("Questions per item.")
    shown: int | None = _plain("Classes that are shown at a time.", "M")
    annotators: opt.Count = _plain("Places of the ordinary design.")
    panel_items: opt.Count = _plain("Items that are put to all classes.")
    gold_rate: float | None = _plain("Share of questions with a known answer.", "P")
    reasks: opt.Count = _plain('Others who are asked after "not sure".')
    planned_n: opt.Count = _plain("Declared number of main answers.")


@with_options()
def project(own: _ProjectOptions, output: opt.JsonOutput) -> None:
    """Make a project, show one, or list all."""
    from noracle.collect.service import projects

    given = values(own, "slug", "db", "spec", "items", "name", "owner", "change", "live")
    given["classes"] = opt.names(own.classes)
    wishes = {key: value for key, value in given.items() if value is not None}
    slug = own.slug
    making = own.spec is not None or bool(wishes)
    if slug is None:
        require(not making, "PROJECT must be named to make a project; got none.")
        require(not own.live, "PROJECT must be named with --live; got none.")
        _list(own.db, output)
        return
    if own.live:
        rule = "--live must come alone; got options that change the project."
        require(not (making or own.change), rule)
        show_live(slug, own.db, as_json=output.as_json)
        return
    rule = "--spec, or --protocol and --classes, must say what the project is; got neither."
    others = (own.name, own.owner, own.items)
    require(making or not (own.change or any(other is not None for other in others)), rule)
    wanted, called = read_spec(own.spec, wishes) if making else (None, None)
    with common.opened(own.db) as store:
        if wanted is not None:
            name = own.name or called or slug

            def make(work: Work) -> None:
                if own.change:
                    row = common.project_row(work, slug)
                    projects.change_spec(work, int(row["id"]), wanted)
                    return
                about: Any = {"owner": _person(work, own.owner), "now": common.now()}
                projects.create_project(work, slug=slug, name=name, spec=wanted, **about)

            store.write_now(make)
            if own.items is not None:
                member = store.read_now(lambda work: common.owner_of(work, slug))
                _items(store, member, own.items, None, None)
        found = store.read_now(lambda work: describe(work, slug))
    output.tell(found, _lines_of(found), bold=True)


def read_spec(path: str | None, values: Mapping[str, Any]) -> tuple[ProjectSpec, str | None]:
    """The specification in a TOML or JSON file, with options on top; and the name, if the file has
    one.
    """
    read: Any = {}
    if path is not None:
        rule = ""
        try:
            text = Path(path).read_text(encoding="utf-8")
            read = json.loads(text) if Path(path).suffix.lower() == ".json" else tomllib.loads(text)
        except OSError as error:
            rule = f"be a readable file; got {path!r} ({error.strerror})"
        except ValueError as error:
            rule = f"be TOML or JSON; got something else in {path!r} ({error})"
        if not rule and not isinstance(read, dict):
            rule = f"hold names and values; got something else in {path!r}"
        if rule:
            raise ArgumentError(f"--spec must {rule}.")
    name = read.pop("name", None)
    try:
        return ProjectSpec.from_dict({**read, **values}), None if name is None else str(name)
    except TypeError as error:
        raise ArgumentError(f"--spec must hold values of the right kind; got {error}.") from None


def _person(work: Work, email: str | None) -> int:
    from noracle.collect.service.people import find_person

    first = "SELECT id FROM person WHERE active = 1 ORDER BY id LIMIT 1"
    row = work.one(first) if email is None else find_person(work, email)
    if row is None:
        remedy = "Make the first with: noracle collect init"
        raise NotFound(f"--owner must have an account; got none. {remedy}")
    return int(row["id"])


def describe(work: Work, slug: str) -> dict[str, Any]:
    """What there is to know about a project, without a name of anybody."""
    row = common.project_row(work, slug)
    project = int(row["id"])

    def rows(what: str, table: str, order: str = "") -> list[Row]:
        query = f"SELECT {what} FROM {table} WHERE project_id = :project {order}"  # noqa: S608 (our own names)
        return list(work.all(query, project=project))

    def count(table: str) -> int:
        return int(rows("COUNT(*) AS n", table)[0]["n"])

    systems = rows("name", "system", "ORDER BY id")
    heads = work.one(SQL.closed_head, project=project) or {"hash": None}
    people = rows("role, COUNT(*) AS n", "membership", "GROUP BY role ORDER BY role")
    dates = {key: _date(row[key]) for key in ("created_at", "sealed_at", "opened_at", "closed_at")}
    return {
        "project": row["slug"],
        "name": row["name"],
        "state": row["state"],
        "spec": ProjectSpec.from_dict(json.loads(row["spec"])).to_dict(),
        "items": count("item"),
        "questions": count("question"),
        "answers": count("answer"),
        "systems": [str(s["name"]) for s in systems],
        "people": {str(p["role"]): int(p["n"]) for p in people},
        "commitment": row["commitment"],
        "root": row["root"],
        "head": heads["hash"],
        **dates,
    }


def _date(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _lines_of(found: Mapping[str, Any]) -> list[str]:
    spec = found["spec"]
    classes = [str(c["name"]) for c in spec["classes"]]
    named = ", ".join(classes[:8]) + (f" and {len(classes) - 8} more" if len(classes) > 8 else "")
    people = ", ".join(f"{n} {role}" for role, n in found["people"].items())
    evidence = ", ".join(f"{found[what]:,} {what}" for what in ("items", "questions", "answers"))
    lines = [
        f"{found['project']}: {found['name']}    {found['state']}",
        f"  protocol    {spec['protocol']}, {len(classes)} classes: {named}",
        f"  evidence    {evidence}",
        f"  systems     {', '.join(found['systems']) or 'none yet'}",
        f"  people      {people or 'none'}",
    ]
    if found["commitment"]:
        keys = [key for key in ("commitment", "root", "head") if found[key]]
        lines += [f"  {key:<11} {found[key]}" for key in keys]
    return lines


def _list(db: str, output: Output) -> None:
    query = "SELECT slug, name, state FROM project ORDER BY slug"
    with common.opened(db) as store:
        rows = [dict(row) for row in store.read_now(lambda work: work.all(query))]
    none = "no project yet; make one with: noracle collect project NAME --spec project.toml"
    lines = [f"{row['slug']:<24} {row['state']:<8} {row['name']}" for row in rows] or [none]
    output.tell({"projects": rows}, lines)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _SealOptions:
    chances: opt.File = option(
        "Targeted routing: item, class, propensity, a row for each class; default uniform."
    )
    yes: bool = common.yes_option()


@with_options()
def seal(at: common.ProjectAt, own: _SealOptions, output: opt.JsonOutput) -> None:
    """Draw everything random and commit to it; shows first what will be sealed."""
    from noracle.collect import formats
    from noracle.collect.service import projects

    with at.store() as store:
        member = store.read_now(lambda work: common.owner_of(work, at.slug))
        if member.state != "draft":
            raise Conflict(f"PROJECT must be a draft to be sealed; {at.slug} is {member.state}.")
        number, drawn = member.project, None
        if own.chances is not None:
            drawn = formats.read_propensities(own.chances, spec=member.spec)
        about: Any = {"propensities": drawn}
        with working("counting"):
            preview = store.read_now(lambda work: projects.preview_seal(work, number, **about))
        if preview.problem:
            raise Refused(preview.problem)
        if not output.as_json:
            for line in preview_lines(preview, member.spec):
                say(line)
        common.confirm(f"Seal {at.slug}? Nothing of it can be changed afterwards.", yes=own.yes)
        with working("drawing the routes"):
            projects.seal_in_steps(store, number, actor=member.alias, **about)
        found = store.read_now(lambda work: describe(work, at.slug))
    lines = (
        f"sealed {found['questions']:,} questions about {found['items']:,} items",
        f"  commitment  {found['commitment']} (SHA-256 of the seed)",
        f"  root        {found['root']} (Merkle root of the routes)",
    )
    output.tell(found, lines)


def preview_lines(preview: SealPreview, spec: ProjectSpec) -> list[str]:
    """What sealing will fix, a line a fact."""
    names = [f"place {pool}" for pool in spec.pools]
    if spec.protocol == "partitioned":
        names = [c.name for c in spec.classes]
    kinds = ", ".join(f"{n:,} {kind}" for kind, n in preview.by_kind.items())
    lines = [
        f"  items       {preview.items:,}, of which {preview.gold:,} with a known answer",
        f"  questions   {preview.questions:,}: {kinds}",
    ]
    if len(names) > 1:
        # From a trial draw: the sealed one differs a little.
        each = [f"about {n:,} for {names[pool]}" for pool, n in preview.by_pool.items()]
        each[20:] = [f"and {len(each) - 20} more"] if len(each) > 20 else []
        lines += [f"{'':14}{line}" for line in each]
    if preview.pools_without_people:
        lacking = ", ".join(names[pool] for pool in preview.pools_without_people[:20])
        lines.append(f"  nobody yet  for {lacking} (people may join after sealing)")
    return lines


@with_options()
def open_(at: common.ProjectAt) -> None:
    """Let annotators answer."""
    _turn(at, "open")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CloseOptions:
    yes: bool = common.yes_option()


@with_options()
def close(at: common.ProjectAt, own: _CloseOptions) -> None:
    """Take no more answers, and reveal the seed."""
    what = f"Close {at.slug}? No answer is taken afterwards, and it cannot be opened again."
    common.confirm(what, yes=own.yes)
    _turn(at, "close")


def _turn(at: common.ProjectAt, way: Literal["open", "close"]) -> None:
    from noracle.collect.service import projects

    def turn(work: Work) -> None:
        project = int(common.project_row(work, at.slug)["id"])
        actor = common.owner_of(work, at.slug).alias
        change = projects.open_project if way == "open" else projects.close_project
        change(work, project, actor=actor, now=common.now())

    with at.store() as store:
        store.write_now(turn)
        found = store.read_now(lambda work: describe(work, at.slug))
        number = store.read_now(lambda work: int(common.project_row(work, at.slug)["id"]))
        told = store.read_chained_now(number, lambda work: projects.published(work, at.slug))
    answered = f"{found['answers']:,} answers to {found['questions']:,} questions"
    say(f"{at.slug} is {found['state']}; {answered}")
    if told["head"] is not None:
        say(f"  head        {told['head']} (publish it: it protects every answer)")


INIT_EXAMPLE = opt.paragraphs("""Example:
noracle collect init --db sqlite:///labels.db --email ann@example.org --name Ann
printf '%s' "$PASSWORD" | noracle collect init --db postgresql://db.example.org/labels --email ann@example.org --name Ann""")

SERVE_EXAMPLE = opt.paragraphs("""Example:
noracle collect serve --db sqlite:///labels.db
noracle collect serve --db postgresql://db.example.org/labels --workers 4 --host 0.0.0.0 --behind-proxy https://labels.example.org""")

BACKUP_EXAMPLE = opt.paragraphs("""Example:
noracle collect backup monday.backup --db sqlite:///labels.db
The server may go on serving meanwhile.""")

RESTORE_EXAMPLE = opt.paragraphs("""Example:
noracle collect restore monday.backup --db sqlite:///again.db""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CollectInit:
    db: str = common.db_option()
    email: str | None = option("The owner's e-mail address; asked for if left out.", "ADDRESS")
    name: str | None = option("The owner's name; default the address before the @.", "NAME")
    locale: str = option("The owner's language.", "LANG", "en")
    key_file: str | None = common.key_option()


@with_options()
def init(own: _CollectInit) -> None:
    """Make the database, its secret key and the owner's account.

    The password is asked for; without a terminal it is the first line of stdin. There are no
    default accounts or passwords.
    """
    from noracle.collect.service import people
    from noracle.collect.store import open_store

    url = server.database_url(own.db)
    file, key = server.sqlite_path(url), server.key_path(url, own.key_file)
    for path, what in ((file, "the database"), (key, "--key-file")):
        if path is not None:
            check_folder(what, path)
    address = own.email or typer.prompt("E-mail address of the owner", err=True)
    people.normal_email(address)
    if key.exists():
        server.read_key(key)
    with contextlib.closing(open_store(url)) as store:
        store.read_now(_without_accounts)
        hashed = people.hash_password(common.ask_password(address))

        def add(work: Work) -> int:
            _without_accounts(work)
            who = own.name or address.partition("@")[0]
            account = {"email": address, "name": who, "password_hash": hashed}
            return people.add_person(work, **account, locale=own.locale, now=common.now())

        store.write_now(add)
    if not key.exists():
        server.make_key(key)
    say(f"database {url if file is None else file}")
    say(f"key      {key} (keep it secret; it is not in the database)")
    say(f"owner    {people.normal_email(address)}")
    say("next     noracle collect project NAME --spec project.toml, then noracle collect serve")


def _without_accounts(work: Work) -> None:
    if work.one("SELECT id FROM person WHERE active = 1 LIMIT 1") is not None:
        remedy = "Invite more people with: noracle collect invite"
        raise Conflict(f"--db must be a database without accounts; this one has some. {remedy}")


_where, _tls = panel("Where to listen"), panel("TLS")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ServeOptions:
    db: str = common.db_option()
    host: str = _where("Where to listen.", "ADDRESS", "127.0.0.1")
    port: int = _where("0 takes a free one.", "N", 8000)
    behind_proxy: str | None = _tls(
        "The https address of a proxy that speaks TLS for this server.", "URL"
    )
    trust_proxy: str = _tls("Proxies whose X-Forwarded-For is believed.", "ADDRESSES", "127.0.0.1")
    tls_cert: opt.File = _tls("Certificate (PEM).")
    tls_key: opt.File = _tls("Its private key (PEM).")
    public_url: str | None = _tls("With --tls-cert: the https address that people use.", "URL")
    workers: int = option("Server processes; more than one needs PostgreSQL.", "N", 1)
    answers_per_minute: opt.Count = option(
        "Most questions and answers of one session in a minute; default 300, for people."
    )
    oidc_issuer: str | None = option("An OpenID Connect provider for signing in.", "URL")
    oidc_client: str | None = option("Our name there; its secret in $NORACLE_OIDC_SECRET.", "ID")
    webhook_host: list[str] | None = option(
        "A private host, or one without TLS, that webhooks may call; repeat.", "HOST[:PORT]"
    )
    key_file: str | None = common.key_option()
    unsafe: bool = option(
        "Accept database settings that may lose acknowledged answers when the power fails.",
        default=False,
    )


@with_options()
def serve(own: _ServeOptions) -> None:
    """Serve the pages and the JSON interface until Ctrl-C; without --db, makes noracle.db if there
    is none, and prints where its first account is made.

    Plain http is for this machine alone: any other address needs a certificate, or a proxy that has
    one. An answer is acknowledged when it is on the disk. With $NORACLE_METRICS_TOKEN set, /metrics
    answers whoever sends it as a bearer token.
    """
    from noracle.collect.service.people import nobody_yet
    from noracle.collect.web.security import first_token

    for name, path in (("--tls-cert", own.tls_cert), ("--tls-key", own.tls_key)):
        if path is not None and not Path(path).is_file():
            raise ArgumentError(f"{name} must be a readable file; got {path!r}.")
    url = server.database_url(own.db)
    same = values(own, "db", "key_file", "behind_proxy", "trust_proxy", "webhook_host")
    same["webhook_hosts"] = tuple(host.lower() for host in own.webhook_host or ())
    same |= {"proxy": own.behind_proxy, "trusted": own.trust_proxy}
    settings = server.ServerSettings(url=url, key_file=server.key_path(url, own.key_file), **same)
    if own.db == server.DEFAULT_DB and not Path("noracle.db").exists():
        make_database(settings)
    # So that a wrong database is one line here, whatever the number of processes.
    with common.opened(own.db, unsafe=own.unsafe) as store:
        store.check()
        new = store.read_now(nobody_yet)

    def ready(address: str) -> None:
        say(f"serving at {address} (stop with Ctrl-C)")
        if new:
            token = first_token(server.read_key(settings.key_file))
            say(f"the first account is made at {address}/first/{token}")

    server.serve(settings, ready=ready)
    say("stopped")


def make_database(settings: server.ServerSettings) -> None:
    """A new database and, unless there is one, its key."""
    from noracle.collect.store import open_store

    with contextlib.suppress(ArgumentError):
        server.make_key(settings.key_file)
    open_store(settings.url).close()
    say(f"database {server.sqlite_path(settings.url)}, new; key {settings.key_file}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _BackupOptions:
    file: str = argument("Where the copy goes; it must not exist yet.", "FILE", ...)
    db: str = common.db_option()


@with_options()
def backup(own: _BackupOptions) -> None:
    """Copy the database while work goes on; the copy is consistent.

    The secret key is not in it: keep its file elsewhere.
    """
    check_target("file", own.file)
    if Path(own.file).exists():
        raise ArgumentError(f"FILE must not exist yet; got {own.file!r}.")
    with common.opened(own.db) as store, working("copying"):
        store.backup(Path(own.file))
    say(f"wrote {own.file} ({Path(own.file).stat().st_size:,} bytes)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _RestoreOptions:
    file: str = argument("A copy that noracle collect backup wrote.", "FILE", ...)
    db: str = common.db_option()
    key_file: str | None = common.key_option()


@with_options()
def restore(own: _RestoreOptions) -> None:
    """Fill a new database from a copy; an existing one is never overwritten.

    A new secret key is made if there is none: then forms that were open must be loaded again, and
    nothing else changes.
    """
    from noracle.collect.store import restore_store

    if not Path(own.file).is_file():
        raise ArgumentError(f"FILE must be a readable file; got {own.file!r}.")
    url = server.database_url(own.db)
    target = server.sqlite_path(url)
    if target is not None and target.exists():
        got = f"got the file {str(target)!r}. Name another, or move it away."
        raise ArgumentError(f"--db must be a new database; {got}")
    with working("restoring"):
        restore_store(Path(own.file), url)
    key = server.key_path(url, own.key_file)
    with contextlib.suppress(ArgumentError):
        server.make_key(key)
    say(f"restored {url if target is None else target}")
    say(f"key      {key}")


SIMULATE_EXAMPLE = opt.paragraphs("""Example:
noracle collect simulate --runs 50 --html protocol.html
Bias is in points: +4.1 says that an accuracy of 0.800 would be shown as 0.841.""")

_HEADS = ("complementary", "ordinary", "ml", "shown", "± s.e.", "missed", "alarm", "yes rate")
_NOTE = (
    "Bias in points of the three textbook estimates and of the value that a dashboard shows; missed: share of projects whose interval, "
    "valid at every look, leaves the truth out; alarm: share of projects in which a check fails. Rows with * cannot happen in this "
    "service: sealed routes, one question at a time, blind annotators and no stealing prevent them."
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ProtocolOptions:
    runs: int = option("Simulated projects a row.", "N", 20, min=2)
    n_items: int = option("Items a project.", "N", 5000, min=100)
    seed: int = opt.seed()


@with_options()
def simulate(own: _ProtocolOptions, output: Output) -> None:
    """Show what breaks the protocol: the bias of each estimate when a rule is broken, through the
    estimators of the dashboard.
    """
    from noracle.collect.live.simulation import PICKINGS, VIOLATIONS, simulate_protocol_table

    steps = own.runs * (len(VIOLATIONS) + 2 * len(PICKINGS))
    with common.progress("simulated projects", steps) as step:
        about: Any = {"repetitions": own.runs, "n_items": own.n_items, "seed": own.seed}
        rows = simulate_protocol_table(tick=step, **about)
    title = f"What breaks the protocol: {own.runs} simulated projects of {own.n_items:,} items per row, seed {own.seed}"
    said = lines(title, rows)
    if output.html is not None:
        with replacing(output.html) as temporary:
            temporary.write_text(page(title, rows), encoding="utf-8")
        said.append(f"report {output.html}")
    head = {"schema": "protocol-table/1", **values(own)}
    output.tell({**head, "rows": [row.to_dict() for row in rows]}, said)


def cells(row: ProtocolRow) -> list[str]:
    """The numbers of a row as they are shown; what does not apply is a dash."""
    points = (row.complementary, row.ordinary, row.ml, row.shown)
    shown = [
        *((value, f"{value:+.1f}") for value in points),
        (row.se, f"{row.se:.1f}"),
        *((value, words.percent(value, ".0f")) for value in (row.missed, row.found)),
        (row.yes_rate, f"{row.yes_rate:.3f}"),
    ]
    return ["–" if math.isnan(value) else text for value, text in shown]


def _row_name(row: ProtocolRow) -> str:
    return f"{row.what}{' *' if row.prevented else ''}"


def lines(title: str, table: Sequence[ProtocolRow]) -> list[str]:
    """The table as text."""
    wide = max(len(_row_name(row)) for row in table) + 2
    widths = [max(len(head), 7) + 2 for head in _HEADS]

    def line(name: str, texts: Sequence[str]) -> str:
        right = (text.rjust(width) for text, width in zip(texts, widths, strict=True))
        return name.ljust(wide) + "".join(right)

    rows = [line(_row_name(row), cells(row)) for row in table]
    return [title, "", line("", _HEADS), *rows, "", _NOTE]


def page(title: str, table: Sequence[ProtocolRow]) -> str:
    """The table as a page that needs nothing but itself."""
    from noracle.report.card import templates

    rows = [(_row_name(row), cells(row)) for row in table]
    about = {"command": settings.command, "version": __version__}
    protocol = templates().get_template("protocol.html")
    return protocol.render(title=title, heads=_HEADS, rows=rows, note=_NOTE, **about)


EXAMPLE = opt.paragraphs("""Example:
noracle collect demo shows the whole loop in a minute.
noracle collect init; noracle collect project abstracts --spec project.toml; noracle collect import abstracts --items items.csv;
 noracle collect seal abstracts; noracle collect invite abstracts; noracle collect open abstracts; noracle collect serve""")

app = typer.Typer(
    name="collect",
    help="Collect labels: pre-committed routes, honest intervals while answers come in, an export that proves itself.",
    epilog=EXAMPLE,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, _command, _example in (
    ("serve", serve, SERVE_EXAMPLE),
    ("init", init, INIT_EXAMPLE),
    ("project", project, PROJECT_EXAMPLE),
    ("import", import_, IMPORT_EXAMPLE),
    ("seal", seal, SEAL_EXAMPLE),
    ("open", open_, OPEN_EXAMPLE),
    ("close", close, CLOSE_EXAMPLE),
    ("invite", invite, INVITE_EXAMPLE),
    ("export", export, EXPORT_EXAMPLE),
    ("backup", backup, BACKUP_EXAMPLE),
    ("restore", restore, RESTORE_EXAMPLE),
    ("simulate", simulate, SIMULATE_EXAMPLE),
    ("demo", demo, DEMO_EXAMPLE),
    ("password", password, PASSWORD_EXAMPLE),
    ("remove", remove, REMOVE_EXAMPLE),
    ("forget", forget, FORGET_EXAMPLE),
):
    app.command(_name, epilog=_example)(_command)
