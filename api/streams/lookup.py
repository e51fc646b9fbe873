"""The stream of a path, and what has settings: a stream, or a project.

`STREAM` gives the handlers of a controller the call with the stream that their path names.
"""

from typing import Final

from litestar.di import NamedDependency, Provide

from api.http.conditional import edit_tag
from api.http.operation import Call, PlainCall
from api.http.parameters import RecordId, number_of
from media.countries import encode_countries
from storage.catalog.records.common import ProjectRecord, StreamRecord
from storage.catalog.streams.settings import SettingsRepository

StreamCall = NamedDependency[Call[StreamRecord]]


async def provide_stream(plain: PlainCall, stream_id: RecordId) -> Call[StreamRecord]:
    """Return the call with the stream that a path names.

    Raises:
        ApiError: 404 if there is no such stream, or if the caller's token does not reach it.
    """
    record = await plain.catalog.streams.find(number_of(stream_id, "stream"))
    return plain.to(record, record and record.project, "stream")


STREAM: Final = {"call": Provide(provide_stream)}


# The stream or the project whose settings a request reads or changes.
OwnerCall = Call[StreamRecord] | Call[ProjectRecord]


def settings_of(call: OwnerCall) -> SettingsRepository:
    """Return the settings of streams, or those of projects."""
    is_stream = isinstance(call.record, StreamRecord)
    return call.catalog.stream_settings if is_stream else call.catalog.project_settings


def stream_tag(record: StreamRecord) -> str:
    """Return the tag of what an edit of a stream may change (see `api.http.conditional`)."""
    return edit_tag(
        record.title,
        record.description,
        record.category and record.category.id,
        record.player and record.player.id,
        encode_countries(each.number for each in record.countries),
        sorted(tag.id for tag in record.tags),
        record.resolutions,
    )
