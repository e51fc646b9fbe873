"""Which renditions a segment can do without when the machine cannot make all of them.

Pure. The parent decides which renditions to leave out (see `LeaveOut` in
`transcode.protocol.messages`); this module limits that, so that a stream always has a picture.
"""

from collections.abc import Collection


def omitted_renditions(
    encoded: tuple[str, ...], off: Collection[str], *, has_copy: bool
) -> frozenset[str]:
    """Return which of the `encoded` renditions (largest first) are not made.

    If the source's own packets make a rendition (`has_copy`), all of these may be off; otherwise
    the smallest stays on.
    """
    omitted = frozenset(encoded).intersection(off)
    if encoded and not has_copy and len(omitted) == len(encoded):
        return omitted - {encoded[-1]}
    return omitted
