"""Builds the HTTP application: the API under /api, its description under /schema, other routes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

from litestar import Litestar, Router
from litestar.di import Provide
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, YamlRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from api.console.errors import with_error_pages
from api.console.overview import Problems
from api.console.page import Console
from api.console.rendering import Renderer
from api.console.routes import console_routes, front_page
from api.http.auth import Guard, needs_token
from api.http.browser_headers import add_security_headers, cors_hook
from api.http.browser_sessions import BrowserSessions
from api.http.caller_limits import UNLIMITED, CallerRateLimiter
from api.http.errors import HANDLERS
from api.http.json_body import MAX_BODY
from api.http.openapi import ReadyDocuments, ReferencePage, operation_id
from api.http.operation import Services, provide_plain
from api.http.routes import list_all_methods, needs_known_query
from api.intake.upload_intake import UploadIntake
from api.library.alert_mail import InstallationMailController, MailTests, ProjectMailController
from api.library.countries import CountriesController
from api.library.events import EventsController
from api.library.labels import (
    CategoriesController,
    CategoryController,
    TagController,
    TagsController,
)
from api.library.players import PlayerController, PlayersController
from api.library.projects import ProjectController, ProjectsController
from api.library.quotas import ProjectQuotas
from api.library.resolutions import ResolutionsController
from api.library.tokens import TokensController
from api.library.trash import ProjectTrashController, TrashController, TrashItemController
from api.operations.endpoints import OperationsController
from api.operations.report import OperationsReporter, StreamRoom
from api.ports import MailTest, MediaRemover
from api.schemas.presenter import Presenter
from api.schemas.urls import Addresses
from api.streams.clips import ClipsController
from api.streams.collection import StreamsController
from api.streams.command_client import IngestClient
from api.streams.commands import StreamCommandsController
from api.streams.ingest_report import IngestReportController
from api.streams.item import StreamController
from api.streams.obs_profile import ObsProfileController
from api.streams.settings import ProjectSettingsController, StreamSettingsController
from api.streams.slates import ProjectSlateController, StreamSlateController
from api.uploads.imports import ImportRules, ImportsController
from api.uploads.link_records import UploadLinksController
from api.uploads.link_uploads import LinkController, LinkUploadController, needs_link
from api.uploads.resumable import ResumableUploadController, ResumableUploadsController
from api.uploads.single_request import VideoFilesController, VideoUploadController
from api.uploads.source_file import SourceFileController
from api.videos.collection import VideosController
from api.videos.item import VideoController
from media.no_op import do_nothing, never
from media.run_policy import DEFAULTS, ResolvedPolicy
from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.quotas import NO_QUOTAS, QuotaCheck, QuotaLimits
from storage.wall_clock import wall_clock_us

_BEARER: Final = "bearer"
_PUBLIC: Final = ImportRules()


_CONTROLLERS: Final = (
    StreamsController,
    StreamController,
    StreamCommandsController,
    StreamSettingsController,
    ProjectSettingsController,
    IngestReportController,
    ObsProfileController,
    VideosController,
    VideoController,
    ImportsController,
    EventsController,
    ProjectsController,
    ProjectController,
    ProjectMailController,
    InstallationMailController,
    TokensController,
    ProjectTrashController,
    TrashController,
    TrashItemController,
    TagsController,
    TagController,
    CategoriesController,
    CategoryController,
    PlayersController,
    PlayerController,
    CountriesController,
    ResolutionsController,
)
# Only for a service with an intake of uploads.
_UPLOAD_CONTROLLERS: Final = (
    VideoUploadController,
    VideoFilesController,
    SourceFileController,
    UploadLinksController,
    ResumableUploadsController,
    ResumableUploadController,
    StreamSlateController,
    ProjectSlateController,
    ClipsController,
)


class _OwnRouter(Router):
    """A router of one application alone.

    Litestar copies a router that it registers, handler by handler, so that others can register it,
    too. The copies take a third of the time to build an application.
    """

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


def _api(
    intake: UploadIntake | None,
    operations: OperationsReporter | None,
    dependencies: Mapping[str, Provide],
    guard: Guard,
) -> Router:
    return _OwnRouter(
        "/api",
        route_handlers=[
            *_CONTROLLERS,
            *(() if intake is None else _UPLOAD_CONTROLLERS),
            *(() if operations is None else (OperationsController,)),
        ],
        guards=[guard, needs_known_query],
        dependencies=dependencies,
        request_max_body_size=MAX_BODY,
        # Records of streams hold their keys.
        response_headers={"Cache-Control": "no-store"},
        security=[{_BEARER: []}],
    )


def _constant(value: object) -> Provide:
    """Return the provider of a value."""
    return Provide(lambda: value, sync_to_thread=False)


def _linked(dependencies: Mapping[str, Provide], guard: Guard) -> Router:
    """Return the addresses that hold an upload link's secret, and take no token."""
    return _OwnRouter(
        "/api",
        route_handlers=[LinkController, LinkUploadController],
        guards=[guard, needs_known_query],
        dependencies=dependencies,
        response_headers={"Cache-Control": "no-store"},
        include_in_schema=False,
    )


