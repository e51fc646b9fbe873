"""Permission to publish, for the encoders of all protocols of a process.

The picture: a listener has a connection admitted (`PublishingService.admit`) and gets an
`AdmittedEncoder` for it. What the connection does from then on passes through that object:

    request     asks for permission with a key: the session that takes the encoder's media, or a
                `Denial`, which the connection translates into the words of its protocol
    begin       the encoder was told that it may publish, and does
    stop        it publishes no more, and may ask again
    close       the connection is about to end: nobody waits for an answer any more
    leave       the connection has ended

Whoever is refused, begins, stops or breaks the protocol is counted and logged here, and nowhere
else; a flood is logged in a few lines. While an encoder publishes, its stream calls `disconnect` of
its `ConnectedPublisher`, which is the connection: when its key is revoked, when the stream ends,
and when another connection takes its slot over.

Times are seconds of the event loop's clock.
"""

import asyncio
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from ingest.publishing.admission import Admission, AdmissionLimits
from ingest.publishing.log_throttle import LogThrottle, SuppressedLines
from ingest.stream.ports import Grant, KeyDirectory, PortError, PublishRefused, StreamEnded
from ingest.stream.registry import LiveStreams
from ingest.stream.slot_session import CloseReason, ConnectedPublisher, PublisherSession
from media.loop_lag import LoopLag
from media.networks import client_network
from media.stream_keys import StreamKey

log = logging.getLogger(__name__)
security = logging.getLogger("security")

_LOOK_UP_SECONDS: Final = 5.0


class Denial(msgspec.Struct, frozen=True):
    """Why an encoder may not publish.

    `cause` is a fixed phrase, for the log and the metrics. `words` are for the encoder; None: it
    gets no answer, and its connection is dropped.
    """

    cause: str
    words: str | None


WRONG_KEY: Final = Denial("wrong key", "no stream has this key")
TOO_MANY_WRONG: Final = Denial("too many wrong keys from one address", None)
NOT_LOOKED_UP: Final = Denial("look-up failed", "the service cannot look keys up now")


class PublisherCounters:
    """Counts of what encoders did, for the metrics; refusals by their causes."""

    def __init__(self) -> None:
        self.connections = 0
        self.publishers = 0
        self.bytes_in = 0
        self.refused: Counter[str] = Counter()


class PublishingService:
    """The door of a process, which all its listeners share; call `tick` regularly.

    `lag` is that of the event loop.
    """

    def __init__(
        self,
        limits: AdmissionLimits,
        directory: KeyDirectory,
        streams: LiveStreams,
        lag: LoopLag,
    ) -> None:
        self.directory = directory
        self.streams = streams
        self.lag = lag
        self.counters = PublisherCounters()
        self.clock = asyncio.get_running_loop().time
        self.admission = Admission(limits)
        self._log_throttle = LogThrottle()

    def admit(self, host: str, port: int, protocol: str) -> "AdmittedEncoder | None":
        """Admit a connection; None: it is refused, and is to be closed without a word.

        `host` is the encoder's address, by which it is counted.
        """
        encoder = AdmittedEncoder(self, host, port, protocol)
        cause = self.admission.admit(host, self.clock())
        if cause is not None:
            security.info("rate limited", extra={"peer": host, "cause": cause})
            encoder.refuse_connection(cause)
            return None
        self.counters.connections += 1
        return encoder

    def tick(self, now: float) -> None:
        """Forget what is too old to count, and log what was summed up."""
        self.admission.expire(now)
        _log_suppressed(self._log_throttle.finished_summaries(now))

    def close(self) -> None:
        """Log what is still to be summed up."""
        _log_suppressed(self._log_throttle.remaining_summaries(self.clock()))

    def should_log(self, event: str, cause: str, host: str) -> bool:
        """Return whether to log what happened to a peer; what is not logged is summed up later."""
        return self._log_throttle.should_log(event, cause, client_network(host), self.clock())


