"""When pictures are compared: two encoders whose sound says nothing, or something else."""

import numpy as np
import pytest

from tests.support.engine.programmes import RATE, CodedSound, programme
from tests.support.engine.shown_pictures import FPS, CodedPictures, scenes
from tests.support.engine.watched_sources import Encoder, WatchedSources
from transcode.protocol.watch_messages import Compare, Compared, Unwatch

SECONDS = 26
BEHIND_MS = 1_200
START_MS = 5_000
SHOWN = list(scenes(SECONDS, seed=1))
SILENCE = np.zeros(SECONDS * RATE, np.float32)
# The second encoder shows everything later, and its clock has another beginning.
FIRST = CodedPictures(SHOWN)
LATER = CodedPictures(
    [SHOWN[0]] * (BEHIND_MS * FPS // 1000) + SHOWN, kbit=1_000, bframes=0, start_ms=START_MS
)


def compared(sources: WatchedSources, *, near_us: int | None = None) -> Compared:
    order = Compare(reference=0, other=1, seconds=5, near_us=near_us)
    answer = sources.session.handle(order)
    assert isinstance(answer, Compared)
    return answer


def watched(sources: WatchedSources, seconds: int = SECONDS) -> list[Compared]:
    """Judge every second, and compare every three."""
    answers: list[Compared] = []
    for second in range(1, seconds):
        sources.send(1000 * second)
        sources.judge([0, None])
        if second % 3 == 0:
            answers.append(compared(sources))
    return answers


@pytest.mark.parametrize("sound", [None, CodedSound(SILENCE)], ids=["no sound", "silence"])
def test_pictures_place_what_has_no_sound(sound: CodedSound | None) -> None:
    sources = WatchedSources(
        [
            Encoder(pictures=FIRST, sound=sound),
            Encoder(pictures=LATER, sound=sound, start_ms=START_MS),
        ]
    )
    answers = watched(sources)
    found = [each for each in answers if each.offset_us is not None]
    assert len(found) >= 2
    for each in found:
        assert (each.method, each.picture_us) == ("picture", each.offset_us)
        assert each.offset_us is not None
        assert abs(each.offset_us / 1000 - START_MS - BEHIND_MS) <= 20
    # Sound comes first, if there is any.
    awaited = [None, "pictures awaited", *([] if sound is None else ["too short"])]
    assert {each.reason for each in answers} == set(awaited)
    # Nothing more is decoded for a while, and what is known holds.
    held = compared(sources, near_us=found[0].offset_us)
    assert (held.method, held.reason) == ("picture", None)
    assert held.offset_us is not None
    assert abs(held.offset_us / 1000 - START_MS - BEHIND_MS) <= 20
    sources.session.handle(Unwatch(source=1))
    assert compared(sources).reason == "no sound"


def test_lip_sync_that_differs_is_told_beside_what_sound_says() -> None:
    heard = programme(SECONDS, seed=2)
    # Its pictures are later than its sound, by 0.2 s.
    delayed = np.concatenate([np.zeros((BEHIND_MS - 200) * RATE // 1000, np.float32), heard])
    sources = WatchedSources(
        [
            Encoder(pictures=FIRST, sound=CodedSound(heard)),
            Encoder(
                pictures=LATER, sound=CodedSound(delayed, start_ms=START_MS), start_ms=START_MS
            ),
        ]
    )
    known = [each for each in watched(sources) if each.picture_us is not None]
    assert len(known) >= 2
    for each in known:
        assert each.offset_us is not None
        assert each.picture_us is not None
        assert abs(each.offset_us / 1000 - START_MS - BEHIND_MS + 200) <= 20
        assert abs(each.picture_us / 1000 - START_MS - BEHIND_MS) <= 20
    assert known[-1].method == "sound"
