"""Error pages: the error responses of the API as pages of the console.

A browser that is not signed in is redirected to the page to sign in.
"""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from litestar import Request, Response

from api.console.access import is_console, sign_in_path
from api.console.page import Console, is_fragment_request
from api.http.errors import ErrorBody

# Any: Litestar's own types. A handler accepts its own exceptions only.
_Handler = Callable[[Request[Any, Any, Any], Any], Response[Any]]
_Handlers = dict[int | type[Exception], _Handler]
# The headers of the API's response that the page keeps.
_KEPT: Final = ("Retry-After",)


def with_error_pages(
    handlers: Mapping[int | type[Exception], _Handler], console: Console
) -> _Handlers:
    """Return handlers that answer errors of the console's pages as pages, others as before."""
    return {kind: _as_page(handler, console) for kind, handler in handlers.items()}


def _as_page(handler: _Handler, console: Console) -> _Handler:
    def answer(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        response = handler(request, error)
        if not is_console(request.scope["path"]):
            return response
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            return _sign_in(request, console)
        body = response.content
        message = body.message if isinstance(body, ErrorBody) else ""
        status = HTTPStatus(response.status_code)
        page = console.page(request, "error.html", status=status, message=message, reason=status)
        kept = {name: response.headers[name] for name in _KEPT if name in response.headers}
        page.headers.update(kept)
        return page

    return answer


def _sign_in(request: Request[Any, Any, Any], console: Console) -> Response[Any]:
    if is_fragment_request(request):
        # A redirect would put the page to sign in where the fragment was.
        response = Response("", status_code=HTTPStatus.UNAUTHORIZED, media_type="text/html")
        response.headers["HX-Refresh"] = "true"
        return response
    query = request.scope["query_string"].decode("latin-1")
    return console.redirect(sign_in_path(request.scope["path"], query))
