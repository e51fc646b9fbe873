"""Downloads a file from a web address to disk, however the server behaves.

The target of each redirect is checked like the first address. After a broken connection the
download is resumed at the missing byte if the server supports that and the file is still the same;
else it starts from the beginning. Bytes are written to the disk as they arrive.
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

from outbound.http_client import CheckedClient, FetchInterrupted, FetchRefused
from outbound.policy import BadWebAddress, WebAddress
from storage.objects.incoming_file import IncomingFileTooLarge
from storage.objects.resumable_file import ResumableFile

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Another attempt may get another response.
_RETRYABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_LENGTH: Final = re.compile(r"\d{1,18}")
_STRONG_TAG: Final = re.compile(r'"[\x21\x23-\x7e]*"')
# A date is a strong validator if the file was this old when the date was sent (8.8.2.2).
_OLD_ENOUGH: Final = timedelta(seconds=60)
# An attempt that received this much, and as much as the limit of speed requires, resets the count
# of failed attempts.
_PROGRESS_BYTES: Final = 1 << 20

OnProgress = Callable[[int, int | None], Awaitable[None]]  # bytes received, bytes in all if known


class FileVersion(msgspec.Struct):
    """The version of the file that was downloaded so far: its `validator` for `If-Range`.

    None if there are no bytes yet, or if the server cannot resume.
    """

    validator: str | None = None


class DownloadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a download.

    At least `least_bytes` must arrive in each `quiet_seconds`, and the whole file within `seconds`.
    It fails after `tries` attempts in a row without progress; the pause before the second is
    `pause_seconds`, and four times as long before each further one.
    """

    max_bytes: int
    ports: frozenset[int]
    seconds: float = 6 * 3600.0  # 50 GiB at 20 Mbit/s
    quiet_seconds: float = 30.0
    least_bytes: int = 30 * (64 << 10)  # 64 KiB/s: a video of 2 GB takes 9 hours at that
    tries: int = 3
    pause_seconds: float = 2.0
    redirects: int = 5


async def download(
    address: WebAddress,
    inflow: ResumableFile,
    *,
    client: CheckedClient,
    limits: DownloadLimits,
    on_progress: OnProgress,
    version: FileVersion | None = None,
) -> None:
    """Download the whole file at `address` into `inflow`.

    Bytes already in `inflow` are kept if they are of `version` and the server still has it;
    `version` is kept up to date. `on_progress` is called as bytes arrive; an exception that it
    raises ends the download.

    Raises:
        FetchRefused: the file cannot be downloaded.
        ObjectError: it cannot be stored.
    """
    version = version or FileVersion()
    fetching = _Download(address, inflow, version, client, limits, on_progress)
    try:
        if inflow.position and version.validator is None:
            await inflow.truncate(0)
        async with asyncio.timeout(limits.seconds):
            await fetching.run()
    except TimeoutError as error:
        reason = f"The file did not come within {_duration_text(limits.seconds)}."
        raise FetchRefused(reason) from error
    except IncomingFileTooLarge as error:
        raise _too_large(limits) from error


