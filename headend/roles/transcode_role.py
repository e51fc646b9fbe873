"""Workers for uploaded files, over a catalog and the objects of a data folder."""

import os
import secrets
import time
from collections.abc import Callable

from headend.config.settings import Transcode
from media.no_op import always
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.objects.disk import DiskObjects
from transcode.vod.core_budget import CoreBudget
from transcode.vod.job import VideoTranscoder
from transcode.vod.worker_pool import TranscodeWorkers

__all__ = ["file_workers"]


def _now_us() -> int:
    return time.time_ns() // 1000


def _new_owner() -> str:
    return secrets.token_hex(16)


def file_workers(
    settings: Transcode,
    catalog: Catalog,
    objects: DiskObjects,
    may_begin: Callable[[], bool] = always,
) -> TranscodeWorkers:
    """Return the workers of this process; nothing is done before `run`, nor unless `may_begin`."""
    cores = settings.cores or os.cpu_count() or 1
    transcoder = VideoTranscoder(
        jobs=catalog.jobs,
        spans=catalog.spans,
        transcoding=catalog.transcoding,
        objects=objects,
        path_of=objects.path,
        now_us=_now_us,
        cores=CoreBudget(cores),
        lease_us=round(settings.lease_seconds * MICROSECONDS),
    )
    most = min(settings.workers or cores, cores)
    return TranscodeWorkers(transcoder, size=most, new_owner=_new_owner, may_begin=may_begin)
