"""A whole file: survey it, report the plan, make what takes one pass, and encode a single span.

A file whose times are unreliable is encoded by the live engine, which expects that
(`transcode.engine.vod.live_fallback`).
"""

import os
import resource
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from media.no_op import do_nothing
from media.ticks import MILLISECONDS, ORIGIN_SECONDS, VIDEO_SCALE, rescale
from transcode.engine.core.memory import resident_bytes
from transcode.engine.core.reports import ReportWriter
from transcode.engine.input.appended_movies import has_appended_movie
from transcode.engine.input.container import (
    BadUpload,
    Upload,
    audio_streams,
    has_other_sound,
    open_upload,
    used_streams,
    video_stream,
)
from transcode.engine.input.joined_clock import Joins, find_joins
from transcode.engine.vod.cpu_bound import cpu_seconds, survey_seconds
from transcode.engine.vod.live_fallback import convert
from transcode.engine.vod.remux import make_originals
from transcode.engine.vod.span import SpanPipeline
from transcode.engine.vod.survey import LEAP, Survey, survey
from transcode.protocol.file_messages import AssetOrder, Ready, SpanOrder, Surveyed
from transcode.protocol.messages import EpochFinished, FileOrder, Progress

# Until an asset plays, its engine is this much less nice than those of the spans, which other
# workers make meanwhile and which can wait. Then it becomes as nice as they are.
NICE_ADVANTAGE: Final = 3
_PROGRESS_SECONDS: Final = 1.0
_USUAL_RATE: Final = 25  # frames a second
_BLANK: Final = "No picture of the file can be decoded: it is damaged or protected."

# Ends the process once it has taken so many more seconds of processor time.
CpuLimiter = Callable[[float], None]


def make_asset(
    descriptor: int,
    order: AssetOrder,
    reports: ReportWriter,
    *,
    limit_cpu: CpuLimiter = do_nothing,
) -> None:
    """Make those renditions of the file behind a descriptor that are made in one piece.

    Raises:
        BadUpload: it cannot be used.
    """
    file_bytes = os.fstat(descriptor).st_size
    limit_cpu(survey_seconds(file_bytes))
    with open_upload(descriptor, reports) as upload:
        surveyed = survey(upload, order)
        if surveyed is not None and surveyed.restarts:
            limit_cpu(2 * survey_seconds(file_bytes))
            surveyed = _survey_joined(descriptor, order, reports) or surveyed
        limit_cpu(_asset_seconds(file_bytes, upload, order, surveyed))
        if surveyed is None or surveyed.audible:
            _note_tracks(upload, reports)
        if has_appended_movie(upload):
            reports.count_trouble("films left out")
    if surveyed is None or surveyed.unreliable:
        reason, audible, reached = (
            (surveyed.unreliable, surveyed.audible, surveyed.reached)
            if surveyed is not None
            else ("", True, 0)
        )
        reports.send(Surveyed(reason=reason, audible=audible, reached=reached))
        if order.ladder is not None and not order.encode:
            return
        os.nice(NICE_ADVANTAGE)
        if reason == LEAP:
            reports.count_trouble("times leap")
        make = FileOrder(ladder=order.ladder, reuse=order.reuse)
        convert(descriptor, make, reports, audible=audible)
        return
    reports.send(surveyed.report())
    if surveyed.joins:
        reports.count_trouble("times leap")
    if surveyed.strays:
        reports.count_trouble("times stray")
    with open_upload(descriptor, reports) as upload:
        reports.send(Ready(names=make_originals(upload, surveyed, reports)))
    os.nice(NICE_ADVANTAGE)
    if len(surveyed.spans) == 1 and order.encode:
        alone = msgspec.structs.replace(surveyed.spans[0], threads=order.threads)
        make_span(descriptor, alone, reports)
    else:
        _finish(reports, surveyed.end, len(surveyed.shown))


def make_span(
    descriptor: int,
    span: SpanOrder,
    reports: ReportWriter,
    *,
    limit_cpu: CpuLimiter = do_nothing,
) -> None:
    """Make a span of the file behind a descriptor.

    Raises:
        BadUpload: nothing of the asset can be decoded.
    """
    joins: Joins = {}
    if span.joined:
        limit_cpu(survey_seconds(os.fstat(descriptor).st_size))
        joins = _joins(descriptor, reports)
    with open_upload(descriptor, reports) as upload:
        limit_cpu(_span_seconds(os.fstat(descriptor).st_size, upload, span))
        pipeline = SpanPipeline(upload, span, reports, joins)
        progress = _ProgressReporter(pipeline, span, reports)
        progress.start()
        pipeline.run()
        progress.send()
    if pipeline.is_blank and span.alone:
        raise BadUpload(_BLANK)
    _finish(reports, span.end, pipeline.made)


