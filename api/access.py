"""Who may see a stream's media: one decision for playlists, segments and all else.

Pure. A restriction to countries or a signature will be further arguments of `decide`; there is no
such rule now.
"""

from enum import Enum, auto

from storage.catalog.records import Shown

__all__ = ["Access", "decide"]


class Access(Enum):
    """What a viewer gets."""

    OPEN = auto()  # everybody may see it, and caches may keep it
    OWNER = auto()  # only its owner, and nobody may keep it
    NONE = auto()  # as if it were not there


def decide(shown: Shown | None, *, owner: bool) -> Access:
    """Return what a viewer gets of a stream; None is a stream that does not exist.

    `owner` says that the viewer has a token that reaches the stream.
    """
    if shown is None:
        return Access.NONE
    if shown.published and not shown.hidden:
        return Access.OPEN
    return Access.OWNER if owner else Access.NONE
