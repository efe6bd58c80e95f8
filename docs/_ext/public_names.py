"""Writes one page for every name in ``__all__`` of noracle and its extras before Sphinx reads the
pages: none can be missed.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

# The folder that a name comes from, and the heading under which the reference lists it.
GROUPS = {
    "noracle.results": "Results",
    "noracle.evidence": "Evidence",
    "noracle.counts": "Counts",
    "noracle.accuracy": "Accuracy",
    "noracle.ppi": "Budgets and means across raters",
    "noracle.superhuman": "Ratings, ceilings and certificates",
    "noracle.logic": "What answers alone prove",
    "noracle.simulate": "Simulated worlds",
    "noracle.report": "Reports",
    "noracle.learn": "Learning from ruled-out labels",
    "noracle.search": "Models, workflows and searches",
    "noracle.oversight": "The oversight report",
    "noracle.gate": "Gates",
    "noracle.ranking": "Preferences",
    "noracle.schemas": "Schemas",
    "noracle.errors": "Errors and warnings",
}
OTHER = "Everything else"
# What these classes bring is Python's own and is not listed again.
FOREIGN = (
    "BaseException",
    "Exception",
    "ImportError",
    "ValueError",
    "Warning",
    "Enum",
    "IntEnum",
    "ReprEnum",
    "int",
    "tuple",
    "ClassifierMixin",
    "BaseEstimator",
    "Module",
)
WRITTEN_BY_SKLEARN = ("get_metadata_routing", "set_fit_request", "set_score_request")


def group_of(module: str) -> str:
    return next(
        (
            title
            for prefix, title in GROUPS.items()
            if module == prefix or module.startswith(prefix + ".")
        ),
        OTHER,
    )


def describe(name: str, value: object) -> str:
    """The page of one name."""
    if inspect.ismodule(value):
        body = f".. automodule:: {value.__name__}\n   :members:\n"
    elif inspect.isclass(value):
        body = f".. autoclass:: noracle.{name}\n   :members:\n   :inherited-members: {', '.join(FOREIGN)}\n"
        body += f"   :exclude-members: {', '.join(WRITTEN_BY_SKLEARN)}\n"
    elif callable(value):
        body = f".. autofunction:: noracle.{name}\n"
    else:
        body = f".. autodata:: noracle.{name}\n"
    return f"# {name}\n\n```{{eval-rst}}\n{body}```\n"


def summary(value: object) -> str:
    doc = inspect.getdoc(value) if callable(value) or inspect.ismodule(value) else None
    return (doc or "").split("\n\n")[0].replace("\n", " ")


def write_pages(folder: Path, names: dict[str, object]) -> None:
    """Write the pages; those that did not change keep their time, so that a second build is quick."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{name}.md": describe(name, value) for name, value in names.items()}
    grouped: dict[str, list[str]] = {}
    for name, value in names.items():
        module = (
            value.__name__ if inspect.ismodule(value) else str(getattr(value, "__module__", ""))
        )
        grouped.setdefault(
            group_of(f"noracle.{name.split('.')[0]}" if "." in name else module), []
        ).append(name)
    lines = ["# Public names", ""]
    for title in (*GROUPS.values(), OTHER):
        if title in grouped:
            lines += [f"## {title}", ""]
            lines += [f"- [{name}]({name}.md): {summary(names[name])}" for name in grouped[title]]
            lines += ["", "```{toctree}", ":hidden:", "", *grouped[title], "```", ""]
    pages["index.md"] = "\n".join(lines)
    for stale in {p.name for p in folder.glob("*.md")} - set(pages):
        (folder / stale).unlink()
    for file, text in pages.items():
        if not (folder / file).exists() or (folder / file).read_text(encoding="utf-8") != text:
            (folder / file).write_text(text, encoding="utf-8")


def public_names() -> dict[str, object]:
    """The names of the package, and those of the extras as ``learn.NAME``, ``search.NAME``,
    ``gate.NAME`` and ``oversight.NAME``.
    """
    import noracle
    import noracle.gate
    import noracle.learn
    import noracle.oversight
    import noracle.search

    names = {name: getattr(noracle, name) for name in noracle.__all__ if not name.startswith("__")}
    names |= {f"learn.{name}": getattr(noracle.learn, name) for name in noracle.learn.__all__}
    names |= {f"search.{name}": getattr(noracle.search, name) for name in noracle.search.__all__}
    names |= {f"gate.{name}": getattr(noracle.gate, name) for name in noracle.gate.__all__}
    return names | {
        f"oversight.{name}": getattr(noracle.oversight, name) for name in noracle.oversight.__all__
    }


def on_start(app: Any) -> None:
    write_pages(Path(app.srcdir) / "reference" / "generated", public_names())


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", on_start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
