"""The HTTP application: the API under /api, its description under /schema, and the other rooms."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from api import (
    backups,
    countries,
    events,
    imports,
    labels,
    linkrecords,
    players,
    projects,
    replacing,
    reports,
    resolutions,
    resumable,
    slates,
    streamcommands,
    streamedits,
    streams,
    streamsettings,
    tokens,
    uploadlinks,
    uploads,
    videos,
    videostates,
)
from api.addresses import Addresses
from api.auth import Guard, needs_token
from api.bodies import MAX_BODY
from api.crossing import crossing
from api.errors import HANDLERS
from api.imports import ImportRules
from api.ingest import Ingest
from api.options import name_all_methods
from api.ports import MediaRemover
from api.present import Presenter
from api.presentvideo import VideoPresenter
from api.ratelimit import Callers
from api.reference import JsonDocument, ReferencePage, YamlDocument, operation_id
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
    intake: uploads.Intake | None,
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
            *streams.HANDLERS,
            *streamedits.HANDLERS,
            *streamcommands.HANDLERS,
            *streamsettings.HANDLERS,
            *reports.HANDLERS,
            *backups.HANDLERS,
            *videos.HANDLERS,
            *imports.HANDLERS,
            *videostates.HANDLERS,
            *(
                (
                    *uploads.HANDLERS,
                    *replacing.HANDLERS,
                    *linkrecords.HANDLERS,
                    *resumable.HANDLERS,
                    *uploadlinks.HANDLERS,
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
    intake: uploads.Intake,
    clock_us: Callable[[], int],
    callers: Callers | None,
) -> Router:
    """Return the addresses that hold an upload link's secret, and take no token."""
    return Router(
        "/api",
        route_handlers=uploadlinks.LINKED,
        guards=[uploadlinks.needs_link(catalog, callers)],
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
    intake: uploads.Intake | None = None,
    ingest: Ingest | None = None,
    callers: Callers | None = None,
    import_rules: ImportRules = _PUBLIC,
    clock_us: Callable[[], int] = _clock_us,
    debug: bool = False,
) -> Litestar:
    """Return the application.

    `broadcaster_key` is the installation's (see `FirstStart`). `handlers` are the routes of the
    other rooms (the origin, the pages, the status), at the addresses they name themselves; they
    take no token and stand in no description. `version` is the product's, for the description.
    `callers` counts their requests, where they are limited. `media` deletes what is kept of records
    that are deleted; without it nothing is. `intake` takes uploads in, where they are taken.
    `ingest` is the process that takes encoders in; without it, one that looks by itself at what it
    is asked. `import_rules` say where videos may be fetched from.
    """
    guard = needs_token(catalog, callers)
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
            *(() if intake is None else (_linked(catalog, presenter, intake, clock_us, callers),)),
            Router("/", route_handlers=handlers, include_in_schema=False),
        ],
        exception_handlers=HANDLERS,
        before_send=[name_all_methods, crossing(catalog, most)],
        openapi_config=_description(version),
        # Logging is set up where the process starts, and errors are logged by their handlers.
        logging_config=None,
        debug=debug,
    )
