"""A new video that is sent as one form: received, probed, stored and recorded.

The file is written to disk as it arrives and probed in a sandbox. Then one transaction creates the
video and its job. A request that fails before that leaves neither a file nor a row.
"""

import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from litestar import Request

from api.http.errors import invalid
from api.http.multipart import FileField, read_form
from api.intake.upload_intake import (
    FIRST_GENERATION,
    MAX_PICTURE,
    UploadIntake,
    admitted,
    content_length,
    make_posters,
    new_poster_folder,
    probe_video,
    put_posters,
    require_room,
)
from api.library.references import read_details
from api.schemas.filenames import file_slug, file_title
from api.videos.schemas import TEXTS, DetailsBody
from media.fair_share import Holder
from media.stream_keys import PublicHash
from storage.catalog import Catalog
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import NewVideo, WholeVideo
from storage.errors import StorageError
from storage.file_intake import source_file
from storage.objects import addresses
from storage.objects.base import Objects
from storage.objects.incoming_file import open_incoming_file

log = logging.getLogger(__name__)


async def receive_video_form(
    request: Request[Any, Any, Any],  # Any: what Litestar leaves open to every application
    catalog: Catalog,
    intake: UploadIntake,
    *,
    holders: tuple[Holder, ...],
    most: int,
    add: Callable[[NewVideo], Awaitable[WholeVideo]],
) -> WholeVideo:
    """Receive a form with a video of at most `most` bytes; `add` records the video.

    The upload counts for `holders`.

    Raises:
        ApiError: the form or the file is invalid, or cannot be received now; nothing is left.
        StorageError: raised by `add`; nothing is left.
    """
    await require_room(intake, content_length(request))
    async with (
        admitted(intake, holders),
        open_incoming_file(
            intake.objects, max_bytes=most, min_free_bytes=intake.least_free
        ) as video,
        open_incoming_file(
            intake.objects, max_bytes=MAX_PICTURE, min_free_bytes=intake.least_free
        ) as picture,
    ):
        form = await read_form(
            request,
            texts={key: kind.parse for key, kind in TEXTS.items()},
            files={
                "video": FileField(inflow=video, limit_text=f"{most} bytes"),
                "poster": FileField(inflow=picture, limit_text=f"{MAX_PICTURE} bytes"),
            },
            stall_seconds=intake.quiet_seconds,
        )
        name = form.files.get("video")
        if name is None:
            raise invalid({"video": ["The video is required."]})
        facts = await probe_video(intake, video)
        posters: Mapping[str, bytes] = {}
        if "poster" in form.files:
            posters = await make_posters(intake, picture, facts)
        hash_ = await catalog.videos.free_hash()
        folder = new_poster_folder() if posters else None
        source = addresses.video_source(hash_, FIRST_GENERATION)
        arrived = NewVideo(
            hash=hash_,
            file_title=file_title(name),
            name=file_slug(name),
            details=read_details(_body(form.texts), VideoDetails).details,
            posters=folder,
            poster_labels=tuple(posters),
            **msgspec.structs.asdict(source_file(facts, source, video.size)),
        )
        async with _removed_on_failure(catalog, intake.objects, hash_):
            if folder is not None:
                await put_posters(intake.objects, hash_, folder, posters)
            await video.keep(arrived.source)
            whole = await add(arrived)
    log.info("uploaded", extra={"video": hash_, "bytes": arrived.size})
    return whole


def _body(texts: Mapping[str, Any]) -> DetailsBody:  # Any: each of the type of its key
    return DetailsBody(**texts)


@asynccontextmanager
async def _removed_on_failure(
    catalog: Catalog, objects: Objects, hash_: PublicHash
) -> AsyncGenerator[None, None]:
    """Remove a video's objects if the block fails and the video was not recorded.

    If the catalog does not answer, they stay: the cleanup of orphans removes what no row names.
    """
    try:
        yield
    except StorageError:
        with contextlib.suppress(StorageError):
            if not await catalog.videos.find_known([hash_]):
                await objects.delete_tree(addresses.video_sources(hash_))
                await objects.delete_tree(addresses.video(hash_))
        raise