class _Download:
    """One download. `_size` and the version's validator are known after the first response."""

    def __init__(
        self,
        address: WebAddress,
        inflow: ResumableFile,
        version: FileVersion,
        client: CheckedClient,
        limits: DownloadLimits,
        on_progress: OnProgress,
    ) -> None:
        self._address = address
        self._inflow = inflow
        self._client = client
        self._limits = limits
        self._on_progress = on_progress
        self._size: int | None = None
        self._version = version

    async def run(self) -> None:
        """Try until the file is whole or further attempts are of no use."""
        failures, furthest = 0, self._inflow.position
        while True:
            try:
                await self._fetch()
            except FetchInterrupted as error:
                enough = max(_PROGRESS_BYTES, self._limits.least_bytes)
                progressed = self._inflow.position - furthest >= enough
                failures = 1 if progressed else failures + 1
                furthest = max(furthest, self._inflow.position)
                if failures >= self._limits.tries:
                    raise FetchRefused(error.reason) from error
            else:
                return
            if self._version.validator is None:
                await self._restart()
            await asyncio.sleep(self._limits.pause_seconds * 4 ** (failures - 1))

    async def _restart(self) -> None:
        self._size = self._version.validator = None
        await self._inflow.truncate(0)

    async def _fetch(self) -> None:
        """Request the missing bytes, following redirects."""
        address = self._address
        for _ in range(self._limits.redirects + 1):
            async with self._client.request("GET", address, self._request_headers()) as response:
                headers = _headers(response)
                location = headers.get("location")
                if response.status not in _REDIRECTS or location is None:
                    await self._receive(response, headers)
                    return
            try:
                address = address.redirected(location, self._limits.ports)
            except BadWebAddress as error:
                reason = f"The server sends us on to where we do not go. {error.reason}"
                raise FetchRefused(reason) from error
        raise FetchRefused(f"The server sends us on more than {self._limits.redirects} times.")

    def _request_headers(self) -> dict[str, str]:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "headend"}
        if self._version.validator is not None and self._inflow.position:
            headers |= {
                "Range": f"bytes={self._inflow.position}-",
                "If-Range": self._version.validator,
            }
        return headers

    async def _receive(self, response: httpcore.Response, headers: Mapping[str, str]) -> None:
        continues = await self._check(response.status, headers)
        if self._size is not None and self._size > self._limits.max_bytes:
            raise _too_large(self._limits)
        await self._on_progress(self._inflow.position, self._size)
        if continues:
            await self._read(response)
        if self._size is not None and self._inflow.position != self._size:
            raise FetchInterrupted("The server broke off before the file was whole.")

    async def _check(self, status: int, headers: Mapping[str, str]) -> bool:
        """Check the response, and that its body continues the file where it ends so far.

        Return False if the file is whole already: then the body is only a message.
        """
        if status in _RETRYABLE:
            raise FetchInterrupted(f"The server answered {status}.")
        if headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            raise FetchRefused("The server sends the file compressed, which was not asked for.")
        if status == 206 and self._inflow.position and self._version.validator is not None:
            await self._check_range(headers)
        elif status == 200:
            if self._inflow.position:
                await self._restart()
            length = headers.get("content-length", "")
            self._size = int(length) if _LENGTH.fullmatch(length) else None
            self._version.validator = _validator(headers)
        elif status == 416 and self._has_all(headers):
            self._size = self._inflow.position
            return False
        elif status == 416 and self._inflow.position:
            await self._restart()
            raise FetchInterrupted("The server answered 416.")
        else:
            raise FetchRefused(f"The server answered {status}.")
        return True

    def _has_all(self, headers: Mapping[str, str]) -> bool:
        """Return whether there is nothing after what was received, of the same version.

        The range is checked only after `If-Range` (RFC 9110, section 13.2.2).
        """
        size = self._inflow.position
        return size > 0 and headers.get("content-range", "") == f"bytes */{size}"

    async def _check_range(self, headers: Mapping[str, str]) -> None:
        match = _RANGE.fullmatch(headers.get("content-range", ""))
        start, end, size = (int(text) for text in match.groups()) if match else (0, 0, 0)
        tag = headers.get("etag", self._version.validator)
        continues = match is not None and start == self._inflow.position and end == size - 1
        same = self._size in (None, size) and (
            tag == self._version.validator or not _is_tag(self._version.validator)
        )
        if not continues or not same:
            await self._restart()
            raise FetchInterrupted("The server does not go on with the file where it broke off.")
        self._size = size

    async def _read(self, response: httpcore.Response) -> None:
        """Write the body to the file; give up if it arrives too slowly.

        The server is not blamed for the time that the disk and the database take.
        """
        clock = asyncio.get_running_loop().time
        quiet, least = self._limits.quiet_seconds, self._limits.least_bytes
        waited, recent = 0.0, 0
        body = aiter(response.aiter_stream())
        while True:
            began = clock()
            try:
                async with asyncio.timeout(quiet - waited):
                    data = await anext(body)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                reason = f"The server is too slow: less than {least} bytes came within {quiet:g} s."
                raise FetchInterrupted(reason) from error
            waited += clock() - began
            await self._inflow.write(data)
            await self._on_progress(self._inflow.position, self._size)
            recent += len(data)
            if recent >= least:
                waited, recent = 0.0, 0


def _headers(response: httpcore.Response) -> dict[str, str]:
    """Return the headers by lower-case name; the first one if a name is repeated."""
    by_name: dict[str, str] = {}
    for name, value in response.headers:
        by_name.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "replace").strip())
    return by_name


def _validator(headers: Mapping[str, str]) -> str | None:
    """Return the validator for `If-Range`, or None if the server cannot resume."""
    if headers.get("accept-ranges", "").lower() == "none":
        return None
    tag = headers.get("etag", "")
    if _STRONG_TAG.fullmatch(tag):
        return tag
    modified, sent = _parse_date(headers.get("last-modified")), _parse_date(headers.get("date"))
    if modified is None or sent is None or sent - modified < _OLD_ENOUGH:
        return None
    return headers["last-modified"]


def _is_tag(validator: str | None) -> bool:
    return validator is not None and validator.startswith('"')


def _parse_date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, OverflowError):  # the latter for a year or a zone of many digits
        return None
    return date if date.tzinfo is not None else None


def _too_large(limits: DownloadLimits) -> FetchRefused:
    return FetchRefused(f"The file is larger than {limits.max_bytes} bytes.")


def _duration_text(seconds: float) -> str:
    return f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} s"
