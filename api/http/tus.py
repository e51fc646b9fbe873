"""Parses and validates the headers of the tus resumable upload protocol. Pure.

Source: tus resumable upload protocol 1.0.0: core, creation, creation-with-upload,
creation-defer-length, termination, checksum, expiration.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

import msgspec

from api.http.errors import ApiError
from media.ticks import MICROSECONDS

VERSION: Final = "1.0.0"
EXTENSIONS: Final = (
    "creation,creation-with-upload,creation-defer-length,termination,checksum,expiration"
)
ALGORITHMS: Final = ("sha1", "sha256", "md5")
OFFSET_STREAM: Final = "application/offset+octet-stream"
CHECKSUM_MISMATCH: Final = 460  # the protocol's own
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_KEY: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,100}")
# Titles and descriptions in base64; a request head may have 64 KiB.
_MAX_METADATA: Final = 60_000

Headers = Mapping[str, str]


class Checksum(msgspec.Struct, frozen=True, kw_only=True):
    """The expected digest of the bytes of one request."""

    algorithm: str
    digest: bytes

    def new_digest(self) -> Any:  # Any: hashlib's own type has no public name
        """Return a new digest object."""
        return hashlib.new(self.algorithm, usedforsecurity=False)


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """A requested upload; `length` is None if it is deferred."""

    length: int | None
    metadata: str


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """A request to append bytes; `length` is that of the upload, if it is declared now."""

    offset: int
    length: int | None
    checksum: Checksum | None


def _bad(message: str) -> ApiError:
    return ApiError(HTTPStatus.BAD_REQUEST, message)


def _number(headers: Headers, name: str) -> int | None:
    """Return the number in a header; None without the header."""
    text = headers.get(name)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text):
        raise _bad(f"{name} must be a whole number of bytes, 0 or more.")
    return int(text)


def require_version(headers: Headers) -> None:
    """Check that the client uses this version of the protocol.

    Raises:
        ApiError: 412 if it does not.
    """
    if headers.get("Tus-Resumable") != VERSION:
        raise ApiError(
            HTTPStatus.PRECONDITION_FAILED,
            f"This takes tus {VERSION}: send `Tus-Resumable: {VERSION}`.",
            headers={"Tus-Version": VERSION},
        )


def read_creation(headers: Headers, max_bytes: int) -> Creation:
    """Parse the request that creates an upload of at most `max_bytes`.

    Raises:
        ApiError: 400 for missing or contradictory headers, 413 for more than `max_bytes`.
    """
    length = _number(headers, "Upload-Length")
    deferred = headers.get("Upload-Defer-Length")
    if deferred not in (None, "1"):
        raise _bad("Upload-Defer-Length must be 1.")
    if (length is None) == (deferred is None):
        raise _bad("Either Upload-Length or Upload-Defer-Length must be sent.")
    _fits(length, max_bytes)
    metadata = headers.get("Upload-Metadata", "")
    if len(metadata) > _MAX_METADATA:
        raise _bad(f"Upload-Metadata may have at most {_MAX_METADATA} characters.")
    return Creation(length=length, metadata=metadata)


def _fits(length: int | None, most: int) -> None:
    if length == 0:
        raise _bad("An upload must have at least one byte.")
    if length is not None and length > most:
        raise ApiError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"An upload may have at most {most} bytes."
        )


def read_metadata(text: str) -> dict[str, str]:
    """Return the keys and values of `Upload-Metadata`; a key without a value gets "".

    Raises:
        ApiError: 400 if it is malformed.
    """
    metadata: dict[str, str] = {}
    for pair in text.split(",") if text.strip() else ():
        key, _, value = pair.strip().partition(" ")
        if not _KEY.fullmatch(key):
            raise _bad("A key of Upload-Metadata must be ASCII, without spaces and commas.")
        if key in metadata:
            raise _bad(f"Upload-Metadata holds {key} twice.")
        try:
            metadata[key] = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, ValueError) as error:
            raise _bad(f"{key} in Upload-Metadata must be UTF-8 in base64.") from error
    return metadata


def read_checksum(headers: Headers) -> Checksum | None:
    """Return the checksum of a request; None without the header.

    Raises:
        ApiError: 400 for another algorithm or a malformed digest.
    """
    text = headers.get("Upload-Checksum")
    if text is None:
        return None
    algorithm, _, value = text.strip().partition(" ")
    if algorithm not in ALGORITHMS:
        raise _bad(f"Upload-Checksum must begin with one of {', '.join(ALGORITHMS)}.")
    try:
        digest = base64.b64decode(value.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad("Upload-Checksum must end with a digest in base64.") from error
    if len(digest) != hashlib.new(algorithm, usedforsecurity=False).digest_size:
        raise _bad(f"Upload-Checksum holds no digest of {algorithm}.")
    return Checksum(algorithm=algorithm, digest=digest)


def read_patch(headers: Headers, max_bytes: int) -> Patch:
    """Parse the request that appends to an upload of at most `max_bytes`.

    Raises:
        ApiError: 415 for another type of body, 400 for headers that are wrong, 413 for a length
            of more than `max_bytes`.
    """
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != OFFSET_STREAM:
        raise ApiError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body must have Content-Type: {OFFSET_STREAM}."
        )
    offset = _number(headers, "Upload-Offset")
    if offset is None:
        raise _bad("Upload-Offset must be sent.")
    length = _number(headers, "Upload-Length")
    _fits(length, max_bytes)
    return Patch(offset=offset, length=length, checksum=read_checksum(headers))


def format_expiry(moment_us: int) -> str:
    """Return a time (microseconds since the Unix epoch) in the format of `Upload-Expires`."""
    return formatdate(moment_us // MICROSECONDS, usegmt=True)
