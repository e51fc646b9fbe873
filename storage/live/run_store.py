"""The runs of a stream that an object store holds: finding, checking and clearing them.

A run exists when it has notes, which are written with its first step. Names are UTC times to the
millisecond and rise with each run, whatever the clock does.
"""

import logging
import re
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from media.hls.m3u8 import M3u8Error, parse
from media.hls.playlist import MultivariantPlaylist
from storage.live.run_state import RunNotes
from storage.objects.addresses import (
    live_init,
    live_run,
    live_segment,
    live_state,
    live_stream,
    live_variants,
)
from storage.objects.base import ObjectMissing, Objects

__all__ = ["RunFound", "clear_older", "is_whole", "new_name", "newest", "notes_of"]

log = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{9}")
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RunFound(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the stream `hash` and what its notes say."""

    hash: str
    run: str
    notes: RunNotes


def new_name(now_us: int, before: str | None) -> str:
    """Return the name of a run that begins now, above that of the run before it."""
    name = _name(_EPOCH + timedelta(microseconds=now_us))
    if before is None or name > before:
        return name
    moment = datetime.strptime(before + "000+0000", "%Y%m%dT%H%M%S%f%z")
    return _name(moment + _MILLISECOND)


def _name(moment: datetime) -> str:
    return f"{moment:%Y%m%dT%H%M%S}{moment.microsecond // 1000:03d}"


async def newest(objects: Objects, hash_: str) -> RunFound | None:
    """Return the stream's newest run, or None where there is none that can be read."""
    for run in sorted(await _runs(objects, hash_), reverse=True):
        notes = await notes_of(objects, hash_, run)
        if notes is not None:
            return RunFound(hash=hash_, run=run, notes=notes)
    return None


async def notes_of(objects: Objects, hash_: str, run: str) -> RunNotes | None:
    """Return a run's notes; None where there are none (it never listed anything) to be read."""
    try:
        text = await objects.get(live_state(hash_, run))
        return msgspec.json.decode(text, type=RunNotes)
    except ObjectMissing:
        return None
    except msgspec.MsgspecError as error:
        facts = {"stream": hash_, "run": run, "reason": str(error)}
        log.warning("notes of a run not read", extra=facts)
        return None


async def is_whole(objects: Objects, found: RunFound) -> bool:
    """Say whether all that a run lists is there in full: a power cut may leave short files."""
    for step in found.notes.listed:
        for name, cut in step.cuts.items():
            if cut.gap:
                continue
            media = await objects.stat(live_segment(found.hash, found.run, name, step.sequence))
            init = await objects.stat(live_init(found.hash, found.run, name, cut.init))
            if media is None or media.size != cut.size or init is None or not init.size:
                return False
    return bool(found.notes.listed)


async def clear_older(objects: Objects, hash_: str, keep: str | None) -> list[str]:
    """Delete the runs but `keep` and the one that viewers are led to; return their names."""
    kept = {keep, await _announced(objects, hash_)}
    gone = sorted(await _runs(objects, hash_) - kept)
    for run in gone:
        await objects.delete_tree(live_run(hash_, run))
    return gone


async def _announced(objects: Objects, hash_: str) -> str | None:
    """Return the run that the multivariant playlist names."""
    try:
        text = (await objects.get(live_variants(hash_))).decode()
        playlist = parse(text)
    except (ObjectMissing, UnicodeDecodeError, M3u8Error):
        return None
    if not isinstance(playlist, MultivariantPlaylist) or not playlist.variants:
        return None
    return playlist.variants[0].uri.partition("/")[0]


async def _runs(objects: Objects, hash_: str) -> set[str]:
    depth = live_stream(hash_).count("/") + 1
    found: set[str] = set()
    for address in await objects.addresses(live_stream(hash_)):
        parts = address.split("/")
        if len(parts) > depth + 1 and _NAME.fullmatch(parts[depth]):
            found.add(parts[depth])
    return found
