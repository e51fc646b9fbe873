"""Health, readiness and metrics endpoints for monitoring."""

from collections.abc import Awaitable, Callable

from litestar import Litestar, Response, get
from litestar.handlers import HTTPRouteHandler

from api.http.errors import HANDLERS

__all__ = ["status_app", "status_handlers"]

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def status_handlers(
    *, problems: Callable[[], Awaitable[list[str]]], figures: Callable[[], bytes]
) -> list[HTTPRouteHandler]:
    """Return the handlers of `/healthz`, `/readyz` and `/metrics`.

    `problems` returns sentences about what cannot be served; `figures` the Prometheus text.
    """

    @get("/healthz", include_in_schema=False, sync_to_thread=False)
    def alive() -> dict[str, str]:
        """Return 200 as long as the process answers."""
        return {"status": "alive"}

    @get("/readyz", include_in_schema=False)
    async def ready() -> Response[dict[str, object]]:
        """Return 200 if everything needed is available, else 503 with the problems."""
        found = await problems()
        return Response(
            {"status": "not ready" if found else "ready", "problems": found},
            status_code=503 if found else 200,
            headers={"Retry-After": "5"} if found else {},
        )

    @get("/metrics", include_in_schema=False, sync_to_thread=False)
    def metrics() -> Response[bytes]:
        """Return the metrics."""
        return Response(figures(), media_type=_PROMETHEUS)

    return [alive, ready, metrics]


def status_app(
    *, problems: Callable[[], Awaitable[list[str]]], figures: Callable[[], bytes]
) -> Litestar:
    """Return an application with only these endpoints, for processes that serve no media."""
    return Litestar(
        route_handlers=[*status_handlers(problems=problems, figures=figures)],
        exception_handlers=HANDLERS,
        openapi_config=None,
        logging_config=None,
    )
