"""Every public address of Headend, in one place.

Bases are URLs without a trailing slash: `http://localhost:8080`, `rtmp://localhost:1935`.
"""

from typing import Final, Literal

import msgspec

from media.stream_keys import PublicHash, Slot

SIGN_IN: Final = "/console/sign-in"
"""The path of the page on which people sign in."""


class Addresses(msgspec.Struct, frozen=True, kw_only=True):
    """The public addresses of this service.

    `playback` is the base from which viewers fetch playlists (a CDN, or `http` itself); the backup
    bases may have another host, so that a backup encoder uses another network path.
    """

    http: str
    playback: str
    rtmp: str
    rtmps: str
    rtmp_backup: str
    rtmps_backup: str

    def live_playlist(self, hash_: PublicHash) -> str:
        """A stream's multivariant playlist; its only stable playlist address."""
        return f"{self.http}/live/{hash_}/index.m3u8"

    def published_live_playlist(self, hash_: PublicHash) -> str:
        """The same playlist at the address for viewers."""
        return f"{self.playback}/live/{hash_}/index.m3u8"

    def live_poster(self, hash_: PublicHash, label: str) -> str:
        """A stream's poster in the resolution of that label."""
        return f"{self.http}/live/{hash_}/poster/{label}.jpg"

    def video_playlist(self, hash_: PublicHash) -> str:
        """A video's multivariant playlist."""
        return f"{self.http}/videos/{hash_}/index.m3u8"

    def published_video_playlist(self, hash_: PublicHash) -> str:
        """The same playlist at the address for viewers."""
        return f"{self.playback}/videos/{hash_}/index.m3u8"

    def video_poster(self, hash_: PublicHash, label: str) -> str:
        """A video's poster in the resolution of that label."""
        return f"{self.http}/videos/{hash_}/poster/{label}.jpg"

    def video_previews(self, hash_: PublicHash, folder: str) -> str:
        """The list of preview pictures of a video (WebVTT), in the same folder as the pictures."""
        return f"{self.playback}/videos/{hash_}/{folder}/previews.vtt"

    def slate(self, picture: str) -> str:
        """A slate (shown while a stream is off air), by its address in the store."""
        return f"{self.http}/{picture}"

    def poster(self, kind: Literal["stream", "video"], hash_: PublicHash, label: str) -> str:
        """A poster of a stream or a video."""
        of_kind = self.live_poster if kind == "stream" else self.video_poster
        return of_kind(hash_, label)

    def watch(self, hash_: PublicHash) -> str:
        """The page that plays a stream or a video."""
        return f"{self.http}/watch/{hash_}"

    def embed(self, hash_: PublicHash) -> str:
        """The page that fills a frame on someone else's page."""
        return f"{self.http}/embed/{hash_}"

    def embed_script(self) -> str:
        """The script that replaces its own tag by such a frame."""
        return f"{self.http}/embed.js"

    def project_document(self, key: str) -> str:
        """The public description of a project."""
        return f"{self.http}/json/projects/{key}.json"

    def video_document(self, hash_: PublicHash) -> str:
        """The public description of a video."""
        return f"{self.http}/json/videos/{hash_}.json"

    def rtmp_ingest(self, slot: Slot) -> str:
        """Where an encoder sends to feed a slot, without the key; empty: RTMP is not served."""
        return _ingest(self.rtmp_backup if slot.number else self.rtmp, slot)

    def rtmps_ingest(self, slot: Slot) -> str:
        """The same over TLS."""
        return _ingest(self.rtmps_backup if slot.number else self.rtmps, slot)

    def encoder_server(self, slot: Slot, *, secure: bool = False) -> str:
        """Where an encoder sends to: over TLS if `secure`, or if only that is served."""
        plain = "" if secure else self.rtmp_ingest(slot)
        return plain or self.rtmps_ingest(slot)


def _ingest(base: str, slot: Slot) -> str:
    return base and f"{base}/{slot.application}"
