"""The creation of a resumable upload: its headers and metadata checked, then recorded.

An upload creates a video, or with `replaces` in its metadata replaces the file of an existing one.
Through an upload link, the link's details take precedence over the metadata.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from litestar import Request, Response

from api.http.errors import ApiError, invalid
from api.http.parameters import missing, number_of
from api.http.tus import (
    CHECKSUM_MISMATCH,
    OFFSET_STREAM,
    Creation,
    Patch,
    read_checksum,
    read_creation,
    read_metadata,
    require_version,
)
from api.intake.upload_intake import content_length, require_room
from api.library.quotas import ProjectQuotas
from api.schemas.filenames import file_slug, file_title
from api.uploads.metadata import REPLACES, read_metadata_details, read_replaced
from api.uploads.presenter import upload_headers
from api.uploads.receiver import UploadReceiver
from api.uploads.replace_file import first_file_pending
from api.videos.schemas import TEXTS
from media.stream_keys import new_hash
from storage.catalog import Catalog
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.uploads import LinkRecord, NewUpload, UploadRecord
from storage.catalog.records.videos import NewVideo
from storage.errors import NoSuchVideo, TooManyUploads, UploadInProgress, UploadLinkSpent

_SET_BY_LINK: Final = "This is set by the upload link."
_RETRY_SECONDS: Final = 60  # until one of a project's 1000 uploads may have ended
# After these errors of the first bytes, the upload can be continued.
_RESUMABLE: Final[frozenset[int]] = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.LOCKED,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.SERVICE_UNAVAILABLE,
        CHECKSUM_MISMATCH,
    }
)


async def create(
    request: Request[Any, Any, Any],  # Any: what Litestar leaves open to every application
    catalog: Catalog,
    receiver: UploadReceiver,
    quotas: ProjectQuotas,
    project: int,
    *,
    address: str,
    link: LinkRecord | None = None,
) -> Response[Any]:  # Any: it has no body, but handlers may also answer with one
    """Create an upload below an address, and receive the bytes that came with the request.

    If the upload can be continued, the response is a success even if its bytes were not received:
    a client that does not learn the upload's address could only create another one, and a link
    permits just one.

    Raises:
        ApiError: 400, 403, 404, 409, 412, 413, 415, 422, 429 or 503.
    """
    require_version(request.headers)
    intake = receiver.intake
    most = intake.most_upload if link is None else min(link.most_bytes, intake.most_upload)
    creation = read_creation(request.headers, most)
    with_bytes = _has_bytes(request)
    checksum = read_checksum(request.headers) if with_bytes else None
    metadata = read_metadata(creation.metadata)
    await require_room(intake, creation.length)
    now_us = receiver.clock_us()
    replaced = _replaces(metadata, link)
    new = NewUpload(
        name=f"{new_hash()}{new_hash()}",
        length=creation.length,
        most_bytes=most,
        metadata=creation.metadata,
        video=await _new_video(catalog, creation, metadata, link) if replaced is None else replaced,
        expires_us=now_us + intake.keep_us,
        link=None if link is None else link.id,
    )
    incoming = most if creation.length is None else creation.length
    try:
        async with quotas.adding_file(project, incoming):
            record = await catalog.uploads.begin(project, new, now_us)
    except (UploadInProgress, UploadLinkSpent, NoSuchVideo, TooManyUploads) as error:
        raise _refused(error) from error
    headers: dict[str, str] = {}
    if with_bytes:
        first = Patch(offset=0, length=None, checksum=checksum)
        try:
            record = await receiver.receive(record.name, first, request.receive)
        except ApiError as error:
            record = await _resumable(catalog, record.name, error)
            headers["Connection"] = "close"  # the rest of the body is not read
    return Response(
        None,
        status_code=HTTPStatus.CREATED,
        headers={**headers, **upload_headers(record), "Location": f"{address}/{record.name}"},
    )


async def _resumable(catalog: Catalog, name: str, error: ApiError) -> UploadRecord:
    """Return the upload whose first bytes failed, or raise that error if it cannot be continued."""
    record = await catalog.uploads.find(name) if error.status_code in _RESUMABLE else None
    # A client whose bytes are all there would take a success for that of the whole upload.
    if record is None or (record.whole and not record.done):
        raise error
    return record


def _has_bytes(request: Request[Any, Any, Any]) -> bool:  # Any: as above
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if content_type == OFFSET_STREAM:
        return True
    if content_length(request) or "transfer-encoding" in request.headers:
        message = f"Bytes that come with the creation must have Content-Type: {OFFSET_STREAM}."
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    return False


async def _new_video(
    catalog: Catalog, creation: Creation, metadata: Mapping[str, str], link: LinkRecord | None
) -> NewVideo:
    name, details = read_metadata_details(metadata)
    return NewVideo(
        hash=await catalog.videos.free_hash(),
        file_title=file_title(name),
        name=file_slug(name),
        details=details if link is None else _through_link(link, details),
        size=creation.length or 0,
    )


def _replaces(metadata: Mapping[str, str], link: LinkRecord | None) -> int | None:
    """Return the number of the video whose file is replaced; None for a new video."""
    if link is not None and REPLACES in metadata:
        raise invalid({REPLACES: [_SET_BY_LINK]})
    text = read_replaced(metadata, replacing=link is not None and link.video is not None)
    if link is not None:
        return link.video
    return None if text is None else number_of(text, "video")


def _through_link(link: LinkRecord, details: VideoDetails) -> VideoDetails:
    """Return the details of a video that is uploaded through a link: first the link's own.

    The uploader may only add texts.
    """
    others = sorted(set(VideoDetails.__struct_fields__) - set(TEXTS))
    if any(details.says(key) for key in others):
        raise invalid({key: [_SET_BY_LINK] for key in others})
    return link.wanted.over(details)


def _refused(
    error: UploadInProgress | UploadLinkSpent | NoSuchVideo | TooManyUploads,
) -> ApiError:
    match error:
        case NoSuchVideo():
            return missing("video")
        case UploadInProgress():
            return first_file_pending()
        case UploadLinkSpent():
            return ApiError(HTTPStatus.CONFLICT, str(error))
        case TooManyUploads():
            return ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"This project has {error.limit} uploads under way, as many as it may have.",
                headers={"Retry-After": str(_RETRY_SECONDS)},
            )
