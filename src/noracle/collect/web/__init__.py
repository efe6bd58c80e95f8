"""Pages and the JSON interface of the collection service (extra ``collect``)."""

from __future__ import annotations

from noracle.collect.web.security import WebSettings

__all__ = ["WebSettings"]
