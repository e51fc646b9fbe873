"""The file that a video was made from, to be downloaded by its owner.

Recordings have none: they were never a file. Ranges and `If-Range` are served, so that a download
can continue where it broke off (RFC 9110, sections 13.1.5 and 14).
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from litestar import Controller, get
from litestar.openapi.datastructures import ResponseSpec
from litestar.response import Stream

from api.http.auth import ApiRequest
from api.http.conditional import Unsatisfiable, byte_range
from api.http.errors import ApiError, documented, unavailable
from api.http.open_file import OpenFile, open_file
from api.http.operation import READ_ERRORS
from api.intake.upload_intake import GivenIntake
from api.videos.lookup import VIDEO, VideoCall
from storage.objects.base import ObjectError, ObjectMissing
from storage.objects.disk_threads import FILES
from storage.objects.store import MediaStore

log = logging.getLogger(__name__)

# A type that no browser opens as a page of ours: the bytes are not trusted.
_BYTES: Final = "application/octet-stream"
_HEAD_BYTES: Final = 512
_RETRY_SECONDS: Final = 5
_NO_FILE: Final = "This video has no file: it was recorded, or its file is not there any more."
# The first bytes of the usual containers, and the ends of their names.
_STARTS: Final = (
    (0, b"\x1a\x45\xdf\xa3", ".mkv"),
    (0, b"FLV", ".flv"),
    (0, b"OggS", ".ogg"),
    (8, b"AVI ", ".avi"),
    (8, b"WAVE", ".wav"),
    (0, b"\x00\x00\x01\xba", ".mpg"),
    (0, b"ID3", ".mp3"),
    (0, b"fLaC", ".flac"),
    (0, b"\x30\x26\xb2\x75", ".wmv"),
)
_TS_PACKET: Final = 188
_SYNC: Final = 0x47


class SourceFileController(Controller):
    """The file of a video."""

    path = "/videos/{video_id:str}/file"
    tags = ("videos",)
    dependencies = VIDEO

    @get(
        media_type=_BYTES,
        summary="Download a video's file",
        responses={
            HTTPStatus.PARTIAL_CONTENT: ResponseSpec(
                bytes, description="A range of it", media_type=_BYTES, generate_examples=False
            ),
            **documented(*READ_ERRORS, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE),
        },
    )
    async def download_file(self, call: VideoCall, intake: GivenIntake) -> Stream:
        """Send the file as it was uploaded or imported; 404 for a recording, which has none."""
        record = call.record.video
        if record.source is None:
            raise ApiError(HTTPStatus.NOT_FOUND, _NO_FILE)
        async with _opened(intake.objects, record.source) as file:
            suffix = container_suffix(await file.read_some(0, _HEAD_BYTES)) if file.size else ""
            headers = {
                "Accept-Ranges": "bytes",
                "Content-Disposition": _attachment(record.title, record.name, suffix),
                "ETag": file.tag,
            }
            start, stop, status = _range(call.request, file)
            if status == HTTPStatus.PARTIAL_CONTENT:
                headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
            headers["Content-Length"] = str(stop - start)
        body = _pieces(intake.objects, record.source, start, stop)
        return Stream(body, status_code=status, headers=headers, media_type=_BYTES)


@asynccontextmanager
async def _opened(objects: MediaStore, source: str) -> AsyncGenerator[OpenFile, None]:
    """Open a file for the length of the block.

    Raises:
        ApiError: 404 if there is none, 503 if it cannot be read now.
    """
    try:
        async with objects.lend(source) as path:
            file = await FILES.run(partial(open_file, path))
            try:
                yield file
            finally:
                file.close()
    except (ObjectMissing, FileNotFoundError) as error:
        raise ApiError(HTTPStatus.NOT_FOUND, _NO_FILE) from error
    except (ObjectError, OSError) as error:
        log.error("file not sent", extra={"reason": str(error)})  # noqa: TRY400  # not our bug
        raise unavailable("The file cannot be read at the moment.", _RETRY_SECONDS) from error


async def _pieces(
    objects: MediaStore, source: str, start: int, stop: int
) -> AsyncGenerator[bytes, None]:
    # Opened anew, since a response that is never sent does not begin this generator. An object's
    # bytes never change.
    async with _opened(objects, source) as file:
        async for piece in file.read(start, stop):
            yield piece


def _range(request: ApiRequest, file: OpenFile) -> tuple[int, int, HTTPStatus]:
    """Return the offset of the first byte to send, that after the last one, and the status.

    Raises:
        ApiError: 416 for a range without a byte of the file.
    """
    range_header = request.headers.get("Range")
    if request.headers.get("If-Range", file.tag) != file.tag:
        range_header = None
    try:
        part = byte_range(range_header, file.size)
    except Unsatisfiable as error:
        raise ApiError(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"The file has {file.size} bytes.",
            headers={"Content-Range": f"bytes */{file.size}"},
        ) from error
    return (0, file.size, HTTPStatus.OK) if part is None else (*part, HTTPStatus.PARTIAL_CONTENT)


def _attachment(title: str, name: str, suffix: str) -> str:
    """Return the value of `Content-Disposition` (RFC 6266; the title is encoded by RFC 8187)."""
    whole = quote(title.replace("/", "_").replace("\\", "_") + suffix, safe="")
    return f"attachment; filename=\"{name}{suffix}\"; filename*=UTF-8''{whole}"


def container_suffix(head: bytes) -> str:
    """Return the end of the name that a file with these first bytes should have, or "".

    The file's original name is not kept, and would prove nothing.
    """
    if head[4:8] == b"ftyp":
        return ".mov" if head[8:12] == b"qt  " else ".mp4"
    for at, start, suffix in _STARTS:
        if head[at : at + len(start)] == start:
            return suffix
    is_ts = len(head) > _TS_PACKET and head[0] == _SYNC == head[_TS_PACKET]
    return ".ts" if is_ts else ""
