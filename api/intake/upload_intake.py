"""The steps that every upload passes, whichever endpoint receives it.

The checks before a body is read, the limits on concurrent uploads, the probe of a file on disk, and
the translation of storage errors into responses. Sizes are bytes.
"""

import logging
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import msgspec
from litestar import Request
from litestar.di import NamedDependency

from api.http.errors import ApiError, invalid, unavailable
from api.http.multipart import MAX_TEXT_BYTES, STALL_SECONDS, FileField, read_form
from api.intake.concurrency_limit import ConcurrencyLimit
from api.intake.limits import UploadLimits
from api.intake.writer_turns import WriterTurns
from api.ports import PosterMaker, SlateMaker
from media.fair_share import Holder
from media.stream_keys import PublicHash, new_hash
from storage.catalog.records.uploads import LinkRecord
from storage.catalog.records.videos import OWN_POSTERS
from storage.file_intake import FileFacts, FileRefused, Probe, probe_file
from storage.objects import addresses
from storage.objects.base import ObjectError, Objects, StoreFull
from storage.objects.disk_check import room_problem
from storage.objects.disk_threads import FILES
from storage.objects.incoming_file import IncomingFile, open_incoming_file
from storage.objects.store import MediaStore
from storage.objects.upload_pieces import UploadPieces

log = logging.getLogger(__name__)

MAX_VIDEO: Final = 500 * 1024 * 1024  # in one request
MAX_PICTURE: Final = 10 * 1024 * 1024
_PART_HEADERS: Final = 1 << 16  # headers and boundaries of a form's parts
# The longest form with a picture, and what a form with a video holds beside the video.
PICTURE_FORM_BYTES: Final = MAX_PICTURE + MAX_TEXT_BYTES + _PART_HEADERS
VIDEO_FORM_BYTES: Final = PICTURE_FORM_BYTES
FIRST_GENERATION: Final = 1  # of a video's file
_RETRY_SECONDS: Final = 60
# Each upload holds a file, a chunk in memory and, at the end, a child process for the probe.
_MAX_CONCURRENT: Final = 24
# A token alone gets half of them, a project three quarters: other projects find places.
_PROJECT_SHARE: Final = 3
# Clips that are made at once: each links up to 54,000 files, and more at once are no faster.
_MAX_CLIPS: Final = 4
# A link is for one file; the second request takes over from one whose connection is dead.
_MAX_CONCURRENT_OF_ONE_LINK: Final = 2


class UploadIntake(msgspec.Struct, frozen=True, kw_only=True):
    """The services and the limits that uploads and clips need.

    `least_free` bytes of the disk stay free. A client that sends next to nothing for
    `quiet_seconds` is disconnected. `gate` limits concurrent uploads, `clip_gate` clips. A
    resumable upload may have `most_upload` bytes and is kept for `keep_us` microseconds after its
    last one. With `pieces`, other hosts may continue it. A file that is replaced can be restored
    for `trash_us`.
    """

    objects: MediaStore
    probe: Probe
    posters: PosterMaker
    slate: SlateMaker
    least_free: int
    max_video: int = MAX_VIDEO
    most_upload: int = UploadLimits().most_bytes
    keep_us: int = UploadLimits().keep_us
    trash_us: int = 0
    quiet_seconds: float = STALL_SECONDS
    pieces: UploadPieces | None = None
    writers: WriterTurns = msgspec.field(default_factory=WriterTurns)
    gate: ConcurrencyLimit = msgspec.field(
        default_factory=lambda: ConcurrencyLimit(_MAX_CONCURRENT)
    )
    clip_gate: ConcurrencyLimit = msgspec.field(
        default_factory=lambda: ConcurrencyLimit(_MAX_CLIPS, "clips are being made")
    )


GivenIntake = NamedDependency[UploadIntake]  # of a handler


def token_holders(token: int, project: int) -> tuple[Holder, ...]:
    """Return the holders that an upload with a token counts for."""
    return Holder(f"token {token}"), _project(project)


def link_holders(link: LinkRecord) -> tuple[Holder, ...]:
    """Return the holders that an upload through a link counts for."""
    return Holder(f"link {link.id}", most=_MAX_CONCURRENT_OF_ONE_LINK), _project(link.project)


