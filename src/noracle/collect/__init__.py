"""The service that collects labels so that the mathematics holds (extra ``collect``).

``model`` has the records, ``protocols`` draws everything random once from a committed seed,
``chain``, ``archive`` and ``verify`` prove it, ``store`` keeps it, ``service`` says what people may
do, ``live`` estimates while a project runs, ``web`` has the pages and the JSON interface, and
:class:`Client` does for programs what pages do for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noracle.collect.client import Client

__all__ = ["Client"]


def __getattr__(name: str) -> Any:
    """The client, once it is asked for: it needs httpx."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noracle.collect import client

    return client.Client
