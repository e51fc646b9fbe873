"""A stream on its way to viewers: who publishes into it, and its run from first media to the end.

One `LiveStream` task owns a stream while it has a publisher or a run. Publishers hand it values
from the same event loop; it alone opens, feeds and ends the run and writes the stream's state.
Times are seconds of the event loop's clock.
"""

import asyncio
import logging
from typing import Final, Protocol

from ingest.ports import Grant, LiveJournal, LiveState, PacketSink, PortError, SinkFactory
from ingest.tracks import Begun, Found, TrackFinder, continues
from media.keys import Slot
from media.packet import MediaPacket
from media.track import AudioTrack, Track

__all__ = ["ALIVE_SECONDS", "ANSWER_SECONDS", "LiveStream", "Occupied", "Publisher", "Seat"]

log = logging.getLogger(__name__)

# A connection that has said nothing for this long has lost its network: encoders send sound or
# picture at least every 100 ms.
ALIVE_SECONDS: Final = 2.0
# How long a newcomer's answer may wait for the holder to show whether it lives. OBS comes back
# about 2 s after a loss and takes a refusal as final.
ANSWER_SECONDS: Final = 2.5
# What a source may send while its run opens: 8 s at 20 Mbit/s, far past any disk's hiccup.
_WAITING_BYTES: Final = 20 << 20
_JOURNAL_SECONDS: Final = 5.0
_TICK_SECONDS: Final = 0.25


class Occupied(Exception):
    """The slot has a live publisher: the newcomer is refused."""


class Publisher(Protocol):
    """A connected encoder, as its stream sees it."""

    @property
    def peer(self) -> str:
        """The encoder's address, for the log."""
        ...

    @property
    def heard(self) -> float:
        """When its last byte came."""
        ...

    def take_off(self, reason: str) -> None:
        """Tell the encoder why, and close its connection."""
        ...


class Seat:
    """A publisher's place in a stream: what it sends goes in here."""

    def __init__(self, stream: "LiveStream", grant: Grant, publisher: Publisher) -> None:
        self.slot = grant.slot
        self.proof = grant.proof
        self.publisher = publisher
        self._stream = stream
        self._finder = TrackFinder()

    def track(self, track: Track, now: float) -> None:
        """Take a new decoder configuration."""
        self._stream.found(self, self._finder.track(track, now))

    def packet(self, packet: MediaPacket, now: float) -> None:
        """Take a packet."""
        self._stream.found(self, self._finder.packet(packet, now))

    def clock_jumped(self) -> None:
        """The encoder's clock started anew."""
        self._stream.found(self, self._finder.again())

    def tick(self, now: float) -> None:
        """Let time pass."""
        self._stream.found(self, self._finder.tick(now))

    def leave(self, *, goodbye: bool) -> None:
        """The publisher is gone; `goodbye` says that it took its leave."""
        self._stream.found(self, self._finder.leave())
        self._stream.left(self, goodbye=goodbye)


