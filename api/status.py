"""Health, readiness and metrics endpoints for monitoring."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from litestar import Litestar, Response, get
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler

from api.http.browser_headers import add_security_headers
from api.http.errors import HANDLERS

# A guard of Litestar, which may be a coroutine function.
_Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], Awaitable[None] | None]
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def status_handlers(
    *,
    problems: Callable[[], Awaitable[list[str]]],
    metrics_text: Callable[[], bytes],
    limits: Callable[[], list[str]] = list,
    guards: Sequence[_Guard] = (),
) -> list[HTTPRouteHandler]:
    """Return the handlers of `/healthz`, `/readyz` and `/metrics`.

    `problems` returns sentences about what cannot be served, `limits` about degradations.
    `metrics_text` returns the Prometheus text, which names streams, unpublished ones too. `guards`
    protect only the metrics.
    """

    @get("/healthz", include_in_schema=False, sync_to_thread=False)
    def alive() -> dict[str, str]:
        """Return 200 as long as the process answers."""
        return {"status": "alive"}

    @get("/readyz", include_in_schema=False)
    async def ready() -> Response[dict[str, object]]:
        """Return 200 if everything needed is available, else 503; in any case the problems."""
        causes = await problems()
        return Response(
            {"status": "not ready" if causes else "ready", "problems": [*causes, *limits()]},
            status_code=503 if causes else 200,
            headers={"Retry-After": "5"} if causes else {},
        )

    @get("/metrics", include_in_schema=False, sync_to_thread=False, guards=guards)
    def metrics() -> Response[bytes]:
        """Return the metrics."""
        return Response(
            metrics_text(), media_type=_PROMETHEUS, headers={"Cache-Control": "no-store"}
        )

    return [alive, ready, metrics]


def status_app(
    *,
    problems: Callable[[], Awaitable[list[str]]],
    metrics_text: Callable[[], bytes],
    limits: Callable[[], list[str]] = list,
) -> Litestar:
    """Return an application with only these endpoints, all open, for a listener of their own."""
    return Litestar(
        route_handlers=[
            *status_handlers(problems=problems, metrics_text=metrics_text, limits=limits)
        ],
        exception_handlers=HANDLERS,
        before_send=[add_security_headers],
        openapi_config=None,
        logging_config=None,
    )
