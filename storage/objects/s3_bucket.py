"""Objects in a bucket of S3, or of a server that speaks its protocol.

An object becomes visible when its request is complete, as a whole. There is nothing to sync: what
the server has acknowledged is durable. Calls run at the same time where they are independent, since
each takes a network's round trip.
"""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from media.ladder import AUDIO_RENDITION
from storage.objects.addresses import CDN, INSTALLATION, MEDIA_FOLDERS, PIECES, checked, is_address
from storage.objects.at_once import do_each
from storage.objects.base import (
    UNGUARDED,
    Guard,
    ObjectChanged,
    ObjectError,
    ObjectMissing,
    Objects,
    ObjectStat,
    StoreClaimed,
    StoreFailed,
)

if TYPE_CHECKING:  # these exist for types alone
    from obstore import Attributes, ObjectMeta, PutMode
    from obstore.store import ClientConfig, RetryConfig, S3Config


# As for a disk: a bucket that does not answer for this long is treated as broken.
_SECONDS: Final = 20.0
# For removing a thousand objects, and for listing folders: a server lists a thousand of them in a
# tenth of a second.
_MANY_SECONDS: Final = 300.0
# For a piece of a large object, and its retries: two at once need 4.5 Mbit/s.
_PIECE_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 180.0
_AT_ONCE: Final = 32  # requests of one call; servers answer 503 to some hundreds
_LISTED: Final = 1000  # objects per answer, and in memory: 300 bytes each
# Larger objects are sent and fetched in pieces.
PIECE_BYTES: Final = 16 << 20
# S3 takes 10,000 pieces of an object (and 5 TiB, which is more). Larger pieces would need more
# memory, and on a slow line longer than a request may take.
MOST_BYTES: Final = 10_000 * PIECE_BYTES
# S3 copies no larger object in one request.
COPY_BYTES: Final = 5 << 30
_PIECES_AT_ONCE: Final = 2
_CHECK_BYTES: Final = 64
_REGION: Final = "us-east-1"  # the client's default
# The media types that viewers get directly from the bucket, by the ending of the name.
_TYPES: Final = {
    "m4s": "video/mp4",
    "mp4": "video/mp4",
    "jpg": "image/jpeg",
    "vtt": "text/vtt",
    "m3u8": "application/vnd.apple.mpegurl",
    "json": "application/json",
}
_STORE: Final = "the bucket"  # in the place of an address, in errors

# The client's errors name the status of an answer in their text alone.
_STATUS: Final = re.compile(r"status code: ([0-9]{3}(?: [A-Za-z]+)*)")
# The answer to deleting several objects has a code for each.
_CODE: Final = re.compile(r"\(code: ([A-Za-z]+)\)")
_DENIED: Final = "AccessDenied"
# The code of an answer to a request that was signed a quarter of an hour early or late.
_SKEWED: Final = "<Code>RequestTimeTooSkewed</Code>"

T = TypeVar("T")


