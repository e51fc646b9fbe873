"""OPTIONS under /api: lists all methods of a path.

Litestar lists only those of one of its handlers.
"""

from litestar import Litestar
from litestar.datastructures import MutableScopeHeaders
from litestar.routes import HTTPRoute
from litestar.types import Message, Scope


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
