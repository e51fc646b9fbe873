"""Builds the HTTP application: the API under /api, its description under /schema, other routes."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from api.http.auth import Guard, needs_token
from api.http.cors import cors_hook
from api.http.errors import HANDLERS
from api.http.json_body import MAX_BODY
from api.http.openapi import JsonDocument, ReferencePage, YamlDocument, operation_id
from api.http.options import list_all_methods
from api.http.rate_limit import CallerRateLimiter
from api.library import countries, events, labels, players, projects, resolutions, tokens
from api.ports import MediaRemover
from api.schemas.presenter import Presenter
from api.schemas.urls import Addresses
from api.streams import (
    backups,
    ingest_report,
    slates,
)
from api.streams import (
    collection as stream_collection,
)
from api.streams import (
    commands as stream_commands,
)
from api.streams import (
    item as stream_item,
)
from api.streams import (
    settings as stream_settings,
)
from api.streams.command_client import Ingest
from api.uploads import (
    endpoints as upload_endpoints,
)
from api.uploads import (
    imports,
    link_endpoints,
    link_records,
    replace_file,
    single_request,
)
from api.uploads.imports import ImportRules
from api.videos import item as video_item
from api.videos import state as video_state
from api.videos.presenter import VideoPresenter
from storage.catalog import Catalog

__all__ = ["create_app"]

_BEARER: Final = "bearer"
_PUBLIC: Final = ImportRules()


def _clock_us() -> int:
    return time.time_ns() // 1_000


def _api(
    catalog: Catalog,
    presenter: Presenter,
    media: MediaRemover | None,
    ingest: Ingest,
    intake: single_request.Intake | None,
    import_rules: ImportRules,
    clock_us: Callable[[], int],
    guard: Guard,
) -> Router:
    video_presenter = VideoPresenter(
        addresses=presenter.addresses, broadcaster_key=presenter.broadcaster_key
    )
    return Router(
        "/api",
        route_handlers=[
            *stream_collection.HANDLERS,
            *stream_item.HANDLERS,
            *stream_commands.HANDLERS,
            *stream_settings.HANDLERS,
            *ingest_report.HANDLERS,
            *backups.HANDLERS,
            *video_item.HANDLERS,
            *imports.HANDLERS,
            *video_state.HANDLERS,
            *(
                (
                    *single_request.HANDLERS,
                    *replace_file.HANDLERS,
                    *link_records.HANDLERS,
                    *upload_endpoints.HANDLERS,
                    *link_endpoints.HANDLERS,
                    *slates.HANDLERS,
                )
                if intake is not None
                else ()
            ),
            *events.HANDLERS,
            *projects.HANDLERS,
            *tokens.HANDLERS,
            *labels.HANDLERS,
            *players.HANDLERS,
            *countries.HANDLERS,
            *resolutions.HANDLERS,
        ],
        guards=[guard],
        dependencies={
            "catalog": Provide(lambda: catalog, sync_to_thread=False),
            "presenter": Provide(lambda: presenter, sync_to_thread=False),
            "media": Provide(lambda: media, sync_to_thread=False),
            "ingest": Provide(lambda: ingest, sync_to_thread=False),
            "intake": Provide(lambda: intake, sync_to_thread=False),
            "import_rules": Provide(lambda: import_rules, sync_to_thread=False),
            "video_presenter": Provide(lambda: video_presenter, sync_to_thread=False),
            "clock_us": Provide(lambda: clock_us, sync_to_thread=False),
            "now_us": Provide(clock_us, sync_to_thread=False),
        },
        request_max_body_size=MAX_BODY,
        # Records of streams hold their keys.
        response_headers={"Cache-Control": "no-store"},
        security=[{_BEARER: []}],
    )


def _linked(
    catalog: Catalog,
    presenter: Presenter,
    intake: single_request.Intake,
    clock_us: Callable[[], int],
    callers: CallerRateLimiter | None,
) -> Router:
    """Return the addresses that hold an upload link's secret, and take no token."""
    return Router(
        "/api",
        route_handlers=link_endpoints.LINKED,
        guards=[link_endpoints.needs_link(catalog, callers)],
        dependencies={
            "catalog": Provide(lambda: catalog, sync_to_thread=False),
            "presenter": Provide(lambda: presenter, sync_to_thread=False),
            "intake": Provide(lambda: intake, sync_to_thread=False),
            "clock_us": Provide(lambda: clock_us, sync_to_thread=False),
        },
        response_headers={"Cache-Control": "no-store"},
        include_in_schema=False,
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
        operation_id_creator=operation_id,
        render_plugins=[ReferencePage(), JsonDocument(), YamlDocument()],
    )


def create_app(  # noqa: PLR0913  # the parts of an application, each by its name
    *,
    catalog: Catalog,
    addresses: Addresses,
    broadcaster_key: str,
    handlers: Sequence[ControllerRouterHandler] = (),
    version: str = "0",
    media: MediaRemover | None = None,
    intake: single_request.Intake | None = None,
    ingest: Ingest | None = None,
    rate_limiter: CallerRateLimiter | None = None,
    import_rules: ImportRules = _PUBLIC,
    clock_us: Callable[[], int] = _clock_us,
    debug: bool = False,
) -> Litestar:
    """Return the application.

    `broadcaster_key` is that of the installation (see `FirstStart`). `handlers` are further routes
    (pages, status), which need no token and are not in the OpenAPI document; `version` is. Without
    a `rate_limiter` requests are unlimited. `media` deletes the media of deleted records; without
    it they stay. Without an `intake` there are no upload endpoints. `ingest` sends commands to the
    process that receives encoders; the default finds it by polling the catalog. `import_rules` say
    from where videos may be fetched.
    """
    guard = needs_token(catalog, rate_limiter)
    most = 0 if intake is None else intake.most_upload
    presenter = Presenter(addresses=addresses, broadcaster_key=broadcaster_key)
    return Litestar(
        route_handlers=[
            _api(
                catalog,
                presenter,
                media,
                ingest or Ingest(catalog, media),
                intake,
                import_rules,
                clock_us,
                guard,
            ),
            *(
                ()
                if intake is None
                else (_linked(catalog, presenter, intake, clock_us, rate_limiter),)
            ),
            Router("/", route_handlers=handlers, include_in_schema=False),
        ],
        exception_handlers=HANDLERS,
        before_send=[list_all_methods, cors_hook(catalog, most)],
        openapi_config=_description(version),
        # Logging is set up where the process starts, and errors are logged by their handlers.
        logging_config=None,
        debug=debug,
    )
