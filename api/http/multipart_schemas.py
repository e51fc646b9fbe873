"""The OpenAPI descriptions of forms with files."""

from dataclasses import dataclass
from typing import Final

from litestar.openapi.spec import (
    OpenAPIFormat,
    OpenAPIMediaType,
    OpenAPIType,
    Operation,
    Reference,
    RequestBody,
    Schema,
)

__all__ = ["FileForm", "PosterForm", "SlateForm", "VideoForm"]

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


def _body(properties: dict[str, Reference | Schema], required: str) -> RequestBody:
    schema = Schema(
        type=OpenAPIType.OBJECT,
        properties=properties,
        required=[required],
        additional_properties=False,
    )
    return RequestBody(content={_MULTIPART: OpenAPIMediaType(schema=schema)}, required=True)


_VIDEO: Final = Schema(
    type=OpenAPIType.STRING,
    format=_BINARY,
    content_media_type=_OCTETS,
    description="The file, of at most 524288000 bytes.",
)


@dataclass  # so that the generated __init__ calls __post_init__
class VideoForm(Operation):
    """An upload."""

    def __post_init__(self) -> None:
        """Describe the form."""
        self.request_body = _body(
            {
                "video": _VIDEO,
                "poster": _PICTURE,
                "title": Schema(
                    type=OpenAPIType.STRING,
                    max_length=255,
                    description="Left out: the file's name without its extension.",
                ),
                "description": Schema(type=OpenAPIType.STRING, max_length=10_000),
            },
            "video",
        )


@dataclass  # as above
class FileForm(Operation):
    """Another file for a video that there is."""

    def __post_init__(self) -> None:
        """Describe the form."""
        self.request_body = _body({"video": _VIDEO}, "video")


@dataclass  # as above
class PosterForm(Operation):
    """A poster of one's own."""

    def __post_init__(self) -> None:
        """Describe the form."""
        self.request_body = _body({"poster": _PICTURE}, "poster")


@dataclass  # as above
class SlateForm(Operation):
    """A picture that stands in while nobody is on air."""

    def __post_init__(self) -> None:
        """Describe the form."""
        self.request_body = _body({"picture": _PICTURE}, "picture")