class AdmittedEncoder:
    """One encoder's way through the door, for its connection (see the module).

    `peer` is its address and port, `protocol` the name of what it speaks.
    """

    def __init__(self, service: PublishingService, host: str, port: int, protocol: str) -> None:
        self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.protocol = protocol
        self._service = service
        self._host = host
        self._stream = "-"
        self._slot = ""
        self._session: PublisherSession | None = None
        self._is_closing = asyncio.Event()
        self._has_left = False

    # -- permission -------------------------------------------------------------------------------

    async def request(
        self, application: str, name: str, publisher: ConnectedPublisher
    ) -> PublisherSession | Denial | None:
        """Return the session that takes the encoder's media, or why there is none.

        `application` names the slot (`Slot.of_application`), `name` is the text of the key. Whoever
        gets a session passes it to `begin`, or closes it. None: the connection has closed
        meanwhile.
        """
        try:
            answer = await self._answer(application, name, publisher)
        except (TimeoutError, PortError) as error:
            if self.should_log("keys not looked up", type(error).__name__):
                log.exception("keys not looked up", extra=self.log_fields)
            answer = NOT_LOOKED_UP
        except PublishRefused as refused:
            if isinstance(refused, StreamEnded):
                self._stream = refused.hash
            answer = Denial(refused.cause, str(refused))
        if isinstance(answer, Denial):
            about = {**self.log_fields, "cause": answer.cause}
            self._note("refused", answer.cause, about)
        elif self._is_closing.is_set():
            answer.close(goodbye=False)
            return None
        return answer

    async def _answer(
        self, application: str, name: str, publisher: ConnectedPublisher
    ) -> PublisherSession | Denial:
        streams = self._service.streams
        revocations = streams.revocations
        look_up = functools.partial(self._look_up, application, name)
        grant = await look_up()
        if grant is None:
            return await self._deny_wrong_key()
        self._stream, self._slot = grant.hash, str(grant.slot)
        session = await streams.attach(grant, publisher, look_up)
        # A revocation since the look-up could not yet disconnect this publisher.
        if streams.revocations == revocations:
            return session
        is_valid = False
        try:
            is_valid = await look_up() is not None
        finally:
            if not is_valid:
                session.close(goodbye=False, reason=CloseReason.CLOSED)
        return session if is_valid else WRONG_KEY

    async def _look_up(self, application: str, name: str) -> Grant | None:
        key = StreamKey.parse(name)
        # A malformed key is looked up too, so that it takes as long as a wrong one.
        key = key if key is not None else StreamKey(hash="", secret="")
        clock = self._service.clock
        while True:
            began = clock()
            try:
                async with asyncio.timeout(_LOOK_UP_SECONDS):
                    return await self._service.directory.grant(application, key)
            except TimeoutError:
                # The answer may have been there while the loop was held up.
                if self._service.lag.elapsed(began, clock()) >= _LOOK_UP_SECONDS:
                    raise

    async def _deny_wrong_key(self) -> Denial:
        """Deny a key, at once or later; beyond that, without an answer."""
        service = self._service
        delay = service.admission.count_wrong_key(self._host, service.clock())
        if delay is None:
            about = {"peer": self._host, "cause": TOO_MANY_WRONG.cause}
            security.info("rate limited", extra=about)
            return TOO_MANY_WRONG
        security.info("wrong key", extra={"peer": self._host})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._is_closing.wait()
        return WRONG_KEY

    # -- on air, and the end ----------------------------------------------------------------------

    def begin(self, session: PublisherSession) -> None:
        """Count the encoder as a publisher from now on, until `stop`, `close` or `leave`."""
        self._session = session
        self._service.counters.publishers += 1
        log.info("publisher on", extra={**self.log_fields, "slot": self._slot})

    def stop(self, *, goodbye: bool, reason: CloseReason | None = None) -> None:
        """End the session, if there is one (see `PublisherSession.close`)."""
        session, self._session = self._session, None
        if session is not None:
            self._service.counters.publishers -= 1
            log.info("publisher off", extra={**self.log_fields, "goodbye": goodbye})
            session.close(goodbye=goodbye, reason=reason)

    def close(self, reason: CloseReason | None = None) -> None:
        """End the session because the connection ends; who waits for an answer gets none."""
        self._is_closing.set()
        self.stop(goodbye=False, reason=reason)

    def leave(self) -> None:
        """End the admission: the connection has ended."""
        self.close()
        if not self._has_left:
            self._has_left = True
            self._service.counters.connections -= 1
            self._service.admission.release(self._host)

    # -- what is counted and logged ---------------------------------------------------------------

    @property
    def log_fields(self) -> dict[str, object]:
        """What a log line says of the encoder."""
        return {"stream": self._stream, "peer": self.peer, "by": self.protocol}

    def should_log(self, event: str, cause: str) -> bool:
        """Return whether to log what happened to the encoder; what is not logged is summed up."""
        return self._service.should_log(event, cause, self._host)

    def refuse_connection(self, cause: str, detail: str = "") -> None:
        """Count and log that a connection was closed before its protocol began."""
        self._note("refused", cause, {"peer": self.peer, "cause": detail or cause})

    def broke_protocol(self, cause: str, detail: str) -> None:
        """Count and log that the connection is closed for what the encoder sent, or did not."""
        self._note("closed", cause, {**self.log_fields, "cause": detail})

    def failed(self, error: Exception) -> None:
        """Count and log that the connection is closed because of a bug of ours."""
        self._note("connection failed", "failure", self.log_fields, error)

    def _note(
        self, event: str, cause: str, about: dict[str, object], error: Exception | None = None
    ) -> None:
        self._service.counters.refused[cause] += 1
        if self.should_log(event, cause):
            log.log(logging.ERROR if error else logging.INFO, event, extra=about, exc_info=error)


def _log_suppressed(summaries: Sequence[SuppressedLines]) -> None:
    """Log how many lines were suppressed."""
    for summary in summaries:
        about = {"cause": summary.cause, "count": summary.count, "seconds": summary.seconds}
        log.info("%s %d more", summary.event, summary.count, extra=about)
