"""Reads JSON bodies: validates key by key and reports all errors at once."""

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Any, Final, TypeVar, cast

import msgspec
from litestar import Request
from litestar.exceptions import InternalServerException
from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema

from api.http.errors import ApiError, invalid
from api.schemas.text_fields import (
    MAX_DESCRIPTION,
    MAX_TITLE,
    Description,
    Name,
    OptionalTitle,
    Title,
)
from api.schemas.timestamps import Moment

__all__ = ["MAX_BODY", "described", "parse_fields", "read_body", "read_raw_body"]

# The longest body of the API is a description of 10 000 characters, 120 KB where all are escaped,
# among lists of numbers. Decoding this much takes 10 ms at most, of the event loop's time.
MAX_BODY: Final = 256 * 1024  # bytes
# Each unknown key costs a list, and an answer names 50 keys at most.
_MAX_UNKNOWN: Final = 50
_JSON: Final = "application/json"
# Enough for `MAX_BODY` at 9 KB/s, and thousands of times what usual bodies need.
_BODY_SECONDS: Final = 30.0

S = TypeVar("S", bound=msgspec.Struct)


def _decode(kind: type[Any], value: object) -> object:  # Any: msgspec passes the type of the field
    if kind is Title:
        return Title.parse(value)
    if kind is OptionalTitle:
        return OptionalTitle.parse(value)
    if kind is Description:
        return Description.parse(value)
    if kind is Name:
        return Name.parse(value)
    if kind is Moment:
        return Moment.parse(value)
    raise NotImplementedError(kind)


def _schema(kind: type[Any]) -> dict[str, Any]:  # Any: JSON Schema
    if kind is Title or kind is Name:
        return {"type": "string", "minLength": 1, "maxLength": MAX_TITLE}
    if kind is OptionalTitle:
        return {"type": ["string", "null"], "maxLength": MAX_TITLE}
    if kind is Description:
        return {"type": ["string", "null"], "maxLength": MAX_DESCRIPTION}
    if kind is Moment:
        return {"type": "string", "format": "date-time"}
    raise NotImplementedError(kind)


async def read_raw_body(request: Request[Any, Any, Any], seconds: float = _BODY_SECONDS) -> bytes:
    """Return the raw body; the route limits its length.

    Raises:
        ApiError: 400 if it breaks off, 408 if it does not arrive in time.
    """
    try:
        async with asyncio.timeout(seconds):
            return await request.body()
    except TimeoutError as error:
        raise ApiError(
            HTTPStatus.REQUEST_TIMEOUT,
            "The body came too slowly.",
            headers={"Connection": "close"},
        ) from error
    except InternalServerException as error:
        # Raised by Litestar when the client disconnects: not our error.
        raise ApiError(HTTPStatus.BAD_REQUEST, "The body broke off.") from error


async def _read_object(request: Request[Any, Any, Any]) -> dict[str, Any]:
    """Return the JSON object in the body; an empty body is an empty object.

    Raises:
        ApiError: 415 for another content type, 400 for invalid JSON, 422 for another value.
    """
    content_type, _ = request.content_type
    raw = await read_raw_body(request)
    if content_type not in ("", _JSON):
        message = f"The body must be JSON (Content-Type: {_JSON})."
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message)
    if not raw.strip():
        return {}
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, "The body is no JSON.") from error
    if not isinstance(value, dict):
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, "The body must be a JSON object.")
    return cast("dict[str, Any]", value)  # keys of a JSON object are strings


async def read_body(request: Request[Any, Any, Any], kind: type[S]) -> S:
    """Return the body as a value of `kind`.

    Raises:
        ApiError: as `_read_object`, and 422 with every invalid, missing or unknown key.
    """
    return parse_fields(await _read_object(request), kind)


def parse_fields(sent: dict[str, Any], kind: type[S]) -> S:  # Any: JSON
    """Return a decoded JSON object as a value of `kind`; empties `sent`.

    Raises:
        ApiError: 422 with every invalid, missing or unknown key.
    """
    errors: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in sent:
            if field.required:
                errors[field.encode_name] = [f"The {field.encode_name} is required."]
            continue
        try:
            values[field.name] = msgspec.convert(
                sent.pop(field.encode_name), field.type, dec_hook=_decode
            )
        except msgspec.ValidationError as error:
            errors[field.encode_name] = [str(error)]
    errors |= {name: ["This key is not known here."] for name in islice(sent, _MAX_UNKNOWN)}
    if errors:
        raise invalid(errors)
    return kind(**values)


class _Document(Schema):
    """Adapts a JSON Schema generated by msgspec to Litestar."""

    def __init__(self, document: dict[str, Any]) -> None:
        super().__init__()
        self._document = document

    def to_schema(self) -> dict[str, Any]:
        return self._document


def _inlined(schema: Any, components: dict[str, Any]) -> Any:  # Any: JSON Schema
    """Return a schema with all references replaced by their targets.

    The components of the OpenAPI document are generated by Litestar and cannot be extended.
    """
    if isinstance(schema, list):
        parts = cast("list[Any]", schema)  # JSON
        return [_inlined(each, components) for each in parts]
    if not isinstance(schema, dict):
        return schema
    found = cast("dict[str, Any]", schema)  # keys of a JSON object are strings
    if "$ref" in found:
        return _inlined(components[str(found["$ref"]).rpartition("/")[2]], components)
    return {key: _inlined(value, components) for key, value in found.items()}


def described(kind: type[msgspec.Struct]) -> type[Operation]:
    """Return the OpenAPI description of an operation whose body `read_body` reads as `kind`."""
    (document,), components = msgspec.json.schema_components([kind], schema_hook=_schema)
    schema = _Document(_inlined(document, components))
    body = RequestBody(content={_JSON: OpenAPIMediaType(schema=schema)}, required=True)

    @dataclass  # so that the generated __init__ calls __post_init__
    class Described(Operation):
        def __post_init__(self) -> None:
            self.request_body = body

    return Described
