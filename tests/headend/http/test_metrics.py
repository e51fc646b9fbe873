"""Answers are counted, through ASGI and on the fast path."""

from typing import Any

from api.http.application import PlainApplication
from api.http.response import HttpResponse
from headend.http.metrics import CountedApplication, HttpMetrics, metrics_text


class Application:
    """Answers 200 to all, and has a fast path for requests below `/live`."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def fast_path(self, method: str, path: str, headers: Any, peer: str | None) -> Any:
        if path == "/live/later":
            return self.wait()
        return HttpResponse(404, ()) if path.startswith("/live/") else None

    async def wait(self) -> HttpResponse:
        return HttpResponse(200, ())


async def send_request(app: Any, path: str) -> None:
    async def send(message: Any) -> None: ...

    await app({"type": "http", "path": path}, None, send)


async def test_answers_are_counted_by_room_and_status() -> None:
    figures = HttpMetrics()
    app = CountedApplication(Application(), figures)
    for path in ("/api/projects", "/api/x", "/watch/abc", "/a-strangers-choice", ""):
        await send_request(app, path)
    assert app.fast_path is not None
    assert app.fast_path("GET", "/live/x", (), None) == HttpResponse(404, ())
    later: Any = app.fast_path("GET", "/live/later", (), None)
    assert await later == HttpResponse(200, ())
    assert app.fast_path("GET", "/api/x", (), None) is None
    lines = [
        line for line in metrics_text(figures)().decode().splitlines() if "answers_total{" in line
    ]
    assert lines == [
        'headend_http_answers_total{room="api",status="2xx"} 2.0',
        'headend_http_answers_total{room="live",status="2xx"} 1.0',
        'headend_http_answers_total{room="live",status="4xx"} 1.0',
        'headend_http_answers_total{room="other",status="2xx"} 2.0',
        'headend_http_answers_total{room="watch",status="2xx"} 1.0',
    ]


def test_an_application_without_a_fast_path_gets_none() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    assert CountedApplication(PlainApplication(app), HttpMetrics()).fast_path is None


def test_the_cpu_and_memory_of_the_process_are_in_the_metrics() -> None:
    text = metrics_text()().decode()
    for figure in (
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
    ):
        assert f"\n{figure} " in text
