"""Orders for engines over files: as JSON, in the form that rows of older versions have."""

import msgspec
import pytest

from media.ladder import ladder_for
from transcode.protocol.file_messages import AssetOrder, Keyframe, PreviewOrder, SpanOrder
from transcode.protocol.messages import MAX_FRAME, WireError, WireReader, pack

LADDER = ladder_for(854, 480, frozenset({"480p", "360p"}))
SPAN = SpanOrder(
    rungs=LADDER.renditions, sequence=7, cuts=(900_000, 1_080_000), end=1_260_000,
    until=1_260_000, before=896_400, key=810_000, pictures=100, offset=-3600, rate=25_000,
)  # fmt: skip


@pytest.mark.parametrize(
    "order", [AssetOrder(ladder=LADDER), AssetOrder(ladder=None, reuse=True, threads=3), SPAN,
              PreviewOrder(width=640, height=360)]
)  # fmt: skip
def test_an_order_is_read_as_it_was_written(order: msgspec.Struct) -> None:
    assert msgspec.json.decode(msgspec.json.encode(order), type=type(order)) == order


def test_a_stored_span_keeps_the_names_of_its_fields() -> None:
    """Rows of a version before an update are read by the one after it."""
    assert list(msgspec.to_builtins(SPAN)) == [
        "rungs", "sequence", "cuts", "end", "until", "before", "key", "pictures", "offset",
        "rate", "threads", "alone", "timed", "wait", "joined",
    ]  # fmt: skip
    stored = msgspec.to_builtins(SPAN)
    for later in ("threads", "alone", "timed", "wait", "joined"):
        del stored[later]
    assert msgspec.convert(stored, SpanOrder) == SPAN


def test_an_order_with_a_field_missing_is_refused() -> None:
    stored = msgspec.to_builtins(SPAN)
    del stored["cuts"]
    with pytest.raises(msgspec.ValidationError, match="cuts"):
        msgspec.convert(stored, SpanOrder)


def test_keyframes_are_read_however_they_are_cut() -> None:
    keyframes = [Keyframe(at=at, data=bytes(range(256)) * at) for at in (0, 1, 40)]
    reader: WireReader[Keyframe] = WireReader(Keyframe)
    data = b"".join(pack(each) for each in keyframes)
    assert [each for byte in data for each in reader.feed(bytes([byte]))] == keyframes


def test_a_keyframe_that_is_none_is_an_error() -> None:
    reader: WireReader[Keyframe] = WireReader(Keyframe)
    with pytest.raises(WireError):
        reader.feed((MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(WireError):
        WireReader(Keyframe).feed(b"\0\0\0\1\xc0")
