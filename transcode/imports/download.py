"""A file brought from an address on the web to a file of ours, however the server behaves.

Each redirect's target is checked as the first address was. A connection that broke is made again:
where the server can, it goes on from the byte that is missing, and only if the file is still the
same one; else from the beginning. Bytes go to the disk as they come.
Source: RFC 9110, sections 8.8 (validators), 13.1.5 (If-Range), 14 (ranges), 15.4 (redirects).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import httpcore
import msgspec

from storage.fetch_policy import BadWebAddress, WebAddress
from storage.objects.incoming_file import IncomingFile, IncomingFileTooLarge
from transcode.imports.http_client import Broken, FetchRefused, Remote

__all__ = ["Bounds", "Told", "fetch"]

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Answers that another try may well change.
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_LENGTH: Final = re.compile(r"\d{1,18}")
_STRONG: Final = re.compile(r'"[\x21\x23-\x7e]*"')
# A date is as good as a strong validator where the file was old enough when it was given (8.8.2.2).
_SETTLED: Final = timedelta(seconds=60)
# A try that brought as much was worth it: the ones before it do not count any more.
_WORTH_BYTES: Final = 1 << 20

Told = Callable[[int, int | None], Awaitable[None]]  # bytes that came, and bytes in all


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is put up with: `least_bytes` must come in each `quiet_seconds`, all of the file
    within `seconds`. `tries` that bring nothing new are the last; the pause before the second is
    `pause_seconds`, four times that before the third.
    """

    most_bytes: int
    ports: frozenset[int]
    seconds: float = 6 * 3600.0  # 50 GiB at 20 Mbit/s
    quiet_seconds: float = 30.0
    least_bytes: int = 128 << 10  # as of uploads
    tries: int = 3
    pause_seconds: float = 2.0
    redirects: int = 5


async def fetch(
    address: WebAddress, inflow: IncomingFile, *, remote: Remote, bounds: Bounds, told: Told
) -> None:
    """Bring the file at an address; it stands in `inflow` then, whole.

    `told` is called as bytes come; what it raises ends the fetch.

    Raises:
        FetchRefused: it cannot be had.
        ObjectError: it cannot be stored.
    """
    fetching = _Fetch(address, inflow, remote=remote, bounds=bounds, told=told)
    try:
        async with asyncio.timeout(bounds.seconds):
            await fetching.run()
    except TimeoutError as error:
        reason = f"The file did not come within {_span(bounds.seconds)}."
        raise FetchRefused(reason) from error
    except IncomingFileTooLarge as error:
        raise _too_large(bounds) from error