def _description(version: str) -> OpenAPIConfig:
    scheme = SecurityScheme(
        type="http",
        scheme="bearer",
        description="A token of the owner, or one made by `headend token create`.",
    )
    plugins = (ReferencePage(), JsonRenderPlugin(), YamlRenderPlugin())
    return OpenAPIConfig(
        title="Headend",
        version=version,
        summary="Self-hosted live-stream and video hosting",
        components=Components(security_schemes={_BEARER: scheme}),
        use_handler_docstrings=True,
        operation_id_creator=operation_id,
        render_plugins=plugins,
        openapi_router=ReadyDocuments(plugins).router(),
    )


async def _no_problems() -> list[str]:
    return []


def create_app(  # noqa: PLR0913  # the parts of an application, each by its name
    *,
    catalog: Catalog,
    addresses: Addresses,
    broadcaster_key: str,
    handlers: Sequence[ControllerRouterHandler] = (),
    version: str = "0",
    media: MediaRemover | None = None,
    intake: UploadIntake | None = None,
    ingest: IngestClient | None = None,
    rate_limiter: CallerRateLimiter | None = None,
    import_rules: ImportRules = _PUBLIC,
    quotas: QuotaLimits = NO_QUOTAS,
    operations: OperationsReporter | None = None,
    mail_test: MailTest | None = None,
    clock_us: Callable[[], int] = wall_clock_us,
    trash_us: int = 0,
    command: str = "headend",
    knows_countries: bool = True,
    home: str = "",
    end_holds_seconds: float = 0.0,
    policy: ResolvedPolicy = DEFAULTS,
    problems: Problems = _no_problems,
    room: StreamRoom = do_nothing,
    files_wait: Callable[[], bool] = never,
    debug: bool = False,
) -> Litestar:
    """Return the application.

    `broadcaster_key` is that of the installation (see `FirstStart`). `handlers` are further routes
    (pages, status), which need no token and are not in the OpenAPI document; `version` is. Without
    a `rate_limiter` requests are unlimited. `media` deletes the media of deleted records; without
    it they stay. Without an `intake` there are no upload endpoints. `ingest` sends commands to the
    process that receives encoders; the default relies on that process polling the catalog.
    What is deleted or replaced can be restored for `trash_us`. `import_rules` limit from where
    videos may be fetched, `quotas` how much each project may have.
    `/` redirects to `home`, or to the console, which shows `problems`: sentences about what the
    service cannot do, and the `room` of its machine. For `end_holds_seconds` encoders of a stream
    that was ended are refused; their runs follow `policy` where nothing is set for them. Without
    `operations` there are no endpoints about the installation as a whole; without a `mail_test` no
    mail server is set. `command` is how an operator starts ours in a shell; `knows_countries`:
    those of viewers can be looked up. `files_wait` returns True while no pictures of files are
    begun to be encoded, because live streams need this machine.
    """
    callers = rate_limiter or CallerRateLimiter(UNLIMITED)
    sessions = BrowserSessions.of(catalog, addresses, clock_us)
    most = 0 if intake is None else intake.most_upload
    presenter = Presenter(addresses=addresses, broadcaster_key=broadcaster_key)
    dependencies = {
        "services": _constant(Services(catalog, presenter, clock_us, trash_us)),
        "plain": Provide(provide_plain, sync_to_thread=False),
        "media": _constant(media),
        "ingest": _constant(ingest or IngestClient(catalog, media)),
        "intake": _constant(intake),
        "import_rules": _constant(import_rules),
        "quotas": _constant(ProjectQuotas(QuotaCheck(catalog.usage, quotas, clock_us))),
        "operations": _constant(operations),
        "mail_tests": _constant(MailTests(mail_test)),
        "command": _constant(command),
        "files_wait": _constant(files_wait),
    }
    renderer = Renderer(
        addresses,
        version,
        broadcaster_key,
        command=command,
        knows_countries=knows_countries,
        files_wait=files_wait,
        keep_days=trash_us // DAY_US,
    )
    console = Console(renderer, addresses, end_holds_seconds, policy)
    return Litestar(
        route_handlers=[
            _api(intake, operations, dependencies, needs_token(catalog, callers, sessions)),
            *(
                ()
                if intake is None
                else (_linked(dependencies, needs_link(catalog, rate_limiter)),)
            ),
            _OwnRouter(
                "/",
                route_handlers=[
                    *handlers,
                    *console_routes(
                        catalog, console, sessions, callers, clock_us, dependencies, problems, room
                    ),
                    front_page(console, home),
                ],
                include_in_schema=False,
            ),
        ],
        exception_handlers=with_error_pages(HANDLERS, console),
        before_send=[add_security_headers, list_all_methods, cors_hook(catalog, most)],
        openapi_config=_description(version),
        # Logging is set up where the process starts, and errors are logged by their handlers.
        logging_config=None,
        debug=debug,
    )
