"""``noracle workflow``: look at workflows before any call is made."""

from __future__ import annotations

import dataclasses

import typer

from noracle.cli import _options as opt
from noracle.cli._options import argument, option, with_options
from noracle.cli._output import check_target, say, say_json
from noracle.errors import require
from noracle.files import replacing
from noracle.search.drawing import describe_calls, draw_workflow, workflow_svg
from noracle.search.workflow import load_workflow, workflow_names

SHOW = opt.paragraphs("""Example:
noracle workflow show
noracle workflow show debate --svg debate.svg
noracle workflow show cot-sc --json > mine.json  (edit it, then: noracle workflow show mine.json)""")

app = typer.Typer(
    help="Workflows as data: what they do, and the most calls they take.", no_args_is_help=True
)


@app.callback()
def _workflow() -> None:
    """Workflows as data: what they do, and the most calls they take."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _ShowOptions:
    name: str | None = argument(
        "A workflow that comes with noracle, or a JSON file; without: a list.", "[NAME|FILE]"
    )
    svg: opt.File = option("Also write the drawing as SVG.")


@app.command("show", epilog=SHOW)
@with_options()
def show(own: _ShowOptions, output: opt.JsonOutput) -> None:
    """Draw a workflow and say how many calls an item takes at most; nothing is called.

    A file is checked against every rule; the first that is broken is the error. --json prints the
    workflow itself, ready to be edited.
    """
    check_target("svg", own.svg)
    if own.name is None:
        _list(own.svg, as_json=output.as_json)
        return
    workflow = load_workflow(own.name)
    if own.svg is not None:
        with replacing(own.svg) as temporary:
            temporary.write_text(workflow_svg(workflow), encoding="utf-8")
    if output.as_json:
        say_json(workflow.to_dict())
        return
    say(draw_workflow(workflow))
    if own.svg is not None:
        say(f"\ndrawing {own.svg}")


def _list(svg: str | None, *, as_json: bool) -> None:
    """What comes with the package."""
    rule = "--svg must stand with the name of a workflow; got none."
    remedy = "Add one, as in: noracle workflow show cot --svg cot.svg"
    require(svg is None, f"{rule} {remedy}")
    found = [load_workflow(known) for known in workflow_names()]
    told = ("name", "least_calls", "most_calls", "description")
    if as_json:
        say_json({"workflows": [{name: getattr(w, name) for name in told} for w in found]})
        return
    widest = max(len(w.name) for w in found)
    calls = [describe_calls(w).removesuffix(" an item") for w in found]
    for w, most in zip(found, calls, strict=True):
        say(f"{w.name.ljust(widest)}  {most.ljust(max(map(len, calls)))}  {w.description}")
    say("\nnoracle workflow show NAME draws one; calls are for each item.")
