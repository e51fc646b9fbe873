"""Files that callers send: a video in one request, a poster of their own.

A file goes to the disk as it comes and is looked into there, in a box, before anything is written
down. Then one transaction makes the video and its job. Whatever ends a request before that leaves
nothing: not a file, not a row.
"""

import contextlib
import logging
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from typing import Any, Final

import msgspec
from litestar import Request, post, put
from litestar.di import NamedDependency

from api.http.auth import needs_write
from api.http.concurrency_limit import ConcurrencyLimit
from api.http.errors import ApiError, documented, invalid
from api.http.filenames import file_title, slug
from api.http.multipart import MAX_TEXT_BYTES, STALL_SECONDS, FileField, read_form
from api.http.multipart_schemas import PosterForm, VideoForm
from api.http.parameters import RecordId, missing
from api.library.projects import ProjectId, project_of
from api.ports import FileFacts, FileRefused, PosterMaker, Probe, SlateMaker
from api.schemas.text_fields import Description, OptionalTitle
from api.uploads.limits import UploadLimits
from api.uploads.writer_turns import Writers
from api.videos.item import video_of
from api.videos.presenter import VideoPresenter
from api.videos.schemas import VideoAdded, VideoChanged
from media.stream_keys import PublicHash, new_hash
from storage.catalog import Catalog
from storage.catalog.records.common import Principal
from storage.catalog.records.videos import Arrived, WholeVideo
from storage.errors import StorageError
from storage.file_intake import probe_file, standard_rungs
from storage.objects import addresses
from storage.objects.base import ObjectError, StoreFull
from storage.objects.disk import DiskObjects
from storage.objects.incoming_file import IncomingFile, open_incoming_file

__all__ = [
    "FORM_BYTES",
    "FRAME",
    "HANDLERS",
    "MAX_POSTER",
    "MAX_VIDEO",
    "OWN_POSTERS",
    "REFUSALS",
    "Intake",
    "announced",
    "guarded",
    "kept",
    "only_file",
    "probed",
    "stored",
    "taken_form",
]

log = logging.getLogger(__name__)

MAX_VIDEO: Final = 500 * 1024 * 1024  # bytes
MAX_POSTER: Final = 10 * 1024 * 1024
# The parts' headers and boundaries.
FRAME: Final = 1 << 16
# What may come in a form beside the video.
FORM_BYTES: Final = MAX_POSTER + MAX_TEXT_BYTES + FRAME
# A folder of posters that its owner sent begins so: what is made of the video leaves it alone.
OWN_POSTERS: Final = "own-"
_RETRY_SECONDS: Final = 60
_FIRST: Final = 1  # the generation of a video's first file
# Each holds a file, a piece of it in memory and, in the end, a child process that looks into it.
_AT_ONCE: Final = 24
_OF_ONE_TOKEN: Final = 12
REFUSALS: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)

Call = Request[Any, Principal, Any]  # Any: what Litestar leaves open to every application


class Intake(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to take files in.

    `least_free` bytes of the disk stay free; a client that sends next to nothing for
    `quiet_seconds` is given up. `gate` bounds how many send at once. A resumable
    upload may have `most_upload` bytes and is kept for `keep_us` after the last; `writers` append
    to them.
    """

    objects: DiskObjects
    probe: Probe
    posters: PosterMaker
    slate: SlateMaker
    least_free: int
    max_video: int = MAX_VIDEO
    most_upload: int = UploadLimits().most_bytes
    keep_us: int = UploadLimits().keep_us
    quiet_seconds: float = STALL_SECONDS
    writers: Writers = msgspec.field(default_factory=Writers)
    gate: ConcurrencyLimit = msgspec.field(
        default_factory=lambda: ConcurrencyLimit(total=_AT_ONCE, per_caller=_OF_ONE_TOKEN)
    )


def guarded(intake: Intake, coming: int | None) -> None:
    """See that there is room for what is announced.

    Raises:
        ApiError: 503 where there is not.
    """
    if shutil.disk_usage(intake.objects.root).free - (coming or 0) < intake.least_free:
        raise _full()


def _full() -> ApiError:
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "There is no room for the file at the moment.",
        headers={"Retry-After": str(_RETRY_SECONDS)},
    )


def announced(request: Request[Any, Any, Any]) -> int | None:  # Any: as above
    """Return how long the body says that it is, in bytes."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


@asynccontextmanager
async def stored(intake: Intake, caller: int) -> AsyncGenerator[None, None]:
    """Hold a place among those who send, and turn what a store could not do into an answer."""
    with intake.gate.acquire(caller), kept():
        yield


@contextmanager
def kept() -> Generator[None]:
    """Turn what a store could not do into an answer.

    Raises:
        ApiError: 503.
    """
    try:
        yield
    except StoreFull as error:
        log.warning("upload refused", extra={"reason": str(error)})
        raise _full() from error
    except ObjectError as error:
        log.error("upload failed", extra={"reason": str(error)})  # noqa: TRY400  # the world's
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The file cannot be kept at the moment.",
            headers={"Retry-After": str(_RETRY_SECONDS)},
        ) from error


