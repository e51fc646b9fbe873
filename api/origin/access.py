"""Decides viewers' access to a stream or video: playlists, media, posters, pages and documents.

Pure. What proves a right (`Viewer.proof`) would become another argument of `decide_access`.
"""

from enum import Enum, auto

from storage.catalog.records.common import PublicRecord


class AccessLevel(Enum):
    """What a viewer may see."""

    OPEN = auto()  # visible to everyone, cacheable
    RESTRICTED_OPEN = auto()  # visible in the country of this viewer, not cacheable
    OWNER = auto()  # visible to its owner only, not cacheable
    BLOCKED = auto()  # exists, but not for the country of this viewer (451)
    NONE = auto()  # as if it did not exist (404)

    @property
    def is_visible(self) -> bool:
        """True if the viewer may see it."""
        return self in _SEEN

    @property
    def is_cacheable(self) -> bool:
        """True if shared caches may store it."""
        return self is AccessLevel.OPEN


_SEEN = frozenset({AccessLevel.OPEN, AccessLevel.RESTRICTED_OPEN, AccessLevel.OWNER})


def decide_access(
    shown: PublicRecord | None, *, owner: bool, country: str | None = None, early: bool = False
) -> AccessLevel:
    """Return a viewer's access to a stream or video; `shown` is None if it does not exist.

    `owner`: the viewer has a token for it, which gives full access everywhere. `country`: two
    letters, None if unknown. `early`: for what exists before anything plays, that is pages,
    documents and posters. An unpublished stream or video is 404 for others, never 451.
    """
    if shown is None:
        return AccessLevel.NONE
    if shown.hidden or not (shown.published or early):
        return AccessLevel.OWNER if owner else AccessLevel.NONE
    if not shown.countries:
        return AccessLevel.OPEN
    if country is not None and country in shown.countries:
        return AccessLevel.RESTRICTED_OPEN
    return AccessLevel.OWNER if owner else AccessLevel.BLOCKED


def is_access_equal(first: PublicRecord | None, second: PublicRecord | None) -> bool:
    """Return True if two states of a stream or video give every viewer the same access."""
    if first is None or second is None:
        return first is second
    return (first.published, first.hidden, first.countries) == (
        second.published,
        second.hidden,
        second.countries,
    )
