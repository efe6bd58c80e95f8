"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from noracle.errors import MissingExtra

RENAMED = {
    "axiom_alarm": "prove_by_axioms",
    "least_violators": "range_violators",
    "minimal_conflict": "prove_conflict",
    "threshold": "range_threshold",
    "trace": "range_prevalence",
}
"""Names of 0.1 in noracle and noracle.logic → what they are called now."""


def missing(package: str, renamed: Mapping[str, str], name: str) -> AttributeError | ImportError:
    """The error for a name that a package does not have; one of 0.1 is told its new name.

    To be called by ``__getattr__``. The words of an AttributeError are lost in ``from package
    import name``, so that a renamed name is an ImportError there.
    """
    said = f"; it is called {renamed[name]} now" if name in renamed else ""
    message = f"module {package!r} has no attribute {name!r}{said}"
    if said and sys._getframe(2).f_code.co_name == "_handle_fromlist":
        return ImportError(message, name=name)
    return AttributeError(message)


def lazy(
    package: str,
    names: Mapping[str, str],
    *,
    libraries: Mapping[str, str] | None = None,
    modules: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Parameters
    ----------
    names
        Module → its public names, with spaces between them. A module that begins with a dot is one
        of the package.
    libraries
        Libraries that the extra of the package's name brings: the name to import → the name to
        install.
    modules
        Modules of the package that are loaded in the same way; they are not among ``__all__``.
    renamed
        Names of 0.1 → what they are called now, which the error says.

    Examples
    --------
    >>> get, names, public = lazy("noracle", {".errors": "fault known_names"})
    >>> get("fault").__module__, public
    ('noracle.errors', ['fault', 'known_names'])
    """
    home = {name: module for module, listed in names.items() for name in listed.split()}
    own = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in home:
            raise missing(package, renamed or {}, name)
        try:
            module = importlib.import_module(home[name], package)
        except ModuleNotFoundError as error:
            library = (libraries or {}).get((error.name or "").split(".")[0])
            if library is None:
                raise
            raise MissingExtra(name, library, package.rpartition(".")[2]) from None
        own[name] = getattr(module, name)
        return own[name]

    return load, lambda: sorted({*home, *modules}), sorted(home)
