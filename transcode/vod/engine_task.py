"""Runs one engine over one file, passes on its reports, and kills it if it falls silent."""

import errno
import logging
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from storage.workers.leased_task import AttemptFailed
from transcode.inspect.probe import NotMedia
from transcode.protocol.engine_process import SILENT_SECONDS
from transcode.protocol.file_engine import EngineEnd, file_engine
from transcode.protocol.messages import (
    FILE_NOT_READ,
    EngineReport,
    EpochFinished,
    Prepared,
    Progress,
    Refused,
    Trouble,
    WireError,
)

log = logging.getLogger(__name__)
security = logging.getLogger("security")

# Another attempt would take as much (see `transcode.engine.vod.cpu_bound`).
_TOO_COSTLY: Final = (
    "Transcoding took far more processor time than pictures of this size and number need;"
    " the file may be damaged."
)
_WARNING_SENTENCES: Final = {
    "picture not decoded": "Some pictures are damaged and could not be decoded.",
    "sound not decoded": "Some of the sound is damaged and could not be decoded.",
    "sound decoder not opened": "The sound could not be decoded: the video is silent.",
    "picture damaged": "Some pictures are damaged and could not be decoded.",
    "times leap": "The times in the file leap: what lies before and after was joined.",
    "files joined": "The file is several FLV files in one: all or much of what follows the first"
    " was left out.",
    "times stray": "Some times in the file are damaged: the pictures there were left out.",
    "tracks paired": "Two tracks of sound with one channel each were taken for left and right.",
    "tracks left out": "Other tracks of sound were left out.",
    "films left out": "The file is several, one after the other: only the first was used.",
    "tone-mapped": "The picture is brighter (HDR) than every screen shows: it was mapped to the"
    " usual range.",
    "no posters": "No poster could be made.",
    "subtitles are pictures": "Some subtitles are pictures, not text, and were left out.",
    "subtitles cut": "Some subtitles are too many or too long, and were cut off.",
    "subtitles not read": "The subtitles in the file could not be read.",
}


class EngineOutcome(msgspec.Struct):
    """What an engine reported about its work, apart from the media.

    `reused` names the rung made of the file's own packets; `cpu_ms` is by rung; `warnings` counts
    troubles by kind; `refused` is the reason if the engine refused the file.
    """

    reused: str | None = None
    cpu_ms: dict[str, int] = {}
    warnings: dict[str, int] = {}
    refused: str | None = None
    finished: bool = False


def warning_sentences(warnings: dict[str, int]) -> list[str]:
    """Return an engine's troubles as sentences for the owner."""
    sentences = [sentence for what, sentence in _WARNING_SENTENCES.items() if what in warnings]
    return list(dict.fromkeys(sentences))


async def run_engine(
    kind: str,
    name: str,
    order: msgspec.Struct,
    path: Path,
    on_report: Callable[[EngineReport], Awaitable[None]],
    *,
    silent_seconds: float = SILENT_SECONDS,
) -> EngineOutcome:
    """Run an engine of a kind over the file at `path`; `name` is the video's hash.

    An engine that reports nothing for `silent_seconds` is killed.

    Raises:
        NotMedia: the engine refused the file, or reached its limit of processor time.
        AttemptFailed: the engine broke off.
        OSError: the file cannot be opened or read.
        Exception: raised by `on_report`, which ends the engine.
    """
    outcome = EngineOutcome()
    async with file_engine(kind, name, path, order, silent_seconds=silent_seconds) as engine:
        async for report in engine.reports():
            _update(outcome, report)
            await on_report(report)
        end = await engine.end()
    if FILE_NOT_READ in outcome.warnings:
        raise OSError(errno.EIO, "the engine could not read the file")
    if outcome.refused is not None:
        raise NotMedia(outcome.refused)
    if end.status != 0 or end.failure is not None or not outcome.finished:
        raise _broken_off(name, end)
    return outcome


def _broken_off(name: str, end: EngineEnd) -> NotMedia | AttemptFailed:
    """Log that an engine broke off; return the error that says whose fault it was."""
    facts = {"video": name, "status": end.status, "cause": repr(end.failure)}
    log.warning("engine lost", extra=facts)
    # A signal: a crash, or a limit of the sandbox. What broke the protocol is recorded already.
    if end.status < 0 and not isinstance(end.failure, WireError):
        security.info("engine lost", extra={"video": name, "cause": f"signal {-end.status}"})
    if end.status == -signal.SIGXCPU:
        return NotMedia(_TOO_COSTLY)
    return AttemptFailed("The transcoder broke off; the file may be damaged.")


def _update(outcome: EngineOutcome, report: EngineReport) -> None:
    match report:
        case Prepared():
            outcome.reused = report.reused
        case Progress():
            outcome.cpu_ms = report.rung_cpu_ms
        case EpochFinished():
            outcome.finished = True
        case Refused():
            outcome.refused = report.reason
        # An engine that a file controls might fill the memory with others.
        case Trouble() if report.what == FILE_NOT_READ or report.what in _WARNING_SENTENCES:
            outcome.warnings[report.what] = outcome.warnings.get(report.what, 0) + report.count
        case _:
            pass