class LiveStream:
    """The owner of one stream's run."""

    def __init__(self, grant: Grant, sinks: SinkFactory, journal: LiveJournal) -> None:
        self._grant = grant
        self._sinks = sinks
        self._journal = journal
        self._seats: dict[Slot, Seat] = {}
        self._freed = asyncio.Event()
        self._wake = asyncio.Event()
        self._sink: PacketSink | None = None
        self._run_tracks: tuple[Track, ...] = ()
        self._source_on = False
        # What came before the run was open; None is the end of a source.
        self._waiting: list[Found | None] = []
        self._waiting_bytes = 0
        self._left_at: float | None = None
        self._goodbye = False
        self._draining = False
        self._open = False  # a run is open, opens or closes
        self._cut_short = False  # it is to end now
        self._run_over = asyncio.Event()  # of the run that is open, or opens next
        self._written: LiveState | None = None
        self._wrote = asyncio.Event()
        self._unwritten = False

    # -- what publishers call ---------------------------------------------------------------------

    async def seat(self, grant: Grant, publisher: Publisher) -> Seat:
        """Give a publisher its slot, taking it from a dead connection.

        Raises:
            Occupied: the slot's holder is alive.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + ANSWER_SECONDS
        while (holder := self._seats.get(grant.slot)) is not None:
            silent = clock() - holder.publisher.heard
            if silent >= ALIVE_SECONDS:
                log.info("takes over", extra=self._about(grant.slot, peer=publisher.peer))
                holder.publisher.take_off("another connection took over")
                holder.leave(goodbye=False)
                break
            left = deadline - clock()
            if left <= 0:
                raise Occupied
            self._freed.clear()
            try:
                async with asyncio.timeout(min(left, ALIVE_SECONDS - silent)):
                    await self._freed.wait()
            except TimeoutError:
                continue
        self._grant = grant
        seat = Seat(self, grant, publisher)
        self._seats[grant.slot] = seat
        self._left_at = None
        self._wake.set()
        return seat

    def found(self, seat: Seat, found: list[Found]) -> None:
        """Take what a seat's packets turned out to be."""
        if not found or self._seats.get(seat.slot) is not seat:
            return
        for value in found:
            if self._sink is None or self._waiting or self._cut_short:
                self._hold(value)
            elif isinstance(value, Begun):
                self._begin(value)
            else:
                self._sink.offer(value)

    def left(self, seat: Seat, *, goodbye: bool) -> None:
        """Take note that a seat is empty; a seat that was taken over says nothing."""
        if self._seats.get(seat.slot) is not seat:
            return
        del self._seats[seat.slot]
        self._freed.set()
        self._left_at = asyncio.get_running_loop().time()
        self._goodbye = goodbye
        if self._waiting:  # a short visit is shown all the same
            self._waiting.append(None)
        else:
            self._finish()
        self._wake.set()

    async def end(self, reason: str) -> bool:
        """Take the publishers off and end the run for its viewers; False: there was nothing.

        Returns when that is done and written down; who comes meanwhile begins another run.
        """
        running, over = self._open, self._run_over
        there = running or bool(self._waiting or self._seats)
        for seat in list(self._seats.values()):
            seat.publisher.take_off(reason)
            seat.leave(goodbye=True)
        # What comes from here on is the next run's; what waited was shown to nobody.
        self._cut_short = running
        self._waiting.clear()
        self._wake.set()
        if running:
            await over.wait()
        if there:
            await self._written_down()
        return there

    async def disconnect(self, proof: str | None, reason: str) -> int:
        """Take the publishers off whose grants have another proof; returns how many.

        Returns when that is written down; the run goes on for whoever comes within its window.
        """
        wrong = [seat for seat in self._seats.values() if seat.proof != proof]
        for seat in wrong:
            log.info("taken off", extra=self._about(seat.slot, peer=seat.publisher.peer))
            seat.publisher.take_off(reason)
            seat.leave(goodbye=False)
        if wrong:
            await self._written_down()
        return len(wrong)

    async def _written_down(self) -> None:
        """Wait until the journal has the present state."""
        while self._written != self._state():
            self._wrote.clear()
            await self._wrote.wait()

    def drain(self) -> None:
        """Take the publishers off and close the run's segments, but keep the run for a restart."""
        for seat in self._empty():
            seat.publisher.take_off("the service is stopping")
            seat.leave(goodbye=False)

    def fail(self) -> None:
        """Take the publishers off: the run cannot be made."""
        for seat in self._empty():
            seat.publisher.take_off("the stream cannot be made now: try again")
            seat.leave(goodbye=False)

    def _empty(self) -> list[Seat]:
        """Let nobody in any more; return who is to leave."""
        self._draining = True
        self._wake.set()
        return list(self._seats.values())

    @property
    def idle(self) -> bool:
        """Whether there is nothing to serve."""
        return self._draining or not (self._seats or self._waiting)

    # -- the owner's task -------------------------------------------------------------------------

    async def serve(self) -> None:
        """Open runs while there are publishers; return when the stream has neither."""
        try:
            while not self.idle:
                if self._waiting:
                    await self._one_run()
                else:
                    await self._changed()
        finally:
            await self._write()

    async def _one_run(self) -> None:
        self._open = True
        try:
            async with self._sinks.run(self._grant, self._wake.set) as sink:
                self._sink = sink
                log.info("run begins", extra=self._about())
                try:
                    await self._serve_run(sink)
                finally:
                    self._sink = None
                    self._source_on = False
                    self._run_tracks = ()
        finally:
            self._open = self._cut_short = False
            self._run_over.set()
            self._run_over = asyncio.Event()
        log.info("run ends", extra=self._about())

    async def _serve_run(self, sink: PacketSink) -> None:
        if not self._cut_short:
            self._release()
        while not self._draining:
            await self._changed()
            # What waits is a source that cannot go on in this run: it gets the next one.
            if self._cut_short or self._waiting or self._window_over():
                sink.end()
                return

    async def _changed(self) -> None:
        """Wait for a change or a moment, then write the state where it is another."""
        try:
            async with asyncio.timeout(_TICK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        now = asyncio.get_running_loop().time()
        for seat in list(self._seats.values()):
            seat.tick(now)
        await self._write()

    async def _write(self) -> None:
        state = self._state()
        if state == self._written:
            return
        try:
            async with asyncio.timeout(_JOURNAL_SECONDS):
                await self._journal.changed(state)
            self._written = state
            self._wrote.set()
        except (TimeoutError, PortError) as error:
            # Once a failure: the next moment tries again.
            if not self._unwritten:
                log.warning("state not written", extra={**self._about(), "cause": repr(error)})
            self._unwritten = True
        else:
            self._unwritten = False

    # -- parts ------------------------------------------------------------------------------------

    def _hold(self, value: Found) -> None:
        """Keep what comes before a run is open, from the newest beginning on."""
        if isinstance(value, Begun):
            self._waiting = [value]
            self._waiting_bytes = 0
        elif self._waiting:
            self._waiting.append(value)
            self._waiting_bytes += len(value.data)
        if self._waiting_bytes > _WAITING_BYTES:
            # The engine begins at the next keyframe, so what is left stays decodable.
            del self._waiting[1:]
            self._waiting_bytes = 0
            log.warning("run opens too slowly: media dropped", extra=self._about())
        self._wake.set()

    def _begin(self, begun: Begun) -> None:
        if self._sink is None:
            return
        self._finish()
        if self._run_tracks and not continues(self._run_tracks, begun.tracks):
            log.info("source differs: another run", extra=self._about())
            self._hold(begun)
            return
        self._run_tracks = begun.tracks
        self._source_on = True
        self._sink.begin(begun.tracks)
        self._wake.set()

    def _finish(self) -> None:
        if self._sink is not None and self._source_on:
            self._sink.finish()
        self._source_on = False

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for value in waiting:
            if value is None:
                self._finish()
            elif isinstance(value, Begun):
                self._begin(value)
            elif self._sink is not None:
                self._sink.offer(value)

    def _window_over(self) -> bool:
        if self._seats or self._left_at is None:
            return False
        allowed = self._grant.goodbye if self._goodbye else self._grant.window
        return asyncio.get_running_loop().time() - self._left_at >= allowed

    def _state(self) -> LiveState:
        live = self._sink is not None and self._sink.playable
        on_air = next(iter(self._seats), None) if live and self._source_on else None
        return LiveState(
            stream=self._grant.stream,
            hash=self._grant.hash,
            live=live,
            processing=self._sink is not None,
            on_air=on_air,
            sending=frozenset(self._seats),
            no_audio=self._source_on
            and not any(isinstance(track, AudioTrack) for track in self._run_tracks),
        )

    def _about(self, slot: Slot | None = None, peer: str | None = None) -> dict[str, object]:
        about: dict[str, object] = {"stream": self._grant.hash}
        if slot is not None:
            about["slot"] = str(slot)
        if peer is not None:
            about["peer"] = peer
        return about
