"""Workers that fetch files from addresses, over a catalog and the objects of a data folder."""

import secrets

from api.uploads.imports import ImportRules
from headend.config.settings import Imports
from headend.roles.context import Ground, wall_us
from headend.roles.upload_intake import look
from media.ticks import MICROSECONDS
from storage.job_leases import HeldJob
from transcode.imports.download import DownloadLimits
from transcode.imports.http_client import ImportClient
from transcode.imports.importer import Importer
from transcode.jobs.worker_pool import WorkerPool

__all__ = ["file_importers", "import_rules"]


def import_rules(settings: Imports) -> ImportRules:
    """Return what the API asks of addresses."""
    return ImportRules(ports=settings.open_ports, allowed=settings.private_networks)


def file_importers(ground: Ground) -> WorkerPool[HeldJob]:
    """Return the importers of this process; nothing is done before `run`."""
    settings = ground.settings.imports
    importer = Importer(
        jobs=ground.catalog.jobs,
        imports=ground.catalog.imports,
        objects=ground.objects,
        probe=look,
        client=ImportClient(allowed=settings.private_networks),
        limits=DownloadLimits(
            max_bytes=settings.most_bytes,
            ports=settings.open_ports,
            seconds=settings.most_seconds,
        ),
        least_free=ground.settings.storage.min_free_bytes,
        now_us=wall_us,
        lease_us=round(ground.settings.transcode.lease_seconds * MICROSECONDS),
    )
    return WorkerPool(
        importer,
        size=settings.at_once,
        new_owner=lambda: secrets.token_hex(16),
        prefix="import ",
    )
