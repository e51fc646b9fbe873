"""The OpenAPI descriptions of forms with files."""

from collections.abc import Mapping
from typing import Final

from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    RequestBody,
    Schema,
)

from api.http.openapi import operation_taking
from api.schemas.text_fields import TextField

_MULTIPART: Final = "multipart/form-data"
_OCTETS: Final = "application/octet-stream"
# From OpenAPI 3.0; most client generators recognise files only by it.
_BINARY: Final = OpenAPIFormat.BINARY
_PICTURE: Final = Schema(
    type=OpenAPIType.STRING,
    format=_BINARY,
    content_media_type=_OCTETS,
    description="A JPEG, PNG or WebP of at most 10 MB.",
)
_VIDEO: Final = Schema(
    type=OpenAPIType.STRING,
    format=_BINARY,
    content_media_type=_OCTETS,
    description="The file, of at most 524288000 bytes.",
)


_SAID: Final = {"title": "Left out: the file's name without its extension."}


def _operation(required: str, **properties: Schema) -> type[Operation]:
    """Return the class of operations that take a form of these parts, of which one is required."""
    schema = Schema(
        type=OpenAPIType.OBJECT,
        properties={**properties},
        required=[required],
        additional_properties=False,
    )
    content = {_MULTIPART: OpenAPIMediaType(schema=schema)}
    return operation_taking(RequestBody(content=content, required=True))


def video_form(texts: Mapping[str, type[TextField]]) -> type[Operation]:
    """Return the class of operations that take a new video, with these texts about it."""
    schemas = {
        key: Schema(
            type=OpenAPIType.STRING, max_length=kind.schema["maxLength"], description=_SAID.get(key)
        )
        for key, kind in texts.items()
    }
    return _operation("video", video=_VIDEO, poster=_PICTURE, **schemas)


# Another file of an existing video; a poster; a picture that is shown while no encoder is on air.
FileForm: Final = _operation("video", video=_VIDEO)
PosterForm: Final = _operation("poster", poster=_PICTURE)
SlateForm: Final = _operation("picture", picture=_PICTURE)
