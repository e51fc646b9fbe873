"""Resumable uploads as they begin: what their creation asks for, checked and written down.

A creation asks for a new video, or with `replaces` in its metadata for another file of one that
there is. What a link is for counts before what comes through it says.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request

from api.http.errors import ApiError, invalid
from api.http.filenames import file_title, slug
from api.http.parameters import missing, number_of
from api.http.tus import (
    OFFSET_STREAM,
    Creation,
    Patch,
    read_checksum,
    read_creation,
    read_metadata,
    require_version,
)
from api.uploads.metadata import REPLACES, read_replaced, read_words
from api.uploads.receiver import Receiver
from api.uploads.replace_file import coming
from api.uploads.single_request import announced, guarded
from media.stream_keys import new_hash
from storage.catalog import Catalog
from storage.catalog.records.uploads import LinkRecord, NewUpload, UploadRecord, Wanted
from storage.errors import (
    NoSuchLabel,
    NoSuchVideo,
    TooManyUploads,
    UploadInProgress,
    UploadLinkSpent,
)

__all__ = ["begin"]

_THEIRS: Final = "Whoever made the link sets this."


async def begin(
    request: Request[Any, Any, Any],  # Any: what Litestar leaves open to every application
    catalog: Catalog,
    receiver: Receiver,
    project: int,
    link: LinkRecord | None = None,
) -> UploadRecord:
    """Make an upload and take what of it came with its creation.

    Raises:
        ApiError: 400, 404, 409, 412, 413, 415, 422, 429, 503 for what is wrong with it.
    """
    require_version(request.headers)
    intake = receiver.intake
    most = intake.most_upload if link is None else min(link.most_bytes, intake.most_upload)
    asked = read_creation(request.headers, most)
    with_bytes = _has_bytes(request)
    checksum = read_checksum(request.headers) if with_bytes else None
    metadata = read_metadata(asked.metadata)
    guarded(intake, asked.length)
    now_us = receiver.clock_us()
    new = _new(asked, metadata, link, most=most, expires_us=now_us + intake.keep_us)
    if new.replaces is None:
        new = msgspec.structs.replace(new, hash=await catalog.videos.free_hash())
    try:
        record = await catalog.uploads.begin(project, new, now_us)
    except (UploadInProgress, UploadLinkSpent, NoSuchLabel, NoSuchVideo, TooManyUploads) as error:
        raise _refused(error) from error
    if with_bytes:
        first = Patch(offset=0, length=None, checksum=checksum)
        return await receiver.receive(record.name, first, request.receive)
    return record


def _has_bytes(request: Request[Any, Any, Any]) -> bool:  # Any: as above
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind == OFFSET_STREAM:
        return True
    if announced(request) or "transfer-encoding" in request.headers:
        message = f"Bytes that come with the creation must have Content-Type: {OFFSET_STREAM}."
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    return False


def _new(
    asked: Creation,
    metadata: Mapping[str, str],
    link: LinkRecord | None,
    *,
    most: int,
    expires_us: int,
) -> NewUpload:
    """Return what is to be written down; a new video's hash is still to be had."""
    replaces = _replaces(metadata, link)
    name, wanted = ("", Wanted()) if replaces is not None else read_words(metadata)
    if link is not None and replaces is None:
        wanted = _through(link, wanted)
    return NewUpload(
        name=f"{new_hash()}{new_hash()}",
        length=asked.length,
        most_bytes=most,
        metadata=asked.metadata,
        hash="",
        file_title=file_title(name),
        slug=slug(name),
        wanted=wanted,
        expires_us=expires_us,
        link=None if link is None else link.id,
        replaces=replaces,
    )


def _replaces(metadata: Mapping[str, str], link: LinkRecord | None) -> int | None:
    """Return the number of the video whose file is replaced; None where a new one is made."""
    if link is not None and REPLACES in metadata:
        raise invalid({REPLACES: [_THEIRS]})
    text = read_replaced(metadata, replacing=link is not None and link.video is not None)
    if link is not None:
        return link.video
    return None if text is None else number_of(text, "video")


def _through(link: LinkRecord, wanted: Wanted) -> Wanted:
    """Return what is said of a video that comes through a link: its maker's word counts first."""
    if wanted.tags or wanted.countries or wanted.category is not None:
        said = ("category", "countries", "tags")
        raise invalid({key: [_THEIRS] for key in said})
    own = link.wanted
    return msgspec.structs.replace(
        own,
        title=own.title if own.title is not None else wanted.title,
        description=own.description or wanted.description,
    )


def _refused(
    error: UploadInProgress | UploadLinkSpent | NoSuchLabel | NoSuchVideo | TooManyUploads,
) -> ApiError:
    match error:
        case NoSuchLabel():
            field = {"tag": "tags"}.get(error.kind, error.kind)
            return invalid({field: [f"There is no {error.kind} {error.number} in this project."]})
        case NoSuchVideo():
            return missing("video")
        case UploadInProgress():
            return coming()
        case UploadLinkSpent():
            return ApiError(HTTPStatus.CONFLICT, str(error))
        case TooManyUploads():
            message = f"This project has {error.limit} uploads under way, as many as it may have."
            return ApiError(HTTPStatus.TOO_MANY_REQUESTS, message)
