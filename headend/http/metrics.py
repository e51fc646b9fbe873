"""Prometheus metrics of a process that serves HTTP: its answers and its resource usage.

Answers are counted by the first segment of the path, for which there are few values: clients choose
paths, and each label value is kept forever.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from api.http.response import HttpResponse
from headend.http.fast_path import FastPath
from headend.http.server import Application

__all__ = ["CountedApplication", "HttpMetrics"]

_Message = MutableMapping[str, Any]  # ASGI's own
_Send = Callable[[_Message], Awaitable[None]]

_ROOMS: Final = frozenset(
    {"api", "live", "videos", "watch", "embed", "json", "oembed", "static", "schema"}
)
_OTHER: Final = "other"


class HttpMetrics(Collector):
    """Counts HTTP answers by the first path segment (`room`) and the class of the status."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], int] = {}
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        # CPU, memory, open files, read on each scrape.
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        """Yield the counters of this class."""
        family = CounterMetricFamily(
            "headend_http_answers", "Answers over HTTP", labels=("room", "status")
        )
        for (room, status), count in sorted(self._answers.items()):
            family.add_metric((room, status), count)
        yield family

    def count(self, path: str, status: int) -> None:
        """Count an answer to a request for `path`."""
        room = path.split("/", 2)[1] if path.startswith("/") else ""
        key = (room if room in _ROOMS else _OTHER, f"{status // 100}xx")
        self._answers[key] = self._answers.get(key, 0) + 1


class CountedApplication:
    """An application whose answers are counted; it has the same fast path as the inner one."""

    def __init__(self, app: Application, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics
        self._fast_path: FastPath | None = getattr(app, "fast_path", None)
        if self._fast_path is not None:
            self.fast_path = self._counted_fast_path

    async def __call__(self, scope: Any, receive: Any, send: _Send) -> None:  # ASGI's own maps
        """Answer one request."""

        async def counted(message: _Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count(scope["path"], message["status"])
            await send(message)

        await self._app(scope, receive, counted)

    def _counted_fast_path(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], peer: str | None
    ) -> HttpResponse | Coroutine[Any, Any, HttpResponse] | None:
        found = (
            self._fast_path(method, path, headers, peer) if self._fast_path is not None else None
        )
        if isinstance(found, HttpResponse):
            self._metrics.count(path, found.status)
            return found
        return None if found is None else self._counted(path, found)

    async def _counted(self, path: str, coming: Coroutine[Any, Any, HttpResponse]) -> HttpResponse:
        answer = await coming
        self._metrics.count(path, answer.status)
        return answer
