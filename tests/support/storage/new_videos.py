"""Uploaded files as the catalog gets them, when a test does not mind what they are."""

from collections.abc import Sequence

from media.stream_keys import PublicHash, new_hash
from storage.catalog.records.videos import NewVideo
from storage.objects.addresses import video_source

__all__ = ["new_video"]


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
    """Return a file whose hash is new unless given, at its usual address; `source` "": to come."""
    hash_ = new_hash() if hash_ is None else hash_
    return NewVideo(
        hash=hash_,
        title=title,
        file_title=file_title,
        description=description,
        name=name,
        size=size,
        source=video_source(hash_, 1) if source is None else source,
        length_us=length_us,
        width=width,
        height=height,
        rungs=rungs,
        posters=posters,
        poster_labels=poster_labels,
    )
