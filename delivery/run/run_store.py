"""Finds, checks and deletes the runs of a stream in an object store.

A run exists once its state is saved. That happens when its first source is prepared, which is
before viewers know the run unless the store is slow, and with each step; until the first step is
stored, only the edge has what viewers saw. Its name is its UTC start time to the millisecond; the
names of a host's runs rise, whatever its clock does. Among the runs of several hosts, the newest is
that of the latest generation: a host that was frozen or cut off may begin a run of a later name
before it finds out that it is no longer the owner.
"""

import logging
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from delivery.run.page_log import PageLog
from delivery.run.run_state import PAGE_STEPS, RunState, Step, StepPage, decode_state
from media.hls.m3u8 import M3u8Error, parse
from media.hls.playlist import MultivariantPlaylist
from media.run_policy import ResolvedPolicy, resolve
from media.ticks import utc
from storage.objects.addresses import (
    live_init,
    live_page,
    live_run,
    live_segment,
    live_state,
    live_stream,
    live_variants,
)
from storage.objects.base import ObjectMissing, Objects

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{9}")
# A minute of steps. By default Linux writes what is older than 30 s, and checks every 5 s.
_CHECKED_STEPS: Final = 32
_MILLISECOND: Final = timedelta(milliseconds=1)


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the stream `hash` with its saved state."""

    hash: str
    run: str
    state: RunState

    def with_policy(self, policy: ResolvedPolicy | None) -> "StoredRun":
        """Return the run with what was set when it began, or `policy` if its state lacks that."""
        own = self.state.policy
        kept = policy if own is None else resolve(own)
        return msgspec.structs.replace(self, state=msgspec.structs.replace(self.state, policy=kept))


def next_run_name(now_us: int, previous: str | None) -> str:
    """Return the name of a run that begins now, greater than that of the previous run."""
    name = _name(utc(now_us))
    if previous is None or name > previous:
        return name
    moment = datetime.strptime(previous + "000+0000", "%Y%m%dT%H%M%S%f%z")
    return _name(moment + _MILLISECOND)


def _name(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}"


async def newest_run(objects: Objects, hash_: str, *, with_steps: bool = False) -> StoredRun | None:
    """Return the stream's newest run, or None if none can be read.

    With `with_steps`, return the newest of those that have media in the store.

    Raises:
        ObjectError: the store failed.
    """
    runs: list[StoredRun] = []
    for run in await _runs(objects, hash_):  # two or three
        state = await read_state(objects, hash_, run)
        if state is not None and (state.has_steps or not with_steps):
            runs.append(StoredRun(hash=hash_, run=run, state=state))
    return max(runs, key=lambda each: (each.state.generation, each.run), default=None)


async def read_state(objects: Objects, hash_: str, run: str) -> RunState | None:
    """Return the state of a run; None if it is damaged or was never saved.

    Raises:
        ObjectError: the store failed.
    """
    try:
        text = await objects.get(live_state(hash_, run))
        return decode_state(text)
    except ObjectMissing:
        return None
    except msgspec.MsgspecError as error:
        facts = {"stream": hash_, "run": run, "reason": str(error)}
        log.warning("run state not read", extra=facts)
        return None


def run_log(objects: Objects, hash_: str, run: str) -> PageLog[StepPage]:
    """Return the log of a run's steps."""
    return PageLog(objects, StepPage, lambda number: live_page(hash_, run, number))


async def read_steps(objects: Objects, run: StoredRun, since: int) -> list[Step]:
    """Return the steps of a run on disk from the number `since` on, without those of lost pages.

    Raises:
        ObjectError: the disk failed.
    """
    state = run.state
    steps: list[Step] = []
    if state.tail:
        before = state.tail[0].sequence // PAGE_STEPS
        numbers = range(max(since, state.oldest) // PAGE_STEPS, before)
        async for page in run_log(objects, run.hash, run.run).read_all(numbers):
            steps += page.steps if page is not None else ()
    return [step for step in (*steps, *state.tail) if step.sequence >= since]


async def is_complete(
    objects: Objects, run: StoredRun, listed: Sequence[Step], *, durable: bool = False
) -> bool:
    """Return whether a run can be resumed; `listed` are the steps of its playlists that were found.

    None may be missing. The newest media must have their full size, since a power cut may leave
    short files; older ones are not checked, because the kernel has written them to the disk. In a
    store that is `durable` no media are checked: it has what it acknowledged. A run without steps
    has nothing that could be missing.
    """
    state = run.state
    if not state.has_steps:
        return True
    if [step.sequence for step in listed] != list(range(state.first, state.next_sequence)):
        return False
    if durable:
        return bool(listed)
    inits: set[str] = set()
    for step in listed[-_CHECKED_STEPS:]:
        for name, segment in step.segments.items():
            if segment.gap:
                continue
            media = await objects.stat(live_segment(run.hash, run.run, name, step.sequence))
            if media is None or media.size != segment.size:
                return False
            inits.add(live_init(run.hash, run.run, name, segment.init))
    stats = [await objects.stat(address) for address in inits]
    return bool(listed) and all(stat is not None and stat.size for stat in stats)


async def delete_older_runs(objects: Objects, hash_: str, kept_run: str | None) -> list[str]:
    """Delete all runs but `kept_run` and the announced one; return the names of the deleted."""
    kept = {kept_run, await _announced(objects, hash_)}
    gone = sorted(await _runs(objects, hash_) - kept)
    for run in gone:
        await objects.delete_tree(live_run(hash_, run))
    return gone


async def _announced(objects: Objects, hash_: str) -> str | None:
    """Return the run that the multivariant playlist points to."""
    try:
        text = (await objects.get(live_variants(hash_))).decode()
        playlist = parse(text)
    except (ObjectMissing, UnicodeDecodeError, M3u8Error):
        return None
    if not isinstance(playlist, MultivariantPlaylist) or not playlist.variants:
        return None
    return playlist.variants[0].uri.partition("/")[0]


async def _runs(objects: Objects, hash_: str) -> set[str]:
    return {
        name for name in await objects.folder_names(live_stream(hash_)) if _NAME.fullmatch(name)
    }
