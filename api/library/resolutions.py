"""The resolutions that a stream's `resolutions` can be chosen from."""

from typing import Final

import msgspec
from litestar import Controller, get

from api.http.errors import documented
from media.ladder import SELECTABLE_BOXES


class ResolutionItem(msgspec.Struct, frozen=True, kw_only=True):
    """A resolution: the box that a picture is fitted into; `active`: new streams have it on."""

    id: int
    name: str
    width: int
    height: int
    active: bool


class ResolutionList(msgspec.Struct, frozen=True, kw_only=True):
    """Every resolution that a stream can have."""

    data: list[ResolutionItem]


_LIST: Final = ResolutionList(
    data=[
        ResolutionItem(
            id=box.number,
            name=box.label,
            width=box.width,
            height=box.height,
            active=box.standard,
        )
        for box in SELECTABLE_BOXES
    ]
)


class ResolutionsController(Controller):
    """Resolutions."""

    tags = ("resolutions",)

    @get("/resolutions", summary="List resolutions", responses=documented())
    async def list_resolutions(self) -> ResolutionList:
        """List the resolutions that a stream's `resolutions` can be chosen from."""
        return _LIST
