"""Two encoders of one programme as a watch engine gets them, second by second."""

from collections.abc import Sequence

import msgspec

from tests.support.engine.programmes import CodedSound
from tests.support.engine.shown_pictures import CodedPictures
from transcode.engine.watch.session import WatchSession
from transcode.protocol.watch_messages import (
    AlignedSource,
    Found,
    Judge,
    Judged,
    Watch,
    WatchedPictures,
    WatchedSound,
)


class Encoder(msgspec.Struct, kw_only=True):
    """What one sends; its media of the programme's moment 0 have the time `start_ms`.

    They arrive `late_ms` after they are due.
    """

    pictures: CodedPictures | None = None
    sound: CodedSound | None = None
    start_ms: int = 0
    late_ms: int = 0


class WatchedSources:
    """A watch engine's session that is sent what encoders send."""

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self.session = WatchSession()
        self._encoders = encoders
        self._until = [each.start_ms - 10_000 for each in encoders]
        for number, each in enumerate(encoders):
            self.session.handle(
                Watch(
                    source=number,
                    audio=None if each.sound is None else each.sound.track,
                    video=None if each.pictures is None else each.pictures.track,
                    is_judged=True,
                )
            )

    def send(self, until_ms: int) -> None:
        """Send what has arrived at a moment of the programme."""
        for number, each in enumerate(self._encoders):
            since, until = self._until[number], each.start_ms + until_ms - each.late_ms
            self._until[number] = until
            if each.pictures is not None:
                due = tuple(one for one in each.pictures.packets if since <= one.dts < until)
                self.session.handle(WatchedPictures(source=number, packets=due))
            if each.sound is not None:
                heard = tuple(one for one in each.sound.packets if since <= one[0] < until)
                self.session.handle(WatchedSound(source=number, packets=heard))

    def judge(self, offsets: Sequence[int | None]) -> tuple[Found, ...]:
        """Judge all sources; offsets are in milliseconds."""
        sources = tuple(
            AlignedSource(source=number, offset_us=None if each is None else each * 1000)
            for number, each in enumerate(offsets)
        )
        answer = self.session.handle(Judge(sources=sources))
        assert isinstance(answer, Judged)
        return answer.found
