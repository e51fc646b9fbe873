"""A stored run with a full window, as a killed process leaves it, and an object store that counts.

Only the media that a restart looks at exist; the steps before are in the log alone.
"""

from collections.abc import Mapping

import msgspec

from delivery.run.run_state import PAGE_STEPS, RunState, Step, StepPage, StepSegment
from delivery.run.run_store import run_log
from media.ladder import AUDIO_RENDITION, Rendition
from storage.objects.addresses import live_init, live_segment, live_state
from storage.objects.disk import DiskObjects

HASH = "abcdefABCDEF"
RUN = "20260131T120000000"
NOON_US = 1_769_860_800_000_000  # 2026-01-31T12:00:00Z
STEP_TICKS = 180_000  # 2 s
RENDITIONS = tuple(
    Rendition(name=f"{lines}p", width=16 * lines // 9, height=lines, rate=lines * 4000)
    for lines in (1080, 720, 480, 360)
)
NAMES = (*(rung.name for rung in RENDITIONS), AUDIO_RENDITION)
_MEDIA = 32  # steps


class PutCountingDisk(DiskObjects):
    """A disk that counts what is put on it: objects, and the bytes of those that are no media."""

    puts = 0
    written = 0

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects."""
        self.puts += len(objects)
        for address, data in objects.items():
            if not address.endswith((".m4s", ".mp4")):
                self.written += len(data)
        await super().put_all(objects, vital=vital)


def _step(sequence: int) -> Step:
    segment = StepSegment(
        start=sequence * STEP_TICKS,
        duration=STEP_TICKS,
        size=1000,
        frames=60,
        parts=4,
        init=0,
    )
    return Step(
        sequence=sequence,
        epoch=0,
        discontinuity=False,
        origin_us=NOON_US,
        segments=dict.fromkeys(NAMES, segment),
    )


async def store(objects: DiskObjects, steps: int) -> None:
    """Write the state and the log of a run that lists so many steps, and its newest media."""
    following = steps // PAGE_STEPS * PAGE_STEPS + PAGE_STEPS // 2
    first = max(0, following - steps)
    tail = max(0, following // PAGE_STEPS - 1) * PAGE_STEPS
    log = run_log(objects, HASH, RUN)
    for start in range(first // PAGE_STEPS * PAGE_STEPS, tail, PAGE_STEPS):
        page_steps = tuple(_step(number) for number in range(start, start + PAGE_STEPS))
        await log.write(start // PAGE_STEPS, StepPage(steps=page_steps))
    for name in NAMES:
        await objects.put(live_init(HASH, RUN, name, 0), bytes(700))
        for number in range(max(0, following - _MEDIA), following):
            await objects.put(live_segment(HASH, RUN, name, number), bytes(1000))
    state = RunState(
        renditions=RENDITIONS,
        epochs=1,
        next_sequence=following,
        first=first,
        tail=tuple(_step(number) for number in range(tail, following)),
        oldest=first,
        oldest_inits=dict.fromkeys(NAMES, 0),
        oldest_shown=first,
        opened=following + 1,
        written_us=NOON_US,
    )
    await objects.put(live_state(HASH, RUN), msgspec.json.encode(state))
