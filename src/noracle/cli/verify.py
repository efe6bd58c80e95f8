"""``noracle verify``: does a saved result, or the export of a collection project, hold?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from noracle.cli import _options as opt
from noracle.cli._collect import archive_at
from noracle.cli._options import argument, option, with_options
from noracle.cli._output import read_json, say, say_json, working
from noracle.errors import EvidenceError, NoracleError, require_evidence
from noracle.results import RESULT_TYPES, Result, read_result

EXAMPLE = opt.paragraphs("""Example:
noracle alarm --answers answers.csv --spec "accuracy > 1/2" --json > proof.json; noracle verify proof.json
noracle verify proof.json --json
noracle verify export.zip --published 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
Exit code 0: every result holds. 1: one does not, or has nothing to check. Without its published head an export is only without a fault.""")

_BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, ArithmeticError)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _VerifyOptions:
    file: str = argument(
        "What --json printed (one result, or several), the .zip export of a collection project, or DB#SLUG.",
        "FILE",
        ...,
    )
    published: list[str] | None = option(
        "A commitment, root or chain head that was written down: it must be in the export. Repeatable.",
        "HASH",
    )


@with_options()
def command(own: _VerifyOptions, output: opt.JsonOutput) -> None:
    """Check saved proofs, plans and certificates again, without the code that found them; or
    everything in an export of a project.
    """
    running = "#" in own.file and not Path(own.file).exists()
    if running or _is_zip(own.file):
        _verify_export(own.file, own.published or [], output.as_json, running=running)
        return
    rule = "must go with the .zip export of a project"
    require_evidence(not own.published, "--published", rule, repr(own.file))
    results = _read(own.file)
    with working("checking"):
        rows = [
            {"result": name, "what": what, "verified": _holds(result)}
            for name, what, result in results
        ]
    holds = all(r["verified"] for r in rows)
    lines = (f"{row['result']}: {row['what']}    {_verdict(row['verified'])}" for row in rows)
    output.tell({"verified": holds, "results": rows}, lines)
    raise typer.Exit(0 if holds else 1)


def _verdict(holds: object) -> str:
    return "verified" if holds else "NOT verified"


def _is_zip(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")
    except OSError:
        return False  # read_json says what is wrong


def _verify_export(path: str, published: Sequence[str], as_json: bool, *, running: bool) -> None:
    from noracle.collect.archive import read_archive
    from noracle.collect.verify import PROVES, verify_archive

    with working("checking"):
        archive = archive_at(path) if running else read_archive(path)
        result = verify_archive(archive, published=published)
    if as_json:
        say_json(result.to_dict())
    else:
        said = ", ".join(f"{n} {name}" for name, n in result.counts.items())
        verdict = "no fault found, not protected"
        verdict = _verdict(result.passed) if result.verified or not result.passed else verdict
        say(f"project {result.project} ({result.state}): {said}    {verdict}")
        for check in result.checks:
            say(f"  {check.name:<11} {check.status}{f': {check.note}' if check.note else ''}")
            for line in check.findings:
                say(f"    - {line}")
            if check.n_findings > len(check.findings):
                say(f"    - and {check.n_findings - len(check.findings)} more")
        for name, when in result.systems.items():
            say(f"  system      {name}: {when}")
        for name, proves in PROVES.items():
            met = f"published: {proves}" if name in result.published else "not compared with any"
            say(f"  {name:<11} {getattr(result, name)} ({met})")
        if result.passed and not result.verified:
            which = (
                "the answers" if "head" not in result.published else f"{result.unprotected} events"
            )
            why = "whoever holds the file could have rebuilt the chain"
            say(f"  Not protected: {which}; {why}. Pass the head that was published at closing")
            say("  (--published), and the commitment and root that were published before.")
    raise typer.Exit(0 if result.passed else 1)


def _read(path: str) -> list[tuple[str, str, Any]]:
    data = read_json(path, "RESULT.json")
    if not isinstance(data, Mapping):
        rule = "must hold a JSON object with a schema"
        raise EvidenceError.of("RESULT.json", rule, f"something else in {path!r}")
    parts = data.get("results") if data.get("schema") == "results/1" else [data]
    if not isinstance(parts, list) or not parts or not all(isinstance(p, Mapping) for p in parts):
        raise EvidenceError.of("RESULT.json", "must hold results", f"none in {path!r}")
    found = []
    for i, part in enumerate(parts, start=1):
        schema = part.get("schema")
        kind = RESULT_TYPES.get(str(schema))
        if kind is not None and not hasattr(kind, "verify"):
            able = sorted(name for name, c in RESULT_TYPES.items() if hasattr(c, "verify"))
            rule = f"must be of a kind that can be verified ({', '.join(able)})"
            remedy = "Compute it again from the evidence instead."
            raise EvidenceError.of(f"result {i}", rule, repr(schema), remedy=remedy)
        try:
            result = read_result(part)
        except NoracleError:
            raise
        except _BROKEN as error:
            why = f"something else ({type(error).__name__}: {error})"
            rule = f"must have the shape of schema {schema}"
            raise EvidenceError.of(f"result {i}", rule, why) from None
        found.append((f"result {i}", _what(result), result))
    return found


def _what(result: Result) -> str:
    status, claim = getattr(result, "status", None), getattr(result, "claim", None)
    return f"{status}: {claim}" if status is not None else repr(result)


def _holds(result: Any) -> bool:
    """False also where the values are no such result at all."""
    try:
        return bool(result.verify())
    except (NoracleError, *_BROKEN):
        return False
