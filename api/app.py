"""The HTTP application: the API under /api, its description under /schema, and the other rooms."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from api import events, streams
from api.addresses import Addresses
from api.auth import needs_token
from api.bodies import MAX_BODY
from api.errors import HANDLERS
from api.present import Presenter
from api.reference import ReferencePage
from storage.catalog import Catalog

__all__ = ["create_app"]

_BEARER: Final = "bearer"


def _clock_us() -> int:
    return time.time_ns() // 1_000


def _api(catalog: Catalog, presenter: Presenter, clock_us: Callable[[], int]) -> Router:
    return Router(
        "/api",
        route_handlers=[*streams.HANDLERS, *events.HANDLERS],
        guards=[needs_token(catalog)],
        dependencies={
            "catalog": Provide(lambda: catalog, sync_to_thread=False),
            "presenter": Provide(lambda: presenter, sync_to_thread=False),
            "now_us": Provide(clock_us, sync_to_thread=False),
        },
        request_max_body_size=MAX_BODY,
        # Records of streams hold their keys.
        response_headers={"Cache-Control": "no-store"},
        security=[{_BEARER: []}],
    )


def _description(version: str) -> OpenAPIConfig:
    scheme = SecurityScheme(
        type="http",
        scheme="bearer",
        description="A token of the owner, or one made by `headend token create`.",
    )
    return OpenAPIConfig(
        title="Headend",
        version=version,
        summary="Self-hosted live-stream and video hosting",
        components=Components(security_schemes={_BEARER: scheme}),
        use_handler_docstrings=True,
        render_plugins=[ReferencePage(), JsonRenderPlugin(), YamlRenderPlugin()],
    )


def create_app(
    *,
    catalog: Catalog,
    addresses: Addresses,
    broadcaster_key: str,
    handlers: Sequence[ControllerRouterHandler] = (),
    version: str = "0",
    clock_us: Callable[[], int] = _clock_us,
    debug: bool = False,
) -> Litestar:
    """Return the application.

    `broadcaster_key` is the installation's (see `FirstStart`). `handlers` are the routes of the
    other rooms (the origin, the pages, the status), at the addresses they name themselves; they
    take no token and stand in no description. `version` is the product's, for the description.
    """
    presenter = Presenter(addresses=addresses, broadcaster_key=broadcaster_key)
    return Litestar(
        route_handlers=[
            _api(catalog, presenter, clock_us),
            Router("/", route_handlers=handlers, include_in_schema=False),
        ],
        exception_handlers=HANDLERS,
        openapi_config=_description(version),
        # Logging is set up where the process starts, and errors are logged by their handlers.
        logging_config=None,
        debug=debug,
    )
