"""The workers of a process: they transcode files, import them, and preview recordings."""

import os
from collections.abc import Callable
from functools import partial
from typing import Final

from api.uploads.imports import ImportRules
from headend.config.settings import ImportSettings, TranscodeSettings
from headend.roles.context import RoleContext
from headend.roles.readiness import create_store_health, keep_noting_pauses
from headend.roles.upload_intake import probe_upload, quota_limits
from headend.supervision import BackgroundTask
from media.no_op import always
from media.ticks import MICROSECONDS
from outbound.http_client import CheckedClient
from storage.catalog import Catalog
from storage.objects.store import MediaStore
from storage.quotas import QuotaCheck
from storage.workers.store_health import StoreHealth
from storage.workers.worker_pool import WorkerPool
from transcode.imports.download import DownloadLimits
from transcode.imports.importer import ImportContext, Importer
from transcode.vod.asset_attempt import TranscodeContext
from transcode.vod.core_budget import CoreBudget
from transcode.vod.job import VideoTranscoder
from transcode.vod.recording_previews import PreviewContext, PreviewMaker

_QUIET_SECONDS: Final = 30.0  # over which the speed of a download is measured


def usable_cores(settings: TranscodeSettings) -> int:
    """Return how many cores the workers of this process share.

    By default those that it may run on: fewer than the machine's in some containers and units.
    """
    return settings.cores or len(os.sched_getaffinity(0))


def create_file_workers(
    settings: TranscodeSettings,
    catalog: Catalog,
    objects: MediaStore,
    may_encode: Callable[[], bool] = always,
    *,
    health: StoreHealth | None = None,
) -> WorkerPool:
    """Return the transcoding workers of this process.

    They start with `run`. They begin a file only while the store is well by `health`, and to encode
    pictures only while `may_encode` returns True.
    """
    cores = usable_cores(settings)
    context = TranscodeContext(
        jobs=catalog.jobs,
        spans=catalog.spans,
        transcoding=catalog.transcoding,
        objects=objects,
        lend=objects.lend,
        now_us=catalog.clock.now_us,
        cores=CoreBudget(cores),
        lease_us=round(settings.lease_seconds * MICROSECONDS),
        health=health or create_store_health(catalog, objects),
        may_encode=may_encode,
    )
    most = min(settings.workers or cores, cores)
    return WorkerPool(VideoTranscoder(context), size=most)


def import_rules(settings: ImportSettings) -> ImportRules:
    """Return the rules by which the API accepts addresses."""
    return ImportRules(ports=settings.open_ports, allowed=settings.private_networks)


def file_workers(
    context: RoleContext, may_begin: Callable[[], bool] = always
) -> tuple[BackgroundTask, ...]:
    """Return the tasks that transcode and import files and make previews of recordings.

    They share the health of the store. While `may_begin` returns False, nothing is begun that
    encodes pictures of files, and no previews of recordings.
    """
    catalog, objects, settings = context.catalog, context.objects, context.settings
    health = context.health
    workers = create_file_workers(settings.transcode, catalog, objects, may_begin, health=health)
    importers = _create_importers(context, health)
    previews = _create_preview_workers(context, health, may_begin)
    return (
        BackgroundTask("transcoding of files", workers.run),
        BackgroundTask("imports", importers.run),
        BackgroundTask("previews of recordings", previews.run),
        BackgroundTask("pauses", partial(keep_noting_pauses, catalog, health)),
    )


def _create_preview_workers(
    context: RoleContext, health: StoreHealth, may_begin: Callable[[], bool]
) -> WorkerPool:
    """Return the worker of this process that makes previews; it starts with `run`.

    It is one, beside the budget of cores: a recording takes 3 s of CPU, at the lowest priority.
    """
    previews = PreviewContext(
        jobs=context.catalog.jobs,
        previews=context.catalog.previews,
        objects=context.objects,
        lend=context.objects.lend,
        now_us=context.catalog.clock.now_us,
        lease_us=round(context.settings.transcode.lease_seconds * MICROSECONDS),
        health=health,
    )
    return WorkerPool(PreviewMaker(previews), size=1, may_begin=may_begin, prefix="preview ")


def _create_importers(context: RoleContext, health: StoreHealth) -> WorkerPool:
    """Return the importers of this process; they start with `run`."""
    settings = context.settings.imports
    imports = ImportContext(
        jobs=context.catalog.jobs,
        imports=context.catalog.imports,
        objects=context.objects,
        probe=probe_upload,
        client=CheckedClient(allowed=settings.private_networks),
        limits=DownloadLimits(
            max_bytes=min(settings.most_bytes, context.objects.most_bytes),
            ports=settings.open_ports,
            seconds=settings.most_seconds,
            quiet_seconds=_QUIET_SECONDS,
            least_bytes=round(_QUIET_SECONDS * settings.least_bytes_per_second),
        ),
        least_free=context.settings.storage.min_free_bytes,
        now_us=context.catalog.clock.now_us,
        lease_us=round(context.settings.transcode.lease_seconds * MICROSECONDS),
        places=settings.at_once,
        health=health,
        refuse_file=QuotaCheck(
            context.catalog.usage,
            quota_limits(context.settings.quotas),
            context.catalog.clock.now_us,
        ).refuse_file,
    )
    return WorkerPool(Importer(imports), size=settings.at_once, prefix="import ")
