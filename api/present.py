"""Rows into bodies: what the catalog keeps, as the interface shows it.

What a stream cannot have yet (tags, a category, countries, a player, posters, a pause) is shown as
absent, which is the truth about it.
"""

from html import escape
from typing import Final

import msgspec

from api.addresses import Addresses
from api.schemas import Backup, Embed, Event, Resolution, Stream, StreamItem
from api.times import written
from media.keys import PRIMARY_APPLICATION, Slot
from media.ladder import BOXES
from storage.catalog.records import BackupRecord, EventRecord, ResolutionChoice, StreamRecord

__all__ = ["Presenter"]

_PRIMARY: Final = Slot(0)
_LABELS: Final = {box.number: box.label for box in BOXES}
# The protocol is Pusher's (version 7); the cluster is a name that clients must be given.
_BROADCASTER: Final = "pusher"
_CLUSTER: Final = "headend"
_EVENT: Final = "live"


class Presenter(msgspec.Struct, frozen=True, kw_only=True):
    """Presents records under the addresses of this service."""

    addresses: Addresses
    broadcaster_key: str

    def stream(self, record: StreamRecord) -> Stream:
        """Return a stream in full, its key in the form that encoders take."""
        return Stream(
            id=record.id,
            hash=record.hash,
            title=record.title,
            description=record.description,
            application=PRIMARY_APPLICATION,
            stream=record.key.text,
            published=record.published,
            resolutions=_resolutions(record.resolutions),
            tags=[],
            category=None,
            countries=[],
            rtmps_url=self.addresses.rtmps_ingest(_PRIMARY),
            rtmp_url=self.addresses.rtmp_ingest(_PRIMARY),
            stream_url=self.addresses.live_playlist(record.hash),
            published_url=self.addresses.published_live_playlist(record.hash),
            live=record.live,
            live_channel=_channel(record),
            live_event=_EVENT,
            receiving_count=record.receiving_count,
            processing=record.processing,
            paused=False,
            web_socket_broadcaster=_BROADCASTER,
            web_socket_key=self.broadcaster_key,
            web_socket_cluster=_CLUSTER,
            image_urls=None,
            embed=self._embed(record),
            player=None,
            backups=[self._backup(backup) for backup in record.backups],
            no_audio_stream=record.no_audio,
        )

    def stream_item(self, record: StreamRecord) -> StreamItem:
        """Return a stream as a list shows it, its key without the hash."""
        return StreamItem(
            id=record.id,
            hash=record.hash,
            title=record.title,
            description=record.description,
            application=PRIMARY_APPLICATION,
            stream=record.key.secret,
            published=record.published,
            resolutions=_resolutions(record.resolutions),
            tags=[],
            category=None,
            countries=[],
            rtmps_url=self.addresses.rtmps_ingest(_PRIMARY),
            rtmp_url=self.addresses.rtmp_ingest(_PRIMARY),
            stream_url=self.addresses.live_playlist(record.hash),
            live=record.live,
            live_channel=_channel(record),
            live_event=_EVENT,
            web_socket_broadcaster=_BROADCASTER,
            web_socket_key=self.broadcaster_key,
            web_socket_cluster=_CLUSTER,
            image_urls=None,
            embed=self._embed(record),
            player=None,
        )

    def event(self, record: EventRecord) -> Event:
        """Return an event."""
        return Event(
            id=record.id,
            type=record.kind,
            subject=record.subject,
            facts=record.facts,
            token=record.token,
            created_at=written(record.created_us),
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

    def _embed(self, record: StreamRecord) -> Embed:
        page = escape(self.addresses.embed(record.hash))
        script = escape(self.addresses.embed_script())
        return Embed(
            iframe=f'<iframe src="{page}" title="{escape(record.title)}" width="640" height="360"'
            ' style="border:0" allow="autoplay; fullscreen; picture-in-picture"'
            " allowfullscreen></iframe>",
            script=f'<script src="{script}" data-stream="{escape(record.hash)}" async></script>',
            link=self.addresses.watch(record.hash),
        )


def _channel(record: StreamRecord) -> str:
    return f"stream.{record.hash}"


def _resolutions(choices: tuple[ResolutionChoice, ...]) -> list[Resolution]:
    return [
        Resolution(id=choice.number, name=_LABELS[choice.number], active=choice.active)
        for choice in choices
    ]
