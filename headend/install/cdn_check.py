"""What `headend doctor` finds of a CDN in front of the bucket: what it can read, what is left."""

from typing import Final

from api.operations.report import Finding
from headend.config.settings import ServiceSettings
from headend.install.media_store import bucket_of
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.cleanup.withdrawn_copies import FORGET_US, GRACE_SECONDS
from storage.objects.addresses import CDN, INSTALLATION
from storage.objects.base import ObjectError
from storage.objects.read_only import ReadOnlyObjects
from storage.objects.s3_bucket import S3Bucket, read_anonymously

__all__ = ["check_cdn"]

_TOPIC: Final = "cdn"
# Copies are deleted a minute after their folder is withdrawn, and the row goes after a quarter of
# an hour. A deletion of many may take as long again.
_OVERDUE_US: Final = 2 * FORGET_US + GRACE_SECONDS * MICROSECONDS


async def check_cdn(
    settings: ServiceSettings, catalog: Catalog, files: ReadOnlyObjects | S3Bucket, now_us: int
) -> Finding:
    """Check that the CDN can read copies alone, and that withdrawn ones are deleted.

    Raises:
        StorageError: the catalog or the bucket failed.
    """
    restricted = await catalog.cdn_folders.count_restricted()
    try:
        open_place = await _open_place(settings, await files.get(INSTALLATION))
    except ObjectError as error:
        text = f"{error.reason}: whether it can read copies alone is not known"
        if not restricted:
            return Finding(topic=_TOPIC, verdict="well", text=f"{text}; all media are public")
        text += f", and {restricted} streams and videos are restricted or not published"
        return Finding(topic=_TOPIC, verdict="act", text=text)
    if open_place:
        text = (
            f"{open_place} gives anyone what is outside `{CDN}/`: whoever knows its public hash can"
            f" get any film and its uploaded file; {restricted} streams and videos are restricted"
            " or not published. Give the bucket the policy of docs/cdn.md, and purge the CDN"
        )
        return Finding(topic=_TOPIC, verdict="act", text=text)
    overdue = await catalog.cdn_folders.count_overdue(now_us - _OVERDUE_US)
    if overdue:
        text = (
            f"the copies of {overdue} streams or videos that are not public any more are not"
            " deleted: check that `headend serve` or `headend api` runs, and its log"
        )
        return Finding(topic=_TOPIC, verdict="act", text=text)
    return Finding(topic=_TOPIC, verdict="well", text="it can read copies of public media alone")


async def _open_place(settings: ServiceSettings, key: bytes) -> str:
    """Return where anyone can read the installation key; "" for nowhere.

    Raises:
        ObjectError: the CDN does not answer.
    """
    if await read_anonymously(settings.storage.cdn_url, INSTALLATION) == key:
        return "the CDN"
    bucket = bucket_of(settings)
    if bucket is None:
        return ""
    base = "/".join(filter(None, (bucket.origin, bucket.bucket, bucket.prefix)))
    try:
        return "the bucket" if await read_anonymously(base, INSTALLATION) == key else ""
    except ObjectError:
        return ""  # by another name, or to Headend alone
