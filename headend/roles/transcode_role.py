"""The workers of a process: transcoding of uploaded files, and imports from web addresses."""

import os
import secrets
import time
from collections.abc import Callable

from api.uploads.imports import ImportRules
from headend.config.settings import ImportSettings, TranscodeSettings
from headend.roles.context import RoleContext, wall_clock_us
from headend.roles.upload_intake import probe_upload
from media.no_op import always
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.job_leases import HeldJob
from storage.objects.disk import DiskObjects
from transcode.imports.download import DownloadLimits
from transcode.imports.http_client import ImportClient
from transcode.imports.importer import Importer
from transcode.jobs.worker_pool import WorkerPool
from transcode.vod.core_budget import CoreBudget
from transcode.vod.job import VideoTranscoder
from transcode.vod.worker_pool import TranscodeWorkers

__all__ = ["create_file_importers", "create_file_workers", "import_rules"]


def _now_us() -> int:
    return time.time_ns() // 1000


def _new_owner() -> str:
    return secrets.token_hex(16)


def create_file_workers(
    settings: TranscodeSettings,
    catalog: Catalog,
    objects: DiskObjects,
    may_begin: Callable[[], bool] = always,
) -> TranscodeWorkers:
    """Return the transcoding workers of this process.

    They start with `run`, and begin a file only while `may_begin` returns True.
    """
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


def import_rules(settings: ImportSettings) -> ImportRules:
    """Return the rules by which the API accepts addresses."""
    return ImportRules(ports=settings.open_ports, allowed=settings.private_networks)


def create_file_importers(context: RoleContext) -> WorkerPool[HeldJob]:
    """Return the importers of this process; they start with `run`."""
    settings = context.settings.imports
    importer = Importer(
        jobs=context.catalog.jobs,
        imports=context.catalog.imports,
        objects=context.objects,
        probe=probe_upload,
        client=ImportClient(allowed=settings.private_networks),
        limits=DownloadLimits(
            max_bytes=settings.most_bytes,
            ports=settings.open_ports,
            seconds=settings.most_seconds,
        ),
        least_free=context.settings.storage.min_free_bytes,
        now_us=wall_clock_us,
        lease_us=round(context.settings.transcode.lease_seconds * MICROSECONDS),
    )
    return WorkerPool(
        importer,
        size=settings.at_once,
        new_owner=lambda: secrets.token_hex(16),
        prefix="import ",
    )
