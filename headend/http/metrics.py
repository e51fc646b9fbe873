"""Prometheus metrics of a process: its HTTP answers, its resource usage, and what its role adds.

Answers are counted by the first segment of the path, for which there are few values: clients choose
paths, and each label value is kept forever.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from functools import partial
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from api.http.application import Application, FastAnswer, FastPath
from api.http.client_address import RawHeaders
from api.http.response import HttpResponse, PendingResponse

_Message = MutableMapping[str, Any]  # ASGI's own
_Send = Callable[[_Message], Awaitable[None]]

_ROOMS: Final = frozenset(
    {"api", "console", "live", "videos", "watch", "embed", "json", "oembed", "static", "schema"}
)
_OTHER: Final = "other"


def metrics_text(*collectors: Collector) -> Callable[[], bytes]:
    """Return a function that renders these metrics and the process's own for Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    # CPU, memory, open files, read on each scrape.
    ProcessCollector(registry=registry)
    return partial(generate_latest, registry)


class HttpMetrics(Collector):
    """Counts HTTP answers by the first path segment (`room`) and the class of the status."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()

    def collect(self) -> Iterable[Metric]:
        """Yield the counters of this class."""
        family = CounterMetricFamily(
            "headend_http_answers", "Answers over HTTP", labels=("room", "status")
        )
        by_class: Counter[tuple[str, str]] = Counter()
        for (room, status), count in self._answers.items():
            by_class[room, f"{status // 100}xx"] += count
        for labels, count in sorted(by_class.items()):
            family.add_metric(labels, count)
        yield family

    def count(self, room: str, status: int) -> None:
        """Count an answer to a request for a path of this room."""
        self._answers[room, status] += 1


def _room(path: str) -> str:
    room = path.split("/", 2)[1] if path.startswith("/") else ""
    return room if room in _ROOMS else _OTHER


class CountedApplication:
    """An application whose answers are counted; it has a fast path if the inner one has."""

    def __init__(self, app: Application, metrics: HttpMetrics) -> None:
        self._app = app
        self._metrics = metrics
        inner = app.fast_path
        self.fast_path: FastPath | None = (
            None if inner is None else partial(self._counted_fast_path, inner)
        )

    async def __call__(self, scope: Any, receive: Any, send: _Send) -> None:  # ASGI's own maps
        """Answer one request."""

        async def counted(message: _Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count(_room(scope["path"]), message["status"])
            await send(message)

        await self._app(scope, receive, counted)

    def _counted_fast_path(
        self, inner: FastPath, method: str, path: str, headers: RawHeaders, peer: str | None
    ) -> FastAnswer:
        answer = inner(method, path, headers, peer)
        if isinstance(answer, HttpResponse):
            self._metrics.count(_room(path), answer.status)
            return answer
        if isinstance(answer, PendingResponse):
            return _CountedPending(self._metrics, _room(path), answer)
        return None if answer is None else self._counted(path, answer)

    async def _counted(
        self, path: str, lookup: Coroutine[Any, Any, HttpResponse | PendingResponse]
    ) -> HttpResponse | PendingResponse:
        answer = await lookup
        if isinstance(answer, PendingResponse):
            return _CountedPending(self._metrics, _room(path), answer)
        self._metrics.count(_room(path), answer.status)
        return answer


class _CountedPending(PendingResponse):
    """A response that is counted when it is delivered; one that is cancelled is not."""

    __slots__ = ("_callback", "_metrics", "_pending", "_room")
    _callback: Callable[[HttpResponse], None]

    def __init__(self, metrics: HttpMetrics, room: str, pending: PendingResponse) -> None:
        self._metrics = metrics
        self._room = room
        self._pending = pending

    def subscribe(self, callback: Callable[[HttpResponse], None]) -> None:
        self._callback = callback
        self._pending.subscribe(self._deliver)

    def cancel(self) -> None:
        self._pending.cancel()

    def _deliver(self, answer: HttpResponse) -> None:
        self._metrics.count(self._room, answer.status)
        self._callback(answer)
