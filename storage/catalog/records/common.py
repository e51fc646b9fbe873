"""The values that the catalog returns: frozen, without any database type.

Times are microseconds since the Unix epoch (`_us`). Keys are hidden in `repr`.
"""

from typing import Generic, Literal, TypeVar

import msgspec

from media.countries import Country
from media.stream_keys import PublicHash, StreamKey
from storage.catalog.records.settings import StreamSettings

T = TypeVar("T")


class ProjectRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A project; `key` is the short string that paths take in place of the number.

    `origins` are those of the pages that may upload from a browser; "*" is all.
    """

    id: int
    key: str
    name: str
    created_us: int
    updated_us: int
    origins: tuple[str, ...] = ()


class LabelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A tag or a category: a name that is unique in its project, ignoring case."""

    id: int
    project: int
    name: str
    active: bool


class PlayerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a player behaves and looks; `color` is `#rrggbb`, None for the player's own."""

    autoplay: bool = False
    muted: bool = False
    loop: bool = False
    controls: bool = True
    color: str | None = None


class PlayerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A player as its owner set it up."""

    id: int
    project: int
    name: str
    options: PlayerOptions
    created_us: int
    updated_us: int


class ResolutionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a stream makes the resolution with this public number (`media.ladder.Box`)."""

    number: int
    active: bool


class BackupRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A second ingest address; `number` names its application and is never used twice.

    `live` means that its encoder is sending, `on_air` that viewers get it now.
    """

    id: int
    number: int
    live: bool
    on_air: bool


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A tag, a category or a player, as a stream or a video refers to it."""

    id: int
    name: str


class StreamRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A live stream as its owner sees it.

    `hidden` means that the owner unpublished it. `on_air` is the number of the slot that viewers
    get (0 = primary), None while they get none. `version` rises with each change. `picture` is the
    width and height of its largest poster, 0 before there is one. It may be played in all
    `countries`, or everywhere if there are none. Encoders are refused until `held_until_us`, and
    were since the owner's end if there is a `refused_us` (`storage.catalog.streams.holds`).
    """

    id: int
    project: int
    key: StreamKey
    title: str
    description: str
    created_us: int
    updated_us: int
    published: bool
    published_us: int | None
    hidden: bool
    live: bool
    processing: bool
    receiving_count: int
    on_air: int | None
    no_audio: bool
    version: int
    resolutions: tuple[ResolutionChoice, ...]
    backups: tuple[BackupRecord, ...]
    paused: bool = False
    category: Named | None = None
    countries: tuple[Country, ...] = ()
    player: Named | None = None
    tags: tuple[Named, ...] = ()
    poster_labels: tuple[str, ...] = ()
    held_until_us: int | None = None
    refused_us: int | None = None
    picture: tuple[int, int] = (0, 0)

    @property
    def hash(self) -> PublicHash:
        """The stream's public name."""
        return self.key.hash


class IngestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What ingest needs of a stream whose key was right.

    `slots` are the numbers of the slots that exist (0 = primary), `active` the labels of the
    resolutions that are on. `proof` changes with the key. `settings` are those of the stream, with
    its project's where it has none of its own. `slate` is the address of the picture that is shown
    while no encoder is on air, None for the card. `held_until_us` and `refused_us` are as in
    `StreamRecord`.
    """

    id: int
    project: int
    hash: PublicHash
    slots: frozenset[int]
    active: frozenset[str]
    proof: str
    settings: StreamSettings = StreamSettings()
    paused: bool = False
    slate: str | None = None
    held_until_us: int | None = None
    refused_us: int | None = None

    def __repr__(self) -> str:
        return f"IngestRecord(id={self.id}, hash={self.hash!r})"


class PublicRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer may know of a stream or a video; `hidden` = unpublished by its owner.

    `countries` are two letters each; none is everywhere. `player` None leaves it to the page. Of a
    video: `media` is the folder that plays (None: nothing yet), `posters` and `previews` those of
    its stills; `failed` means that it could not be made. `poster_labels` go from the smallest up; a
    stream's `width` and `height` are its largest poster's. `latency` is what was set for a stream
    or its project (None: nothing was). `cdn_token` is the secret name of the folder of its copies
    for a CDN (None: it has none).
    """

    hash: PublicHash
    project: int
    title: str
    description: str
    published: bool
    hidden: bool
    live: bool
    kind: Literal["stream", "video"] = "stream"
    countries: frozenset[str] = frozenset()
    player: PlayerOptions | None = None
    media: str | None = None
    posters: str | None = None
    previews: str | None = None
    poster_labels: tuple[str, ...] = ()
    length_us: int = 0
    width: int = 0
    height: int = 0
    created_us: int = 0
    failed: bool = False
    latency: str | None = None
    cdn_token: str | None = None

    def __repr__(self) -> str:
        return f"PublicRecord(hash={self.hash!r}, kind={self.kind!r})"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The caller: the token with this id and name; `project` None reaches all projects.

    `session` is the digest of a browser's session, None if the token itself was sent.
    """

    id: int
    name: str
    project: int | None
    write: bool
    session: str | None = None

    def reaches(self, project: int) -> bool:
        """Return whether the caller may see the records of a project."""
        return self.project is None or self.project == project


class Change(msgspec.Struct, frozen=True):
    """Who changes something, and when.

    `by` is the number of the token that made the request; None for the service itself, the command
    line and the user of an upload link. What it deletes or replaces can be restored for `keep_us`;
    0: it is gone at once.
    """

    now_us: int
    by: int | None = None
    keep_us: int = 0


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is listed, without its text, which is not stored.

    `created_by` is the number of the token with which it was added; None for one of the command
    line, of the first start, or of a version that did not record it.
    """

    id: int
    name: str
    project: int | None
    write: bool
    created_us: int
    revoked_us: int | None
    created_by: int | None


class FirstStart(msgspec.Struct, frozen=True, kw_only=True):
    """What a catalog holds after its first start, and at each later one.

    `owner_token` is the token itself, at the first start only. `stream` is None once its owner
    deleted the stream that the first start made. `broadcaster_key` is the public key of the
    web-socket broadcaster, `broadcaster_secret` what signs its private channels; `relay_secret` is
    known to the hosts of the installation alone.
    """

    project: ProjectRecord
    stream: StreamRecord | None
    owner_token: str | None
    broadcaster_key: str
    broadcaster_secret: str
    relay_secret: str

    def __repr__(self) -> str:
        return f"FirstStart(project={self.project.key!r}, new={self.owner_token is not None})"


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; `kind` is a fixed phrase.

    `subject` is the hash of the stream or video that it happened to, "" for neither; `token` the
    number of the token that caused it, None if no request did. `number` counts the events of a
    stream from 1 on without a gap, None for an event of no stream.
    """

    id: int
    subject: PublicHash
    kind: str
    facts: dict[str, object]
    token: int | None
    created_us: int
    number: int | None = None


class Sort(msgspec.Struct, frozen=True):
    """An order of a list by a column; texts are ordered without regard to case."""

    column: str = "id"
    descending: bool = True


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list; `number` counts from 1 and may lie beyond the end, `total` is of all."""

    items: tuple[T, ...]
    total: int
    number: int
    size: int

    @property
    def last(self) -> int:
        """The number of the last page; 1 where there is nothing."""
        return max(1, -(-self.total // self.size))
