"""What an encoder announces of its media before they come: onMetaData.

Encoders send it first, and so do relays, though the picture may follow seconds later: a relay that
joins between two keyframes sends sound at once, and the picture from the next one on.
Source: Adobe Flash Video File Format 10.1, annex E.5.
"""

from typing import Final

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.errors import AmfError
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType

_NAME: Final = "onMetaData"
# Before the name there is at most the name of another handler: @setDataFrame.
_HEAD_BYTES: Final = 64


def announces_picture(kind: int, body: bytes, limits: Limits) -> bool:
    """Return whether a data message of either type announces a picture.

    Other messages announce nothing, and neither do values that are malformed. Relays announce what
    is not there with zeros (nginx-rtmp).
    """
    if _NAME.encode() not in body[:_HEAD_BYTES]:
        return False
    has_format_byte = kind == MessageType.DATA_AMF3 and not body.startswith(b"\x02")
    try:
        values = amf0.decode(body[1:] if has_format_byte else body, limits)
    except AmfError:
        return False
    match values:
        case ["onMetaData", dict(facts), *_] | [str(), "onMetaData", dict(facts), *_]:
            has_size = _is_given(facts.get("width")) and _is_given(facts.get("height"))
            return has_size or _is_given(facts.get("videocodecid"))
        case _:
            return False


def _is_given(value: Amf) -> bool:
    if isinstance(value, str):  # a codec's name, or a number as text
        return value.strip() not in ("", "0")
    return isinstance(value, float) and value > 0
