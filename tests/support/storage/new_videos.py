"""Default uploads and uploaded files for tests of the catalog."""

from collections.abc import Sequence

from media.stream_keys import PublicHash, new_hash
from storage.catalog import Catalog
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.transcoding import MadeVideo
from storage.catalog.records.uploads import NewUpload
from storage.catalog.records.videos import NewVideo, VideoQuery
from storage.catalog.videos.jobs import TRANSCODE
from storage.objects.addresses import video_source


def new_video(
    hash_: PublicHash | None = None,
    *,
    title: str | None = None,
    file_title: str = "film",
    description: str = "",
    name: str = "film",
    size: int = 1,
    source: str | None = None,
    length_us: int = 0,
    width: int = 0,
    height: int = 0,
    rungs: Sequence[tuple[int, int, int]] = (),
    posters: str | None = None,
    poster_labels: Sequence[str] = (),
) -> NewVideo:
    """Return a file, by default with a new hash, at its address; `source=""`: not uploaded yet."""
    hash_ = new_hash() if hash_ is None else hash_
    return NewVideo(
        hash=hash_,
        file_title=file_title,
        name=name,
        details=VideoDetails(title=title, description=description),
        size=size,
        source=video_source(hash_, 1) if source is None else source,
        length_us=length_us,
        width=width,
        height=height,
        rungs=rungs,
        posters=posters,
        poster_labels=poster_labels,
    )


def new_upload(
    name: str = "one",
    *,
    expires_us: int,
    hash_: PublicHash | None = None,
    length: int | None = 100,
    wanted: VideoDetails | None = None,
    link: int | None = None,
    replaces: int | None = None,
) -> NewUpload:
    """Return a new resumable upload, by default with a hash derived from `name`."""
    video = NewVideo(
        hash=f"hash{name:0>8}" if hash_ is None else hash_,
        file_title="a",
        name="a",
        details=wanted or VideoDetails(),
        size=length or 0,
    )
    return NewUpload(
        name=name,
        length=length,
        most_bytes=1 << 40,
        metadata="filename YQ==",
        video=video if replaces is None else replaces,
        expires_us=expires_us,
        link=link,
    )


async def complete_video(catalog: Catalog, now_us: int, media: str = "1-1") -> None:
    """Have the next video in the queue made, with that folder of media."""
    job = await catalog.jobs.lease("one", now_us, TRANSCODE)
    assert job is not None
    await catalog.transcoding.begin(job, now_us)
    made = MadeVideo(
        media=media,
        size=5,
        length_us=61_500_000,
        rungs=(),
        posters="poster-1-1",
        poster_labels=("360p",),
    )
    await catalog.transcoding.complete(job, made, now_us)


async def count_videos(catalog: Catalog) -> tuple[int, int]:
    """Return the number of the first project's videos, and of those in processing."""
    project = await catalog.projects.find("1")
    assert project is not None
    every = await catalog.videos.find_page(project, VideoQuery(), 1)
    making = await catalog.videos.find_page(project, VideoQuery(phase="inprogress"), 1)
    return every.total, making.total
