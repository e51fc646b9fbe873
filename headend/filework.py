"""Workers for uploaded files, over a catalog and the objects of a data folder."""

import secrets
import time

from headend.settings import Transcode
from storage.catalog import Catalog
from storage.objects.disk import DiskObjects
from transcode.video import VideoTranscoder
from transcode.worker import FileWorkers

__all__ = ["file_workers"]


def _now_us() -> int:
    return time.time_ns() // 1000


def _new_owner() -> str:
    return secrets.token_hex(16)


def file_workers(settings: Transcode, catalog: Catalog, objects: DiskObjects) -> FileWorkers:
    """Return the workers of this process; nothing is done before `run`."""
    transcoder = VideoTranscoder(
        jobs=catalog.jobs,
        transcoding=catalog.transcoding,
        objects=objects,
        path_of=objects.path,
        now_us=_now_us,
    )
    return FileWorkers(
        transcoder, catalog.jobs, most=settings.jobs, now_us=_now_us, new_owner=_new_owner
    )
