"""Which rungs a segment does without when the machine cannot make all of them.

Pure. Someone else decides what is to be off (see `transcode.protocol.messages.Rungs`); here is
what of it can be, so that a stream always has a picture.
"""

from collections.abc import Collection

__all__ = ["left_out"]


def left_out(encoded: tuple[str, ...], off: Collection[str], *, own: bool) -> frozenset[str]:
    """Return which of the `encoded` rungs (largest first) are not made.

    `own` says that the source's own packets give a rendition: then all of these may be off,
    otherwise the smallest stays on.
    """
    gone = frozenset(encoded).intersection(off)
    if encoded and not own and len(gone) == len(encoded):
        return gone - {encoded[-1]}
    return gone
