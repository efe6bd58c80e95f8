"""Counters in the text format of Prometheus: requests by route and status, their times, answers."""

from __future__ import annotations

from noracle._version import __version__

_EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """What one server process counted since it started. Routes are templates, so no name of a
    project stands here.

    Examples
    --------
    >>> metrics = Metrics()
    >>> metrics.request("GET", "/healthz", 200, 0.002)
    >>> 'noracle_requests_total{method="GET",route="/healthz",status="200"} 1' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._requests: dict[tuple[str, str, int], int] = {}
        self._buckets = [0] * (len(_EDGES) + 1)
        self._seconds = 0.0
        self._events: dict[str, int] = {}

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        key = (method, route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        self._seconds += seconds
        self._buckets[
            next((i for i, edge in enumerate(_EDGES) if seconds <= edge), len(_EDGES))
        ] += 1

    def event(self, kind: str) -> None:
        """Count something that happened: ``answer``, ``sign-in``, ``look``, …"""
        self._events[kind] = self._events.get(kind, 0) + 1

    def text(self) -> str:
        """For a scraper."""
        lines = [
            "# TYPE noracle_info gauge",
            f'noracle_info{{version="{__version__}"}} 1',
            "# TYPE noracle_requests_total counter",
        ]
        lines += [
            f'noracle_requests_total{{method="{method}",route="{route}",status="{status}"}} {n}'
            for (method, route, status), n in sorted(self._requests.items())
        ]
        lines.append("# TYPE noracle_events_total counter")
        lines += [
            f'noracle_events_total{{kind="{kind}"}} {n}' for kind, n in sorted(self._events.items())
        ]
        lines.append("# TYPE noracle_request_seconds histogram")
        total = 0
        for edge, n in zip((*(f"{e:g}" for e in _EDGES), "+Inf"), self._buckets, strict=True):
            total += n
            lines.append(f'noracle_request_seconds_bucket{{le="{edge}"}} {total}')
        lines += [
            f"noracle_request_seconds_sum {self._seconds:.6f}",
            f"noracle_request_seconds_count {total}",
        ]
        return "\n".join([*lines, ""])
