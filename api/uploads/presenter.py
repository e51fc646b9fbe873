"""Turns resumable uploads into headers and bodies."""

from api.http.tus import format_expiry
from api.schemas.timestamps import format_timestamp
from api.uploads.schemas import Upload, UploadedTo, UploadShown
from storage.catalog.records.uploads import UploadRecord


def upload_headers(record: UploadRecord) -> dict[str, str]:
    """Return the response headers that describe an upload."""
    headers = {
        "Upload-Offset": str(record.received),
        "Headend-Video-Id": str(record.video),
        "Headend-Video-Hash": record.hash,
    }
    if record.length is None:
        headers["Upload-Defer-Length"] = "1"
    else:
        headers["Upload-Length"] = str(record.length)
    if record.metadata:
        headers["Upload-Metadata"] = record.metadata
    if not record.done:
        headers["Upload-Expires"] = format_expiry(record.expires_us)
    return headers


def present_upload(record: UploadRecord) -> UploadShown:
    """Return the body that describes an upload."""
    return UploadShown(
        data=Upload(
            offset=record.received,
            length=record.length,
            done=record.done,
            expires_at=format_timestamp(record.expires_us),
            video=UploadedTo(id=record.video, hash=record.hash),
        )
    )
