"""Who may see a stream or a video: one decision for playlists, media, posters, pages, documents.

Pure. A signature would be a further argument of `decide`; there is no such rule now.
"""

from enum import Enum, auto

from storage.catalog.records.common import Shown

__all__ = ["AccessLevel", "decide_access"]


class AccessLevel(Enum):
    """What a viewer gets."""

    OPEN = auto()  # everybody may see it, and caches may keep it
    RESTRICTED_OPEN = auto()  # this viewer may see it, where they are; nobody may keep it
    OWNER = auto()  # only its owner, and nobody may keep it
    BLOCKED = auto()  # it is there, and not for the country this viewer is in (451)
    NONE = auto()  # as if it were not there

    @property
    def is_visible(self) -> bool:
        """Whether the viewer gets it."""
        return self in _SEEN

    @property
    def is_cacheable(self) -> bool:
        """Whether caches may keep what the viewer gets."""
        return self is AccessLevel.OPEN


_SEEN = frozenset({AccessLevel.OPEN, AccessLevel.RESTRICTED_OPEN, AccessLevel.OWNER})


def decide_access(
    shown: Shown | None, *, owner: bool, country: str | None = None, early: bool = False
) -> AccessLevel:
    """Return what a viewer gets of a stream or a video; None is one that does not exist.

    `owner` says that the viewer has a token that reaches it, which opens all of it everywhere.
    `country` are the two letters of where the viewer is, None where that is not known. `early` is
    for what is there before anything plays: the pages, the documents, the posters. What an owner
    unpublished is never there for others, and no country is told of it.
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
