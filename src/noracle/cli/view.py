"""``noracle view``: a run or a search as one page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from noracle.cli import _options as opt
from noracle.cli._options import argument, option, with_options
from noracle.cli._output import check_target, say
from noracle.report.page import write_text

EXAMPLE = opt.paragraphs("""Example:
noracle view noracle-search
noracle view answers.run --out page.html""")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ViewOptions:
    folder: str = argument("What noracle search or noracle ask wrote.", "FOLDER", ...)
    out: opt.File = option("Where the page goes; default view.html in the folder.")
    with_labels: bool = option(
        "Also show the talk with a designer, which quotes validation labels.", None, False
    )


@with_options()
def command(own: _ViewOptions) -> None:
    """Show a run or a search as one page: steps, scores, workflows and every exchange.

    The page needs no server and no script. It holds texts of items and replies, and no label.
    """
    from noracle.search.view import view_page

    target = own.out or str(Path(own.folder) / "view.html")
    check_target("out", own.out)
    write_text(target, view_page(own.folder, with_labels=own.with_labels))
    say(f"page {target}")
