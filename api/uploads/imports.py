"""Videos whose files are fetched from the web.

The endpoint only checks the URL and records it with the video. A worker fetches the file; it
resolves the host name and checks the resulting address. No operation shows the URL.
"""

from collections.abc import Sequence
from typing import Final

from litestar import Controller
from litestar.di import NamedDependency

from api.http.errors import invalid
from api.http.operation import adds
from api.library.lookup import PROJECT, ProjectCall
from api.library.quotas import GivenQuotas
from api.library.references import read_details
from api.schemas.filenames import file_slug, file_title
from api.videos.presenter import VideoPresenter
from api.videos.schemas import DetailsBody, VideoAdded
from outbound.policy import (
    BadWebAddress,
    Network,
    WebAddress,
    is_fetchable,
    is_ip_literal,
    parse_web_address,
)
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.videos import NewVideo
from storage.catalog.videos.imports import NewImport

_NAMELESS: Final = "video"


class ImportRules:
    """Where files may be fetched from: the ports, and networks that are allowed though not public.

    This is no msgspec struct because Litestar validates those, and does not know networks.
    """

    def __init__(
        self, *, ports: frozenset[int] = frozenset({80, 443}), allowed: Sequence[Network] = ()
    ) -> None:
        self.ports = ports
        self.allowed = allowed


class ImportOrder(DetailsBody, frozen=True, kw_only=True):
    """What it takes to have a file fetched; all but the address as in an upload."""

    url: str


def _address(url: str, rules: ImportRules) -> WebAddress:
    """Return the address that a URL names.

    Raises:
        ApiError: 422 if it is no web address, or names a host of a private network by number.
    """
    try:
        address = parse_web_address(url, rules.ports)
    except BadWebAddress as error:
        raise invalid({"url": [error.reason]}) from None  # errors never quote the URL
    if is_ip_literal(address.host) and not is_fetchable(address.host, rules.allowed):
        raise invalid({"url": ["The address leads to a private network."]})
    return address


class ImportsController(Controller):
    """Videos fetched from the web."""

    path = "/projects/{project_id:str}/imports"
    tags = ("videos",)
    dependencies = PROJECT

    @adds("Import a video from an address", ImportOrder)
    async def import_video(
        self,
        call: ProjectCall,
        import_rules: NamedDependency[ImportRules],
        quotas: GivenQuotas,
    ) -> VideoAdded:
        """Fetch a file and transcode it; progress is published on the web socket."""
        order = await call.body(ImportOrder)
        address = _address(order.url, import_rules)
        name = address.file_name or _NAMELESS
        new = NewImport(
            url=address.url,
            host=address.host,
            video=NewVideo(
                hash=await call.catalog.videos.free_hash(),
                file_title=file_title(name),
                name=file_slug(name),
                details=read_details(order, VideoDetails).details,
            ),
        )
        # Its size is checked when it is known.
        async with quotas.adding_file(call.record.id, 1):
            whole = await call.catalog.imports.add(call.record.id, new, call.change())
        return VideoPresenter.of(call.presenter).added(whole)
