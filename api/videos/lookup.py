"""The video of a path.

`VIDEO` gives the handlers of a controller the `WholeVideo` that their path names.
"""

from typing import Final

import msgspec
from litestar.di import NamedDependency, Provide

from api.http.auth import ApiRequest
from api.http.parameters import RecordId, missing, number_of
from api.http.preconditions import edit_tag
from media.countries import encode_countries
from storage.catalog import Catalog
from storage.catalog.records.videos import WholeVideo


async def provide_video(
    request: ApiRequest, video_id: RecordId, catalog: NamedDependency[Catalog]
) -> WholeVideo:
    """Return the video that a path names.

    Raises:
        ApiError: 404 if there is no such video, or if the caller's token does not reach it.
    """
    whole = await catalog.videos.find(number_of(video_id, "video"))
    if whole is None or not request.auth.reaches(whole.video.project):
        raise missing("video")
    return whole


VIDEO: Final = {"video": Provide(provide_video)}


def video_tag(whole: WholeVideo) -> str:
    """Return the tag of what an edit of a video may change (see `api.http.preconditions`)."""
    details = msgspec.structs.asdict(whole.details)
    details["title"] = whole.video.title
    details["countries"] = encode_countries(whole.details.countries)
    details["tags"] = sorted(whole.details.tags)
    return edit_tag(*details.values())
