"""The download of a profile of OBS Studio for a stream; `api.streams.obs_files` makes its files."""

from http import HTTPStatus
from typing import Annotated, Final

from litestar import Controller, Response, get
from litestar.openapi.datastructures import ResponseSpec

from api.http.auth import needs_write
from api.http.errors import documented, invalid
from api.http.operation import READ_ERRORS
from api.http.parameters import queried
from api.schemas.filenames import slug
from api.streams.lookup import STREAM, StreamCall
from api.streams.obs_files import DEFAULT_LABEL, ObsProfile
from media.ladder import SELECTABLE_BOXES
from media.stream_keys import Slot
from storage.catalog.records.common import StreamRecord

_BOXES: Final = {box.label: box for box in SELECTABLE_BOXES}
_MOST_NAME: Final = 60  # characters: menus of OBS show no more
_ZIP: Final = "application/zip"

SlotName = Annotated[str, queried("The ingest address to send to: primary, backup-1 and so on.")]
Size = Annotated[str, queried("The resolution to send.", enum=[*_BOXES])]
Secure = Annotated[str, queried("Whether to send over TLS (RTMPS).", enum=["false", "true"])]


class ObsProfileController(Controller):
    """The settings of OBS for a stream."""

    path = "/streams/{stream_id:str}/obs-profile"
    tags = ("streams",)
    dependencies = STREAM

    @get(
        guards=[needs_write],
        media_type=_ZIP,
        summary="Download a profile for OBS",
        responses={
            **documented(*READ_ERRORS, HTTPStatus.FORBIDDEN),
            HTTPStatus.OK: ResponseSpec(bytes, media_type=_ZIP, generate_examples=False),
        },
    )
    async def download_obs_profile(
        self,
        call: StreamCall,
        slot: SlotName = "primary",
        resolution: Size = DEFAULT_LABEL,
        secure: Secure = "false",
    ) -> Response[bytes]:
        """Download a zip file with a folder that OBS imports as a profile (Profile > Import).

        It holds the server's address, the stream's key and the encoder's settings.
        """
        slots = {str(each): each for each in _slots(call.record)}
        errors = {
            **_fault("slot", slot, [*slots]),
            **_fault("resolution", resolution, [*_BOXES]),
            **_fault("secure", secure, ["false", "true"]),
        }
        if errors:
            raise invalid(errors)
        addresses, ingest_slot = call.addresses, slots[slot]
        server = addresses.encoder_server(ingest_slot, secure=secure == "true")
        if not server:
            raise invalid({"secure": ["RTMPS is not served."]})
        folder = f"headend-{_plain(call.record)}-{slot}"
        profile = ObsProfile(
            folder=folder,
            name=f"{call.record.title[:_MOST_NAME].strip()} ({slot})",
            server=server,
            key=call.record.key.text,
            box=_BOXES[resolution],
        )
        headers = {"Content-Disposition": f'attachment; filename="{folder}.zip"'}
        return Response(profile.zipped(), media_type=_ZIP, headers=headers)


def _slots(stream: StreamRecord) -> list[Slot]:
    return [Slot(0), *(Slot(backup.number) for backup in stream.backups)]


def _plain(stream: StreamRecord) -> str:
    """Return the stream's title as a part of a file's name, or its hash if nothing is left."""
    letters = slug(stream.title)[:_MOST_NAME].strip("-")
    return (
        letters if any(each.isascii() and each.isalnum() for each in stream.title) else stream.hash
    )


def _fault(field: str, value: str, allowed: list[str]) -> dict[str, list[str]]:
    """Return the error of a parameter that has none of the values that it may have."""
    return (
        {} if value in allowed else {field: [f"The {field} must be one of {', '.join(allowed)}."]}
    )
