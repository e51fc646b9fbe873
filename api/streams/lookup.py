"""The stream of a path.

`STREAM` gives the handlers of a controller the `StreamRecord` that their path names.
"""

from typing import Final

from litestar.di import NamedDependency, Provide

from api.http.auth import ApiRequest
from api.http.parameters import RecordId, missing, number_of
from api.http.preconditions import edit_tag
from media.countries import encode_countries
from storage.catalog import Catalog
from storage.catalog.records.common import StreamRecord


async def provide_stream(
    request: ApiRequest, stream_id: RecordId, catalog: NamedDependency[Catalog]
) -> StreamRecord:
    """Return the stream that a path names.

    Raises:
        ApiError: 404 if there is no such stream, or if the caller's token does not reach it.
    """
    record = await catalog.streams.find(number_of(stream_id, "stream"))
    if record is None or not request.auth.reaches(record.project):
        raise missing("stream")
    return record


STREAM: Final = {"stream": Provide(provide_stream)}


def stream_tag(record: StreamRecord) -> str:
    """Return the tag of what an edit of a stream may change (see `api.http.preconditions`)."""
    return edit_tag(
        record.title,
        record.description,
        record.category and record.category.id,
        record.player and record.player.id,
        encode_countries(each.number for each in record.countries),
        sorted(tag.id for tag in record.tags),
        record.resolutions,
    )
