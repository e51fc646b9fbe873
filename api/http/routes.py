"""What the application's own routes say of a request: its query and its methods.

A query parameter that an operation does not know is refused, as bodies refuse unknown keys: a
misspelt one would otherwise change nothing, and nobody would see it. Operations for which clients
exist that were written before us take any parameter, and ignore what they do not know. OPTIONS
lists all methods of a path; Litestar lists only those of one of its handlers.
"""

from itertools import islice
from typing import Any, Final

from litestar import Litestar
from litestar.connection import ASGIConnection
from litestar.datastructures import MutableScopeHeaders
from litestar.handlers import BaseRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import Message, Scope

from api.http.errors import invalid

# Their clients may add parameters of other services: to get past caches, for example.
_ANY_QUERY: Final = frozenset({
    "show_video", "edit_video", "list_videos", "upload_video", "add_stream", "edit_stream",
    "list_streams", "list_categories", "list_tags", "edit_tag", "list_countries",
})  # fmt: skip
_MOST_NAMED: Final = 50  # as many as an answer names


def needs_known_query(
    connection: ASGIConnection[Any, Any, Any, Any],  # Any: what Litestar leaves open
    handler: BaseRouteHandler,
) -> None:
    """Require that an operation has every parameter of the query (a guard).

    Raises:
        ApiError: 422, naming those that it does not have.
    """
    scope = connection.scope
    if not scope["query_string"] or handler.handler_name in _ANY_QUERY or scope["type"] != "http":
        return
    known = _parameters(scope["litestar_app"], scope["path_template"], scope["method"])
    if known is None:
        return
    unknown = (name for name in dict(connection.query_params) if name not in known)
    errors = {name: ["This parameter is not known here."] for name in islice(unknown, _MOST_NAMED)}
    if errors:
        raise invalid(errors)


def _parameters(app: Litestar, path: str, method: str) -> set[str] | None:
    """Return the query parameters of an operation; None for the answer to OPTIONS, which has none.

    Dependencies declare some of them, so that the handler's own signature would not do.
    """
    for route in app.routes:
        if isinstance(route, HTTPRoute) and route.path_format == path and method != "OPTIONS":
            for name, (_, model) in route.route_handler_map.items():
                if name == method:
                    return {each.field_alias for each in model.expected_query_params}
    return None


async def list_all_methods(message: Message, scope: Scope) -> None:
    """Put all methods of the path into `Allow` (a `before_send` hook)."""
    if message["type"] != "http.response.start" or scope["type"] != "http":
        return
    if scope["method"] != "OPTIONS":
        return
    headers = MutableScopeHeaders.from_message(message)
    if "allow" in headers:
        app: Litestar = scope["litestar_app"]
        methods = allowed_methods(app, scope["path_template"])
        headers["allow"] = ", ".join(sorted(methods)) or headers["allow"]


def allowed_methods(app: Litestar, path: str) -> set[str]:
    """Return the methods of all routes with this path template."""
    return {
        str(method)
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path_format == path
        for method in route.methods
    }
