"""What ``--help`` prints: one screen for each verb; ``--help-all`` says the rest.

Texts are printed as they are written: brackets are no markup.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from noracle.cli._output import settings

__all__ = ["GroupHelp", "VerbHelp", "brief"]

LINES, COLUMNS, _LEAST, _NAMES = 40, 100, 8, 34
"""The screen that the help of a verb fits; options that it explains at least; width of their names."""
_LATER = ("Options", "Output", "Reading the evidence")
"""Groups of options that give way first, the last one before the others."""


class _Entry(NamedTuple):
    """One option, argument or verb: its group, its names and what it is."""

    group: str
    names: str
    text: str
    first: bool = False
    verb: bool = False


class VerbHelp(TyperCommand):
    """A verb whose help fits one screen."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of this verb."""
        write_page(self, ctx, formatter, _options(self, ctx))


class GroupHelp(TyperGroup):
    """A group of verbs whose help lists each verb on one line."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the list of verbs."""
        entries = []
        for name in self.list_commands(ctx):
            verb: Any = self.get_command(ctx, name)
            text = " ".join((verb.help or "").split("\n\n")[0].split())
            entries.append(_Entry(verb.rich_help_panel or "Verbs", name, text, True, True))
        write_page(self, ctx, formatter, [*entries, *_options(self, ctx)])


def write_page(command: Any, ctx: Any, formatter: Any, entries: Sequence[_Entry]) -> None:
    """Write usage, purpose, examples and options, as much of them as the screen holds."""
    width = max(40, min(COLUMNS, shutil.get_terminal_size().columns))
    whole = settings.whole_help
    usage = " ".join(command.collect_usage_pieces(ctx))
    usage = re.sub(r"\[(\[[^]]+\])\]|\{([^}]+)\}", lambda m: m[1] or m[2], usage).replace(
        "…...", "..."
    )
    purpose = [" ".join(p.split()) for p in (command.help or "").strip().split("\n\n")]
    epilog = [" ".join(p.split()) for p in (command.epilog or "").strip().split("\n\n")]

    def page(n_paragraphs: int, n_shown: int, n_examples: int) -> list[str]:
        lines = [f"Usage: {ctx.command_path} {usage}", ""]
        for text in purpose[:n_paragraphs]:
            lines += [*textwrap.wrap(text, width), ""]
        lines += [*_examples(epilog[:n_examples], width), ""]
        for group, members in _grouped(entries[:n_shown]):
            lines.append(_bold(group))
            for entry in members:
                lines += _row(entry, width, whole)
        also = " ".join(e.names.split()[0].split(",")[0] for e in entries[n_shown:])
        more = f"{ctx.command_path} --help-all"
        if also:
            lines += textwrap.wrap(
                f"Also, explained by '{more}': {also}", width, break_on_hyphens=False
            )
        elif not whole and n_paragraphs < len(purpose):
            lines += [f"More: {more}"]
        return lines

    n_all, n_texts, n_lines = len(entries), len(purpose), len(epilog)
    lines = page(n_texts, n_all, n_lines)
    if not whole and not any(e.verb for e in entries):
        shown = range(n_all, min(_LEAST, n_all) - 1, -1)
        # What gives way: explanations of options, then paragraphs, then examples after the second.
        ways = [(t, e) for t, e in ((n_texts, n_lines), (1, n_lines), (1, 3)) if e <= n_lines]
        made = (page(t, n, e) for t, e in ways for n in shown)
        lines = next((found for found in made if len(found) <= LINES), page(1, n_all, 3))
    formatter.write("\n".join(lines).rstrip() + "\n")


def brief(text: str, width: int) -> str:
    """The text, or as much of it as makes sense within the width.

    Examples
    --------
    >>> brief("Number of classes. Where the items do not say.", 30)
    'Number of classes.'
    >>> brief("item, system, answer (CSV, JSONL, Parquet; globs)", 40)
    'item, system, answer …'
    """
    if len(text) <= width:
        return text
    ends = [m.end() for m in re.finditer(r"[.;](?= )", text) if m.end() <= width]
    if ends and ends[-1] >= width // 3:
        return text[: ends[-1]].rstrip(";")
    cut = text[: width - 1].rpartition(" ")[0] or text[: width - 1]
    if cut.count("(") > cut.count(")"):
        cut = cut.rpartition("(")[0]
    return cut.rstrip(" ,;(") + " …"


def _options(command: Any, ctx: Any) -> list[_Entry]:
    """Arguments and options, those first that say what the verb works on."""
    found = []
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None or "--help" in param.opts:
            continue
        argument = param.param_type_name == "argument"
        group = getattr(param, "rich_help_panel", None) or ("Arguments" if argument else "Options")
        names = re.sub(r" <bool>$", "", str(record[0]).strip())
        found.append(
            _Entry(group, names, " ".join(str(record[1]).split()), argument or param.required)
        )
    order = [g for g in dict.fromkeys(e.group for e in found) if g not in _LATER]
    order = ["Arguments", *order, *_LATER]
    return sorted(found, key=lambda e: (not e.first, order.index(e.group)))


def _grouped(entries: Sequence[_Entry]) -> Iterator[tuple[str, list[_Entry]]]:
    groups: dict[str, list[_Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    return iter(groups.items())


def _row(entry: _Entry, width: int, whole: bool) -> list[str]:
    """The lines of one option: one, or all of its text."""
    margin = 14 if entry.verb else min(_NAMES, width // 3)
    names = f"  {entry.names}"
    room = width - margin
    if not whole:
        if len(names) >= margin:
            names = brief(names.replace("|", " |"), margin - 1).replace(" |", "|")
            names = names if len(names) < margin else names[: margin - 2] + "…"
        return [f"{names:<{margin}}{brief(entry.text, room)}".rstrip()]
    lines = textwrap.wrap(entry.text, room) or [""]
    if len(names) < margin:
        head = [f"{names:<{margin}}{lines.pop(0)}"]
    else:  # choices may be many
        wrapped = textwrap.wrap(names.strip().replace("|", "| "), width - 2)
        head = [f"  {line.replace('| ', '|')}" for line in wrapped]
    return [line.rstrip() for line in (*head, *(" " * margin + rest for rest in lines))]


def _examples(paragraphs: Sequence[str], width: int) -> list[str]:
    """Examples as they can be copied: a long one goes on after a backslash."""
    lines = []
    for text in paragraphs:
        if text.startswith(("noracle ", "printf ")):
            first, *rest = textwrap.wrap(
                text, COLUMNS - 6, break_long_words=False, break_on_hyphens=False
            )
            shown = [f"  {first}", *(f"    {line}" for line in rest)]
            lines += [*(f"{line} \\" for line in shown[:-1]), shown[-1]]
        elif text:
            lines += [_bold(text)] if text.endswith(":") else textwrap.wrap(text, width)
    return lines


def _bold(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or not sys.stdout.isatty()
    return text if plain else typer.style(text, bold=True)
