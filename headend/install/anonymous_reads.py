"""What anyone without credentials gets from a CDN or a bucket: objects, and lists of objects."""

import asyncio
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from storage.objects.base import StoreFailed

# Enough to tell media apart, whose random or measured values come first; objects may be films.
_BYTES: Final = 1024
_SECONDS: Final = 10.0
_TOO_MANY_REQUESTS: Final = 429
# CDNs refuse the name of the library.
_HEADERS: Final = {"User-Agent": "headend"}


async def read_beginning(url: str) -> bytes | None:
    """Return the first bytes of what anyone gets at a URL; None if that is refused or missing.

    Redirects are followed.

    Raises:
        StoreFailed: the server does not answer, or not as one that has objects.
    """
    parts = urlsplit(url)
    host = f"{parts.scheme}://{parts.netloc}"  # the rest may be signed
    try:
        async with asyncio.timeout(_SECONDS):
            return await asyncio.to_thread(_read, url)
    except HTTPError as error:
        if 400 <= error.code < 500 and error.code != _TOO_MANY_REQUESTS:
            return None
        raise StoreFailed(host, f"{host} answers {error.code}") from error
    except (OSError, HTTPException) as error:
        raise StoreFailed(host, f"{host} does not answer") from error


async def lists_objects(base: str, prefix: str) -> bool:
    """Return whether anyone can list objects at a URL, or at one that is a part of it.

    `prefix` is that of the objects' keys. A CDN may send the root of a host to the bucket.

    Raises:
        StoreFailed: the server does not answer.
    """
    parts = urlsplit(base)
    path = parts.path.strip("/")
    places = [path]
    while path:
        path = path.rpartition("/")[0]
        places.append(path)
    query = f"list-type=2&max-keys=1&prefix={quote(prefix)}"
    for place in places:
        url = parts._replace(path=f"/{place}", query=query).geturl()
        if b"<ListBucketResult" in (await read_beginning(url) or b""):
            return True
    return False


def _read(url: str) -> bytes:
    request = Request(url, headers=_HEADERS)  # noqa: S310  # from the settings
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310  # from the settings
            return answer.read(_BYTES)
    except HTTPError as error:
        error.close()
        raise
