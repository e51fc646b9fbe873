"""A stream on its way to viewers: who publishes into it, and its run from first media to the end.

One `LiveStream` task owns a stream while it has a publisher or a run. Publishers hand it values
from the same event loop; it alone opens, feeds and ends the run and writes the stream's state.
All seats are listened to; what one of them sends is on air. Times are seconds of the event loop's
clock.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from ingest.failover import Policy, decide, healthy
from ingest.ports import Grant, LiveJournal, LiveState, PacketSink, SinkFactory
from ingest.seats import Publisher, Seat
from ingest.tracks import Begun, Found, continues
from ingest.written import Written
from media.keys import Slot
from media.track import AudioTrack, Track

__all__ = ["ALIVE_SECONDS", "ANSWER_SECONDS", "LiveStream", "Occupied"]

log = logging.getLogger(__name__)

# A connection that has said nothing for this long has lost its network: encoders send sound or
# picture at least every 100 ms.
ALIVE_SECONDS: Final = 2.0
# How long a newcomer's answer may wait for the holder to show whether it lives. OBS comes back
# about 2 s after a loss and takes a refusal as final.
ANSWER_SECONDS: Final = 2.5
# What a source may send while its run opens: 8 s at 20 Mbit/s, far past any disk's hiccup.
_WAITING_BYTES: Final = 20 << 20
_TICK_SECONDS: Final = 0.25


class Occupied(Exception):
    """The slot has a live publisher: the newcomer is refused."""


class LiveStream:
    """The owner of one stream's run."""

    def __init__(
        self, grant: Grant, sinks: SinkFactory, journal: LiveJournal, policy: Policy
    ) -> None:
        self._grant = grant
        self._sinks = sinks
        self._policy = policy
        self._seats: dict[Slot, Seat] = {}
        self._on_air: Seat | None = None
        # Who was on air before, and when the last of its media came.
        self._shown: tuple[Slot, float] | None = None
        self._came = 0.0  # when the first packet of what is on air came
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
        self._written = Written(grant.hash, journal)

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
        seat = Seat(self, grant, publisher, self._policy, clock())
        self._seats[grant.slot] = seat
        self._left_at = None
        self._wake.set()
        return seat

    def found(self, seat: Seat, found: list[Found], now: float) -> None:
        """Take what a seat's packets turned out to be; a seat that was taken over says nothing."""
        if not found or self._seats.get(seat.slot) is not seat:
            return
        for value in found:
            keyframe = False
            if isinstance(value, Begun):
                seat.ring.begin(value.tracks)
            elif seat is not self._on_air or len(self._seats) > 1:
                keyframe = seat.ring.put(value, now)
            if seat is self._on_air:
                self._pass(value, now)
            elif keyframe or self._on_air is None:
                self._choose(now, at=seat)

    def left(self, seat: Seat, *, goodbye: bool) -> None:
        """Take note that a seat is empty; of one that was taken over nothing is left to note."""
        if self._seats.get(seat.slot) is not seat:
            return
        del self._seats[seat.slot]
        self._freed.set()
        self._left_at = asyncio.get_running_loop().time()
        self._goodbye = goodbye
        if seat is self._on_air:
            self._choose(self._left_at)
        self._spare()
        self._wake.set()

    async def end(self, reason: str) -> bool:
        """Take the publishers off and end the run for its viewers; False: there was nothing.

        Returns when that is done and written down; who comes meanwhile begins another run.
        """
        running, over = self._open, self._run_over
        there = running or bool(self._waiting or self._seats)
        self._dismiss(self._seats.values(), reason, goodbye=True)
        # What comes from here on is the next run's; what waited was shown to nobody.
        self._cut_short = running
        self._waiting.clear()
        self._shown = None
        self._wake.set()
        if running:
            await over.wait()
        if there:
            await self._written.has(self._state)
        return there

    async def disconnect(self, proof: str | None, reason: str) -> int:
        """Take the publishers off whose grants have another proof; returns how many.

        Returns when that is written down; the run goes on for whoever comes within its window.
        """
        wrong = [seat for seat in self._seats.values() if seat.proof != proof]
        for seat in wrong:
            log.info("taken off", extra=self._about(seat.slot, peer=seat.publisher.peer))
        self._dismiss(wrong, reason, goodbye=False)
        if wrong:
            await self._written.has(self._state)
        return len(wrong)

    def drain(self) -> None:
        """Take the publishers off and close the run's segments, but keep the run for a restart."""
        self._turn_out("the service is stopping")

    def fail(self) -> None:
        """Take the publishers off: the run cannot be made."""
        self._turn_out("the stream cannot be made now: try again")

    def _turn_out(self, reason: str) -> None:
        """Let nobody in any more, and those who are here out."""
        self._draining = True
        self._wake.set()
        self._dismiss(self._seats.values(), reason, goodbye=False)

    def _dismiss(self, seats: Collection[Seat], reason: str, *, goodbye: bool) -> None:
        # Who is on air goes last: none of the others is to take over on its way out.
        for seat in sorted(seats, key=lambda seat: seat is self._on_air):
            seat.publisher.take_off(reason)
            seat.leave(goodbye=goodbye)

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
            await self._written.write(self._state())

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
        self._choose(now)
        await self._written.write(self._state())

    # -- who is on air ----------------------------------------------------------------------------

    def _choose(self, now: float, *, at: Seat | None = None) -> None:
        """Put on air who is to be there now; `at` is the seat whose keyframe has just come.

        One that is well makes way only at the other's keyframe, so that nothing is lost or shown
        twice.
        """
        before = self._on_air
        alone = len(self._seats) == 1
        slots = {
            slot: seat.health(self._run_tracks, alone=alone) for slot, seat in self._seats.items()
        }
        want = decide(now, None if before is None else before.slot, slots, self._policy)
        seat = None if want is None else self._seats[want]
        if seat is before:
            return
        if before is None:
            self._put_on_air(seat, "begins", now)
        elif healthy(now, slots.get(before.slot), self._policy):
            if seat is at:
                self._put_on_air(seat, "returned", now)
        else:
            self._put_on_air(seat, "stalled" if before.slot in slots else "lost", now)

    def _put_on_air(self, seat: Seat | None, reason: str, now: float) -> None:
        """Show a seat from the keyframe on that is nearest to where the last one ended."""
        if self._on_air is not None:
            self._shown = (self._on_air.slot, self._on_air.last or now)
            self._stop()
        self._on_air = seat
        self._wake.set()
        if seat is None:
            return
        ended = now if self._shown is None else self._shown[1]
        since, packets = seat.ring.since_nearest(ended) if seat.ring.filled else (now, [])
        facts: dict[str, object] = {"reason": reason}
        if self._shown is not None:
            facts["gap_ms"] = round(1000 * (since - ended))
        log.info("on air", extra={**self._about(seat.slot), **facts})
        if self._shown is not None and self._shown[0] != seat.slot:
            told = {"from": str(self._shown[0]), "to": str(seat.slot), **facts}
            self._written.tell("switched", told)
        self._pass(Begun(seat.ring.tracks), since)
        for packet in packets:
            self._pass(packet, now)
        self._spare()

    def _spare(self) -> None:
        """Who is on air and alone needs no ring: there is nobody to come back from."""
        if self._on_air is not None and len(self._seats) == 1:
            self._on_air.ring.clear()

    # -- parts ------------------------------------------------------------------------------------

    def _pass(self, value: Found, came: float) -> None:
        """Hand on what is on air: to the run, or to those that wait for one."""
        if isinstance(value, Begun):
            self._came = came
        if self._sink is None or self._waiting or self._cut_short:
            self._hold(value)
        elif isinstance(value, Begun):
            self._begin(value)
        else:
            self._sink.offer(value)

    def _stop(self) -> None:
        """What is on air ends."""
        if self._waiting:  # a short visit is shown all the same
            self._waiting.append(None)
        else:
            self._finish()

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
        late = asyncio.get_running_loop().time() - self._came
        self._sink.begin(begun.tracks, late)
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
        on_air = self._on_air.slot if live and self._source_on and self._on_air else None
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
