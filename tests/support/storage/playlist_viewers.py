"""The viewers of one stream: what they were ever told must be true, and stay so."""

import msgspec

from media.hls.m3u8 import parse, render
from media.hls.playlist import MediaPlaylist, MultivariantPlaylist
from media.ladder import AUDIO_RENDITION
from storage.live.publication import Publication
from storage.live.run_state import RunState
from tests.support.storage.engine_reports import (
    HASH,
    LOW,
    TOP,
    WINDOW,
    FakeClock,
    PublicationFixture,
    check_named_addresses,
    on_disk,
)

RUNGS = (TOP.name, LOW.name)
NAMES = (*RUNGS, AUDIO_RENDITION)


class PlaylistViewers:
    """They read all playlists at the edge, and remember."""

    def __init__(self, stage: PublicationFixture, clock: FakeClock) -> None:
        self.stage = stage
        self.clock = clock
        # By run, rendition and Media Sequence Number: name, whether it is a gap, and its bytes.
        self.seen: dict[tuple[str, str, int], tuple[str, bool, int]] = {}
        self._last_seen: dict[str, float] = {}

    async def shown(self, run: str, name: str) -> MediaPlaylist:
        """Return what the edge shows of a rendition."""
        text = await self.stage.edge.get_playlist(f"live/{HASH}/{run}/{name}/index.m3u8")
        assert text is not None
        found = parse(text.body.decode())
        assert isinstance(found, MediaPlaylist)
        return found

    async def check_playlists(self, publication: Publication) -> None:
        """Look at all there is to see now."""
        if publication.end == 0:
            return
        run = publication.run
        lists = {name: await self.shown(run, name) for name in NAMES}
        shapes = {
            (one.sequence, one.discontinuities,
             tuple((each.uri, each.discontinuity) for each in one.segments))
            for one in lists.values()
        }  # fmt: skip
        assert len(shapes) == 1
        for name, playlist in lists.items():
            self._check_playlist(run, name, playlist)
        for address, seen in self._last_seen.items():
            if self.clock.now - seen < WINDOW.kept_seconds:
                assert self.stage.disk.path(address).is_file(), "deleted too early"
        await self._check_variants(lists)
        edge = {address for texts in self.stage.edge.published for address in texts}
        for path in self.stage.disk.root.glob("live/**/index.m3u8"):
            address = path.relative_to(self.stage.disk.root).as_posix()
            check_named_addresses(self.stage.disk, address, path.read_text(), edge)

    def _check_playlist(self, run: str, name: str, playlist: MediaPlaylist) -> None:
        """No number means another segment than before, and none goes back or is missing."""
        numbers = [int(one.uri.removesuffix(".m4s")) for one in playlist.segments]
        assert numbers == sorted(set(numbers))
        notes = self.notes(run)
        sizes = {step.sequence: step.segments[name].size for step in notes.listed}
        for place, one in enumerate(playlist.segments):
            address = f"live/{HASH}/{run}/{name}/{one.uri}"
            digest = 0
            if not one.gap:
                path = self.stage.disk.path(address)
                data = path.read_bytes()
                assert len(data) == sizes[numbers[place]]
                assert path.with_name(one.map_uri or "none").stat().st_size > 0
                digest = hash(data)
                self._last_seen[address] = self.clock.now
            now = (one.uri, one.gap, digest)
            assert self.seen.setdefault((run, name, playlist.sequence + place), now) == now

    def notes(self, run: str) -> RunState:
        """Return the notes that a restart would find."""
        path = self.stage.disk.path(f"live/{HASH}/{run}/state.json")
        return msgspec.json.decode(path.read_bytes(), type=RunState)

    async def _check_variants(self, lists: dict[str, MediaPlaylist]) -> None:
        text = await self.stage.edge.get_playlist(f"live/{HASH}/index.m3u8")
        assert text is not None
        found = parse(text.body.decode())
        assert isinstance(found, MultivariantPlaylist)
        there = {name for name in RUNGS if not lists[name].segments[-1].gap}
        assert there
        assert {one.uri.split("/")[1] for one in found.variants} == there

    async def check_recovered(self, publication: Publication) -> None:
        """With room again the disk says what the edge says, and nothing lies about."""
        run = publication.run
        for name in NAMES:
            shown = await self.shown(run, name)
            assert render(on_disk(self.stage.disk, name, run)) == render(shown)
        notes = self.notes(run)
        known = {step.sequence for step in (*notes.unlisted, *notes.listed)}
        folder = self.stage.disk.path(f"live/{HASH}/{run}")
        assert {int(path.stem) for path in folder.glob("*/*.m4s")} <= known
        assert publication.end == notes.listed[-1].end > 0
        assert notes.listed[-1].gaps == frozenset()

    async def check_ended(self, publication: Publication) -> None:
        """The end has been told everywhere."""
        for name in NAMES:
            assert (await self.shown(publication.run, name)).ended
            assert on_disk(self.stage.disk, name, publication.run).ended
