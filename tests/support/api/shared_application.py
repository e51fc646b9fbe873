"""One application for all tests of a process, over proxies for the parts of each test.

Creating the application takes 0.1 s of CPU, as much as many tests; a catalog's file and a folder
take a hundredth of that. The application is therefore created once, over proxies, and each test
sets its own parts behind them.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from litestar import Litestar

from api.app import create_app
from api.pages.slate_images import slate_image_handlers
from api.ports import MediaRemover
from api.streams.command_client import IngestClient
from headend.roles.upload_intake import create_intake
from media.ticks import DAY_US
from storage.catalog import Catalog
from storage.objects.disk import DiskObjects
from tests.support.api.application import ADDRESSES, BROADCASTER_KEY, NOW_US


class _StandIn:
    """Forwards attribute access to the part of the current test."""

    def __init__(self) -> None:
        self.part: object = None  # set by each test

    @property
    def __class__(self) -> type[object]:
        """The type of the part, as the framework validates the endpoints' dependencies."""
        return type(self.part)

    @__class__.setter
    def __class__(self, other: type[object]) -> None:
        raise TypeError(other)

    def __getattr__(self, name: str) -> Any:  # Any: whatever the part has
        return getattr(self.part, name)


_CATALOG: Final[Any] = _StandIn()  # Any: each takes the place of a value of another type
_MEDIA: Final[Any] = _StandIn()
_INGEST: Final[Any] = _StandIn()
_OBJECTS: Final[Any] = _StandIn()
_applications: list[Litestar] = []


async def _slates(owners: Sequence[str]) -> Collection[str]:
    return await _CATALOG.visibility.find_slates(owners)


def application_over(
    *, catalog: Catalog, media: MediaRemover, ingest: IngestClient, objects: DiskObjects
) -> Litestar:
    """Set the parts of this process's application, and return it.

    The catalog's installation must have `BROADCASTER_KEY`.
    """
    _CATALOG.part, _MEDIA.part, _INGEST.part, _OBJECTS.part = catalog, media, ingest, objects
    if not _applications:
        app = create_app(
            catalog=_CATALOG,
            addresses=ADDRESSES,
            broadcaster_key=BROADCASTER_KEY,
            version="1.2.3",
            media=_MEDIA,
            intake=create_intake(_OBJECTS, min_free_bytes=0, trash_us=7 * DAY_US),
            ingest=_INGEST,
            handlers=slate_image_handlers(_OBJECTS, _slates),
            clock_us=lambda: NOW_US,
            trash_us=7 * DAY_US,
            end_holds_seconds=60.0,
        )
        _applications.append(app)
    return _applications[0]