class _Fetch:
    """One file on its way; `_size` and `_validator` are what is known of it after the first answer,
    the latter None where the server cannot go on in the middle.
    """

    def __init__(
        self,
        address: WebAddress,
        inflow: IncomingFile,
        *,
        remote: Remote,
        bounds: Bounds,
        told: Told,
    ) -> None:
        self._address = address
        self._inflow = inflow
        self._remote = remote
        self._bounds = bounds
        self._told = told
        self._size: int | None = None
        self._validator: str | None = None

    async def run(self) -> None:
        """Try until the file is there or trying is no use."""
        fruitless, furthest = 0, 0
        while True:
            try:
                await self._try()
            except Broken as error:
                worth = self._inflow.size - furthest >= _WORTH_BYTES
                fruitless = 1 if worth else fruitless + 1
                furthest = max(furthest, self._inflow.size)
                if fruitless >= self._bounds.tries:
                    raise FetchRefused(error.reason) from error
            else:
                return
            if self._validator is None:
                await self._begin_again()
            await asyncio.sleep(self._bounds.pause_seconds * 4 ** (fruitless - 1))

    async def _begin_again(self) -> None:
        self._size = self._validator = None
        await self._inflow.restart()

    async def _try(self) -> None:
        """Ask for what is missing, wherever that leads."""
        address = self._address
        for _ in range(self._bounds.redirects + 1):
            async with self._remote.asked(address, self._wanted()) as response:
                headers = _headers(response)
                location = headers.get("location")
                if response.status not in _REDIRECTS or location is None:
                    await self._take(response, headers)
                    return
            try:
                address = address.redirected(location, self._bounds.ports)
            except BadWebAddress as error:
                reason = f"The server sends us on to where we do not go. {error.reason}"
                raise FetchRefused(reason) from error
        raise FetchRefused(f"The server sends us on more than {self._bounds.redirects} times.")

    def _wanted(self) -> dict[str, str]:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "headend"}
        if self._validator is not None and self._inflow.size:
            headers |= {"Range": f"bytes={self._inflow.size}-", "If-Range": self._validator}
        return headers

    async def _take(self, response: httpcore.Response, headers: Mapping[str, str]) -> None:
        await self._check(response.status, headers)
        if self._size is not None and self._size > self._bounds.most_bytes:
            raise _too_large(self._bounds)
        await self._told(self._inflow.size, self._size)
        await self._read(response)
        if self._size is not None and self._inflow.size != self._size:
            raise Broken("The server broke off before the file was whole.")

    async def _check(self, status: int, headers: Mapping[str, str]) -> None:
        """See what the answer is, and that its body goes where the file ends so far."""
        if status in _PASSING:
            raise Broken(f"The server answered {status}.")
        if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            raise FetchRefused("The server sends the file compressed, which was not asked for.")
        if status == 206 and self._inflow.size and self._validator is not None:
            await self._check_range(headers)
        elif status == 200:
            if self._inflow.size:
                await self._begin_again()
            length = headers.get("content-length", "")
            self._size = int(length) if _LENGTH.fullmatch(length) else None
            self._validator = _validator(headers)
        elif status == 416 and self._inflow.size:
            await self._begin_again()
            raise Broken("The server answered 416.")
        else:
            raise FetchRefused(f"The server answered {status}.")

    async def _check_range(self, headers: Mapping[str, str]) -> None:
        found = _RANGE.fullmatch(headers.get("content-range", ""))
        start, end, size = (int(text) for text in found.groups()) if found else (0, 0, 0)
        tag = headers.get("etag", self._validator)
        goes_on = found is not None and start == self._inflow.size and end == size - 1
        same = self._size in (None, size) and (
            tag == self._validator or not _is_tag(self._validator)
        )
        if not goes_on or not same:
            await self._begin_again()
            raise Broken("The server does not go on with the file where it broke off.")
        self._size = size

    async def _read(self, response: httpcore.Response) -> None:
        """Take the body; give it up where next to nothing comes."""
        loop = asyncio.get_running_loop()
        quiet, recent = self._bounds.quiet_seconds, 0
        try:
            async with asyncio.timeout(quiet) as patience:
                async for data in response.aiter_stream():
                    await self._inflow.write(data)
                    await self._told(self._inflow.size, self._size)
                    recent += len(data)
                    if recent >= self._bounds.least_bytes:
                        recent = 0
                        patience.reschedule(loop.time() + quiet)
        except TimeoutError as error:
            raise Broken(f"The server sent next to nothing for {quiet:g} s.") from error


def _headers(response: httpcore.Response) -> dict[str, str]:
    """Return the headers by name; of one that stands there twice, the first."""
    found: dict[str, str] = {}
    for name, value in response.headers:
        found.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace").strip())
    return found


def _validator(headers: Mapping[str, str]) -> str | None:
    """Return what says later that the file is the same, None where nothing does."""
    if headers.get("accept-ranges", "").lower() == "none":
        return None
    tag = headers.get("etag", "")
    if _STRONG.fullmatch(tag):
        return tag
    changed, given = _moment(headers.get("last-modified")), _moment(headers.get("date"))
    if changed is None or given is None or given - changed < _SETTLED:
        return None
    return headers["last-modified"]


def _is_tag(validator: str | None) -> bool:
    return validator is not None and validator.startswith('"')


def _moment(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _too_large(bounds: Bounds) -> FetchRefused:
    return FetchRefused(f"The file is larger than {bounds.most_bytes} bytes.")


def _span(seconds: float) -> str:
    return f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} s"
