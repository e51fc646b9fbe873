"""Reads forms with files (multipart/form-data) as a stream: no whole file is ever in memory.

The caller lists the allowed parts, so an invalid form is rejected at its first invalid part,
without reading the rest.
Source: RFC 7578 (multipart/form-data), RFC 2046, section 5.1 (multipart).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request
from multipart import MultipartError, MultipartSegment, ParserLimitReached, PushMultipartParser

from api.http.errors import ApiError, invalid, receiving_body
from api.schemas.filenames import file_name
from storage.objects.incoming_file import IncomingFile, IncomingFileTooLarge

# A client must send `MIN_PROGRESS_BYTES` within `STALL_SECONDS` of waiting: at less than 4 KiB/s a
# file would take a day.
STALL_SECONDS: Final = 30.0
MIN_PROGRESS_BYTES: Final = 1 << 17
MAX_TEXT_BYTES: Final = 1 << 20  # of all text parts together
_MULTIPART: Final = "multipart/form-data"
_MOST_PARTS: Final = 16

# Any: what Litestar leaves open to every application.
Call = Request[Any, Any, Any]
# Converts the text of a part to its value; raises ValueError with a message for the client.
TextParser = Callable[[object], str]


class FileField(msgspec.Struct, frozen=True, kw_only=True):
    """Where a file of a form goes; `limit_text` is its largest size in words."""

    inflow: IncomingFile
    limit_text: str


class MultipartForm(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a form, and the names of its files."""

    texts: dict[str, str]
    files: dict[str, str]


class _Part:
    """The part that is being read."""

    def __init__(self, name: str, field: FileField | None) -> None:
        self.name = name
        self.field = field
        self.text = bytearray()


class _FormReader:
    """Builds a form from the events of the parser."""

    def __init__(self, texts: Mapping[str, TextParser], files: Mapping[str, FileField]) -> None:
        self._readers = texts
        self._fields = files
        self._part: _Part | None = None
        self._names: set[str] = set()
        self._text_bytes = 0
        self.texts: dict[str, str] = {}
        self.files: dict[str, str] = {}

    async def feed(self, event: MultipartSegment | bytes | bytearray | None) -> None:
        """Process one event: the start, a piece or the end of a part."""
        if isinstance(event, MultipartSegment):
            self._begin(event)
        elif event is not None:
            await self._append(bytes(event))
        else:
            self._end()

    def _begin(self, segment: MultipartSegment) -> None:
        name = segment.name or ""
        if name not in self._readers and name not in self._fields:
            raise invalid({name: ["This key is not known here."]})
        if name in self._names:
            raise invalid({name: [f"The {name} may be sent once."]})
        self._names.add(name)
        field = self._fields.get(name)
        if field is not None:
            filename = file_name(segment)
            if filename is None:
                raise invalid({name: [f"The {name} must be a file."]})
            self.files[name] = filename
        self._part = _Part(name, field)

    async def _append(self, data: bytes) -> None:
        part = self._part
        if part is None:
            return
        if part.field is None:
            self._text_bytes += len(data)
            if self._text_bytes > MAX_TEXT_BYTES:
                raise ApiError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"The texts of a form may have at most {MAX_TEXT_BYTES} bytes.",
                )
            part.text += data
            return
        try:
            await part.field.inflow.write(data)
        except IncomingFileTooLarge as error:
            message = f"The {part.name} may have at most {part.field.limit_text}."
            raise ApiError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, errors={part.name: [message]}
            ) from error

    def _end(self) -> None:
        part, self._part = self._part, None
        if part is None:
            return
        if part.field is None:
            self.texts[part.name] = self._text(part)
        elif not part.field.inflow.size and not self.files[part.name]:
            # Browsers send this if no file was chosen.
            del self.files[part.name]

    def _text(self, part: _Part) -> str:
        try:
            text = part.text.decode()
        except UnicodeDecodeError as error:
            raise invalid({part.name: [f"The {part.name} must be UTF-8 text."]}) from error
        try:
            return self._readers[part.name](text)
        except ValueError as error:
            raise invalid({part.name: [str(error)]}) from error


async def read_form(
    request: Call,
    *,
    texts: Mapping[str, TextParser],
    files: Mapping[str, FileField],
    stall_seconds: float = STALL_SECONDS,
) -> MultipartForm:
    """Read a form with these parts; files go to their inflows as they come.

    Raises:
        ApiError: 415 for another content type, 400 for a malformed or incomplete form, 408 for a
            stalled one, 413 for a part that is too large, 422 for an unknown one.
        StoreFull: there is no room for a file.
        StoreFailed: the disk failed.
    """
    content_type, options = request.content_type
    if content_type != _MULTIPART:
        message = f"The body must be a form with files (Content-Type: {_MULTIPART})."
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    reader = _FormReader(texts, files)
    try:
        parser = PushMultipartParser(options.get("boundary", ""), max_segment_count=_MOST_PARTS)
        async for chunk in _chunks(request, stall_seconds):
            if parser.closed:
                continue  # the epilogue is ignored (RFC 2046)
            for event in parser.parse(chunk):
                await reader.feed(event)
        parser.close()
    except ParserLimitReached as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "The form has too many parts or headers.") from error
    except MultipartError as error:
        message = "The body is no form, or it broke off."
        raise ApiError(HTTPStatus.BAD_REQUEST, message) from error
    return MultipartForm(texts=reader.texts, files=reader.files)


async def _chunks(request: Call, quiet_seconds: float) -> AsyncGenerator[bytes, None]:
    """Yield the body as it arrives; only the time spent waiting for the client counts."""
    stream = request.stream()
    clock = asyncio.get_running_loop().time
    remaining, received = quiet_seconds, 0
    while True:
        began = clock()
        async with receiving_body(remaining):
            chunk = await anext(stream, b"")
        if not chunk:
            return
        remaining, received = remaining - (clock() - began), received + len(chunk)
        if received >= MIN_PROGRESS_BYTES:
            remaining, received = quiet_seconds, 0
        yield chunk