def _project(number: int) -> Holder:
    return Holder(f"project {number}", share=_PROJECT_SHARE)


async def require_room(intake: UploadIntake, incoming: int | None) -> None:
    """Check that the disk has room for `incoming` bytes; None is an unknown number.

    Raises:
        ApiError: 503 if it does not.
    """
    least = intake.least_free + (incoming or 0)
    if await FILES.run(partial(room_problem, intake.objects.scratch.root, least)) is not None:
        raise _full()


def _full() -> ApiError:
    return unavailable("There is no room for the file at the moment.", _RETRY_SECONDS)


def content_length(request: Request[Any, Any, Any]) -> int | None:  # Any: left open by Litestar
    """Return the `Content-Length` of a request; None if it has none, or no valid one."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


def most_incoming(request: Request[Any, Any, Any], most: int) -> int:  # Any: as above
    """Return how many bytes a file in a form can have, if it may have `most`."""
    length = content_length(request)
    return most if length is None else min(length, most)


@asynccontextmanager
async def admitted(intake: UploadIntake, holders: tuple[Holder, ...]) -> AsyncGenerator[None, None]:
    """Count as one of the holders' concurrent uploads during the block.

    Raises:
        ApiError: 429 or 503 if there are too many, 503 if the store fails during the block.
    """
    with intake.gate.acquire(holders), store_errors_translated():
        yield


@contextmanager
def store_errors_translated() -> Generator[None]:
    """Turn errors of the object store into responses.

    Raises:
        ApiError: 503.
    """
    try:
        yield
    except StoreFull as error:
        log.warning("upload refused", extra={"reason": str(error)})
        raise _full() from error
    except ObjectError as error:
        log.error("upload failed", extra={"reason": str(error)})  # noqa: TRY400  # not our bug
        raise unavailable("The file cannot be kept at the moment.", _RETRY_SECONDS) from error


@asynccontextmanager
async def received_file(
    request: Request[Any, Any, Any],  # Any: as above
    intake: UploadIntake,
    name: str,
    *,
    most: int,
    holders: tuple[Holder, ...],
) -> AsyncGenerator[IncomingFile, None]:
    """Receive a form that holds one file of at most `most` bytes, in the field `name`.

    The file is deleted after the block unless the block keeps it. The upload counts for `holders`.

    Raises:
        ApiError: the form is invalid or has no such file, or cannot be received now.
    """
    await require_room(intake, content_length(request))
    async with (
        admitted(intake, holders),
        open_incoming_file(
            intake.objects, max_bytes=most, min_free_bytes=intake.least_free
        ) as inflow,
    ):
        fields = {name: FileField(inflow=inflow, limit_text=f"{most} bytes")}
        form = await read_form(request, texts={}, files=fields, stall_seconds=intake.quiet_seconds)
        if name not in form.files:
            raise invalid({name: [f"The {name} is required."]})
        yield inflow


async def probe_video(intake: UploadIntake, video: IncomingFile) -> FileFacts:
    """Return the facts about a video file; sizes are 0 if the probe takes too long.

    Raises:
        ApiError: 422 if it is no media file.
    """
    await video.flush()
    try:
        return await probe_file(intake.probe, video.path)
    except FileRefused as error:
        raise invalid({"video": [error.reason]}) from error


async def make_posters(
    intake: UploadIntake, picture: IncomingFile, facts: FileFacts
) -> Mapping[str, bytes]:
    """Return the posters of a video made from an uploaded picture, by resolution label.

    Raises:
        ApiError: 422 if the picture cannot be decoded.
    """
    await picture.flush()
    try:
        return await intake.posters(picture.path, facts.width, facts.height)
    except FileRefused as error:
        raise invalid({"poster": [error.reason]}) from error


def new_poster_folder() -> str:
    """Return an unused name for a folder of posters that an owner uploaded."""
    return f"{OWN_POSTERS}{new_hash()}"


async def put_posters(
    objects: Objects, hash_: PublicHash, folder: str, posters: Mapping[str, bytes]
) -> None:
    """Store a video's posters, by resolution label."""
    for label, poster in posters.items():
        address = addresses.video_poster(hash_, folder, label)
        await objects.put(address, poster)
        await objects.make_durable(address)