@post(
    "/projects/{project_id:str}/videos",
    guards=[needs_write],
    request_max_body_size=MAX_VIDEO + FORM_BYTES,
    operation_class=VideoForm,
    summary="Upload a video",
    tags=["videos"],
    responses=documented(*REFUSALS),
)
async def upload_video(
    request: Call,
    project_id: ProjectId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> VideoAdded:
    """Take a video in as one file and have it made playable; its progress is told by web socket."""
    project = await project_of(catalog, request.auth, project_id)
    caller = request.auth.id

    async def add(arrived: Arrived) -> WholeVideo:
        return await catalog.videos.add(project.id, arrived, clock_us(), by=caller)

    whole = await taken_form(
        request, catalog, intake, caller=caller, most=intake.max_video, add=add
    )
    return video_presenter.added(whole)


async def taken_form(  # what it is for, each by its name
    request: Request[Any, Any, Any],  # Any: as above
    catalog: Catalog,
    intake: Intake,
    *,
    caller: int,
    most: int,
    add: Callable[[Arrived], Awaitable[WholeVideo]],
) -> WholeVideo:
    """Take a form with a video of at most `most` bytes; `add` writes down what came.

    `caller` is whom the gate counts.

    Raises:
        ApiError: what is wrong with the form or the file; then nothing stays.
        StorageError: of `add`; the same.
    """
    guarded(intake, announced(request))
    async with (
        stored(intake, caller),
        open_incoming_file(
            intake.objects, max_bytes=most, min_free_bytes=intake.least_free
        ) as video,
        open_incoming_file(
            intake.objects, max_bytes=MAX_POSTER, min_free_bytes=intake.least_free
        ) as poster,
    ):
        form = await read_form(
            request,
            texts={"title": OptionalTitle.parse, "description": Description.parse},
            files={
                "video": FileField(inflow=video, limit_text=f"{most} bytes"),
                "poster": FileField(inflow=poster, limit_text=f"{MAX_POSTER} bytes"),
            },
            stall_seconds=intake.quiet_seconds,
        )
        name = form.files.get("video")
        if name is None:
            raise invalid({"video": ["The video is required."]})
        facts = await probed(intake, video)
        pictures: Mapping[str, bytes] = {}
        if "poster" in form.files:
            pictures = await _pictures(intake, poster, facts)
        hash_ = await catalog.videos.free_hash()
        folder = f"{OWN_POSTERS}{new_hash()}" if pictures else None
        arrived = Arrived(
            hash=hash_,
            title=form.texts.get("title") or None,
            file_title=file_title(name),
            description=form.texts.get("description", ""),
            name=slug(name),
            size=video.size,
            source=addresses.video_source(hash_, _FIRST),
            length_us=facts.length_us,
            width=facts.width,
            height=facts.height,
            rungs=standard_rungs(facts),
            posters=folder,
            poster_labels=tuple(pictures),
        )
        async with _undone(catalog, intake.objects, hash_):
            if folder is not None:
                await _put_posters(intake.objects, hash_, folder, pictures)
            await video.keep(arrived.source)
            whole = await add(arrived)
    log.info("uploaded", extra={"video": hash_, "bytes": arrived.size})
    return whole


@asynccontextmanager
async def _undone(
    catalog: Catalog, objects: DiskObjects, hash_: PublicHash
) -> AsyncGenerator[None, None]:
    """Take back what was put at a video's addresses where the video does not come to be.

    Where the catalog does not say whether it did, they stay: the next start removes what belongs to
    nothing.
    """
    try:
        yield
    except StorageError:
        with contextlib.suppress(StorageError):
            if not await catalog.videos.known([hash_]):
                await objects.delete_tree(addresses.video_sources(hash_))
                await objects.delete_tree(addresses.video(hash_))
        raise


async def probed(intake: Intake, video: IncomingFile) -> FileFacts:
    """Return what a file is; sizes of 0 where the probe takes too long.

    Raises:
        ApiError: 422 where it is no media.
    """
    await video.flush()
    try:
        return await probe_file(intake.probe, video.path)
    except FileRefused as error:
        raise invalid({"video": [error.reason]}) from error


async def _pictures(intake: Intake, poster: IncomingFile, facts: FileFacts) -> Mapping[str, bytes]:
    """Return the posters that a picture makes.

    Raises:
        ApiError: 422 where it is none that can be shown.
    """
    await poster.flush()
    try:
        return await intake.posters(poster.path, facts.width, facts.height)
    except FileRefused as error:
        raise invalid({"poster": [error.reason]}) from error


async def _put_posters(
    objects: DiskObjects, hash_: PublicHash, folder: str, pictures: Mapping[str, bytes]
) -> None:
    for label, picture in pictures.items():
        await objects.put(addresses.video_poster(hash_, folder, label), picture)


@asynccontextmanager
async def only_file(
    request: Request[Any, Any, Any],  # Any: as above
    intake: Intake,
    name: str,
    *,
    most: int,
    caller: int,
) -> AsyncGenerator[IncomingFile, None]:
    """Take a form in that is one file of at most `most` bytes; it is gone after the block.

    `caller` is whom the gate counts.

    Raises:
        ApiError: the form has no such file, or cannot be taken.
    """
    guarded(intake, announced(request))
    async with (
        stored(intake, caller),
        open_incoming_file(
            intake.objects, max_bytes=most, min_free_bytes=intake.least_free
        ) as inflow,
    ):
        fields = {name: FileField(inflow=inflow, limit_text=f"{most} bytes")}
        form = await read_form(request, texts={}, files=fields, stall_seconds=intake.quiet_seconds)
        if name not in form.files:
            raise invalid({name: [f"The {name} is required."]})
        yield inflow


@put(
    "/videos/{video_id:str}/poster",
    guards=[needs_write],
    request_max_body_size=MAX_POSTER + MAX_TEXT_BYTES + FRAME,
    operation_class=PosterForm,
    summary="Give a video a poster",
    tags=["videos"],
    responses=documented(*REFUSALS),
)
async def put_poster(
    request: Call,
    video_id: RecordId,
    catalog: NamedDependency[Catalog],
    video_presenter: NamedDependency[VideoPresenter],
    intake: NamedDependency[Intake],
    clock_us: NamedDependency[Callable[[], int]],
) -> VideoChanged:
    """Show a picture of the owner's before the video plays; it takes the place of all posters."""
    video = (await video_of(catalog, request.auth, video_id)).video
    caller = request.auth.id
    async with only_file(request, intake, "poster", most=MAX_POSTER, caller=caller) as poster:
        facts = FileFacts(length_us=video.length_us, width=video.width, height=video.height)
        pictures = await _pictures(intake, poster, facts)
        folder = f"{OWN_POSTERS}{new_hash()}"
        try:
            await _put_posters(intake.objects, video.hash, folder, pictures)
            changed = await catalog.videos.set_posters(
                video.id, folder, tuple(pictures), clock_us(), by=caller
            )
        except ObjectError:
            # Where the catalog's answer is missing they may be shown: else they go as leftovers.
            await intake.objects.delete_tree(addresses.video_posters(video.hash, folder))
            raise
        if changed is None:
            await intake.objects.delete_tree(addresses.video(video.hash))
            raise missing("video")
        whole, before = changed
        if before is not None:
            await intake.objects.delete_tree(addresses.video_posters(video.hash, before))
    return VideoChanged(message="Video updated.", video=video_presenter.full(whole))


HANDLERS: Final = (upload_video, put_poster)
