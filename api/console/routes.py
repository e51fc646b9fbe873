"""The routes of the console: its pages, and what all of them share.

A page is a handler or a controller in a module of its own; it is registered in `PAGES`. Its
handlers get the dependencies of the API (`catalog`, `presenter`, `project`, ...) and `console`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from litestar import Response, Router, get
from litestar.di import Provide
from litestar.handlers import HTTPRouteHandler
from litestar.types import ControllerRouterHandler

from api.console.access import HOME, needs_session
from api.console.operations import operations_page
from api.console.overview import Problems, overview_page
from api.console.page import Console
from api.console.settings import settings_page
from api.console.sign_in import sign_in_handlers
from api.console.stream_room import room_page
from api.console.streams import StreamListPages
from api.console.trash import deleted_projects_page, trash_page
from api.console.upload import upload_page
from api.console.video import video_page
from api.console.videos import videos_page
from api.http.browser_sessions import BrowserSessions
from api.http.caller_limits import CallerRateLimiter
from api.operations.report import StreamRoom
from storage.catalog import Catalog

# All below /console, in the order of the navigation.
PAGES: Final[tuple[ControllerRouterHandler, ...]] = (
    overview_page,
    StreamListPages,
    room_page,
    videos_page,
    video_page,
    upload_page,
    trash_page,
    deleted_projects_page,
    settings_page,
    operations_page,
)


def console_routes(
    catalog: Catalog,
    console: Console,
    sessions: BrowserSessions,
    callers: CallerRateLimiter,
    clock_us: Callable[[], int],
    dependencies: Mapping[str, Provide],
    problems: Problems,
    room: StreamRoom,
) -> list[ControllerRouterHandler]:
    """Return the routes of the console; `dependencies` are those of the API.

    `problems` are sentences about what the service cannot do at the moment, `room` returns for how
    many more streams this machine has room.
    """
    pages = Router(
        HOME,
        route_handlers=PAGES,
        guards=[needs_session(sessions, callers)],
        dependencies={
            **dependencies,
            "console": Provide(lambda: console, sync_to_thread=False),
            "problems": Provide(lambda: problems, sync_to_thread=False),
            "room": Provide(lambda: room, sync_to_thread=False),
        },
    )
    return [*sign_in_handlers(catalog, console, sessions, callers, clock_us), pages]


def front_page(console: Console, home: str) -> HTTPRouteHandler:
    """Return the handler of `/`, which redirects to `home`, or to the console if that is empty."""

    @get("/")
    async def front() -> Response[str]:
        """Redirect to the first page of this installation."""
        response = console.redirect(HOME)
        if home:
            response.headers["Location"] = home
        # The target is a setting.
        response.headers["Cache-Control"] = "no-cache"
        return response

    return front
