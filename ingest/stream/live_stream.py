"""The owner of one stream: its publishers, and its run from the first media to the end.

One `LiveStream` task owns a stream while it has a publisher or a run. Publishers hand it values
from the same event loop; it alone opens and ends runs. `ingest.stream.switcher` decides which
publisher is on air, `ingest.stream.run_feed` passes its media into the run, and
`ingest.stream.journal_queue` stores the stream's state. Times are seconds of the event loop's
clock.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from ingest.stream.drill import DRILL_SECONDS, DrillRefused
from ingest.stream.encoder_watch import EncoderWatch
from ingest.stream.journal_queue import JournalQueue
from ingest.stream.packet_observers import PacketObservers
from ingest.stream.ports import (
    Grant,
    LiveJournal,
    LiveState,
    OpenComparer,
    PacketObserver,
    PacketSink,
    PublishRefused,
    SinkFactory,
)
from ingest.stream.report import alignment_of, stream_report
from ingest.stream.run_feed import RunFeed
from ingest.stream.slot_session import CloseReason, ConnectedPublisher, SlotSession
from ingest.stream.switcher import Switcher
from ingest.stream.track_finder import SourceBegun
from media.encoder_report import StreamReport
from media.loop_lag import LoopLag
from media.packet import MediaPacket
from media.stream_events import (
    EncoderFaultEvent,
    EncoderOffEvent,
    EncoderOnEvent,
    EncoderSendingEvent,
    EncoderSilentEvent,
    PictureAwaitedEvent,
    PictureUnusableEvent,
    RefusedEvent,
    SoundUnusableEvent,
    TakenOverEvent,
)
from media.stream_keys import Slot

log = logging.getLogger(__name__)

# A connection that has been silent for this long has lost its network: encoders send audio or
# video at least every 100 ms.
ALIVE_SECONDS: Final = 2.0
# How long a new publisher waits until it is known whether the slot's holder is alive. OBS comes
# back about 2 s after a loss and takes a refusal as final.
ANSWER_SECONDS: Final = 2.5
_TICK_SECONDS: Final = 0.25
# A run that is continued shows something new within seconds of its first encoder.
_OPENING_SECONDS: Final = 10.0
_ROUNDING_SECONDS: Final = 0.001
# An encoder that is refused, or sends what cannot be used, retries every few seconds, for days; its
# owner gets an event this often.
_FAULT_SECONDS: Final = 60.0

_Fault = (
    RefusedEvent
    | PictureUnusableEvent
    | SoundUnusableEvent
    | PictureAwaitedEvent
    | EncoderFaultEvent
)


class SlotOccupied(PublishRefused):
    """The slot has a live publisher: the new one is refused."""

    cause = "occupied"

    def __init__(self) -> None:
        super().__init__("another encoder is sending with this key")


class LiveStream:
    """The owner of one stream's run; `lag` is that of the event loop.

    `generation` is that of this host's ownership of the stream (see `ports.Ownership`).
    `open_comparer` makes what compares its encoders; without it, nothing does.
    """

    def __init__(
        self,
        grant: Grant,
        sinks: SinkFactory,
        journal: LiveJournal,
        lag: LoopLag | None = None,
        generation: int = 0,
        open_comparer: OpenComparer | None = None,
    ) -> None:
        self.hash = grant.hash
        self.generation = generation
        self._grant = grant
        self._sinks = sinks
        self._clock = asyncio.get_running_loop().time
        self._lag = LoopLag() if lag is None else lag
        self._wake = asyncio.Event()
        self._journal = JournalQueue(grant.hash, journal)
        self._feed = RunFeed(grant.hash, self._clock, self._wake.set)
        self._watch: EncoderWatch | None = None
        failover = grant.run.failover
        if open_comparer is not None and failover.align == "on":
            judges = failover.quality != "off"
            self._watch = EncoderWatch(grant.hash, open_comparer, judges=judges)
        self._switcher = Switcher(
            grant.hash, self._feed, grant.policy, self._journal.add_event, self._lag, self._watch
        )
        self._switcher.paused = grant.paused
        self._sending: set[Slot] = set()  # as the last events reported
        self._slot_observers: dict[Slot, PacketObservers] = {}
        self._freed = asyncio.Event()
        self._encoders_changed = asyncio.Event()
        # When a fault of a slot was last told.
        self._faults: dict[tuple[str, type[_Fault]], float] = {}
        self._last_left_at: float | None = None
        self._reconnect_seconds = 0.0  # how long the run waits for an encoder from then on
        self._opening_until: float | None = self._clock() + _OPENING_SECONDS
        self._draining = False
        self._ending = False  # all publishers are being disconnected for good
        self._run_open = False  # also while it opens or closes
        self._run_started = False
        self._end_run_now = False
        self._run_over = asyncio.Event()  # of the run that is open, or opens next

    # -- what publishers call ---------------------------------------------------------------------

    async def attach(self, grant: Grant, publisher: ConnectedPublisher) -> SlotSession:
        """Give a publisher its slot, taking it from a dead connection.

        Raises:
            SlotOccupied: the slot's holder is alive, or the stream is stopping.
        """
        began = self._clock()
        while (holder := self._switcher.sessions.get(grant.slot)) is not None:
            now = self._clock()
            silent = self._lag.read_until(now) - holder.publisher.last_received
            if silent >= ALIVE_SECONDS:
                self._replace(holder, publisher)
                break
            remaining = ANSWER_SECONDS - self._lag.elapsed(began, now)
            if remaining <= 0:
                reason = "another encoder is sending"
                self._add_fault(RefusedEvent(slot=str(grant.slot), reason=reason))
                raise SlotOccupied
            self._freed.clear()
            try:
                async with asyncio.timeout(min(remaining, ALIVE_SECONDS - silent)):
                    await self._freed.wait()
            except TimeoutError:
                continue
        if self._draining:
            raise SlotOccupied
        self._grant = grant
        session = SlotSession(self, grant, publisher, self._clock(), self._lag)
        self._switcher.sessions[grant.slot] = session
        self._switcher.set_policy(grant.policy)
        self._last_left_at = None
        self._sending.add(grant.slot)
        self._encoders_changed.set()
        self._add_slot_event(EncoderOnEvent, grant.slot)
        self._wake.set()
        return session

    def on_begun(self, session: SlotSession, begun: SourceBegun, now: float) -> None:
        """Pass the beginning of a session's source to the slot's observers and the switcher."""
        if self._switcher.sessions.get(session.slot) is not session:
            return  # it was replaced
        observers = self._observers_of(session.slot)
        observers.begin(begun.tracks)
        if begun.held:
            observers.offer(begun.held)
        self._switcher.on_begun(session, begun, now)

    def on_packets(
        self,
        session: SlotSession,
        packets: Sequence[MediaPacket],
        dues: Sequence[float],
        now: float,
    ) -> None:
        """Pass what a session received to the slot's observers and the switcher."""
        if self._switcher.sessions.get(session.slot) is session:
            self._observers_of(session.slot).offer(packets)
            self._switcher.on_packets(session, packets, dues, now)

    def _observers_of(self, slot: Slot) -> PacketObservers:
        if slot not in self._slot_observers:
            self._slot_observers[slot] = PacketObservers(stream=self.hash, slot=str(slot))
        return self._slot_observers[slot]

    def on_unusable(self, session: SlotSession, cause: str, *, video: bool) -> None:
        """Record why an encoder's picture or sound is not shown."""
        event_type = PictureUnusableEvent if video else SoundUnusableEvent
        event = event_type(slot=str(session.slot), cause=cause)
        if self._add_fault(event):
            fields = self._log_fields(session.slot, peer=session.publisher.peer)
            log.info(event.kind, extra={**fields, "cause": cause})

    def on_closed(self, session: SlotSession, reason: CloseReason) -> None:
        """Handle the end of a session; one that was replaced before is ignored."""
        sessions = self._switcher.sessions
        if sessions.get(session.slot) is not session:
            return
        self._freed.set()
        self._encoders_changed.set()
        self._observers_of(session.slot).finish()
        self._last_left_at = now = self._clock()
        grant, goodbye = self._grant, reason is CloseReason.GOODBYE
        self._reconnect_seconds = grant.goodbye_seconds if goodbye else grant.reconnect_seconds
        self._sending.discard(session.slot)
        self._journal.add_event(
            EncoderOffEvent(
                slot=str(session.slot), receiving_count=len(self._sending), reason=reason.value
            )
        )
        # A run that ends at once ends with its source's last picture.
        over = (
            self._draining or self._ending or (len(sessions) == 1 and not self._reconnect_seconds)
        )
        self._switcher.on_closed(session, now, reason, slate=not over)
        self._wake.set()

    def _replace(self, holder: SlotSession, publisher: ConnectedPublisher) -> None:
        log.info("encoder taken over", extra=self._log_fields(holder.slot, peer=publisher.peer))
        self._journal.add_event(TakenOverEvent(slot=str(holder.slot)))
        holder.close(goodbye=False, reason=CloseReason.TAKEN_OVER)
        holder.publisher.disconnect("another connection took over")

    def _add_fault(self, event: _Fault) -> bool:
        """Add an event unless the slot had one of this kind lately; return whether it was added."""
        now, fault = self._clock(), (event.slot, type(event))
        if now - self._faults.get(fault, -_FAULT_SECONDS) < _FAULT_SECONDS:
            return False
        self._faults[fault] = now
        self._journal.add_event(event)
        self._wake.set()
        return True

    def _add_slot_event(
        self,
        event_type: type[EncoderOnEvent | EncoderSilentEvent | EncoderSendingEvent],
        slot: Slot,
    ) -> None:
        event = event_type(slot=str(slot), receiving_count=len(self._sending))
        self._journal.add_event(event)

    def _note_silence(self, session: SlotSession, now: float) -> None:
        """Record when a connected encoder stops sending, and when it sends again."""
        sending = session.is_sending(now)
        if sending == (session.slot in self._sending):
            return
        if sending:
            self._sending.add(session.slot)
        else:
            self._sending.discard(session.slot)
        self._add_slot_event(EncoderSendingEvent if sending else EncoderSilentEvent, session.slot)

    def _note_faults(self, session: SlotSession, now: float) -> None:
        """Judge a session by what it shows, and record what lasts."""
        if self._watch is None:
            return
        faults = self._watch.faults(session.slot, now)
        session.judge(faults, now)
        for fault in faults:
            lasts = fault.seconds >= self._grant.run.failover.quality_seconds
            if lasts and fault.verdict != "unknown":
                everywhere = fault.verdict == "both"
                event = EncoderFaultEvent(
                    slot=str(session.slot), fault=fault.kind, everywhere=everywhere
                )
                self._add_fault(event)

    def _note_missing_picture(self, session: SlotSession, now: float) -> None:
        """Record why an encoder's sound is not shown while viewers get no encoder."""
        waits = self._switcher.on_air_slot is None and not self._switcher.paused
        if waits and session.lacks_picture(now):
            had_one = self._feed.has_picture
            if had_one or session.picture_is_due:
                cause = "the run has one" if had_one else "the encoder announced one"
                self._add_fault(PictureAwaitedEvent(slot=str(session.slot), cause=cause))

    # -- observers --------------------------------------------------------------------------------

    async def observe_slot(
        self, slot: Slot, observer: PacketObserver, *, sound_at_once: bool = False
    ) -> None:
        """Let an observer observe what a slot's encoders send, on air or not, until it returns.

        It may return at any time, and what it is given ends with the stream.
        """
        await self._observers_of(slot).run(observer, sound_at_once=sound_at_once)

    async def observe_on_air(self, observer: PacketObserver) -> None:
        """Let an observer observe what is on air until it returns, as `observe_slot` does."""
        await self._feed.observers.run(observer)

    # -- commands ---------------------------------------------------------------------------------

    async def end(self, reason: str) -> bool:
        """Disconnect the publishers and end the run; return False if there was neither.

        Returns once that is stored. A publisher that connects meanwhile begins another run.
        """
        running, over = self._run_open, self._run_over
        existed = running or bool(self._feed.waiting or self._switcher.sessions)
        self._end_run_now = running
        self._ending = True
        self._disconnect(self._switcher.sessions.values(), reason)
        self._ending = False
        # What follows is for the next run; what waited has not been shown.
        if running:
            self._feed.defer_to_next_run()
        else:
            self._feed.discard_waiting()
        self._wake.set()
        if running:
            await over.wait()
        if existed:
            await self._journal.wait_for(self._state)
        return existed

    async def disconnect(self, proof: str | None, reason: str) -> int:
        """Disconnect the publishers whose grants have another proof, and return their number.

        Returns once that is stored; the run continues with any publisher that comes in time.
        """
        revoked = [each for each in self._switcher.sessions.values() if each.proof != proof]
        for session in revoked:
            log.info(
                "encoder disconnected",
                extra=self._log_fields(session.slot, peer=session.publisher.peer),
            )
        self._disconnect(revoked, reason)
        if revoked:
            await self._journal.wait_for(self._state)
        return len(revoked)

    async def pause(self) -> bool:
        """Show the slate until `resume`; return False if there is no run.

        Returns once that is stored, as `resume` does.
        """
        if not self._run_open:
            return False
        self._switcher.pause(self._clock())
        return await self._wait_written()

    async def resume(self) -> bool:
        """Put a source on air again, from its next keyframe on; return False if there is no run."""
        if not self._run_open:
            return False
        self._switcher.resume()
        return await self._wait_written()

    async def drill(self) -> dict[str, object]:
        """Count the publisher on air as silent until another has taken over.

        Returns the facts of the switch (`from`, `to`, `gap_ms`, `switched_after_ms`), or `refused`
        with the reason; then viewers keep what they have.
        """
        try:
            outcome = self._switcher.begin_drill(self._clock())
            try:
                async with asyncio.timeout(DRILL_SECONDS):
                    facts = await outcome
            finally:
                self._switcher.end_drill(outcome, self._clock())
        except DrillRefused as refusal:
            return {"refused": str(refusal)}
        except TimeoutError:
            return {"refused": "no other encoder took over in time"}
        await self._wait_written()
        return facts

    def report(self) -> StreamReport:
        """Return what the encoders send, and what their owner should change."""
        sessions = self._switcher.sessions
        return stream_report(
            self._state(), sessions, self._grant.active, self._clock(), self._watch
        )

    @property
    def behind_ms(self) -> dict[Slot, int]:
        """How far each encoder is behind the one that it is compared with, as far as is known."""
        if self._watch is None:
            return {}
        sessions = self._switcher.sessions
        found = {slot: alignment_of(self._watch, slot, sessions) for slot in sessions}
        return {
            slot: each.behind_ms
            for slot, each in found.items()
            if each is not None and each.behind_ms is not None
        }

    def drain(self) -> None:
        """Disconnect the publishers and close the segments, but keep the run for a restart."""
        self._stop_accepting("the service is stopping", moved=True)

    def rewrite_state(self) -> None:
        """Write the stream's state again, though it has not changed."""
        self._journal.forget_written()
        self._wake.set()

    def surrender(self) -> None:
        """Disconnect the publishers, because another host owns the stream; store nothing more."""
        self._stop_accepting("another host serves the stream now", moved=True)
        self._journal.discard()

    async def fail(self) -> None:
        """Disconnect the publishers, because the run cannot be made; return once that is stored."""
        self._stop_accepting("the stream cannot be made now: try again")
        self._feed.discard_waiting()
        self._opening_until = None
        self._journal.set_state(self._state())
        await self._journal.flush()

    async def _wait_written(self) -> bool:
        self._wake.set()
        await self._journal.wait_for(self._state)
        return True

    def _stop_accepting(self, reason: str, *, moved: bool = False) -> None:
        """Disconnect all publishers and accept no more."""
        self._draining = True
        self._wake.set()
        self._disconnect(self._switcher.sessions.values(), reason, moved=moved)

    def _disconnect(
        self, sessions: Collection[SlotSession], reason: str, *, moved: bool = False
    ) -> None:
        # The session on air goes last, so that none of the others is put on air in its place.
        on_air = self._switcher.on_air_slot
        for session in sorted(sessions, key=lambda session: session.slot == on_air):
            session.close(goodbye=False, reason=CloseReason.CLOSED)
            session.publisher.disconnect(reason, moved=moved)

    @property
    def idle(self) -> bool:
        """True if there is nothing to serve and nothing left to write."""
        busy = self._switcher.sessions or self._feed.waiting or self._journal.is_pending
        return self._draining or not busy

    # -- the owner's task -------------------------------------------------------------------------

    async def serve(self) -> None:
        """Open runs while there are publishers; return when the stream has neither."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._journal.run())
            watching = tasks.create_task(self._watch_encoders())
            try:
                while not self.idle:
                    if self._feed.waiting:
                        await self._run_once()
                    else:
                        await self._wait_and_update()
            finally:
                watching.cancel()
                for observers in (self._feed.observers, *self._slot_observers.values()):
                    observers.close()
            self._opening_until = None
            self._journal.set_state(self._state())
            self._journal.close()

    async def _watch_encoders(self) -> None:
        """Compare the encoders while there are several, until cancelled."""
        if self._watch is None:
            return
        sessions = self._switcher.sessions
        while True:
            async with asyncio.TaskGroup() as tasks:
                watching: dict[Slot | None, asyncio.Task[None]] = {}
                while len(sessions) > 1:
                    if not watching:
                        watching[None] = tasks.create_task(self._watch.run())
                    for slot in sessions.keys() - watching.keys():
                        observer = self._watch.observer(slot)
                        observing = self.observe_slot(slot, observer, sound_at_once=True)
                        watching[slot] = tasks.create_task(observing)
                    await self._encoders_change()
                for task in watching.values():
                    task.cancel()
            self._watch.forget()
            await self._encoders_change()

    async def _encoders_change(self) -> None:
        """Wait until an encoder has come or gone."""
        self._encoders_changed.clear()
        await self._encoders_changed.wait()

    async def _run_once(self) -> None:
        self._run_open = True
        try:
            async with self._sinks.run(self._grant, self._wake.set, self.generation) as sink:
                log.info("run begins", extra=self._log_fields())
                self._run_started = True
                self._feed.open(sink)
                try:
                    await self._serve_run(sink)
                finally:
                    self._run_started = False
                    self._feed.close()
        finally:
            self._opening_until = None
            self._run_open = self._end_run_now = False
            self._switcher.run_ended(self._clock(), held=self._draining)
            self._run_over.set()
            self._run_over = asyncio.Event()
        log.info("run ends", extra=self._log_fields())

    async def _serve_run(self, sink: PacketSink) -> None:
        while not self._draining:
            await self._wait_and_update()
            # A source that waits during a run cannot continue it: it gets the next one.
            if self._end_run_now or self._feed.waiting or self._wait_is_over():
                sink.end()
                return

    async def _wait_and_update(self) -> None:
        """Wait for a change, a stall or a tick, then choose the source and store the state."""
        now = self._clock()
        stalls_in = self._switcher.seconds_to_stall(now)
        # A sum of times that falls short by a rounding error would wake the task again and again.
        wait = stalls_in + _ROUNDING_SECONDS if stalls_in else _TICK_SECONDS
        # All streams of the process tick at the same moments, so it wakes once for all of them.
        wait = min(wait, _TICK_SECONDS - now % _TICK_SECONDS + _ROUNDING_SECONDS)
        timer = asyncio.get_running_loop().call_later(wait, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()
        now = self._clock()
        for session in list(self._switcher.sessions.values()):
            session.tick(now)
            self._note_silence(session, now)
            self._note_missing_picture(session, now)
            self._note_faults(session, now)
        self._switcher.choose(now)
        if self._opening_until is not None and (
            now >= self._opening_until or (self._run_started and self._feed.live)
        ):
            self._opening_until = None
        self._journal.set_state(self._state())

    def _wait_is_over(self) -> bool:
        if self._switcher.sessions or self._last_left_at is None:
            return False
        waited = self._lag.elapsed(self._last_left_at, self._clock())
        return waited >= self._reconnect_seconds

    def _state(self) -> LiveState:
        live = self._run_started and self._feed.live
        return LiveState(
            stream=self._grant.stream,
            hash=self._grant.hash,
            live=live,
            processing=self._run_started,
            on_air=self._switcher.on_air_slot if live and self._feed.source_on else None,
            sending=frozenset(self._sending),
            no_audio=self._feed.silent,
            paused=self._switcher.paused,
            slate=live and self._feed.slate_on,
            generation=self.generation,
            opening=self._opening_until is not None,
        )

    def _log_fields(self, slot: Slot | None = None, peer: str | None = None) -> dict[str, object]:
        fields: dict[str, object] = {"stream": self._grant.hash}
        if slot is not None:
            fields["slot"] = str(slot)
        if peer is not None:
            fields["peer"] = peer
        return fields
