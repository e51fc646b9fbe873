"""A stream on its way to viewers: who publishes into it, and its run from first media to the end.

One `LiveStream` task owns a stream while it has a publisher or a run. Publishers hand it values
from the same event loop; it alone opens and ends runs. `ingest.stream.switcher` decides what goes
on air of what the seats bring, `ingest.stream.run_feed` brings it into the run,
`ingest.stream.journal_queue` writes down how the stream stands. Times are seconds of the event
loop's clock.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from ingest.stream.journal_queue import Written
from ingest.stream.ports import Grant, LiveJournal, LiveState, PacketSink, SinkFactory
from ingest.stream.report import report_of
from ingest.stream.run_feed import Feed
from ingest.stream.slot_session import Leaving, Publisher, Seat
from ingest.stream.switcher import DRILL_SECONDS, Air, NoDrill
from ingest.stream.track_finder import Found
from media.encoder_report import StreamReport
from media.stream_keys import Slot

__all__ = ["ALIVE_SECONDS", "ANSWER_SECONDS", "LiveStream", "Occupied"]

log = logging.getLogger(__name__)

# A connection that has said nothing for this long has lost its network: encoders send sound or
# picture at least every 100 ms.
ALIVE_SECONDS: Final = 2.0
# How long a newcomer's answer may wait for the holder to show whether it lives. OBS comes back
# about 2 s after a loss and takes a refusal as final.
ANSWER_SECONDS: Final = 2.5
_TICK_SECONDS: Final = 0.25
# A refused encoder tries again every few seconds, for days; its owner hears of it this often.
_REFUSAL_SECONDS: Final = 60.0


class Occupied(Exception):
    """The slot has a live publisher: the newcomer is refused."""


class LiveStream:
    """The owner of one stream's run."""

    def __init__(self, grant: Grant, sinks: SinkFactory, journal: LiveJournal) -> None:
        self._grant = grant
        self._sinks = sinks
        self._clock = asyncio.get_running_loop().time
        self._wake = asyncio.Event()
        self._written = Written(grant.hash, journal)
        self._feed = Feed(grant.hash, self._clock, self._wake.set)
        self._air = Air(grant.hash, self._feed, grant.policy, self._written.tell)
        self._air.paused = grant.paused
        self._freed = asyncio.Event()
        self._refused: dict[Slot, float] = {}  # when the owner was told last
        self._left_at: float | None = None
        self._allowed = 0.0  # how long the run waits for an encoder from then on
        self._draining = False
        self._ending = False  # all are being taken off for good
        self._open = False  # a run is open, opens or closes
        self._running = False  # it is open
        self._cut_short = False  # it is to end now
        self._run_over = asyncio.Event()  # of the run that is open, or opens next

    # -- what publishers call ---------------------------------------------------------------------

    async def seat(self, grant: Grant, publisher: Publisher) -> Seat:
        """Give a publisher its slot, taking it from a dead connection.

        Raises:
            Occupied: the slot's holder is alive, or the stream is stopping.
        """
        deadline = self._clock() + ANSWER_SECONDS
        while (holder := self._air.seats.get(grant.slot)) is not None:
            silent = self._clock() - holder.publisher.heard
            if silent >= ALIVE_SECONDS:
                self._take_over(holder, publisher)
                break
            left = deadline - self._clock()
            if left <= 0:
                self._refuse(grant.slot)
                raise Occupied
            self._freed.clear()
            try:
                async with asyncio.timeout(min(left, ALIVE_SECONDS - silent)):
                    await self._freed.wait()
            except TimeoutError:
                continue
        if self._draining:
            raise Occupied
        self._grant = grant
        seat = Seat(self, grant, publisher, self._clock())
        self._air.seats[grant.slot] = seat
        self._air.policy_is(grant.policy)
        self._left_at = None
        self._tell_of(grant.slot, "encoder on", len(self._air.seats))
        self._wake.set()
        return seat

    def found(self, seat: Seat, found: list[Found], now: float) -> None:
        """Take what a seat's packets turned out to be."""
        self._air.found(seat, found, now)

    def left(self, seat: Seat, why: Leaving) -> None:
        """Take note that a seat is empty; of one that was taken over nothing is left to note."""
        seats = self._air.seats
        if seats.get(seat.slot) is not seat:
            return
        self._freed.set()
        self._left_at = now = self._clock()
        goodbye = why is Leaving.GOODBYE
        self._allowed = self._grant.goodbye if goodbye else self._grant.window
        self._tell_of(seat.slot, "encoder off", len(seats) - 1, reason=why.value)
        # A run that ends at once ends with its source's last picture.
        over = self._draining or self._ending or (len(seats) == 1 and not self._allowed)
        self._air.left(seat, now, why, slate=not over)
        self._wake.set()

    def _take_over(self, holder: Seat, publisher: Publisher) -> None:
        log.info("takes over", extra=self._about(holder.slot, peer=publisher.peer))
        self._written.tell("taken over", {"slot": str(holder.slot)})
        holder.leave(goodbye=False, why=Leaving.TAKEN_OVER)
        holder.publisher.take_off("another connection took over")

    def _refuse(self, slot: Slot) -> None:
        now = self._clock()
        if now - self._refused.get(slot, -_REFUSAL_SECONDS) >= _REFUSAL_SECONDS:
            self._refused[slot] = now
            reason = "another encoder is sending"
            self._written.tell("refused", {"slot": str(slot), "reason": reason})
            self._wake.set()

    def _tell_of(self, slot: Slot, kind: str, count: int, **facts: object) -> None:
        self._written.tell(kind, {"slot": str(slot), "receiving_count": count, **facts})

    # -- orders -----------------------------------------------------------------------------------

    async def end(self, reason: str) -> bool:
        """Take the publishers off and end the run for its viewers; False: there was nothing.

        Returns when that is done and written down; who comes meanwhile begins another run.
        """
        running, over = self._open, self._run_over
        there = running or bool(self._feed.waiting or self._air.seats)
        self._cut_short = running
        self._ending = True
        self._dismiss(self._air.seats.values(), reason)
        self._ending = False
        # What comes from here on is the next run's; what waited was shown to nobody.
        if running:
            self._feed.turn_away()
        else:
            self._feed.give_up()
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
        wrong = [seat for seat in self._air.seats.values() if seat.proof != proof]
        for seat in wrong:
            log.info("taken off", extra=self._about(seat.slot, peer=seat.publisher.peer))
        self._dismiss(wrong, reason)
        if wrong:
            await self._written.has(self._state)
        return len(wrong)

    async def pause(self) -> bool:
        """Give viewers the slate, whoever sends; False: there is no run.

        Returns when that is written down, as `resume` does.
        """
        if not self._open:
            return False
        self._air.pause(self._clock())
        return await self._settled()

    async def resume(self) -> bool:
        """Give viewers a source again, from its next keyframe on; False: there is no run."""
        if not self._open:
            return False
        self._air.resume()
        return await self._settled()

    async def drill(self) -> dict[str, object]:
        """Let who is on air count as silent until another has taken over.

        Returns what that was, `from`, `to`, `gap_ms` and `switched_after_ms`, or why it was not to
        be: `refused`. Viewers keep what they have then.
        """
        try:
            begun = self._air.begin_drill(self._clock())
            try:
                async with asyncio.timeout(DRILL_SECONDS):
                    facts = await begun
            finally:
                self._air.end_drill(begun, self._clock())
        except NoDrill as no:
            return {"refused": str(no)}
        except TimeoutError:
            return {"refused": "no other encoder took over in time"}
        await self._settled()
        return facts

    def report(self) -> StreamReport:
        """Return what its encoders send, and what their owner should change."""
        return report_of(self._state(), self._air.seats, self._grant.active, self._clock())

    def drain(self) -> None:
        """Take the publishers off and close the run's segments, but keep the run for a restart."""
        self._turn_out("the service is stopping")

    async def fail(self) -> None:
        """Take the publishers off: the run cannot be made."""
        self._turn_out("the stream cannot be made now: try again")
        self._feed.give_up()
        self._written.note(self._state())
        await self._written.flush()

    async def _settled(self) -> bool:
        self._wake.set()
        await self._written.has(self._state)
        return True

    def _turn_out(self, reason: str) -> None:
        """Let nobody in any more, and those who are here out."""
        self._draining = True
        self._wake.set()
        self._dismiss(self._air.seats.values(), reason)

    def _dismiss(self, seats: Collection[Seat], reason: str) -> None:
        # Who is on air goes last: none of the others is to take over on its way out.
        for seat in sorted(seats, key=lambda seat: seat.slot == self._air.slot):
            seat.leave(goodbye=False, why=Leaving.CLOSED)
            seat.publisher.take_off(reason)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to serve, and nothing left to write."""
        return self._draining or not (self._air.seats or self._feed.waiting or self._written.behind)

    # -- the owner's task -------------------------------------------------------------------------

    async def serve(self) -> None:
        """Open runs while there are publishers; return when the stream has neither."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._written.write())
            while not self.idle:
                if self._feed.waiting:
                    await self._one_run()
                else:
                    await self._changed()
            self._written.note(self._state())
            self._written.close()

    async def _one_run(self) -> None:
        self._open = True
        try:
            async with self._sinks.run(self._grant, self._wake.set) as sink:
                log.info("run begins", extra=self._about())
                self._running = True
                self._feed.open(sink)
                try:
                    await self._serve_run(sink)
                finally:
                    self._running = False
                    self._feed.close()
        finally:
            self._open = self._cut_short = False
            self._air.run_over(self._clock(), held=self._draining)
            self._run_over.set()
            self._run_over = asyncio.Event()
        log.info("run ends", extra=self._about())

    async def _serve_run(self, sink: PacketSink) -> None:
        while not self._draining:
            await self._changed()
            # What waits is a source that cannot go on in this run: it gets the next one.
            if self._cut_short or self._feed.waiting or self._window_over():
                sink.end()
                return

    async def _changed(self) -> None:
        """Wait for a change or a moment, then note how the stream stands."""
        try:
            async with asyncio.timeout(_TICK_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()
        now = self._clock()
        for seat in list(self._air.seats.values()):
            seat.tick(now)
        self._air.choose(now)
        self._written.note(self._state())

    def _window_over(self) -> bool:
        if self._air.seats or self._left_at is None:
            return False
        return self._clock() - self._left_at >= self._allowed

    def _state(self) -> LiveState:
        live = self._running and self._feed.live
        return LiveState(
            stream=self._grant.stream,
            hash=self._grant.hash,
            live=live,
            processing=self._running,
            on_air=self._air.slot if live and self._feed.source_on else None,
            sending=frozenset(self._air.seats),
            no_audio=self._feed.silent,
            paused=self._air.paused,
            slate=live and self._feed.slate_on,
        )

    def _about(self, slot: Slot | None = None, peer: str | None = None) -> dict[str, object]:
        about: dict[str, object] = {"stream": self._grant.hash}
        if slot is not None:
            about["slot"] = str(slot)
        if peer is not None:
            about["peer"] = peer
        return about
