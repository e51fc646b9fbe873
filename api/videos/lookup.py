"""The video of a path.

`VIDEO` gives the handlers of a controller the call with the video that their path names.
"""

from typing import Final

import msgspec
from litestar.di import NamedDependency, Provide

from api.http.conditional import edit_tag
from api.http.operation import Call, PlainCall
from api.http.parameters import RecordId, number_of
from media.countries import encode_countries
from storage.catalog.records.videos import WholeVideo

VideoCall = NamedDependency[Call[WholeVideo]]


async def provide_video(plain: PlainCall, video_id: RecordId) -> Call[WholeVideo]:
    """Return the call with the video that a path names.

    Raises:
        ApiError: 404 if there is no such video, or if the caller's token does not reach it.
    """
    whole = await plain.catalog.videos.find(number_of(video_id, "video"))
    return plain.to(whole, whole and whole.video.project, "video")


VIDEO: Final = {"call": Provide(provide_video)}


def video_tag(whole: WholeVideo) -> str:
    """Return the tag of what an edit of a video may change (see `api.http.conditional`)."""
    details = msgspec.structs.asdict(whole.details)
    details["title"] = whole.video.title
    details["countries"] = encode_countries(whole.details.countries)
    details["tags"] = sorted(whole.details.tags)
    return edit_tag(*details.values())
