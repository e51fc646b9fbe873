"""Upload links: leave for somebody without a token to upload one file.

Whoever has the address has the leave. It is shown once, to whoever makes the link; kept is a digest
of the secret in it, and no log and no event holds that. Through it comes one upload, resumable
(tus 1.0) or as one form; that one can then be resumed until its own time is over. It makes a new
video, or replaces the file of the one that the link is for, and with that one the link ends.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response, delete, get, head, patch, post
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath

from api.http.auth import Guard, needs_write
from api.http.cors import is_upload_options
from api.http.errors import ApiError, documented, invalid
from api.http.json_body import described, read_body
from api.http.parameters import missing
from api.http.rate_limit import UNLIMITED, CallerRateLimiter
from api.http.tus import require_version
from api.library.projects import ProjectId, project_of
from api.schemas.presenter import Presenter
from api.schemas.timestamps import format_timestamp
from api.uploads.creation import begin
from api.uploads.endpoints import UploadShown, appended, overridden, shown, told
from api.uploads.metadata import NOT_SAID, Words, wanted_of
from api.uploads.receiver import Receiver, gone
from api.uploads.replace_file import formed
from api.uploads.single_request import FORM_BYTES, Intake, taken_form
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.catalog.records.uploads import LinkRecord, UploadRecord
from storage.catalog.records.videos import Arrived, Landed, WholeVideo
from storage.errors import NoSuchVideo, UploadLinkSpent

__all__ = ["HANDLERS", "LINKED", "needs_link"]

# Any: what Litestar leaves open to every application.
Call = Request[Any, Principal, Any]
LinkCall = Request[Any, LinkRecord, Any]
_LINK: Final = "/upload-links/{link_secret:str}"
_ONE: Final = f"{_LINK}/{{upload_name:str}}"
_UNSAID: Final = (None, msgspec.UNSET)
_MULTIPART: Final = "multipart/form-data"
_DAY: Final = 24 * 3600
_LEAST_SECONDS: Final = 60
# Longer than that, a project's own token is the better leave.
_MOST_SECONDS: Final = 30 * _DAY


class LinkAddition(Words, frozen=True, kw_only=True):
    """What a link is for: how much may come, until when, and what is said of the video.

    With `video_id` it replaces that video's file, and nothing is said of it.
    """

    most_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 50)] | None = None
    expires_seconds: Annotated[int, msgspec.Meta(ge=_LEAST_SECONDS, le=_MOST_SECONDS)] = _DAY
    video_id: Annotated[int, msgspec.Meta(ge=1)] | None = None


class UploadLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link; `address` holds its secret and is shown this once.

    `video_id` is the video whose file it replaces, null where it makes a new one.
    """

    id: int
    address: str
    most_bytes: int
    expires_at: str
    video_id: int | None


class LinkAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to making a link."""

    message: str
    upload_link: UploadLink


class LinkedVideo(msgspec.Struct, frozen=True, kw_only=True):
    """What a stranger comes to know of the video whose file they uploaded."""

    id: int
    hash: str
    title: str
    size: int


class LinkUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a form that came through a link."""

    message: str
    video: LinkedVideo


def needs_link(catalog: Catalog, callers: CallerRateLimiter | None = None) -> Guard:
    """Return the guard that lets in who has a link; `request.auth` is then the link.

    Wrong secrets count as wrong tokens do.
    """
    counted = callers or CallerRateLimiter(UNLIMITED)

    async def guard(
        connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler
    ) -> None:
        if is_upload_options(connection.scope):
            return
        secret = str(connection.path_params["link_secret"])
        address = counted.address_of(connection.scope)
        counted.check(secret, address)
        link = await catalog.links.find(secret)
        if link is None:
            counted.count_unauthenticated(address, secret)
            raise missing("upload link")
        connection.scope["auth"] = link
        counted.count(secret, -link.id)

    return guard


@post(
    "/projects/{project_id:str}/upload-links",
    guards=[needs_write],
    operation_class=described(LinkAddition),
    summary="Make an upload link",
    tags=["videos"],
    responses=documented(
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.NOT_FOUND,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
    ),
)
async def add_upload_link(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    intake: NamedDependency[Intake],
    now_us: NamedDependency[int],
) -> LinkAdded:
    """Let somebody without a token upload one file; the address is shown this once."""
    project = await project_of(catalog, request.auth, project_id)
    body = await read_body(request, LinkAddition)
    _require_one_purpose(body)
    most = min(body.most_bytes or intake.most_upload, intake.most_upload)
    expires_us = now_us + body.expires_seconds * MICROSECONDS
    try:
        number, secret = await catalog.links.add(
            project.id,
            wanted_of(body),
            most_bytes=most,
            expires_us=expires_us,
            now_us=now_us,
            by=request.auth.id,
            video=body.video_id,
        )
    except NoSuchVideo as error:
        message = f"There is no video {error.video} in this project."
        raise invalid({"video_id": [message]}) from error
    address = f"{presenter.addresses.http}/api/upload-links/{secret}"
    link = UploadLink(
        id=number,
        address=address,
        most_bytes=most,
        expires_at=format_timestamp(expires_us),
        video_id=body.video_id,
    )
    return LinkAdded(message="Upload link added.", upload_link=link)


def _require_one_purpose(body: LinkAddition) -> None:
    """See that nothing is said of a video whose file is to be replaced.

    Raises:
        ApiError: 422 where something is.
    """
    if body.video_id is None:
        return
    said = [key for key in Words.__struct_fields__ if getattr(body, key) not in _UNSAID]
    if said:
        raise invalid({key: [NOT_SAID] for key in said})


