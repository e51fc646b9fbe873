"""onMetaData as encoders and relays write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.rtmp import amf0
from ingest.rtmp.amf import Amf
from ingest.rtmp.amf0 import EcmaArray
from ingest.rtmp.limits import Limits
from ingest.rtmp.messages import MessageType
from ingest.rtmp.metadata import announces_picture

LIMITS = Limits()
DATA, AMF3 = int(MessageType.DATA), int(MessageType.DATA_AMF3)
PICTURE: dict[str, Amf] = {"width": 1280.0, "height": 720.0, "videocodecid": 7.0}
SOUND: dict[str, Amf] = {"audiocodecid": 10.0, "audiosamplerate": 48_000.0}


@pytest.mark.parametrize(
    ("facts", "announced"),
    [
        pytest.param(PICTURE | SOUND, True, id="both"),
        pytest.param({"videocodecid": 7.0}, True, id="a codec"),
        pytest.param({"videocodecid": "hvc1"}, True, id="a codec by name"),
        pytest.param({"width": 1280.0, "height": 720.0}, True, id="a size"),
        pytest.param({"width": "1280", "height": "720"}, True, id="a size as text"),
        pytest.param(SOUND, False, id="sound alone"),
        pytest.param({}, False, id="nothing"),
        pytest.param(dict.fromkeys(PICTURE, 0.0) | SOUND, False, id="nginx-rtmp, of sound alone"),
        pytest.param({"videocodecid": ""}, False, id="no name"),
        pytest.param({"videocodecid": "0"}, False, id="zero as text"),
        pytest.param({"videocodecid": None, "width": True}, False, id="other values"),
        pytest.param({"width": 1280.0}, False, id="half of a size"),
        pytest.param({"width": float("nan"), "height": 720.0}, False, id="no number"),
    ],
)
def test_a_codec_or_a_size_announces_a_picture(facts: dict[str, Amf], announced: bool) -> None:
    for values in (
        ("@setDataFrame", "onMetaData", EcmaArray(facts)),
        ("onMetaData", facts),
        ("onMetaData", facts, 1.0),
    ):
        body = amf0.encode(*values)
        assert announces_picture(DATA, body, LIMITS) == announced
        assert announces_picture(AMF3, b"\0" + body, LIMITS) == announced
        assert announces_picture(AMF3, body, LIMITS) == announced  # as HaishinKit sends it


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(("onTextData", {"text": "onMetaData"} | PICTURE), id="another message"),
        pytest.param(("onCuePoint", PICTURE), id="a cue point"),
        pytest.param(("onMetaData",), id="no facts"),
        pytest.param(("onMetaData", "width"), id="no object"),
        pytest.param((1.0, "onMetaData", PICTURE), id="no name before it"),
    ],
)
def test_other_data_announce_nothing(values: tuple[Amf, ...]) -> None:
    assert not announces_picture(DATA, amf0.encode(*values), LIMITS)


def test_metadata_that_are_cut_off_or_of_too_many_values_announce_nothing() -> None:
    body = amf0.encode("@setDataFrame", "onMetaData", PICTURE)
    for end in range(len(body) - 3):
        assert not announces_picture(DATA, body[:end], LIMITS)
    many: dict[str, Amf] = {str(number): 1.0 for number in range(LIMITS.amf_nodes)}
    assert not announces_picture(DATA, amf0.encode("onMetaData", many | PICTURE), LIMITS)


@given(st.binary(max_size=200), st.sampled_from([DATA, AMF3]))
def test_any_bytes_are_an_answer(rest: bytes, kind: int) -> None:
    assert announces_picture(kind, amf0.encode("onMetaData") + rest, LIMITS) in (True, False)
