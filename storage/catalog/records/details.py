"""What owners say of their videos and streams: one value, whichever way it is said.

It is what a request that edits a record or adds a video says, what the metadata of an upload say,
and what an upload link holds. A field that is added to `VideoDetails` or `StreamDetails` is edited,
stored in the column of its name, and passed on by links, without being named elsewhere in storage.
"""

from typing import Any, Final, Generic, Self, TypeVar

import msgspec

_EMPTY: Final = (None, "", ())


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner says of a video or a stream; the defaults are those of a new one.

    `countries` are numeric codes (ISO 3166-1); a tag is a number, or a name that is linked or
    added.
    """

    title: str | None = None
    description: str = ""
    category: int | None = None
    countries: tuple[int, ...] = ()
    tags: tuple[int | str, ...] = ()

    @classmethod
    def edit(cls, **values: Any) -> "Edit[Self]":  # Any: fields of every type
        """Return the edit that sets these fields."""
        return Edit(details=cls(**values), keys=tuple(values))

    def says(self, key: str) -> bool:
        """Return whether there is anything in a field."""
        return getattr(self, key) not in _EMPTY

    def over(self, others: Self) -> Self:
        """Return these details, and those of `others` in each field that is empty here."""
        empty = [key for key in self.__struct_fields__ if not self.says(key)]
        return msgspec.structs.replace(self, **{key: getattr(others, key) for key in empty})


class VideoDetails(Details, frozen=True, kw_only=True):
    """What an owner says of a video; `title` None is the file's name."""


class StreamDetails(Details, frozen=True, kw_only=True):
    """What an owner says of a stream, which always has a title.

    `resolutions` are the numbers of those that are to be active.
    """

    player: int | None = None
    resolutions: frozenset[int] = frozenset()


D = TypeVar("D", bound=Details)


class Edit(msgspec.Struct, Generic[D], frozen=True, kw_only=True):
    """An edit sets the fields `keys` as they are in `details`, and leaves all others."""

    details: D
    keys: tuple[str, ...]
