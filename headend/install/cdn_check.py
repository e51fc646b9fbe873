"""What `headend doctor` finds of a CDN in front of the bucket: what it can read, what is left."""

from collections.abc import Mapping, Sequence
from typing import Final

from api.operations.report import Finding
from headend.config.settings import ServiceSettings
from headend.install.anonymous_reads import lists_objects, read_beginning
from headend.install.media_store import bucket_of
from media.ticks import MICROSECONDS
from storage.catalog import Catalog
from storage.cleanup.withdrawn_copies import FORGET_US, GRACE_SECONDS
from storage.objects.addresses import CDN, INSTALLATION
from storage.objects.base import ObjectError
from storage.objects.s3_bucket import S3Bucket

_TOPIC: Final = "cdn"
# Copies are deleted a minute after their folder is withdrawn, and the row goes after a quarter of
# an hour. A deletion of many may take as long again.
_OVERDUE_US: Final = 2 * FORGET_US + GRACE_SECONDS * MICROSECONDS
_SIGNED_SECONDS: Final = 60.0


async def check_cdn(
    settings: ServiceSettings, catalog: Catalog, files: S3Bucket, now_us: int
) -> Finding:
    """Check that the CDN can read copies, and those alone, and that withdrawn ones are deleted.

    Raises:
        StorageError: the catalog or the bucket failed.
    """
    restricted = await catalog.cdn_folders.count_restricted()
    try:
        samples = await _samples(files)
        text = await _open_places(settings, samples)
        if text:
            text += (
                f": whoever knows an address can get it; {restricted} streams and videos are"
                " restricted or not published. Give the bucket the policy of docs/cdn.md, and"
                " purge the CDN"
            )
        elif await _is_closed(settings, files, samples):
            text = (
                f"the CDN cannot read copies, which are in `{CDN}/`: viewers of public media get"
                " errors. Give the bucket the policy of docs/cdn.md, and check storage.cdn_url"
            )
    except ObjectError as error:
        text = f"{error.reason}: whether it can read copies alone is not known"
        if not restricted:
            return Finding(topic=_TOPIC, verdict="well", text=f"{text}; all media are public")
        text += f", and {restricted} streams and videos are restricted or not published"
    if text:
        return Finding(topic=_TOPIC, verdict="act", text=text)
    overdue = await catalog.cdn_folders.count_overdue(now_us - _OVERDUE_US)
    if overdue:
        text = (
            f"the copies of {overdue} streams or videos that are not public any more are not"
            " deleted: check that `headend serve` or `headend api` runs, and its log"
        )
        return Finding(topic=_TOPIC, verdict="act", text=text)
    return Finding(topic=_TOPIC, verdict="well", text="it can read copies of public media alone")


async def _samples(files: S3Bucket) -> dict[str, bytes]:
    """Return how an object in each folder of the bucket begins, by address.

    The bucket says which folders there are, so none can be forgotten.
    """
    found: dict[str, bytes] = {}
    folders = sorted(await files.folder_names(""))
    for address in (INSTALLATION, *[await files.first_address(each) for each in folders]):
        data = None if address is None else await _read_signed(files, address)
        if address is not None and data is not None:
            found[address] = data
    return found


async def _read_signed(files: S3Bucket, address: str) -> bytes | None:
    return await read_beginning(await files.sign(address, "GET", _SIGNED_SECONDS))


async def _open_places(settings: ServiceSettings, samples: Mapping[str, bytes]) -> str:
    """Return what anyone can read or list, in words; "" for nothing but copies.

    Raises:
        ObjectError: the CDN does not answer.
    """
    bucket = bucket_of(settings)
    prefix = "" if bucket is None or not bucket.prefix else f"{bucket.prefix}/"
    text = await _open_places_at("the CDN", settings.storage.cdn_url, prefix, samples)
    if text or bucket is None:
        return text
    base = "/".join(filter(None, (bucket.origin, bucket.bucket, bucket.prefix)))
    try:
        return await _open_places_at("the bucket", base, prefix, samples)
    except ObjectError:
        return ""  # by another name, or to Headend alone


async def _open_places_at(name: str, base: str, prefix: str, samples: Mapping[str, bytes]) -> str:
    """Return what anyone can read or list below the URL `base`; `prefix` is that of all keys."""
    places: list[str] = []
    for address, data in samples.items():
        top, slash, _ = address.partition("/")
        if top != CDN and await read_beginning(_url(base, address)) == data:
            places.append(f"`{top}{slash}`")
    texts: list[str] = []
    if places:
        texts.append(f"{name} gives anyone what is outside `{CDN}/`, in {_listed(places)}")
    if await lists_objects(base, prefix):
        texts.append(f"{name} lists the objects to anyone, with the secret names of copies")
    return ", and ".join(texts)


async def _is_closed(
    settings: ServiceSettings, files: S3Bucket, samples: Mapping[str, bytes]
) -> bool:
    """Return whether there is a copy that the CDN does not give."""
    for address, data in samples.items():
        if not address.startswith(f"{CDN}/"):
            continue
        if await read_beginning(_url(settings.storage.cdn_url, address)) != data:
            # It may have been withdrawn just now.
            return await files.stat(address) is not None
    return False


def _url(base: str, address: str) -> str:
    return f"{base.rstrip('/')}/{address}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
