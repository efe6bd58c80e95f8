"""Pages and the JSON interface of the collection service (extra ``collect``).

settings.py    what a server is told when it starts
security.py    cookies, CSRF tokens, Origin and Host; guard.py  headers, sizes, request ids for every request
throttle.py    buckets in memory; metrics.py  counters for Prometheus
words.py       the messages in the reader's language; view.py  a question as it is shown
core.py        what pages and JSON have in common; content.py's safe HTML is all that is not escaped
pages.py, work.py, manage.py   pages; api.py  JSON under /api/v1; app.py  all together
"""

from __future__ import annotations

from noracle.collect.web.security import WebSettings

__all__ = ["WebSettings"]
