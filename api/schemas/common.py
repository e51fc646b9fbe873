"""The bodies that several nouns of the API share, key by key as documented."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
from litestar.params import Parameter

from api.schemas.text_fields import Title

# What Laravel Echo is told of the web-sockets: it connects with pusher-js.
BROADCASTER: Final = "pusher"
CLUSTER: Final = "headend"

T = TypeVar("T")
_Body = TypeVar("_Body", bound=type[msgspec.Struct])


def shown_as(name: str) -> Callable[[_Body], _Body]:
    """Set the name of a schema in the OpenAPI document, from which clients are generated."""

    def rename(body: _Body) -> _Body:
        body.__name__ = body.__qualname__ = name
        return body

    return rename


def edits_of(body: type[msgspec.Struct]) -> Any:  # Any: a base of a class
    """Return the base of a body that has the keys of another, each of which may be left out."""
    fields: list[tuple[str, Any, Any]] = [  # Any: annotations and defaults
        (field.name, field.type | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(body)
    ]
    return msgspec.defstruct(f"EditsOf{body.__name__}", fields, frozen=True, kw_only=True)


def without(body: type[msgspec.Struct], *keys: str) -> Any:  # Any: a base of a class
    """Return the base of a body that has the keys of another, without some."""
    fields = [(each.name, each.type) for each in msgspec.structs.fields(body)]
    kept = [field for field in fields if field[0] not in keys]
    return msgspec.defstruct(f"PartOf{body.__name__}", kept, frozen=True, kw_only=True)


def named_schema(name: str) -> Any:  # Any: metadata of Annotated
    """Return the annotation that fixes the name of a generic type in the OpenAPI document.

    Without it the name contains the module of the type's argument, and changes when that moves. A
    type keeps the name under which it was first published.
    """
    return Parameter(schema_component_key=name)


class StreamAddition(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to add a stream."""

    title: Title


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """A resolution and whether the stream makes it."""

    id: int
    name: str
    active: bool


@shown_as("Tag")
class TagBody(msgspec.Struct, frozen=True, kw_only=True):
    """A tag as records show it."""

    id: int
    name: str


class Category(msgspec.Struct, frozen=True, kw_only=True):
    """A category as records show it."""

    id: int
    name: str


@shown_as("Country")
class CountryBody(msgspec.Struct, frozen=True, kw_only=True):
    """A country (ISO 3166-1: numeric and alpha-2 code)."""

    id: int
    code: str
    name: str


class PlayerReference(msgspec.Struct, frozen=True, kw_only=True):
    """The player that a record is shown in."""

    id: int
    name: str


class Embed(msgspec.Struct, frozen=True, kw_only=True):
    """Snippets of HTML, and the address of the page that plays."""

    iframe: str
    script: str
    link: str


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A second ingest address: `live` = its encoder sends, `publish` = viewers get it now."""

    id: int
    name: str
    rtmps_url: str
    rtmp_url: str
    publish: bool
    live: bool


@shown_as("Stream")
class StreamBody(msgspec.Struct, frozen=True, kw_only=True):
    """A stream in full; `stream` is `<hash>_<uuid>`."""

    id: int
    hash: str
    title: str
    description: str
    application: str
    stream: str
    published: bool
    resolutions: list[Resolution]
    tags: list[TagBody]
    category: Category | None
    countries: list[CountryBody]
    rtmps_url: str
    rtmp_url: str
    stream_url: str
    published_url: str
    live: bool
    live_channel: str
    live_event: str
    receiving_count: int
    processing: bool
    paused: bool
    web_socket_broadcaster: str
    web_socket_key: str
    web_socket_cluster: str
    image_urls: dict[str, str] | None
    embed: Embed
    player: PlayerReference | None
    backups: list[Backup]
    no_audio_stream: bool


class StreamItem(
    without(
        StreamBody,
        "published_url",
        "receiving_count",
        "processing",
        "paused",
        "backups",
        "no_audio_stream",
    ),
    msgspec.Struct,
    frozen=True,
    kw_only=True,
):
    """A stream in a list; `stream` is the bare uuid."""


class StreamAdded(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to adding a stream."""

    message: str
    stream: StreamBody


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; `subject` is the hash of the stream or video, "" for neither.

    `token` is the number of the token whose bearer did it, null if the service acted by itself.
    `number` counts the events of a stream from 1 on without a gap, null for all others.
    """

    id: int
    number: int | None
    type: str
    subject: str
    facts: dict[str, Any]  # Any: JSON, by the event's type
    token: int | None
    created_at: str


@shown_as("Links")
class PageLinks(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pages around this one are."""

    first: str
    last: str
    prev: str | None
    next: str | None


class PageLink(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry of a page bar."""

    url: str | None
    label: str
    active: bool


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """Which page this is; `from` and `to` count records from 1 and are null on an empty page."""

    current_page: int
    from_: int | None = msgspec.field(name="from")
    last_page: int
    links: list[PageLink]
    path: str
    per_page: int
    to: int | None
    total: int


class Listing(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A page of a list."""

    data: list[T]
    links: PageLinks
    meta: Meta