def _survey_joined(descriptor: int, order: AssetOrder, reports: ReportWriter) -> Survey | None:
    """Survey a file with its parts joined; return None if it has only one."""
    joins = _joins(descriptor, reports)
    if not joins:
        return None
    with open_upload(descriptor, reports) as upload:
        return survey(upload, order, joins)


def _joins(descriptor: int, reports: ReportWriter) -> Joins:
    with open_upload(descriptor, reports) as upload:
        return find_joins(upload, used_streams(upload))


def _note_tracks(upload: Upload, reports: ReportWriter) -> None:
    """Count what the owner may not expect of tracks with one channel each."""
    sounds = audio_streams(upload)
    if len(sounds) > 1:
        reports.count_trouble("tracks paired")
    if any(each.codec_context.channels == 1 for each in sounds) and has_other_sound(upload):
        reports.count_trouble("tracks left out")


def _asset_seconds(
    file_bytes: int, upload: Upload, order: AssetOrder, surveyed: Survey | None
) -> float:
    """Return the processor time allowed after a survey (None: sound alone)."""
    if surveyed is None or order.ladder is None:
        return cpu_seconds(file_bytes=file_bytes)
    packets = len(surveyed.shown)
    seconds = (surveyed.end - surveyed.shown[0]) / VIDEO_SCALE
    if surveyed.unreliable:  # leaps are joined, and pictures may have the same time
        seconds = max(min(seconds, packets), packets / _USUAL_RATE)
    return cpu_seconds(
        file_bytes=file_bytes,
        seconds=seconds,
        packets=packets,
        segments=len(surveyed.cuts),
        size=_picture_size(upload),
        rungs=order.ladder.renditions,
    )


def _span_seconds(file_bytes: int, upload: Upload, span: SpanOrder) -> float:
    """Return the processor time for a span, and for what precedes it from its keyframe on."""
    ticks = max(0, span.until - min(span.key, span.cuts[0]))
    frames_before = max(0, span.cuts[0] - span.key) * span.rate // (VIDEO_SCALE * 1000)
    return cpu_seconds(
        file_bytes=file_bytes,
        seconds=ticks / VIDEO_SCALE,
        packets=span.pictures + frames_before,
        segments=len(span.cuts),
        size=_picture_size(upload),
        rungs=span.rungs,
    )


def _picture_size(upload: Upload) -> tuple[int, int]:
    picture = video_stream(upload)
    return (0, 0) if picture is None else (picture.width, picture.height)


def _finish(reports: ReportWriter, end: int, frames: int) -> None:
    reports.flush_troubles()
    reports.send(EpochFinished(epoch=0, end=end, frames_in=frames, frames_out={}))


class _ProgressReporter(threading.Thread):
    """Reports the progress of a span once a second, except while there is none."""

    def __init__(self, pipeline: SpanPipeline, span: SpanOrder, reports: ReportWriter) -> None:
        super().__init__(name="progress", daemon=True)
        self._pipeline = pipeline
        self._span = span
        self._reports = reports

    def run(self) -> None:
        reported = -1
        while True:
            time.sleep(_PROGRESS_SECONDS)
            self._reports.flush_troubles()
            if self._pipeline.made != reported:
                reported = self._pipeline.made
                self.send()

    def send(self) -> None:
        """Report the progress."""
        span, made = self._span, self._pipeline.made
        length_ms = rescale(span.end - span.cuts[0], VIDEO_SCALE, MILLISECONDS)
        start_ms = rescale(span.cuts[0] - ORIGIN_SECONDS * VIDEO_SCALE, VIDEO_SCALE, MILLISECONDS)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._reports.send(
            Progress(
                epoch=0,
                taken=start_ms,
                made=length_ms * made // max(1, span.pictures),
                frames=made,
                cpu_ms=round((usage.ru_utime + usage.ru_stime) * 1000),
                memory_bytes=resident_bytes(),
                rung_cpu_ms=self._pipeline.rung_cpu_ms,
            )
        )
