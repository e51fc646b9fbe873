"""Upload links: permissions to upload one file without a token, made, listed and deleted.

A link's address holds its secret and is shown once, in the answer to making the link. The catalog
keeps only a digest of the secret, and no log and no event holds it. How a link is used is in
`api.uploads.link_uploads`.
"""

import contextlib
from http import HTTPStatus
from typing import Annotated, Final, Literal

import msgspec
from litestar import Controller, get

from api.http.auth import needs_write
from api.http.errors import documented, invalid
from api.http.operation import CHANGE_ERRORS, adds, deletes
from api.http.parameters import PageNumber, RecordId, envelope, missing, number_of, read_query
from api.intake.upload_intake import GivenIntake
from api.library.lookup import PROJECT, ProjectCall, list_url
from api.library.references import read_details
from api.schemas.common import Listing, named_schema
from api.schemas.timestamps import format_timestamp
from api.uploads.metadata import NO_DETAILS
from api.videos.schemas import DetailsBody
from media.ticks import MICROSECONDS
from storage.catalog.records.details import VideoDetails
from storage.catalog.records.uploads import ListedLink
from storage.errors import NoSuchVideo
from storage.objects.base import ObjectError
from storage.objects.upload_pieces import remove_upload

_ABSENT: Final = (None, msgspec.UNSET)
_DAY_SECONDS: Final = 24 * 3600
_MIN_SECONDS: Final = 60
# For longer than that, a token of the project is the better permission.
_MAX_SECONDS: Final = 30 * _DAY_SECONDS


class LinkAddition(DetailsBody, frozen=True, kw_only=True):
    """What a link is for: how much may come, until when, and what is said of the video.

    With `video_id` it replaces that video's file, and nothing is said of it.
    """

    most_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 50)] | None = None
    expires_seconds: Annotated[int, msgspec.Meta(ge=_MIN_SECONDS, le=_MAX_SECONDS)] = _DAY_SECONDS
    video_id: Annotated[int, msgspec.Meta(ge=1)] | None = None


class UploadLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link; `address` holds its secret and is shown this once.

    `video_id` is the video whose file it replaces, null where it makes a new one.
    """

    id: int
    address: str
    most_bytes: int
    expires_at: str
    video_id: int | None


class LinkAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to making a link."""

    message: str
    upload_link: UploadLink


class ListedUploadLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link in a list; `title` is the one that its video gets, null where the uploader says it.

    `video_id` is the video whose file it replaces, null where it makes a new one.
    """

    id: int
    title: str | None
    state: Literal["open", "used", "expired"]
    most_bytes: int
    created_at: str
    expires_at: str
    used_at: str | None
    video_id: int | None


def _listed_link(record: ListedLink, now_us: int) -> ListedUploadLink:
    over: Literal["open", "expired"] = "expired" if record.expires_us <= now_us else "open"
    return ListedUploadLink(
        id=record.id,
        title=record.wanted.title,
        state=over if record.used_us is None else "used",
        most_bytes=record.most_bytes,
        created_at=format_timestamp(record.created_us),
        expires_at=format_timestamp(record.expires_us),
        used_at=None if record.used_us is None else format_timestamp(record.used_us),
        video_id=record.video,
    )


class UploadLinksController(Controller):
    """The upload links of a project."""

    path = "/projects/{project_id:str}/upload-links"
    tags = ("videos",)
    dependencies = PROJECT

    @get(
        guards=[needs_write],
        summary="List upload links",
        responses=documented(*CHANGE_ERRORS, HTTPStatus.UNPROCESSABLE_ENTITY),
    )
    async def list_upload_links(
        self, call: ProjectCall, page: PageNumber = None
    ) -> Annotated[
        Listing[ListedUploadLink], named_schema("Listing_api.linkrecords.ListedUploadLink_")
    ]:
        """List a project's upload links in pages of ten, newest first; gone a week after their end.

        This takes a token that may write.
        """
        links = await call.catalog.links.find_page(call.record.id, read_query(page=page).page)
        now_us = call.now_us()
        return envelope(
            links,
            [_listed_link(record, now_us) for record in links.items],
            path=list_url(call, "upload-links"),
            filters=(),
        )

    @adds("Make an upload link", LinkAddition)
    async def add_upload_link(self, call: ProjectCall, intake: GivenIntake) -> LinkAdded:
        """Let somebody without a token upload one file; the address is shown this once."""
        body = await call.body(LinkAddition)
        _require_one_purpose(body)
        most = min(body.most_bytes or intake.most_upload, intake.most_upload)
        change = call.change()
        expires_us = change.now_us + body.expires_seconds * MICROSECONDS
        try:
            number, secret = await call.catalog.links.add(
                call.record.id,
                read_details(body, VideoDetails).details,
                change,
                most_bytes=most,
                expires_us=expires_us,
                video=body.video_id,
            )
        except NoSuchVideo as error:
            message = f"There is no video {error.video} in this project."
            raise invalid({"video_id": [message]}) from error
        link = UploadLink(
            id=number,
            address=f"{call.addresses.http}/api/upload-links/{secret}",
            most_bytes=most,
            expires_at=format_timestamp(expires_us),
            video_id=body.video_id,
        )
        return LinkAdded(message="Upload link added.", upload_link=link)

    @deletes("Delete an upload link", "/{link_id:str}")
    async def delete_upload_link(
        self, call: ProjectCall, link_id: RecordId, intake: GivenIntake
    ) -> None:
        """End a link at once, and what is still coming through it; a video that has its file
        stays.
        """
        number = number_of(link_id, "upload link")
        upload_names = await call.catalog.uploads.remove_link(call.record.id, number, call.change())
        if upload_names is None:
            raise missing("upload link")
        for name in upload_names:
            with contextlib.suppress(ObjectError):  # the cleanup of expired uploads deletes it
                await remove_upload(intake.objects, name)


def _require_one_purpose(body: LinkAddition) -> None:
    """Check that a link that replaces a file holds no details of the video.

    Raises:
        ApiError: 422 with the keys of such details.
    """
    if body.video_id is None:
        return
    details = [key for key in DetailsBody.__struct_fields__ if getattr(body, key) not in _ABSENT]
    if details:
        raise invalid({key: [NO_DETAILS] for key in details})