def _receiver(
    request: LinkCall, catalog: Catalog, intake: Intake, clock_us: Callable[[], int]
) -> Receiver:
    # The gate counts callers by the numbers of their tokens, which are above 0.
    return Receiver(
        uploads=catalog.uploads,
        intake=intake,
        clock_us=clock_us,
        caller=-request.auth.id,
        by=None,
    )


async def _found(catalog: Catalog, link: LinkRecord, upload_name: str) -> UploadRecord:
    found = await catalog.uploads.find(upload_name)
    if found is None or found.link != link.id:
        raise gone()
    return found


def _require_unused(link: LinkRecord, now_us: int) -> None:
    """See that something may still come through a link.

    Raises:
        ApiError: 409 where it was used, 410 where its time is over.
    """
    if link.used:
        raise ApiError(HTTPStatus.CONFLICT, "This link was used.")
    if link.expires_us <= now_us:
        raise ApiError(HTTPStatus.GONE, "The time of this link is over.")


@post(_LINK, request_max_body_size=None, status_code=HTTPStatus.CREATED)
async def use_link(
    request: LinkCall,
    link_secret: FromPath[str],
    catalog: NamedDependency[Catalog],
    presenter: NamedDependency[Presenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[LinkUsed | None]:
    """Begin the one upload of a link, or take it as one form."""
    link = request.auth
    _require_unused(link, clock_us())
    if request.content_type[0] == _MULTIPART:
        used = await _form(request, catalog, intake, clock_us)
        return Response(used, status_code=HTTPStatus.CREATED)
    receiver = _receiver(request, catalog, intake, clock_us)
    record = await begin(request, catalog, receiver, link.project, link)
    where = f"{presenter.addresses.http}/api/upload-links/{link_secret}/{record.name}"
    return Response(
        None, status_code=HTTPStatus.CREATED, headers={**told(record), "Location": where}
    )


async def _form(
    request: LinkCall, catalog: Catalog, intake: Intake, clock_us: Callable[[], int]
) -> LinkUsed:
    link = request.auth
    most = min(link.most_bytes, intake.max_video)
    if (request.content_length or 0) > most + FORM_BYTES:
        message = f"The video may have at most {most} bytes."
        raise ApiError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, errors={"video": [message]})
    take, message = (
        (_added, "Video uploaded.") if link.video is None else (_replaced, "File replaced.")
    )
    video = (await take(request, catalog, intake, clock_us, most)).video
    return LinkUsed(
        message=message,
        video=LinkedVideo(id=video.id, hash=video.hash, title=video.title, size=video.size),
    )


async def _added(
    request: LinkCall, catalog: Catalog, intake: Intake, clock_us: Callable[[], int], most: int
) -> WholeVideo:
    """Make a new video of the file in a form."""
    link = request.auth
    wanted = link.wanted

    async def add(arrived: Arrived) -> WholeVideo:
        said = msgspec.structs.replace(
            arrived,
            title=arrived.title if wanted.title is None else wanted.title,
            description=wanted.description or arrived.description,
        )
        return await catalog.uploads.add(link.project, link.id, said, wanted, clock_us())

    try:
        return await taken_form(request, catalog, intake, caller=-link.id, most=most, add=add)
    except UploadLinkSpent as error:
        raise ApiError(HTTPStatus.CONFLICT, str(error)) from error


async def _replaced(
    request: LinkCall, catalog: Catalog, intake: Intake, clock_us: Callable[[], int], most: int
) -> WholeVideo:
    """Replace the file of the video that a link is for with the one in a form."""
    link = request.auth
    found = None if link.video is None else await catalog.videos.find(link.video)
    if found is None:
        raise missing("video")
    video = found.video

    async def write(file: Landed) -> tuple[WholeVideo, str | None] | None:
        return await catalog.uploads.replace_through(link.id, video.id, file, clock_us())

    return await formed(request, intake, video, most=most, caller=-link.id, write=write)


@head(_ONE)
async def ask_linked_offset(
    request: LinkCall,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Tell where the upload is to go on."""
    found = await _found(catalog, request.auth, upload_name)
    require_version(request.headers)
    receiver = _receiver(request, catalog, intake, clock_us)
    return Response(None, headers=told(await receiver.offset(found.name)))


@get(_ONE)
async def show_linked(
    request: LinkCall, upload_name: FromPath[str], catalog: NamedDependency[Catalog]
) -> UploadShown:
    """Show how far the upload is."""
    return shown(await _found(catalog, request.auth, upload_name))


@patch(_ONE, request_max_body_size=None, status_code=HTTPStatus.NO_CONTENT)
async def append_linked(
    request: LinkCall,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Take bytes that go behind those that came."""
    found = await _found(catalog, request.auth, upload_name)
    return await appended(request, _receiver(request, catalog, intake, clock_us), found)


@delete(_ONE)
async def end_linked(
    request: LinkCall,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> None:
    """End the upload; the link stays used."""
    found = await _found(catalog, request.auth, upload_name)
    require_version(request.headers)
    await _receiver(request, catalog, intake, clock_us).end(found.name)


@post(_ONE, request_max_body_size=None)
async def other_linked_method(
    request: LinkCall,
    upload_name: FromPath[str],
    catalog: NamedDependency[Catalog],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> Response[None]:
    """Do what the header that names another method says."""
    found = await _found(catalog, request.auth, upload_name)
    receiver = _receiver(request, catalog, intake, clock_us)
    return await overridden(request, receiver, found)


HANDLERS: Final = (add_upload_link,)
LINKED: Final = (
    use_link,
    ask_linked_offset,
    show_linked,
    append_linked,
    end_linked,
    other_linked_method,
)