class S3Location(msgspec.Struct, frozen=True, kw_only=True):
    """A bucket and a prefix in it, "" for none; `endpoint` is "" for Amazon's own."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""

    @property
    def origin(self) -> str:
        """The scheme and the host of the server, as in signed addresses."""
        if self.endpoint:
            return self.endpoint.rstrip("/")
        region = self.region or os.environ.get("AWS_REGION") or _REGION
        return f"https://s3.{region}.amazonaws.com"

    @classmethod
    def parse(cls, url: str, *, endpoint: str = "", region: str = "") -> "S3Location":
        """Parse `s3://BUCKET/PREFIX`."""
        parts = urlsplit(url)
        return cls(
            bucket=parts.netloc, prefix=parts.path.strip("/"), endpoint=endpoint, region=region
        )

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


class S3Bucket(Objects):
    """The objects in a bucket (see `storage.objects.base.Objects`).

    The credentials are those of the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`), or
    of the machine's role. `copy_bytes` is the largest object that the server copies in a request.
    `has_cdn_copies`: it also has copies for a CDN (`storage.objects.cdn_copies`).
    """

    def __init__(
        self,
        location: S3Location,
        *,
        copy_bytes: int = COPY_BYTES,
        has_cdn_copies: bool = False,
    ) -> None:
        self._location = str(location)
        self.origin = location.origin
        self._prefix = f"{location.prefix}/" if location.prefix else ""
        self._store = _open(location)
        self._has_bare_tags = False  # the form of tags that the server accepted last
        self._copy_bytes = copy_bytes
        # Other processes have other names; where nothing can be deleted, each leaves one object.
        self._check_name = secrets.token_hex(8)
        self._written = (*MEDIA_FOLDERS, PIECES, *([CDN] if has_cdn_copies else []))
        self.guard: Guard = UNGUARDED

    @property
    def location(self) -> str:
        """The bucket and the prefix, as an operator writes them."""
        return self._location

    async def identity(self) -> str:
        """Return the bucket and the prefix: a copy has another one."""
        return self._location

    async def put_all(self, objects: Mapping[str, bytes], *, vital: bool = False) -> None:
        """Write objects by address, at the same time (see `Objects`)."""
        del vital  # a bucket keeps no reserve
        for address in objects:
            self.guard.require_write(address)

        async def put(address: str) -> None:
            request = obstore.put_async(
                self._store,
                self._key(address),
                objects[address],
                attributes=_attributes(address),
                chunk_size=PIECE_BYTES,
            )
            try:
                await _answer(address, request)
            except ObjectMissing as error:
                raise StoreFailed(address, "there is no such bucket") from error

        await do_each(objects, put, at_once=_AT_ONCE)

    async def version(self, address: str) -> str | None:
        """Return the entity tag of an object, or None if there is none."""
        meta = await self._head(address)
        return None if meta is None else _tag(address, meta["e_tag"])

    async def put_if(
        self, address: str, data: bytes, version: str | None, *, vital: bool = False
    ) -> str:
        """Replace one version of an object (see `Objects`)."""
        del vital  # a bucket keeps no reserve
        self.guard.require_write(address)
        if version is None:
            return await self._put_if(address, data, "create")
        # Ceph, and services built on it, accept a tag only without its quotes.
        forms = version, version.strip('"')
        is_bare = self._has_bare_tags
        try:
            return await self._put_if(address, data, {"e_tag": forms[is_bare]})
        except ObjectChanged:
            if await self.version(address) != version:
                raise
        # It may be another server by now.
        new_version = await self._put_if(address, data, {"e_tag": forms[not is_bare]})
        self._has_bare_tags = not is_bare
        return new_version

    async def _put_if(self, address: str, data: bytes, mode: "PutMode") -> str:
        request = obstore.put_async(
            self._store,
            self._key(address),
            data,
            attributes=_attributes(address),
            mode=mode,
            use_multipart=False,
        )
        try:
            return _tag(address, (await _answer(address, request))["e_tag"])
        except ObjectMissing as error:
            if mode != "create":  # it was deleted
                raise ObjectChanged(address) from error
            raise StoreFailed(address, "there is no such bucket") from error

    async def link(self, source: str, target: str) -> None:
        """Make a copy of an object, within the bucket (see `Objects`)."""
        self.guard.require_write(target)
        request = obstore.copy_async(self._store, self._key(source), self._key(target))
        await _answer(source, request)

    async def move(self, source: str, target: str) -> None:
        """Copy an object or a folder to another address, then delete it (see `Objects`)."""
        self.guard.require_delete(source)
        checked(target)
        stat = await self.stat(source)
        if stat is not None:
            await self._copy_all({source: stat.size}, source, target)
            await self.delete(source)
            return
        async with aclosing(self._walk(source)) as batches:
            async for batch in batches:
                await self._copy_all({each.address: each.size for each in batch}, source, target)
        # What was copied, and nothing that came meanwhile.
        async with aclosing(self._walk(target)) as batches:
            async for batch in batches:
                copied = [source + each.address.removeprefix(target) for each in batch]
                await self.delete_all(copied)

    async def make_durable(self, address: str) -> None:
        """Check that an object or a folder exists: what was acknowledged is durable."""
        if await self.stat(address) is None and await self.first_address(address) is None:
            raise ObjectMissing(address)

    async def get(self, address: str) -> bytes:
        """Return the bytes of an object, or raise `ObjectMissing`."""

        async def read() -> bytes:
            response = await obstore.get_async(self._store, self._key(address))
            return bytes(await response.bytes_async())

        return await _answer(address, read())

    async def get_all(self, addresses: Collection[str]) -> list[bytes | None]:
        """Return the bytes of objects, None for those that do not exist."""
        data: dict[str, bytes] = {}

        async def read(address: str) -> None:
            try:
                data[address] = await self.get(address)
            except ObjectMissing:
                return

        await do_each(addresses, read, at_once=_AT_ONCE)
        return [data.get(address) for address in addresses]

    async def stat(self, address: str) -> ObjectStat | None:
        """Return the size and age of an object, or None if there is none."""
        meta = await self._head(address)
        return None if meta is None else _stat(meta)

    async def delete_all(self, addresses: Collection[str]) -> None:
        """Delete objects that exist (see `Objects`)."""
        for address in addresses:
            self.guard.require_delete(address)
        if addresses:
            keys = [self._key(address) for address in addresses]
            # Deleting what is not there is no error in S3.
            request = obstore.delete_async(self._store, keys)
            await _answer(next(iter(addresses)), request, _MANY_SECONDS)

    async def addresses(self, prefix: str) -> list[str]:
        """Return the sorted addresses of all objects below `prefix`."""
        return sorted([each.address async for batch in self._walk(prefix) for each in batch])

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes in bytes of all objects below `prefix`, by address."""
        return {each.address: each.size async for batch in self._walk(prefix) for each in batch}

    async def stats(self, prefix: str) -> dict[str, ObjectStat]:
        """Return the size and age of all objects below `prefix`, by address."""
        return {
            each.address: ObjectStat(size=each.size, modified_us=each.modified_us)
            async for batch in self._walk(prefix)
            for each in batch
        }

    async def folder_names(self, prefix: str) -> set[str]:
        """Return the names of the folders below `prefix`, which the server tells apart.

        With "" they are those of the whole store.
        """
        request = obstore.list_with_delimiter_async(  # pyright: ignore[reportUnknownMemberType]  # for tables, not used
            self._store, f"{self._key(prefix)}/" if prefix else self._prefix
        )
        listing = await _answer(prefix, request, _MANY_SECONDS)
        names = {each.rstrip("/").rpartition("/")[2] for each in listing["common_prefixes"]}
        return set(filter(is_address, names))

    async def has_changed(self, prefix: str, since_us: int) -> bool:
        """Return whether an object below a folder has changed since then.

        All of them are listed unless one has.
        """
        async with aclosing(self._walk(prefix)) as batches:
            async for batch in batches:
                if any(each.modified_us >= since_us for each in batch):
                    return True
        return False

    async def first_address(self, prefix: str) -> str | None:
        """Return the address of an object below `prefix`, or None if there is none.

        One answer of the server is read, however many objects there are.
        """

        async with aclosing(self._walk(prefix)) as batches:
            async for batch in batches:
                return next((each.address for each in batch), None)
        return None

    async def size(self, prefix: str) -> int:
        """Return the size in bytes of an object or a folder."""
        stat = await self.stat(prefix)
        if stat is not None:
            return stat.size
        return sum([each.size async for batch in self._walk(prefix) for each in batch])

    async def delete_tree(self, prefix: str) -> None:
        """Delete all objects below `prefix`, as they are listed."""
        self.guard.require_delete(prefix)
        async with aclosing(self._walk(prefix)) as batches:
            async for batch in batches:
                await self.delete_all([each.address for each in batch])

    async def check(self, *, min_free_bytes: int = 0, thorough: bool = False) -> None:
        """Check that the bucket answers, and (`thorough`) can be written; it is never full.

        Raises:
            StoreFailed: it does not or cannot, or it has no installation key.
            StoreClaimed: this process may not write to it (`guard`).
        """
        del min_free_bytes
        self.guard.require_write(_STORE)
        try:
            await self.get(INSTALLATION)  # a refused HEAD has no reason
        except ObjectMissing as error:
            text = "it is gone, or has another installation's media"
            raise StoreFailed(_STORE, text) from error
        if thorough:
            for folder in self._written:
                await self._check_folder(folder)

    async def _check_folder(self, folder: str) -> None:
        """Write an object to a top folder, read and delete it: a policy may allow other ones."""
        address, data = f"{folder}/checks/{self._check_name}", os.urandom(_CHECK_BYTES)
        try:
            await self.put(address, data)
            try:
                if await self.get(address) != data:
                    raise StoreFailed(address, "other bytes were read than written")
            finally:
                await self.delete(address)
        except StoreClaimed:
            raise
        except ObjectError as error:
            raise StoreFailed(f"the folder {folder} of the bucket", error.reason) from error

    async def send(self, path: Path, address: str) -> None:
        """Write an object from a file of up to `MOST_BYTES`, without a limit of time.

        Raises:
            StoreFailed: the bucket or the disk failed; or the file is larger, and was not sent.
        """
        self.guard.require_write(address)

        async def put() -> None:
            if (size := _size(path)) > MOST_BYTES:
                raise StoreFailed(
                    address, f"it has {size} bytes, and a bucket takes at most {MOST_BYTES}"
                )
            # The call itself opens the file, before its result is awaited.
            await obstore.put_async(
                self._store,
                self._key(address),
                path,
                attributes=_attributes(address),
                chunk_size=PIECE_BYTES,
                max_concurrency=_PIECES_AT_ONCE,
            )

        try:
            await _answer(address, put(), None)
        except ObjectMissing as error:
            raise StoreFailed(address, "there is no such bucket, or no such file") from error

    async def receive(
        self,
        address: str,
        begin: Callable[[int], Awaitable[None]],
        write: Callable[[int, memoryview], Awaitable[None]],
    ) -> ObjectStat:
        """Read an object, in pieces if it is large; `write` gets each piece with its offset.

        `begin` is called first, with the object's size in bytes.

        Raises:
            ObjectMissing: there is no such object.
            StoreFailed: the bucket failed.
        """
        key = self._key(address)
        response = await _answer(address, obstore.get_async(self._store, key))
        stat = _stat(response.meta)
        await begin(stat.size)

        async def fetch_piece(start: int) -> None:
            # A request's time-out counts until its last byte: a large object takes several.
            end = min(start + PIECE_BYTES, stat.size)
            request = obstore.get_range_async(self._store, key, start=start, end=end)
            await write(start, memoryview(await _answer(address, request, _PIECE_SECONDS)))

        if stat.size > PIECE_BYTES:
            starts = range(0, stat.size, PIECE_BYTES)
            await do_each(starts, fetch_piece, at_once=_PIECES_AT_ONCE)
        else:
            await write(
                0, memoryview(await _answer(address, response.bytes_async(), _PIECE_SECONDS))
            )
        return stat

    async def sign(self, address: str, method: Literal["GET", "HEAD"], seconds: float) -> str:
        """Return a URL at which anyone can get an object for some time; it need not exist yet.

        Raises:
            StoreFailed: there are no credentials.
        """
        lifetime = timedelta(seconds=seconds)
        request = obstore.sign_async(self._store, method, self._key(address), lifetime)
        return await _answer(address, request)

    @property
    def most_bytes(self) -> int:
        """The size of the largest object that can be stored."""
        return MOST_BYTES

    # -- helpers ----------------------------------------------------------------------------------

    async def _copy_all(self, sizes: Mapping[str, int], source: str, target: str) -> None:
        """Copy objects of these sizes, by address, from the folder `source` to `target`."""

        async def copy_object(address: str) -> None:
            await self.link(address, target + address.removeprefix(source))

        large = [each for each, size in sizes.items() if size > self._copy_bytes]
        await do_each([each for each in sizes if each not in large], copy_object, at_once=_AT_ONCE)
        for address in large:
            await self._copy_large(address, target + address.removeprefix(source), sizes[address])

    async def _copy_large(self, source: str, target: str, size: int) -> None:
        """Copy an object of `size` bytes through this process, piece by piece.

        The client cannot copy in parts within the bucket.
        """
        key = self._key(source)

        async def pieces() -> AsyncGenerator[bytes]:
            for start in range(0, size, PIECE_BYTES):
                end = min(start + PIECE_BYTES, size)
                request = obstore.get_range_async(self._store, key, start=start, end=end)
                yield bytes(await _answer(source, request, _PIECE_SECONDS))

        request = obstore.put_async(
            self._store,
            self._key(target),
            pieces(),
            attributes=_attributes(target),
            chunk_size=PIECE_BYTES,
            max_concurrency=_PIECES_AT_ONCE,
        )
        await _answer(source, request, None)
        stat = await self.stat(target)
        if stat is None or stat.size != size:
            raise StoreFailed(target, "the copy has another size")

    async def _head(self, address: str) -> "ObjectMeta | None":
        try:
            return await _answer(address, obstore.head_async(self._store, self._key(address)))
        except ObjectMissing:
            return None

    def _key(self, address: str) -> str:
        return self._prefix + checked(address)

    async def _walk(self, prefix: str) -> AsyncGenerator[list["_Listed"]]:
        """Yield all objects below a folder, except those whose keys are no addresses.

        An answer of the server at a time, so that neither memory nor time limits their number.
        """
        begin = len(self._prefix)
        answers = aiter(
            obstore.list(  # pyright: ignore[reportUnknownMemberType]  # for tables, not used
                self._store, f"{self._key(prefix)}/", chunk_size=_LISTED
            )
        )
        while batch := await _answer(prefix, anext(answers, None)):
            yield [_listed(each, begin) for each in batch if is_address(each["path"][begin:])]


def _size(path: Path) -> int:
    return path.stat().st_size


class _Listed(msgspec.Struct, frozen=True, gc=False):
    address: str
    size: int
    modified_us: int


def _open(location: S3Location) -> S3Store:
    retries: RetryConfig = {
        "max_retries": 5,
        "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
    }
    client: ClientConfig = {
        "allow_http": location.endpoint.startswith("http://"),
        "connect_timeout": "5s",
        "timeout": f"{_PIECE_SECONDS:.0f}s",
    }
    config: S3Config = {"bucket": location.bucket}
    if location.endpoint:
        config["endpoint"] = location.endpoint
    if location.region:
        config["region"] = location.region
    return S3Store(config=config, client_options=client, retry_config=retries)


async def _answer(address: str, call: Awaitable[T], seconds: float | None = _SECONDS) -> T:
    """Wait for a request about the object at `address`, and translate its errors."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError as error:
        raise StoreFailed(address, f"no answer within {seconds or 0:.0f} s") from error
    except FileNotFoundError as error:
        raise ObjectMissing(address) from error
    except (AlreadyExistsError, PreconditionError, FileExistsError) as error:
        raise ObjectChanged(address) from error
    except (BaseError, OSError) as error:
        raise StoreFailed(address, _reason(error)) from error


def _attributes(address: str) -> "Attributes":
    kind = _TYPES.get(address.rpartition(".")[2])
    if kind == "video/mp4" and f"/{AUDIO_RENDITION}/" in address:
        kind = "audio/mp4"
    return {} if kind is None else {"Content-Type": kind}


def _reason(error: Exception) -> str:
    """Return the cause in one line: the client's text has dozens, and shows addresses."""
    text, denials = str(error), PermissionDeniedError | UnauthenticatedError | PermissionError
    if _SKEWED in text:
        return "the bucket's clock and this machine's differ too much: set this one right (NTP)"
    answer = _STATUS.search(text) or _CODE.search(text)
    if isinstance(error, denials) or (answer is not None and answer[1] == _DENIED):
        return "the credentials do not allow it"
    return f"the bucket answered {answer[1]}" if answer else "the bucket cannot be reached"


def _listed(meta: "ObjectMeta", begin: int) -> _Listed:
    return _Listed(meta["path"][begin:], meta["size"], _microseconds(meta["last_modified"]))


def _tag(address: str, tag: str | None) -> str:
    if tag is None:
        raise StoreFailed(address, "the bucket names no versions")
    return tag


def _stat(meta: "ObjectMeta") -> ObjectStat:
    return ObjectStat(size=meta["size"], modified_us=_microseconds(meta["last_modified"]))


def _microseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)
