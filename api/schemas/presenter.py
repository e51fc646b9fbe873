"""Builds the bodies of streams and events from records of the catalog."""

from typing import Any, Final

import msgspec

from api.schemas.common import (
    BROADCASTER,
    CLUSTER,
    Backup,
    Category,
    CountryBody,
    Embed,
    Event,
    PlayerReference,
    Resolution,
    StreamBody,
    StreamItem,
    TagBody,
)
from api.schemas.embed_snippets import embed_snippets
from api.schemas.timestamps import format_timestamp
from api.schemas.urls import Addresses
from media.ladder import BOX_LABELS
from media.stream_keys import PRIMARY_APPLICATION, Slot
from storage.catalog.records.common import BackupRecord, EventRecord, ResolutionChoice, StreamRecord
from storage.catalog.records.videos import WholeVideo

_PRIMARY: Final = Slot(0)
# The keys of a stream whose values are those of the record.
_AS_RECORDED: Final = (
    "id", "hash", "title", "description", "published", "live", "receiving_count", "processing",
    "paused",
)  # fmt: skip
# The protocol is that of Pusher, version 7; clients require a cluster name.
_EVENT: Final = "live"


class Presenter(msgspec.Struct, frozen=True, kw_only=True):
    """Builds bodies with the addresses of this service."""

    addresses: Addresses
    broadcaster_key: str

    def stream(self, record: StreamRecord, *, show_key: bool) -> StreamBody:
        """Return a stream in full, with its key in the form for encoders.

        The key permits publishing: `show_key` only to callers that may write.
        """
        key = record.key if show_key else record.key.masked
        return StreamBody(
            **{key: getattr(record, key) for key in _AS_RECORDED},
            application=PRIMARY_APPLICATION,
            stream=key.text,
            resolutions=_resolutions(record.resolutions),
            rtmps_url=self.addresses.rtmps_ingest(_PRIMARY),
            rtmp_url=self.addresses.rtmp_ingest(_PRIMARY),
            stream_url=self.addresses.live_playlist(record.hash),
            published_url=self.addresses.published_live_playlist(record.hash),
            live_channel=_channel(record),
            live_event=_EVENT,
            web_socket_broadcaster=BROADCASTER,
            web_socket_key=self.broadcaster_key,
            web_socket_cluster=CLUSTER,
            image_urls=self._posters(record),
            embed=self._embed(record),
            player=present_player(record),
            **present_labels(record),
            backups=[self._backup(backup) for backup in record.backups],
            no_audio_stream=record.no_audio,
        )

    def stream_item(self, record: StreamRecord, *, show_key: bool) -> StreamItem:
        """Return a stream as a list item, with its key without the hash (see `stream`)."""
        key = record.key if show_key else record.key.masked
        full = msgspec.structs.asdict(self.stream(record, show_key=show_key))
        kept = {name: full[name] for name in StreamItem.__struct_fields__}
        return StreamItem(**{**kept, "stream": key.secret})

    def event(self, record: EventRecord) -> Event:
        """Return an event."""
        return Event(
            id=record.id,
            number=record.number,
            type=record.kind,
            subject=record.subject,
            facts=record.facts,
            token=record.token,
            created_at=format_timestamp(record.created_us),
        )

    def _backup(self, record: BackupRecord) -> Backup:
        slot = Slot(record.number)
        return Backup(
            id=record.id,
            name=f"Backup {record.number}",
            rtmps_url=self.addresses.rtmps_ingest(slot),
            rtmp_url=self.addresses.rtmp_ingest(slot),
            publish=record.on_air,
            live=record.live,
        )

    def _posters(self, record: StreamRecord) -> dict[str, str] | None:
        urls = {
            label: self.addresses.live_poster(record.hash, label) for label in record.poster_labels
        }
        return urls or None

    def _embed(self, record: StreamRecord) -> Embed:
        return embed_snippets(self.addresses, record.hash, record.title, "stream", record.picture)


def present_labels(
    record: StreamRecord | WholeVideo,
) -> dict[str, Any]:  # Any: bodies, by their keys
    """Return the tags, the category and the countries of a record."""
    category = record.category
    return {
        "tags": [TagBody(id=tag.id, name=tag.name) for tag in record.tags],
        "category": None if category is None else Category(id=category.id, name=category.name),
        "countries": [
            CountryBody(id=each.number, code=each.code, name=each.name) for each in record.countries
        ],
    }


def present_player(record: StreamRecord | WholeVideo) -> PlayerReference | None:
    """Return the player of a record."""
    player = record.player
    return None if player is None else PlayerReference(id=player.id, name=player.name)


def _channel(record: StreamRecord) -> str:
    return f"stream.{record.hash}"


def _resolutions(choices: tuple[ResolutionChoice, ...]) -> list[Resolution]:
    return [
        Resolution(id=choice.number, name=BOX_LABELS[choice.number], active=choice.active)
        for choice in choices
    ]
